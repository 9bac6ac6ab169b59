"""Tests run with JAX's implicit conversions off: what mixes dtypes by accident fails."""

import jax
import matplotlib
import pytest

matplotlib.use("Agg")


@pytest.fixture(autouse=True, scope="session")
def _strict_jax():
    jax.config.update("jax_numpy_dtype_promotion", "strict")
