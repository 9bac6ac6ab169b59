"""Ridge regression keeps its precision over a million observations."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dlbjax as dlb
from dlbjax.policies import ridge
from dlbjax.policies.small import inverse_and_log_determinant


@pytest.mark.parametrize(("double", "digits"), [(False, 3e-7), (True, 1e-10)])
def test_sums_do_not_drift_in_a_million_observations(double, digits):
    """Terms that are no multiples of the last place of a sum near 10⁵."""
    count, u, y = 10**6, np.array([0.3, 0.7]), 0.8123
    with jax.enable_x64(double):
        action, reward = jnp.asarray(u), jnp.asarray(y)
        state = jax.jit(
            lambda: jax.lax.fori_loop(
                0,
                count,
                lambda _, s: ridge.observe(s, action, reward),
                ridge.start(jnp.ones(()), jnp.eye(2)),
            )
        )()
    np.testing.assert_allclose(state.V.value, np.eye(2) + count * np.outer(u, u), rtol=digits)
    np.testing.assert_allclose(state.b.value, count * y * u, rtol=digits)


@pytest.mark.parametrize("d", [1, 3, 8, 9])
def test_inverse_and_determinant(d):
    """Written out for a few dimensions, by LAPACK for more; mapped over runs."""
    root = np.random.default_rng(d).normal(size=(5, d, d + 2))
    matrices = root @ np.swapaxes(root, 1, 2)
    with jax.enable_x64(True):
        found = jax.vmap(inverse_and_log_determinant, out_axes=-1)(jnp.asarray(matrices))
    inverses, logarithms = map(np.asarray, found)
    for i, matrix in enumerate(matrices):
        np.testing.assert_allclose(inverses[..., i] @ matrix, np.eye(d), atol=1e-8)
        np.testing.assert_allclose(logarithms[i], np.log(np.linalg.det(matrix)), rtol=1e-9)


@pytest.mark.parametrize("make", [dlb.dynlin_ucb, dlb.dynlin_ucb_tight, dlb.lin_ucb, dlb.d_lin_ucb])
def test_one_round_is_a_horizon(make):
    problem = dlb.problems.synthetic()
    assert dlb.simulate(problem, make(dlb.Bounds.of(problem)), 1).offline_regret.shape == (1, 1)


@pytest.mark.parametrize("make", [dlb.dynlin_ucb, dlb.lin_ucb, dlb.d_lin_ucb])
def test_a_radius_that_overflows_is_refused(make):
    problem = dlb.problems.synthetic()
    bounds = dlb.Bounds.of(problem).replace(U=1e200)
    with pytest.raises(ValueError, match=r"UCB' cannot be run: its plan is not finite"):
        dlb.simulate(problem, make(bounds, lam=1e-300), 10)


@pytest.mark.parametrize("wrong", [[1.0, [2.0]], [None], [], ["1"], [[1.0]]])
def test_a_list_of_something_else_is_refused_by_name(wrong):
    bounds = dlb.Bounds.of(dlb.problems.synthetic())
    with pytest.raises(ValueError, match=r"^lam must be a number or a list of numbers; got"):
        dlb.lin_ucb(bounds, lam=wrong)
    with pytest.raises(ValueError, match="X"):
        dlb.lin_ucb(bounds.replace(X=wrong))
