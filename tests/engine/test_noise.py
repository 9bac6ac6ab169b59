"""The law of the noise: coefficients against a dense joint Gaussian built from (ε, η), and simulation."""

import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import dlbjax as dlb
from dlbjax.engine.noise import innovations_law, plain_law
from dlbjax.engine.segments import cut, expand, round_by_round
from dlbjax.policies.epochs import listed_epochs
from tests.oracles import epoch_lengths, noise_of_rewards, observation_matrix, random_stable

OBSERVED = [("last",), ("total",), ("last", "total"), ()]


def system(seed=0, n=3, rho=0.6, state=None, reward=0.3, scales=None):
    """A random system with a full state covariance; `scales` are units of the state's coordinates."""
    rng = np.random.default_rng(seed)
    A = random_stable(rng, n, rho)
    root = rng.normal(size=(n, n))
    Q = root @ root.T if state is None else state(rng, n)
    omega, S = rng.normal(size=n), np.diag(np.ones(n) if scales is None else scales)
    return dlb.System(
        A=S @ A @ np.linalg.inv(S), B=np.zeros((n, 2)), omega=omega / np.diag(S), theta=[0, 0],
        state_noise=S @ Q @ S, reward_noise=reward,
    )  # fmt: skip


def rank_one(rng, n):
    v = rng.normal(size=n)
    return np.outer(v, v)


SYSTEMS = {
    "full covariance": system(1),
    "one coordinate": system(2, n=1),
    "six coordinates": system(3, n=6, rho=0.9),
    "singular covariance": system(4, state=rank_one),
    "no reward noise": system(5, reward=0.0),
    "no state noise": system(6, state=lambda rng, n: np.zeros((n, n))),
    "no noise": system(6, state=lambda rng, n: np.zeros((n, n)), reward=0.0),
    "singular, no reward noise": system(7, state=rank_one, reward=0.0),
    "rho = 0": system(8, rho=0),
    "rho = 0.99": system(9, rho=0.99),
    "badly scaled": system(10, scales=[1e3, 1.0, 1e-6]),
    "badly scaled, rho = 0.99, no reward noise": system(
        11, rho=0.99, reward=0.0, scales=[1e-6, 1e3, 1.0]
    ),
}
TABLES = {
    "irregular": ([1, 3, 2, 2, 5, 1, 1, 4, 7], [1, 5, 8, 9, 24]),
    "cut by the horizon": ([2, 2, 2, 9], [6, 10, 12]),
    "growing": (epoch_lengths(0.5, 160), [1, 2, 40, 41, 100, 160]),
    "single rounds": ([1] * 200, [50, 120, 200]),
    "long runs of equal epochs": ([2] * 60 + [3] * 30 + [1] * 50 + [2] * 30, [121, 180, 250, 320]),
}


def unrolled(system, runs, law, observed):
    """(outputs, normals): the coefficients of a whole pass as one linear map."""
    segments, run, place = expand(runs, np.arange(runs.repeats.sum()))
    rows = law.row(run, place)
    n, m, count = system.n, law.g.shape[1], len(rows)
    w, total = np.zeros((n, count * m)), np.zeros(count * m)
    epoch, out = np.zeros(count * m), []
    for i, (row, length) in enumerate(zip(rows, segments.length, strict=True)):
        e = np.zeros((m, count * m))
        e[:, i * m : (i + 1) * m] = np.eye(m)
        powers = [np.linalg.matrix_power(system.A, k) for k in range(length + 1)]
        last = (system.omega @ powers[-2] @ w if length else 0) + law.g[row] @ e
        added = sum(system.omega @ p @ w for p in powers[:-1]) + law.k[row] @ e
        w = powers[-1] @ w + law.K[row] @ e
        total = total + added
        epoch = added if segments.starts[i] else epoch + added
        if segments.ends[i]:
            out += [{"last": last, "total": epoch}[name] for name in observed]
        if segments.slot[i] >= 0:
            out.append(total)
    return np.array(out)


