"""What every policy owes on every problem. A new policy or problem goes into a table below."""

import inspect
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dlbjax as dlb
from dlbjax.policies.base import make_schedule
from tests.oracles import model_of, steady_reward

T, ROUNDS, SEEDS = 60, [1, 7, 30, 60], 3


# --- users' own policies, as short as they come ---------------------------------------------------


def means_init(params, vertices, key):
    return jnp.zeros(len(vertices)), jnp.zeros(len(vertices))


def greedy(params, vertices, state, epoch):
    sums, counts = state
    return jnp.argmax(jnp.where(counts > 0, sums / jnp.maximum(counts, 1), params["optimism"]))


def means_update(params, state, feedback):
    sums, counts = state
    return sums.at[feedback.action].add(feedback.last), counts.at[feedback.action].add(1)


def uniform(params, vertices, state, epoch):
    return jnp.floor(epoch.uniforms[0] * len(vertices)).astype(jnp.int32)


def batch_update(params, state, feedback):
    sums, counts = state
    mean = feedback.total / feedback.length.astype(feedback.total.dtype)
    return sums.at[feedback.action].add(mean), counts.at[feedback.action].add(1)


OWN = dlb.Policy(means_init, greedy, means_update, params={"optimism": 0.7}, feedback=("last",))


def explore_then_keep(params, vertices, state, epoch):
    """A typed key in the state."""
    key, _ = state
    return jax.random.randint(key, (), 0, len(vertices))


def next_key(params, state, feedback):
    key, count = state
    return jax.random.split(key)[0], count + 1


KEYS = dlb.Policy(lambda params, vertices, key: (key, 0), explore_then_keep, next_key, feedback=())

POLICIES = {
    "dynlin_ucb": lambda p: dlb.dynlin_ucb(dlb.Bounds.of(p, 0.7)),
    "dynlin_ucb, lam and delta": lambda p: dlb.dynlin_ucb(dlb.Bounds.of(p, 0.7), 0.1, 0.01),
    "dynlin_ucb, rho_bar = 0": lambda p: dlb.dynlin_ucb(dlb.Bounds.of(p, 0.7).replace(rho=0.0)),
    "dynlin_ucb, own epochs, beta, first": lambda p: dlb.dynlin_ucb(
        dlb.Bounds.of(p, 0.7), epochs=[3] * 20, beta=np.linspace(1, 0, 20), first=1
    ),
    "dynlin_ucb, scale and extra": lambda p: dlb.dynlin_ucb(
        dlb.Bounds.of(p, 0.7), scale=0.5, extra=2
    ),
    "dynlin_ucb_tight": lambda p: dlb.dynlin_ucb_tight(dlb.Bounds.of(p, 0.7)),
    "dynlin_ucb_adaptive": lambda p: dlb.dynlin_ucb_adaptive(),
    "lin_ucb": lambda p: dlb.lin_ucb(dlb.Bounds.of(p, 0.7)),
    "d_lin_ucb": lambda p: dlb.d_lin_ucb(dlb.Bounds.of(p, 0.7)),
    "d_lin_ucb, gamma": lambda p: dlb.d_lin_ucb(dlb.Bounds.of(p, 0.7), gamma=0.9),
    "exp3": lambda p: dlb.exp3(dlb.Bounds.of(p, 0.7)),
    "batch_exp3": lambda p: dlb.batch_exp3(dlb.Bounds.of(p, 0.7)),
    "ar2": lambda p: dlb.ar2(dlb.Bounds.of(p, 0.7)),
    "ar2, restarts": lambda p: dlb.ar2(dlb.Bounds.of(p, 0.7), epoch=25),
    "ar_ucb": lambda p: dlb.ar_ucb(2, 1.0, 0.2),
    "knowledge_gradient": lambda p: dlb.knowledge_gradient(
        dlb.Prior(np.zeros(4), np.eye(4), 0.5, np.full(3, 0.5), 0.5)
    ),
    "larl": lambda p: dlb.larl(1, alpha=0.1),
    "explore_then_commit": lambda p: dlb.explore_then_commit(30, lags=3),
    "explore_then_commit, defaults": lambda p: dlb.explore_then_commit(),
    "thompson_sampling": lambda p: dlb.thompson_sampling(dlb.Bounds.of(p, 0.7)),
    "ucb1": lambda p: dlb.ucb1(dlb.Bounds.of(p, 0.7)),
    "expert": lambda p: dlb.expert(p, spend=max(p.actions.vertices, key=sum)),
    "constant": lambda p: dlb.constant(p.actions.vertices[1]),
    "clairvoyant": dlb.clairvoyant,
    "myopic": dlb.myopic,
    "planned": dlb.planned,
    "own, every round": lambda p: OWN,
    "own, list of epochs": lambda p: OWN._replace(epochs=[1, 2, 3, 4] * 6),
    "own, uniforms": lambda p: OWN._replace(act=uniform, uniforms=1, epochs=2),
    "own, keys": lambda p: KEYS,
    "own, total": lambda p: OWN._replace(update=batch_update, feedback=("total",), epochs=7),
}


