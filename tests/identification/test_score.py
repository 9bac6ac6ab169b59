"""The free parameters, and the gradient and information of the likelihood in them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.linalg

import dlbjax as dlb
from dlbjax.identification.data import read_samples
from dlbjax.identification.ho_kalman import Realisation
from dlbjax.identification.parameters import Parameters, log_prior, prior_curvature, start
from dlbjax.identification.score import score_at
from dlbjax.identification.steady import Blocks
from tests.identification.worlds import logged, small


def random_realisation(seed, n=3, d=2, m=2):
    rng = np.random.default_rng(seed)
    draw = rng.standard_normal
    A = draw((n, n))
    radius = rng.uniform(0.5, 0.99)
    A *= radius / np.abs(np.linalg.eigvals(A)).max()
    S = draw((m, m))
    return Realisation(
        A, draw((n, d)), draw((m, n)), draw((m, d)), draw(m), draw((n, m)), S @ S.T, radius
    )


def contraction(seed, **sizes):
    found = random_realisation(seed, **sizes)
    return found._replace(A=0.9 * found.A / np.linalg.norm(found.A, 2))


@pytest.mark.parametrize("seed", range(5))
def test_a_realisation_keeps_its_response_in_the_free_parameters(seed):
    given = random_realisation(seed)
    samples = read_samples(*np.random.default_rng(seed).standard_normal((2, 30, 2)))
    parameters, _ = start(given, samples)
    with jax.enable_x64(True):
        model = jax.tree.map(np.asarray, parameters.model())
    assert np.linalg.norm(model.A, 2) < 1
    np.testing.assert_allclose(model.D, given.D)
    for k in range(8):
        expected = given.C @ np.linalg.matrix_power(given.A, k) @ given.B
        found = model.C @ np.linalg.matrix_power(model.A, k) @ model.B
        np.testing.assert_allclose(found, expected, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("size", [1e-3, 1.0, 1e3])
def test_every_value_of_the_parameters_is_a_stable_system(size):
    rng = np.random.default_rng(0)
    with jax.enable_x64(True):
        at = jax.tree.map(jnp.asarray, Parameters.of(contraction(0), 2))
        model = at._replace(M=jnp.asarray(size * rng.standard_normal((3, 3)))).model()
    assert np.abs(np.linalg.eigvals(model.A)).max() < 1
    assert np.linalg.eigvalsh(model.R).min() > 0


def test_score_is_the_gradient_of_the_likelihood():
    rng = np.random.default_rng(3)
    system = small()
    actions, rewards = logged(system)
    found = Realisation(
        system.A, system.B, system.omega[None], system.theta[None], np.array([0.1]),
        np.array([[0.1], [0.0]]), np.array([[0.04]]), system.rho,
    )  # fmt: skip
    samples = read_samples(actions, rewards)
    at, x1 = start(found, samples)
    with jax.enable_x64(True):
        score = score_at(at, x1, Blocks.of(samples))
    sizes = np.cumsum([np.size(leaf) for leaf in at])

    def likelihood(step):
        parts = np.split(step, sizes)
        moved = Parameters(
            *(leaf + part.reshape(leaf.shape) for leaf, part in zip(at, parts, strict=False))
        )
        with jax.enable_x64(True):
            model = jax.tree.map(np.asarray, moved.model())
        P1 = scipy.linalg.solve_discrete_are(model.A.T, model.C.T, model.Q, model.R)
        return dlb.log_likelihood(model, actions, rewards, x1=x1[0] + parts[-1], P1=P1)

    gradient = np.r_[score.g, np.ravel(score.g_x)]
    for direction in rng.standard_normal((5, len(gradient))):
        expected = (likelihood(1e-6 * direction) - likelihood(-1e-6 * direction)) / 2e-6
        np.testing.assert_allclose(gradient @ direction, expected, rtol=1e-5)


def test_the_prior_counts_eigenvalues_and_the_share_of_the_states_noise():
    """For a normal A: Σ log(1 − |λ|²), less log(1 + CQCᵀ/R); its curvature in M is not exceeded."""
    rng = np.random.default_rng(0)
    turned = np.linalg.qr(rng.standard_normal((3, 3)))[0]
    A = turned @ np.array([[0.8, 0.3, 0.0], [-0.3, 0.8, 0.0], [0.0, 0.0, -0.5]]) @ turned.T
    found = random_realisation(0, m=1)._replace(A=A)
    with jax.enable_x64(True):
        at = jax.tree.map(jnp.asarray, Parameters.of(found, 2))
        prior, model = float(log_prior(at)), jax.tree.map(np.asarray, at.model())
        hessian = jax.hessian(lambda M: -log_prior(at._replace(M=M)))(at.M).reshape(9, 9)
        above = np.asarray(prior_curvature(at)[:9, :9] - hessian)
    noise = (model.C @ model.Q @ model.C.T / model.R).item()
    expected = 2 * np.log(1 - 0.73) + np.log(1 - 0.25) - np.log1p(noise)
    np.testing.assert_allclose(prior, expected, rtol=1e-9)
    assert np.linalg.eigvalsh(above).min() > -1e-9
