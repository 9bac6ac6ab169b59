"""Exp3 and Batch-Exp3: against a plain NumPy loop, and the properties their proofs rest on."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dlbjax as dlb
from tests import baseline_oracles as loops
from tests.oracles import model_of
from tests.policies.replay import (
    PROBLEMS,
    assert_agrees,
    fields_of,
    noise_for,
    start_of,
    uniforms_of,
)

T, K = 6000, 10

VARIANTS = {
    "exp3": (dlb.exp3, {}),
    "exp3, gamma": (dlb.exp3, {"gamma": 0.1}),
    "exp3, gamma = 1": (dlb.exp3, {"gamma": 1.0}),
    "batch_exp3": (dlb.batch_exp3, {}),
    "batch_exp3, batch": (dlb.batch_exp3, {"batch": 3}),
    "batch_exp3, batch = 1": (dlb.batch_exp3, {"batch": 1}),
    "batch_exp3, gamma, the last batch cut": (dlb.batch_exp3, {"gamma": 0.1, "batch": 7}),
}


@pytest.mark.parametrize("make", PROBLEMS.values(), ids=PROBLEMS)
@pytest.mark.parametrize("variant", VARIANTS.values(), ids=VARIANTS)
def test_exp3_plays_as_the_loop_does(make, variant):
    factory, options = variant
    problem = make()
    bounds = dlb.Bounds.of(problem)
    batch = 1
    if factory is dlb.batch_exp3:
        batch = options.get("batch", loops.exp3_batch(bounds.rho, T))
    gamma = options.get("gamma", loops.exp3_gamma(K, T / batch))
    xi = loops.reward_range(fields_of(bounds))
    probabilities = []

    def loop(seed, eps, eta):
        run, p = loops.batch_exp3(
            model_of(problem), gamma, xi, batch, uniforms_of(seed, T), eps, eta
        )
        probabilities.append(p)
        return run

    actions = assert_agrees(problem, factory(bounds, **options), noise_for(problem, 2, T), loop)
    assert len(np.unique(actions)) == K
    p = np.concatenate(probabilities)
    np.testing.assert_allclose(p.sum(axis=1), 1, atol=1e-14)
    assert p.min() >= gamma / K * (1 - 1e-12)
    # Every arm that pays starts to stand out, unless nothing but exploration is done.
    assert (p.max() > 1.2 / K) == (gamma < 1)


@pytest.mark.parametrize(
    ("make", "batch"), [(dlb.problems.synthetic, 8), (dlb.problems.real_world, 27)]
)
def test_batches_of_the_paper(make, batch):
    problem = make()
    policy = dlb.batch_exp3(dlb.Bounds.of(problem))
    assert policy.prepare(10**6, problem.actions.vertices).epochs == batch


@pytest.mark.parametrize(("horizon", "batch"), [(21, 3), (22, 3), (24, 3), (25, 4)])
def test_only_whole_epochs_count(horizon, batch):
    """With ρ̄ = 0.5 the eighth epoch ends at round 21 and the ninth at 25; log₂ 8 = 3."""
    bounds = dlb.Bounds.of(dlb.problems.synthetic()).replace(rho=0.5)
    assert dlb.batch_exp3(bounds).prepare(horizon, np.eye(3)).epochs == batch


@pytest.mark.parametrize("rho", [0.0, 0.01])
def test_a_batch_is_one_round_at_least(rho):
    """Nothing lingers at ρ̄ = 0; at ρ̄ = 0.01 and T = 1 no more than one epoch is whole."""
    bounds = dlb.Bounds.of(dlb.problems.synthetic()).replace(rho=rho)
    horizon = T if rho == 0 else 1
    assert dlb.batch_exp3(bounds).prepare(horizon, np.eye(3)).epochs == 1


# --- the policy's functions by themselves: p is read off the uniforms at which the arm changes -----


def probabilities_of(policy, params, vertices, state):
    """p of every arm, by bisection to the last bit for where the arm drawn changes."""
    count = len(vertices)

    def drawn(u):
        one = jnp.int32(1)
        epoch = dlb.Epoch(one, one - 1, one, None, jnp.reshape(u, (1,)))
        return policy.act(params, vertices, state, epoch)

    draw = jax.jit(jax.vmap(drawn))
    low, high = jnp.zeros(count), jnp.ones(count)
    for _ in range(60):
        middle = (low + high) / 2
        below = draw(middle) <= jnp.arange(count, dtype=jnp.int32)
        low, high = jnp.where(below, middle, low), jnp.where(below, high, middle)
    return np.diff(np.r_[0.0, np.asarray(high)])


@pytest.mark.parametrize(("factory", "batch"), [(dlb.exp3, 1), (dlb.batch_exp3, 3)])
def test_the_estimates_of_rewards_are_unbiased(factory, batch):
    """Σ_j p_j r̂_i(j drawn) = r_i for every arm i, by enumeration of the arm j drawn.

    Gains show in the odds: log s_i rises by η r̂_i against the arms not drawn, with s the softmax.
    """
    problem, gamma, count = dlb.problems.synthetic(), 0.3, 10
    bounds = dlb.Bounds.of(problem)
    xi = loops.reward_range(fields_of(bounds))
    policy = factory(bounds, gamma=gamma, **({"batch": batch} if batch > 1 else {}))
    rng = np.random.default_rng(0)
    pays = rng.uniform(-2 * xi, 2 * xi, count)  # y of each arm, if drawn
    with jax.enable_x64():
        params, vertices, state = start_of(problem, policy, T, np.float64)

        def after(state, arm, reward):
            reward = jnp.float64(reward)
            seen = dlb.Feedback(
                jnp.int32(arm), vertices[arm], reward, batch * reward, jnp.int32(batch)
            )
            return policy.update(params, state, seen)

        def odds(state):
            p = probabilities_of(policy, params, vertices, state)
            return p, np.log((p - gamma / count) / (1 - gamma))

        for arm in (2, 7, 7, 1):  # away from the uniform start
            state = after(state, arm, 0.5 * xi)
        p, before = odds(state)
        assert p.min() >= gamma / count - 1e-12
        assert np.ptp(p) > 0.01
        estimate = np.zeros(count)
        for j in range(count):
            gain = odds(after(state, j, pays[j]))[1] - before
            others = np.delete(gain, j)
            np.testing.assert_allclose(others, others[0], atol=1e-10)
            estimate[j] += p[j] * (gain[j] - others[0]) / (gamma / count)
    np.testing.assert_allclose(estimate, (pays + 2 * xi) / (4 * xi), atol=1e-8)


@pytest.mark.parametrize("gamma", [0.9, 0.1])
def test_float32_stays_finite_and_explores(gamma):
    """Every arm is drawn with probability γ/K at least: 6√μ below that mean, 3·10⁻⁷ false alarms.

    By Chernoff's bound e⁻¹⁸ for each of 20 counts.
    """
    problem, horizon = dlb.problems.synthetic(), 10**5
    policy = dlb.exp3(dlb.Bounds.of(problem), gamma=gamma)
    result = dlb.simulate(problem, policy, horizon, seeds=2, dtype=np.float32, record="actions")
    assert np.all(np.isfinite(result.realised_regret))
    least = gamma / K * horizon
    for actions in result.actions:
        assert np.bincount(actions, minlength=K).min() > least - 6 * np.sqrt(least)


def test_one_arm():
    """γ = 0 by the formula, since ln 1 = 0."""
    problem = dlb.Problem(dlb.problems.synthetic().system, dlb.actions.finite([[1.0, 0.0, 0.0]]))
    result = dlb.simulate(problem, dlb.exp3(dlb.Bounds.of(problem)), 50, seeds=2, record="actions")
    assert not result.actions.any()


WRONG = [
    (dlb.exp3, {"gamma": 0.0}, "gamma"),
    (dlb.exp3, {"gamma": 1.5}, "gamma"),
    (dlb.batch_exp3, {"gamma": -0.1}, "gamma"),
    (dlb.batch_exp3, {"batch": 0}, "batch"),
    (dlb.batch_exp3, {"batch": 1.5}, "batch"),
]


@pytest.mark.parametrize(("factory", "options", "named"), WRONG)
def test_wrong_hyper_parameters_are_refused(factory, options, named):
    with pytest.raises(ValueError, match=f"^{named} must be"):
        factory(dlb.Bounds.of(dlb.problems.synthetic()), **options)


@pytest.mark.parametrize("make", [dlb.exp3, dlb.batch_exp3])
def test_rewards_that_can_only_be_zero_are_refused(make):
    bounds = dlb.Bounds.of(dlb.problems.synthetic()).replace(Theta=0.0, B=0.0)
    with pytest.raises(ValueError, match=r"^bounds must leave room for rewards"):
        make(bounds)
