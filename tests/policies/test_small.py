"""Products and searches written out, against NumPy."""

import jax.numpy as jnp
import numpy as np
import pytest

from dlbjax.policies import small


@pytest.mark.parametrize("d", [3, 8, 9, 16])
@pytest.mark.parametrize("scale", [1e-13, 1.0, 1e9])
def test_inverses_have_the_digits_of_float32_in_any_units(d, scale):
    """Units so small or so large that squared entries of V would leave the range of float32."""
    u = scale * np.random.default_rng(d).uniform(size=(13_000, d)) ** 4
    V = (0.01 * scale**2 * np.eye(d) + u.T @ u).astype(np.float32)
    exact = np.linalg.inv(V.astype(np.float64))
    found = np.asarray(small.inverse(jnp.asarray(V)))
    assert np.abs(found - exact).max() < 4e-6 * np.abs(exact).max()
    np.testing.assert_array_equal(found, found.T)
