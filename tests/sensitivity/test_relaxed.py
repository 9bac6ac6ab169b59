"""The relaxed regret against Algorithm 1 in its limit, and its derivatives against differences of itself."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dlbjax as dlb
from dlbjax.policies.dynlin_ucb import epoch_lengths
from dlbjax.sensitivity.relaxation import Parameters, draw, gradients, stretches
from dlbjax.sensitivity.relaxed import _prepare, _reject_explosion, relaxed_gradient, relaxed_regret
from tests.oracles import random_stable

T, RUNS = 300, 8


def problem_without_ties(seed=0, n=2, noise=0.2):
    """Random vertices: no two have the same norm, so that no choice is a tie."""
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(n, n))
    system = dlb.System(
        A=random_stable(rng, n, 0.5), B=rng.normal(size=(n, 2)), omega=rng.normal(size=n),
        theta=rng.normal(size=2), state_noise=noise * root @ root.T, reward_noise=noise,
        x1=rng.normal(size=n),
    )  # fmt: skip
    return dlb.Problem(system, dlb.actions.finite(rng.normal(size=(4, 2))))


PROBLEM = problem_without_ties()
BOUNDS = dlb.Bounds.of(PROBLEM, rho_bar=0.6)
VERTICES = PROBLEM.actions.vertices
HERE = Parameters(PROBLEM.system, lam=2.0, scale=0.3)


def regret(parameters=HERE, **options):
    given = {"horizon": T, "seeds": RUNS} | options
    return relaxed_regret(parameters, VERTICES, BOUNDS, **given)


def test_a_cold_policy_is_algorithm_1_run_for_run():
    """The normals are those of `simulate`, so that every run is the same run; the last epoch is cut."""
    assert epoch_lengths(0.6, T).rounds > T
    policy = dlb.dynlin_ucb(BOUNDS, lam=2.0, scale=0.3)
    true = dlb.simulate(PROBLEM, policy, T, RUNS, rounds=[T], record=("actions",))
    assert len(np.unique(true.actions)) > 1, "nothing was decided"
    np.testing.assert_allclose(regret(temperature=1e-9), true.expected_regret[:, -1], rtol=1e-9)


def soft_algorithm1(system, vertices, lengths, beta, lam, heat, normals):
    """One run as a plain loop over rounds; the innovations of each epoch from a filter over rounds."""
    n, d = system.B.shape
    V, b, z, w, P = lam * np.eye(d), np.zeros(d), system.x1, np.zeros(n), np.zeros((n, n))
    noise_free = 0.0
    for m, length in enumerate(lengths):
        h_hat = np.linalg.solve(V, b)
        width = np.array([np.sqrt(v @ np.linalg.solve(V, v)) for v in vertices])
        ucb = vertices @ h_hat + beta[m] * width
        p = np.exp((ucb - ucb.max()) / heat[m])
        p /= p.sum()
        u = p @ vertices
        alone = [z] * len(vertices)  # the state, had one vertex been held
        for last in [False] * (length - 1) + [True]:
            noise_free += system.omega @ z + system.theta @ u
            if last:
                variance = system.omega @ P @ system.omega + system.reward_noise**2
                e = normals[m] * np.sqrt(variance)
                for share, v, x in zip(p, vertices, alone, strict=True):
                    y = system.omega @ (x + w) + system.theta @ v + e
                    V, b = V + share * np.outer(v, v), b + share * v * y
                seen = P @ system.omega / variance
                w, P = w + seen * e, P - variance * np.outer(seen, seen)
            z = system.A @ z + system.B @ u
            alone = [system.A @ x + system.B @ v for x, v in zip(alone, vertices, strict=True)]
            w, P = system.A @ w, system.A @ P @ system.A.T + system.state_noise
    best = max(vertices @ system.h)
    return sum(lengths) * best - noise_free


def test_agrees_with_a_loop_over_rounds():
    with jax.enable_x64(True):
        normals = np.asarray(draw(RUNS, T))
    table = epoch_lengths(0.6, T)
    lengths = np.repeat(table.lengths, table.counts)
    done = np.cumsum(lengths) - lengths
    lengths[-1] = T - done[-1]
    beta = 0.3 * dlb.theory.beta(BOUNDS, 2.0, 1 / T, 2, done, printed=True)
    w = BOUNDS.U / np.sqrt(2.0 + np.arange(len(lengths)) * BOUNDS.U**2 / 2)
    heat = 0.7 * beta * (w - w / np.sqrt(1 + w**2))
    found = regret(temperature=0.7)
    for run in range(3):
        loop = soft_algorithm1(PROBLEM.system, VERTICES, lengths, beta, 2.0, heat, normals[:, run])
        np.testing.assert_allclose(found[run], loop, rtol=1e-10)


@pytest.fixture(scope="module")
def gradient():
    return relaxed_gradient(HERE, VERTICES, BOUNDS, horizon=T, seeds=RUNS)


def moved(name, index, step):
    """The parameters with one number changed."""
    if name in ("lam", "scale"):
        return HERE._replace(**{name: getattr(HERE, name) + step})
    leaf = np.array(getattr(HERE.system, name))
    leaf[index] += step
    if name == "state_noise" and index[0] != index[1]:
        leaf[index[::-1]] += step  # covariances are symmetric
    fields = {f: getattr(HERE.system, f) for f in dlb.System.__dataclass_fields__}
    return HERE._replace(system=dlb.System(**fields | {name: leaf}))


@pytest.mark.parametrize(
    ("name", "index"),
    [("lam", ()), ("scale", ()), ("A", (0, 1)), ("A", (1, 1)), ("B", (1, 0)), ("omega", (0,)),
     ("theta", (1,)), ("state_noise", (0, 0)), ("state_noise", (0, 1)), ("reward_noise", ()),
     ("x1", (1,))],
)  # fmt: skip
def test_the_gradient_equals_central_differences_of_the_relaxed_regret(gradient, name, index):
    slope = gradient.slope if name in ("lam", "scale") else gradient.slope.system
    found = np.asarray(getattr(slope, name))
    exact = found[index] + (found[index[::-1]] if name == "state_noise" and index == (0, 1) else 0)
    step = 1e-5
    means = [regret(moved(name, index, end)).mean() for end in (step, -step, 2 * step, -2 * step)]
    # Four points: the error of the fourth order is far below that of rounding.
    numeric = (8 * (means[0] - means[1]) - (means[2] - means[3])) / (12 * step)
    assert abs(exact) > 1e-3, "nothing to see"
    np.testing.assert_allclose(exact, numeric, rtol=1e-6)


def test_standard_errors_are_those_of_the_runs(gradient):
    ends = [regret(HERE._replace(lam=HERE.lam + step)) for step in (1e-5, -1e-5)]
    each = (ends[0] - ends[1]) / 2e-5
    error = each.std(ddof=1) / np.sqrt(RUNS)
    np.testing.assert_allclose(gradient.standard_error.lam, error, rtol=1e-5)
    assert gradient.regret == pytest.approx(regret().mean(), rel=1e-12)


def test_a_map_over_systems_equals_a_loop():
    systems = [problem_without_ties(seed).system for seed in (1, 2, 3)]
    epochs = epoch_lengths(0.6, T)

    def one(system):
        return relaxed_regret(
            Parameters(system, 2.0, 0.3), VERTICES, BOUNDS, horizon=T, seeds=RUNS, epochs=epochs
        )

    with jax.enable_x64(True):
        stacked = jax.tree.map(
            lambda *leaves: jnp.stack([jnp.asarray(x) for x in leaves]), *systems
        )
        mapped = jax.vmap(one)(stacked)
    np.testing.assert_allclose(mapped, [one(system) for system in systems], rtol=1e-10)


def test_the_zero_action_and_no_noise_have_finite_derivatives():
    quiet = dlb.System(
        PROBLEM.system.A, PROBLEM.system.B, PROBLEM.system.omega, PROBLEM.system.theta
    )
    vertices = np.r_[np.zeros((1, 2)), VERTICES[:3]]
    found = relaxed_gradient(Parameters(quiet, 2.0, 0.3), vertices, BOUNDS, horizon=T, seeds=RUNS)
    assert all(np.all(np.isfinite(leaf)) for leaf in jax.tree.leaves(found.slope))
    assert found.slope.scale != 0


@pytest.mark.parametrize("value", [1e200, np.inf, np.nan])
def test_derivatives_that_overflow_are_rejected(value):
    with pytest.raises(FloatingPointError, match=r"at temperature 0\.1; raise it"):
        _reject_explosion(HERE._replace(lam=np.array([1.0, value])), 0.1)


@pytest.mark.parametrize(("horizon", "rho_bar"), [(1, 0.5), (2, 0.0), (997, 0.0), (1000, 0.9)])
def test_stretches_hold_every_epoch_once_and_end_at_the_horizon(horizon, rho_bar):
    epochs = epoch_lengths(rho_bar, horizon)
    table, most = stretches(epochs, horizon)
    lengths = np.repeat(epochs.lengths, epochs.counts)
    lengths[-1] -= lengths.sum() - horizon
    np.testing.assert_array_equal(np.repeat(table.length, table.epochs), lengths)
    done = np.cumsum(lengths) - lengths
    np.testing.assert_array_equal(table.start, done[table.first])
    assert table.epochs.max() <= most <= np.sqrt(len(lengths)) + 1


@pytest.mark.slow
def test_the_gradient_does_not_keep_every_epoch():
    """What the compiled program needs beyond its arguments: the state is kept at √epochs places."""
    epochs, runs = 40_000, 64
    system = dlb.System([[0.5]], [[1.0, 0.3]], [1.0], [0.0, 0.5], sigma=0.1)
    vertices = np.array([[0.0, 1.0], [1.0, 0.2]])
    arguments = _prepare(
        Parameters(system, 2.0), vertices, BOUNDS, epochs, runs, 1.0, None, np.ones(epochs, int)
    )
    with jax.enable_x64(True):
        used = gradients.lower(*arguments).compile().memory_analysis().temp_size_in_bytes
    state = 8 * runs * (4 + 2 + 1 + 1 + 1 + 1)  # V, b, z, ŵ, P and the regret
    assert used < epochs * state / 5


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"temperature": 0.0}, "temperature must be > 0.0"),
        ({"horizon": 0}, "horizon must be a whole number from 1 to 1000000"),
        ({"seeds": 0}, "seeds must be a whole number from 1 to 10000"),
        ({"delta": 2.0}, "delta must be > 0.0 and < 1.0"),
        ({"epochs": [1, 2]}, "epochs must cover the horizon"),
        ({"parameters": HERE._replace(lam=0.0)}, "lam must be > 0.0"),
        ({"parameters": HERE._replace(scale=-1.0)}, "scale must be >= 0.0"),
        ({"parameters": PROBLEM}, "parameters must be Parameters"),
    ],
)
def test_invalid_arguments_are_rejected(change, message):
    with pytest.raises(ValueError, match=message):
        regret(**change)


def test_single_precision_and_a_traced_rate_are_rejected():
    with pytest.raises(ValueError, match="traced in float32"):
        jax.grad(lambda lam: regret(HERE._replace(lam=lam)).mean())(2.0)
    with jax.enable_x64(True), pytest.raises(ValueError, match="pass epochs"):
        jax.grad(
            lambda bounds: relaxed_regret(HERE, VERTICES, bounds, horizon=T, seeds=RUNS).mean()
        )(jax.tree.map(jnp.float64, BOUNDS))
