"""Tests run with JAX's implicit conversions off: what mixes dtypes by accident fails."""

import jax
import matplotlib
import pytest

matplotlib.use("Agg")


@pytest.fixture(autouse=True, scope="session")
def _shared_programs(tmp_path_factory, worker_id):
    """Workers of pytest-xdist compile a program once for all of them."""
    folder = tmp_path_factory.getbasetemp()
    folder = folder if worker_id == "master" else folder.parent
    jax.config.update("jax_compilation_cache_dir", str(folder / "compiled"))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.3)


@pytest.fixture(autouse=True, scope="session")
def _strict_jax():
    jax.config.update("jax_numpy_dtype_promotion", "strict")