def assert_same_covariance(found, expected):
    scale = np.sqrt(np.diag(expected))
    assert np.all(np.abs(found - expected) <= 1e-9 * np.outer(scale, scale) + 1e-300)


@pytest.mark.parametrize("observed", OBSERVED, ids=lambda o: "+".join(o) or "nothing")
@pytest.mark.parametrize(("lengths", "reports"), TABLES.values(), ids=TABLES)
@pytest.mark.parametrize("system", SYSTEMS.values(), ids=SYSTEMS)
def test_innovations_have_the_joint_law_of_the_noise(system, lengths, reports, observed):
    runs = cut(listed_epochs(lengths, reports[-1]), np.array(reports))
    C = unrolled(system, runs, innovations_law(system, runs, observed), observed)
    M = observation_matrix(lengths, reports, observed)
    v = noise_of_rewards(
        system.A, system.omega, system.state_noise, system.reward_noise, reports[-1]
    )
    assert_same_covariance(C @ C.T, M @ v @ M.T)


def test_one_normal_for_each_number_observed():
    runs = cut(listed_epochs([2] * 10, 20), np.array([20]))
    for observed in OBSERVED:
        assert innovations_law(SYSTEMS["six coordinates"], runs, observed).g.shape[1] == max(
            1, len(observed)
        )


