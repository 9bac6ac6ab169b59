"""Tests run with JAX's implicit conversions off: what mixes dtypes by accident fails."""

import os

import jax
import matplotlib
import pytest

matplotlib.use("Agg")


@pytest.fixture(autouse=True, scope="session")
def _shared_programs(tmp_path_factory, worker_id):
    """Workers of pytest-xdist, and processes that tests start, compile a program once for all."""
    folder = tmp_path_factory.getbasetemp()
    folder = folder if worker_id == "master" else folder.parent
    settings = {
        "jax_compilation_cache_dir": str(folder / "compiled"),
        "jax_persistent_cache_min_compile_time_secs": 0.3,
    }
    for name, value in settings.items():
        jax.config.update(name, value)
        os.environ[name.upper()] = str(value)


@pytest.fixture(autouse=True, scope="session")
def _strict_jax():
    jax.config.update("jax_numpy_dtype_promotion", "strict")
