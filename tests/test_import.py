import subprocess
import sys

import pytest

import dlbjax


def run(code):
    command = [sys.executable, "-W", "error", "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_importing_changes_no_jax_setting():
    changed = run(
        "import jax\n"
        "before = dict(jax.config.values)\n"
        "import dlbjax\n"
        "after = dict(jax.config.values)\n"
        "print([name for name in after if name not in before or before[name] != after[name]])\n"
        "assert len(before) > 50"
    )
    assert changed == "[]"


def test_importing_initialises_no_backend():
    # JAX rejects the setting once there is a backend.
    code = (
        "import dlbjax, jax; jax.config.update('jax_num_cpu_devices', 3); print(len(jax.devices()))"
    )
    assert run(code) == "3"


def test_importing_is_quiet_and_touches_no_random_state():
    code = (
        "import jax, numpy as np\n"  # JAX itself draws a number
        "before = repr(np.random.get_state())\n"
        "import dlbjax\n"
        "assert repr(np.random.get_state()) == before"
    )
    assert run(code) == ""


@pytest.mark.parametrize("name", dlbjax.__all__)
def test_every_public_name_exists(name):
    assert hasattr(dlbjax, name)


def test_version_is_that_of_the_package():
    assert dlbjax.__version__[0].isdigit()
