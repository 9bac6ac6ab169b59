"""Programs of the latest shapes are kept, and nothing of the others."""

import subprocess
import sys
import textwrap

import jax
import numpy as np
import pytest

import dlbjax as dlb
from dlbjax.engine.programs import compiled

MANY_SHAPES = """
    import ctypes, sys
    import numpy as np
    import dlbjax as dlb

    def resident():  # MB, without what the C library keeps for later
        ctypes.CDLL(None).malloc_trim(0)
        return int(open("/proc/self/statm").read().split()[1]) * 4096 / 1e6

    rng, seen = np.random.default_rng(0), []
    for i in range(int(sys.argv[1])):
        n, d = 1 + i % 25, 2 + i // 25
        A = rng.normal(size=(n, n))
        A *= 0.5 / np.abs(np.linalg.eigvals(A)).max()
        system = dlb.System(A, rng.normal(size=(n, d)), rng.normal(size=n), rng.normal(size=d), 0.1)
        problem = dlb.Problem(system, dlb.actions.finite(np.eye(d)))
        dlb.simulate(problem, dlb.myopic(problem), 10, 1)
        seen.append(resident())
    print(*seen)
"""


def test_a_program_is_compiled_once_and_forgotten_when_others_came_after_it():
    traced = []
    double = compiled(lambda by, x: traced.append((by, x.shape)) or by * x, static=1, most=2)
    for by, size in [(2, 1), (3, 1), (2, 1), (2, 2), (2, 1), (3, 1)]:
        np.testing.assert_array_equal(double(by, np.ones(size, np.float32)), by * np.ones(size))
    assert traced == [(2, (1,)), (3, (1,)), (2, (2,)), (3, (1,))]


def test_the_programs_of_128_shapes_are_kept(monkeypatch):
    """Enough for an experiment that goes through dozens again and again, and 1 GB at most."""
    made = []
    monkeypatch.setattr(jax, "jit", lambda function, **_: made.append(1) or function)
    same = compiled(lambda size: size, static=1)
    for size in (*range(128), *range(128)):
        same(size)
    assert len(made) == 128
    same(128)
    same(0)
    assert len(made) == 130


def test_the_same_call_compiles_nothing():
    """What is traced goes through the policy's functions."""
    problem, traced = dlb.problems.synthetic(), []
    plain = dlb.ucb1(dlb.Bounds.of(problem))
    policy = plain._replace(act=lambda *given: traced.append(1) or plain.act(*given))
    dlb.simulate(problem, policy, 10, 2)
    first = len(traced)
    dlb.simulate(problem, policy, 20, 3)
    assert first == len(traced) > 0


@pytest.mark.evidence
def test_memory_over_500_shapes_is_bounded():
    """Those of the last 128 are kept; without a bound it grows to the end."""
    command = [sys.executable, "-c", textwrap.dedent(MANY_SHAPES), "500"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=1800)
    resident = [float(number) for number in done.stdout.split()]
    print(resident[::50], resident[-1])
    kept = resident[150] - resident[0]
    assert resident[-1] - resident[150] < kept / 2