def own(sigma=0.1):
    """A finite list and a state that starts elsewhere; as large as the paper's, so as to compile once."""
    rng = np.random.default_rng(0)
    system = dlb.System(
        A=0.3 * rng.normal(size=(3, 3)), B=rng.normal(size=(3, 3)), omega=rng.normal(size=3),
        theta=rng.normal(size=3), sigma=sigma, x1=[2.0, 0.0, -1.0],
    )  # fmt: skip
    return dlb.Problem(system, dlb.actions.finite(rng.uniform(size=(10, 3))))


BUDGET = dlb.problems.synthetic().actions
# All of one size, so that each policy compiles once.
PROBLEMS = {
    "synthetic": dlb.problems.synthetic,
    "real_world": dlb.problems.real_world,
    "own": own,
    "delayed": partial(dlb.problems.delayed, [0.1, 0.5, 0.3], 3, actions=BUDGET),
    "composite": partial(dlb.problems.composite, [0.1, 0.5, 0.3], [0.5, 0.3, 0.2], actions=BUDGET),
    "autoregressive": partial(
        dlb.problems.autoregressive, [0.1, 0.5, 0.3], [0.5, 0.1, -0.2], actions=BUDGET
    ),
    "adstock": partial(dlb.problems.adstock, [0.5, 0.1, 0.6], [0.1, 0.5, 0.3], actions=BUDGET),
}
ELSEWHERE = {"hard_instance"}  # of another size; tests/model/test_problems.py


@pytest.fixture(params=PROBLEMS, scope="module")
def problem(request):
    return PROBLEMS[request.param](sigma=0.2)


@pytest.fixture(params=POLICIES, scope="module")
def policy(request, problem):
    return POLICIES[request.param](problem)


def test_every_problem_and_policy_of_the_package_is_in_the_tables():
    made = {n for n, f in inspect.getmembers(dlb.problems, inspect.isfunction)
            if f.__module__ == dlb.problems.__name__ and not n.startswith("_")}  # fmt: skip
    assert made <= set(PROBLEMS) | ELSEWHERE
    factories = {n for n in dlb.__all__
                 if getattr(getattr(dlb, n), "__module__", "").startswith("dlbjax.policies.")
                 and inspect.isfunction(getattr(dlb, n))}  # fmt: skip
    assert factories <= {name.split(",")[0] for name in POLICIES}


def test_functions_trace_and_keep_the_state(problem, policy):
    """act gives one whole number, update a state like the one it got."""
    schedule = make_schedule(policy, T, problem.actions)
    arms, params = schedule.arms.astype(np.float32), schedule.params
    dtypes = {"f": np.float32, "i": np.int32}
    number, count = np.float32(1.0), np.int32(1)
    epoch = dlb.Epoch(count, count, count, uniforms=np.zeros(policy.uniforms, np.float32))
    if schedule.plan is not None:
        column = np.array([1])
        plan = schedule.plan(dlb.Epoch(column, column - 1, column))
        plan = jax.tree.map(lambda leaf: np.asarray(leaf[0], dtypes[leaf.dtype.kind]), plan)
        epoch = epoch._replace(plan=plan)
    params = jax.tree.map(
        lambda leaf: np.asarray(leaf, dtypes[np.asarray(leaf).dtype.kind]), params
    )
    feedback = dlb.Feedback(count * 0, arms[0], number, number, count, epoch.plan, arms)
    state = jax.eval_shape(policy.init, params, arms, jax.random.key(0))
    chosen = jax.eval_shape(policy.act, params, arms, state, epoch)
    assert chosen.shape == ()
    assert jnp.issubdtype(chosen.dtype, jnp.integer)
    after = jax.eval_shape(policy.update, params, state, feedback)
    assert jax.tree.map(lambda leaf: (leaf.shape, leaf.dtype), after) == jax.tree.map(
        lambda leaf: (leaf.shape, leaf.dtype), state
    )


