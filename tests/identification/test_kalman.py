"""The likelihood against the density of one large Gaussian, which shares nothing with a filter."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

import dlbjax as dlb
from dlbjax.identification import StateSpace
from dlbjax.identification.data import read_samples
from dlbjax.identification.kalman import Rounds, filtered, log_density
from dlbjax.identification.steady import Blocks, steady_covariance, steady_innovations

T = 12


def dense_log_density(model, u, y, x1, P1):
    """log N(y; mean, covariance) with both written out for all rounds at once."""
    A, B, C, D, c, Q, R = model
    n, m = len(A), len(C)
    power = [np.linalg.matrix_power(A, k) for k in range(T)]
    mean = np.zeros((T, m))
    states = np.zeros((T, n, T, n))
    for t in range(T):
        drift = power[t] @ x1 + sum((power[t - 1 - s] @ B @ u[s] for s in range(t)), np.zeros(n))
        mean[t] = c + C @ drift + D @ u[t]
        for r in range(T):
            states[t, :, r] = power[t] @ P1 @ power[r].T + sum(
                (power[t - 1 - s] @ Q @ power[r - 1 - s].T for s in range(min(t, r))),
                np.zeros((n, n)),
            )
    covariance = np.einsum("ij,tjrk,lk->tirl", C, states, C).reshape(T * m, T * m)
    covariance += np.kron(np.eye(T), R)
    seen = ~np.isnan(y.ravel())
    return scipy.stats.multivariate_normal(
        mean.ravel()[seen], covariance[np.ix_(seen, seen)]
    ).logpdf(y.ravel()[seen])


def random_model(seed, n, d, m):
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((n, n))
    A *= 0.9 / np.abs(np.linalg.eigvals(A)).max()
    Q, R = rng.standard_normal((n, n)), rng.standard_normal((m, m))
    model = StateSpace(
        A, rng.standard_normal((n, d)), rng.standard_normal((m, n)), rng.standard_normal((m, d)),
        rng.standard_normal(m), Q @ Q.T, R @ R.T + 0.1 * np.eye(m),
    )  # fmt: skip
    u, y = rng.standard_normal((T, d)), 2 * rng.standard_normal((T, m))
    P1 = rng.standard_normal((n, n))
    return model, u, y, rng.standard_normal(n), P1 @ P1.T


@pytest.mark.parametrize("m", [1, 2])
@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("known_start", [False, True])
def test_likelihood_is_that_of_the_joint_gaussian(m, missing, known_start):
    model, u, y, x1, P1 = random_model(m, 3, 2, m)
    if known_start:
        P1 = np.zeros((3, 3))
    if missing:
        y[[0, 4, 5, T - 1], 0] = np.nan
        y[4] = np.nan
    expected = dense_log_density(model, u, y, x1, P1)
    found = dlb.log_likelihood(model, u, y, x1=x1, P1=P1)
    np.testing.assert_allclose(found, expected, rtol=1e-11, atol=1e-9)


def of_system(seed=0):
    model, u, y, x1, _ = random_model(seed, 3, 2, 1)
    system = dlb.System(
        model.A, model.B, model.C[0], model.D[0],
        state_noise=model.Q, reward_noise=np.sqrt(model.R[0, 0]), x1=x1,
    )  # fmt: skip
    return system, model, u, y[:, 0]


def test_a_system_starts_from_its_known_state():
    system, model, u, y = of_system()
    expected = dense_log_density(
        model._replace(c=np.array([0.7])), u, y, system.x1, np.zeros((3, 3))
    )
    np.testing.assert_allclose(dlb.log_likelihood(system, u, y, baseline=0.7), expected, atol=1e-9)


def test_likelihood_of_episodes_is_the_sum():
    system, _, u, y = of_system()
    parts = [dlb.log_likelihood(system, u[:T], y), dlb.log_likelihood(system, u[::-1], y[::-1])]
    both = dlb.log_likelihood(system, [u, u[::-1]], [y, y[::-1]])
    np.testing.assert_allclose(both, sum(parts), rtol=1e-12)


def test_gradient_is_that_of_finite_differences_in_every_field():
    system, _, u, y = of_system()
    y[3] = np.nan
    with jax.enable_x64(True):
        system = jax.tree.map(jnp.asarray, system)
        likelihood = jax.jit(lambda system: dlb.log_likelihood(system, u, y))
        gradient = jax.grad(likelihood)(system)
        rng = np.random.default_rng(0)
        for name in ("A", "B", "omega", "theta", "state_noise", "reward_noise", "x1"):
            leaf = getattr(system, name)
            direction = jnp.asarray(rng.standard_normal(np.shape(leaf)))
            if name == "state_noise":  # a covariance is symmetric
                direction = direction + direction.T

            def moved(step, name=name, leaf=leaf, direction=direction):
                fields = {f: getattr(system, f) for f in system.__dataclass_fields__}
                fields[name] = leaf + step * direction
                return likelihood(jax.tree.unflatten(jax.tree.structure(system), fields.values()))

            h = 1e-5
            expected = (moved(h) - moved(-h)) / (2 * h)
            slope = jnp.sum(getattr(gradient, name) * direction)
            np.testing.assert_allclose(slope, expected, rtol=1e-6, err_msg=name)


def test_blocks_in_the_steady_state_give_what_the_plain_filter_gives():
    m = 2
    model, _, _, _, _ = random_model(5, 3, 2, m)
    rng = np.random.default_rng(1)
    lengths = (40, 7, 29)
    samples = read_samples(
        [rng.standard_normal((length, 2)) for length in lengths],
        [rng.standard_normal((length, m)) for length in lengths],
    )
    with jax.enable_x64(True):
        model = jax.tree.map(jnp.asarray, model)
        x1 = jnp.asarray(rng.standard_normal((3, 3)))
        P = jax.jit(steady_covariance)(model)
        plain, _ = filtered(model, Rounds.of(samples), x1, P)
        blocked = jax.jit(steady_innovations)(model, Blocks.of(samples), x1)
        np.testing.assert_allclose(log_density(blocked), log_density(plain), rtol=1e-12)
        S, e = plain.S[-76:], plain.e[-76:]  # what comes before fills up
        np.testing.assert_allclose(S, jnp.broadcast_to(blocked.S, S.shape), rtol=1e-9)
        found, expected = np.sort(blocked.e, axis=None), np.sort(e, axis=None)
        padded = found.size - expected.size
        np.testing.assert_allclose(np.sort(np.r_[expected, np.zeros(padded)]), found, atol=1e-10)


def test_data_of_similar_length_share_their_shapes():
    """And so the compiled program; `test_against_a_dense_gaussian…` and the one above check the values."""

    def shapes(rounds):
        samples = read_samples(np.ones((rounds, 2)), np.ones(rounds))
        with jax.enable_x64(True):
            data = (Blocks.of(samples), Rounds.of(samples))
        return jax.tree.map(jnp.shape, data)

    assert shapes(104) == shapes(128) != shapes(260)


def test_steady_covariance_solves_the_riccati_equation():
    model, _, _, _, _ = random_model(8, 4, 1, 2)
    with jax.enable_x64(True):
        found = steady_covariance(jax.tree.map(jnp.asarray, model))
    expected = scipy.linalg.solve_discrete_are(model.A.T, model.C.T, model.Q, model.R)
    np.testing.assert_allclose(found, expected, rtol=1e-9)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((1.0, [[0.0]], [0.0]), r"^system must be a dlbjax.System or a StateSpace; got float"),
        ((None, np.ones((4, 3)), np.ones(4)), r"^actions have 3 columns and rewards 1, but"),
        ((None, np.ones((4, 2)), np.ones((4, 2))), r"^actions have 2 columns and rewards 2, but"),
    ],
)
def test_mismatched_arguments_are_rejected(arguments, message):
    system = of_system()[0] if arguments[0] is None else arguments[0]
    with pytest.raises(ValueError, match=message):
        dlb.log_likelihood(system, *arguments[1:])


def test_rewards_without_noise_have_no_density():
    with pytest.raises(ValueError, match="reward noise must be > 0"):
        dlb.log_likelihood(dlb.System([[0.5]], [[1.0]], [1.0], [0.0]), [[1.0]], [1.0])


def test_plain_numbers_are_taken_in_double_precision_and_leave_no_trace():
    before = jax.config.jax_enable_x64
    system, _, u, y = of_system()
    assert isinstance(dlb.log_likelihood(system, u, y), float)
    assert jax.config.jax_enable_x64 == before
