"""Several processes of a `jax.distributed` job."""

import signal
import socket
import subprocess
import sys
import textwrap
import time

import numpy as np
import pytest

import dlbjax as dlb
from dlbjax.results.result import REGRETS

START = """
    import sys, jax
    port, rank, folder, *rest = sys.argv[1:]
    jax.distributed.initialize(f"127.0.0.1:{port}", 2, int(rank), heartbeat_timeout_seconds=10)
    import dlbjax as dlb
"""

TOGETHER = """
    problem = dlb.problems.synthetic(0.1)
    policy = dlb.dynlin_ucb(dlb.Bounds.of(problem, rho_bar=[0.1, 0.2]))
    result = dlb.simulate(problem, policy, 1500, seeds=5, record="actions")
    result.save(f"{folder}/{rank}.npz")
"""

KILLED = """
    import os, signal
    from dlbjax.engine import checkpoint
    from tests.engine.test_hosts import long_run
    checkpoint._SHARE = float("inf")
    if rest == ["die"] and rank == "1":
        plain, writes = checkpoint.write_archive, []
        def write_and_die(*args, **options):
            plain(*args, **options)
            writes.append(1)
            if len(writes) == 3:
                os.kill(os.getpid(), signal.SIGKILL)
        checkpoint.write_archive = write_and_die
    long_run(f"{folder}/run.checkpoint").save(f"{folder}/{rank}.npz")
"""


def long_run(path):
    problem = dlb.problems.synthetic(0.1)
    policy = dlb.lin_ucb(dlb.Bounds.of(problem, 0.2))
    return dlb.simulate(problem, policy, 60_000, 5, checkpoint=path, checkpoint_every=0)


def start(script, folder, *rest):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    code = textwrap.dedent(START) + textwrap.dedent(script)
    return [
        subprocess.Popen(
            [sys.executable, "-c", code, port, str(rank), folder, *rest], stderr=subprocess.PIPE
        )
        for rank in range(2)
    ]


@pytest.mark.slow
def test_two_processes_give_what_one_does(tmp_path):
    for process in start(TOGETHER, tmp_path):
        _, printed = process.communicate(timeout=120)
        assert process.returncode == 0, printed
    problem = dlb.problems.synthetic(0.1)
    policy = dlb.dynlin_ucb(dlb.Bounds.of(problem, rho_bar=[0.1, 0.2]))
    alone = dlb.simulate(problem, policy, 1500, seeds=5, record="actions")
    for i in range(2):
        together = dlb.load(tmp_path / f"{i}.npz")
        assert together.config["execution"]["hosts"] == 2
        for name in (*(f"{kind}_regret" for kind in REGRETS), "actions"):
            np.testing.assert_array_equal(getattr(together, name), getattr(alone, name))


@pytest.mark.evidence
def test_when_one_is_killed_jax_ends_the_other_and_both_go_on_later(tmp_path):
    begin = time.monotonic()
    pair = start(KILLED, tmp_path, "die")
    printed = [process.communicate(timeout=120)[1].decode() for process in pair]
    assert time.monotonic() - begin < 60
    assert pair[1].returncode == -signal.SIGKILL
    assert pair[0].returncode not in (0, None)
    assert "stopped sending heartbeats" in printed[0]
    for process in start(KILLED, tmp_path, "live"):
        _, printed = process.communicate(timeout=120)
        assert process.returncode == 0, printed
    alone = long_run(tmp_path / "alone.checkpoint")
    for rank in range(2):
        together = dlb.load(tmp_path / f"{rank}.npz")
        np.testing.assert_array_equal(together.realised_regret, alone.realised_regret)