@pytest.mark.parametrize("dtype", [np.float64, np.float32], ids=["float64", "float32"])
def test_runs_and_obeys_the_identities(problem, policy, dtype):
    """Actions exist, regrets are what the actions make them, and a second call repeats the first."""
    options = {"rounds": ROUNDS, "dtype": dtype, "record": "actions"}
    result = dlb.simulate(problem, policy, T, seeds=SEEDS, **options)
    again = dlb.simulate(problem, policy, T, seeds=SEEDS, **options)
    m = model_of(problem)
    assert result.actions.shape == (SEEDS, T)
    assert result.actions.min() >= 0
    assert result.actions.max() < len(m.vertices)
    values = m.vertices @ steady_reward(m)
    tolerance = 1e-9 if dtype == np.float64 else 3e-5
    offline = np.cumsum(values.max() - values[result.actions], axis=1)
    np.testing.assert_allclose(
        result.offline_regret, offline[:, result.rounds - 1], rtol=tolerance, atol=tolerance
    )
    assert np.all(np.diff(result.offline_regret, axis=1) >= 0)
    transient = m.omega @ np.linalg.inv(np.eye(len(m.A)) - m.A)
    for i in range(SEEDS):
        z, expected = m.x1, []
        for t, a in enumerate(result.actions[i]):
            z = m.A @ z + m.B @ m.vertices[a]
            expected.append(offline[i, t] + transient @ (z - m.x1))
        np.testing.assert_allclose(
            result.expected_regret[i], np.array(expected)[result.rounds - 1],
            rtol=tolerance, atol=tolerance,
        )  # fmt: skip
    for name in ("realised_regret", "expected_regret", "offline_regret", "actions"):
        np.testing.assert_array_equal(getattr(result, name), getattr(again, name))
    assert len(np.unique(result.realised_regret[:, -1])) == SEEDS


@pytest.mark.parametrize("make", [dlb.dynlin_ucb, dlb.lin_ucb, dlb.d_lin_ucb])
def test_a_result_records_bounds_and_arguments(make):
    problem = dlb.problems.synthetic()
    bounds = dlb.Bounds.of(problem, rho_bar=[0.1, 0.3])
    result = dlb.simulate(problem, make(bounds, lam=2.0), T, seeds=1)
    for described, rho in zip(result.config["policies"], [0.1, 0.3], strict=True):
        assert described["bounds"]["rho"] == rho
        assert described["bounds"]["sigma"] == 0.01
        assert described["lam"] == 2.0
        assert described["delta"] == 1 / T


def test_a_result_records_params_given_as_a_dict():
    result = dlb.simulate(dlb.problems.synthetic(), OWN, T)
    assert result.config["policies"] == [{"name": "policy", "params": {"optimism": 0.7}}]


def test_uniforms_are_uniform_and_fresh():
    """χ² of the arms played over 10 cells, and of pairs of arms; 2·10⁻⁶ false alarms."""
    from scipy import stats

    problem = dlb.problems.synthetic()
    policy = OWN._replace(act=uniform, uniforms=1)
    actions = dlb.simulate(problem, policy, 400, seeds=50, record="actions").actions
    assert stats.chisquare(np.bincount(actions.ravel(), minlength=10)).pvalue > 1e-6
    pairs = 10 * actions[:, ::2] + actions[:, 1::2]
    assert stats.chisquare(np.bincount(pairs.ravel(), minlength=100)).pvalue > 1e-6
    assert len(np.unique(actions, axis=0)) == 50
