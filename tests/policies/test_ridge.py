"""Ridge regression keeps its precision over a million observations."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

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
