"""Ridge regression keeps its precision over a million observations."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dlbjax._small import inverse_and_log_determinant
from dlbjax.policies.ridge import observe, ridge


@pytest.mark.parametrize(("double", "digits"), [(False, 3e-7), (True, 1e-10)])
def test_sums_do_not_drift_in_a_million_observations(double, digits):
    """Terms that are no multiples of the last place of a sum near 10⁵."""
    count, u, y = 10**6, np.array([0.3, 0.7]), 0.8123
    with jax.enable_x64(double):
        action, reward = jnp.asarray(u), jnp.asarray(y)
        state = jax.jit(
            lambda: jax.lax.fori_loop(
                0, count, lambda _, s: observe(s, action, reward), ridge(jnp.ones(()), 2)
            )
        )()
    np.testing.assert_allclose(state.V.value, np.eye(2) + count * np.outer(u, u), rtol=digits)
    np.testing.assert_allclose(state.b.value, count * y * u, rtol=digits)


@pytest.mark.parametrize("d", [1, 3, 8, 9])
def test_inverse_and_determinant(d):
    """Written out for a few dimensions, by LAPACK for more; with a trailing axis of lanes."""
    root = np.random.default_rng(d).normal(size=(5, d, d + 2))
    matrices = root @ np.swapaxes(root, 1, 2)
    with jax.enable_x64(True):
        found = inverse_and_log_determinant(jnp.moveaxis(jnp.asarray(matrices), 0, -1))
    inverses, logarithms = map(np.asarray, found)
    for i, matrix in enumerate(matrices):
        np.testing.assert_allclose(inverses[..., i] @ matrix, np.eye(d), atol=1e-8)
        np.testing.assert_allclose(logarithms[i], np.log(np.linalg.det(matrix)), rtol=1e-9)