def test_the_table_of_coefficients_settles():
    """The number of rows does not grow with the horizon, even where the covariance settles slowly."""
    rows = []
    for T in (10**5, 10**6):
        runs = cut(listed_epochs([2] * (T // 2), T), np.array([T // 3, T]))
        rows.append(len(innovations_law(SYSTEMS["rho = 0.99"], runs, ("last",)).g))
    assert rows[1] <= rows[0] + 100 < 10_000


@pytest.mark.parametrize("given", [True, False])
def test_plain_law_is_the_definition(given):
    """One round a step: w' = Aw + ε and v = ωw + η, with (ε, η) as given or drawn."""
    s = SYSTEMS["singular covariance"]
    runs = round_by_round(cut(listed_epochs([2] * 5, 10), np.array([10])))
    law = plain_law(s, runs, given)
    eps, eta = (np.eye(3), 1.0) if given else (s.state_noise, s.reward_noise**2)
    np.testing.assert_allclose(law.K[0] @ law.K[0].T, eps, atol=1e-12)
    np.testing.assert_allclose(law.g[0] @ law.g[0], eta, rtol=1e-12)
    np.testing.assert_array_equal(law.k[0], law.g[0])
    np.testing.assert_allclose(law.K[0] @ law.g[0], 0, atol=1e-12)
    np.testing.assert_array_equal(law.g[1], 0)
    if given:
        np.testing.assert_array_equal(np.c_[law.K[0][:, :3]], np.eye(3))


# --- end to end: what a policy is fed, and what is reported, in 20 000 runs -----------------------

LEVELS, STEP = 1600, 0.02  # a policy shows what it was fed by playing its rounding to a grid
LENGTHS, REPORTS = [2, 1, 3, 2, 4, 1], [1, 4, 7, 13]
BITS = np.array([1, 0, 1, 1, 0, 1])  # what it plays besides, which moves the state


def showing(weights, feedback):
    """Plays (level of what it was fed last, scheduled bit): `actions` then tell what it was fed."""

    def update(params, state, seen):
        parts = [w * getattr(seen, name) for w, name in zip(weights, feedback, strict=True)]
        return sum(parts)

    def act(params, vertices, state, epoch):
        level = jnp.clip(jnp.round(state / STEP).astype(jnp.int32) + LEVELS // 2, 0, LEVELS - 1)
        return 2 * level + epoch.plan

    schedule = dlb.Schedule(LENGTHS, plan=lambda epoch: BITS[epoch.index - 1])
    return dlb.Policy(
        lambda params, vertices, key: jnp.zeros(()), act, update, feedback=feedback,
        prepare=lambda horizon, vertices: schedule,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("feedback", "weights"),
    [(("last",), (1.0,)), (("total",), (0.5,)), (("last", "total"), (1.0, 0.4)), ((), ())],
    ids=lambda x: "+".join(map(str, x)) or "nothing",
)
def test_simulated_feedback_and_reports_have_the_dense_law(feedback, weights):
    """Whitened by the dense law, mean and covariance are those of a standard normal.

    Two χ² tests of 2·10⁻⁶ false alarms in all for each of the four cases.
    """
    rng = np.random.default_rng(5)
    A, b = random_stable(rng, 3, 0.8), rng.normal(size=3)
    system = dlb.System(
        A=A, B=np.c_[np.zeros(3), b], omega=rng.normal(size=3) / 2, theta=[0.0, 0.7],
        state_noise=0.2 * np.eye(3) + 0.1, reward_noise=0.5, x1=[0.5, -1.0, 0.2],
    )  # fmt: skip
    points = [[level * 1e-3, bit] for level in range(LEVELS) for bit in (0, 1)]
    problem = dlb.Problem(system, dlb.actions.finite(points))
    policy = showing(weights, feedback)
    runs, T, epochs = 20_000, REPORTS[-1], len(LENGTHS)
    result = dlb.simulate(problem, policy, T, seeds=runs, rounds=REPORTS, record=("actions",))
    starts = np.cumsum(LENGTHS) - LENGTHS
    np.testing.assert_array_equal(result.actions[:, starts] % 2, np.tile(BITS, (runs, 1)))
    fed = (result.actions[:, starts[1:]] // 2 - LEVELS // 2) * STEP
    assert np.abs(fed).max() < STEP * (LEVELS / 2 - 1)
    sums = np.array(REPORTS) * problem.optimal_value - result.realised_regret
    # The dense law of the same numbers.
    mean, x = [], system.x1
    for t in range(T):
        bit = BITS[np.searchsorted(np.cumsum(LENGTHS), t, side="right")]
        mean.append(system.omega @ x + 0.7 * bit)
        x = A @ x + b * bit
    lasts, totals = (observation_matrix(LENGTHS, [T], (name,))[:-1] for name in ("last", "total"))
    shown = sum(
        (
            w * {"last": lasts, "total": totals}[name]
            for w, name in zip(weights, feedback, strict=True)
        ),
        np.zeros((epochs, T)),
    )[:-1]
    M = observation_matrix([T + 1], REPORTS, ())
    seen = sums
    if feedback:
        M, seen = np.concatenate([shown, M]), np.c_[fed, sums]
    covariance = M @ noise_of_rewards(A, system.omega, system.state_noise, 0.5, T) @ M.T
    z = np.linalg.solve(np.linalg.cholesky(covariance), (seen - M @ mean).T)
    k = len(z)
    S = z @ z.T / runs
    off = S[np.triu_indices(k, 1)]
    assert runs * (z.mean(axis=1) ** 2).sum() < stats.chi2.isf(1e-6, k)
    spread = runs * (off**2).sum() + runs / 2 * ((np.diag(S) - 1) ** 2).sum()
    assert spread < stats.chi2.isf(1e-6, k * (k + 1) // 2)


@pytest.mark.parametrize("scale", [1e-150, 1e-90, 1e90, 1e120])
def test_noise_of_any_size_has_the_same_law(scale):
    def law(sigma):
        system = dlb.System([[0.9]], [[1.0]], [1.0], [0.0], sigma=sigma)
        return innovations_law(system, cut(listed_epochs([1] * 50, 50), np.array([50])), ("last",))

    one, other = law(1.0), law(scale)
    np.testing.assert_array_equal(one.steps, other.steps)
    np.testing.assert_allclose(other.g / scale, one.g, rtol=1e-9)
