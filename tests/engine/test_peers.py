"""What the other processes do when one of them fails or is lost."""

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
    import sys, time, jax
    port, processes, rank = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    jax.distributed.initialize(f"127.0.0.1:{port}", processes, rank)
    import dlbjax as dlb
    from dlbjax.engine import peers
    peers.BEAT, peers.SILENCE, peers.GRACE = 0.5, 4, 3
"""

COMPUTE = """
    with peers.Watch(f"run.ckpt.{rank}") as others:
        print("computing", flush=True)
        if rank == 2:
            time.sleep(1000)  # a step without end
        if rank == 3:
            others.gather(0)
        while True:
            others.check()
            time.sleep(0.1)
"""

BROKEN = """
    policy = dlb.Policy(
        init=lambda params, vertices, key: jax.numpy.ones(()),
        act=lambda params, vertices, state, epoch: 0,
        update=lambda params, state, feedback: state + (jax.numpy.nan if rank == 1 else 0),
        name="broken",
    )
    dlb.simulate(dlb.problems.synthetic(), policy, 50, seeds=4)
"""

KILLED = """
    import os, signal
    from dlbjax.engine import checkpoint
    from tests.engine.test_peers import long_run
    checkpoint._SHARE = float("inf")
    if sys.argv[5] == "die" and rank == 1:
        plain, writes = checkpoint.write_archive, []
        def write_and_die(*args, **options):
            plain(*args, **options)
            writes.append(1)
            if len(writes) == 3:
                os.kill(os.getpid(), signal.SIGKILL)
        checkpoint.write_archive = write_and_die
    result = long_run(sys.argv[4] + "/run.checkpoint")
    result.save(f"{sys.argv[4]}/{rank}.npz")
"""


def long_run(path):
    problem = dlb.problems.synthetic(0.1)
    policy = dlb.lin_ucb(dlb.Bounds.of(problem, 0.2))
    return dlb.simulate(problem, policy, 60_000, 5, checkpoint=path, checkpoint_every=0)


UNEVEN = """
    for call in range(3):
        try:
            with peers.Watch() as others:
                if rank == 0:  # first for longer than a lost one is waited for
                    time.sleep([5, 1, 0][call])
                if rank == call == 1:
                    raise ValueError("not today")
                print(others.gather(rank + 10 * call).tolist(), flush=True)
        except (RuntimeError, ValueError) as error:
            print(error, flush=True)
    time.sleep(rank)
"""


@pytest.fixture
def start():
    """Start a script in several processes, which are ended with the test."""
    started = []

    def start_all(script, processes=2, arguments=()):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = str(free.getsockname()[1])
        command = [sys.executable, "-c", textwrap.dedent(START) + textwrap.dedent(script), port]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        ranks = range(processes)
        job = [
            subprocess.Popen([*command, str(processes), str(i), *arguments], **pipes) for i in ranks
        ]
        started.extend(job)
        return job

    yield start_all
    for process in started:
        process.kill()
        process.communicate()


@pytest.mark.slow
def test_when_a_process_is_lost_the_others_end_and_say_so(start):
    losses = [  # a job at once for each, as most of the time is spent waiting
        (4, 1, signal.SIGKILL, "process 1 of 4 was lost: no sign of life for 4 s. "),
        (2, 0, signal.SIGKILL, "process 0 of 2, which coordinates all, was lost, and JAX ended "),
        (2, 0, signal.SIGSTOP, "process 0 of 2, which coordinates all, was lost: no answer for "),
    ]
    jobs = [start(COMPUTE, processes) for processes, *_ in losses]
    for process in (process for job in jobs for process in job):
        assert "computing\n" in iter(process.stdout.readline, "")
    time.sleep(2)  # for the first notes
    begin = time.monotonic()
    for job, (_, victim, signal_, _) in zip(jobs, losses, strict=True):
        job[victim].send_signal(signal_)
    for job, (processes, victim, _, told) in zip(jobs, losses, strict=True):
        for rank in set(range(processes)) - {victim}:
            _, printed = job[rank].communicate(timeout=90)
            assert job[rank].returncode not in (0, None)
            assert told in printed
            assert f"is kept (run.ckpt.{rank}): start all {processes} processes again" in printed
    assert time.monotonic() - begin < 80  # by itself, JAX takes 100 seconds


@pytest.mark.evidence
def test_processes_go_on_from_their_checkpoints_after_one_was_killed(start, tmp_path):
    pair = start(KILLED, arguments=[str(tmp_path), "die"])
    printed = [process.communicate(timeout=90)[1] for process in pair]
    assert [process.returncode for process in pair] == [1, -signal.SIGKILL]
    assert "RuntimeError: process 1 of 2 was lost" in printed[0]
    assert f"is kept ({tmp_path}/run.checkpoint.0-of-2): start all 2" in printed[0]
    for process in (pair := start(KILLED, arguments=[str(tmp_path), "live"])):
        process.communicate(timeout=90)
    assert [process.returncode for process in pair] == [0, 0]
    alone = long_run(None)
    for rank in (0, 1):
        together = dlb.load(tmp_path / f"{rank}.npz")
        for kind in REGRETS:
            np.testing.assert_array_equal(together.regret(kind), alone.regret(kind))


@pytest.mark.slow
def test_what_one_process_raises_ends_the_other(start):
    pair = start(BROKEN)
    printed = [process.communicate(timeout=90)[1] for process in pair]
    assert [process.returncode for process in pair] == [1, 1]
    assert "RuntimeError: process 1 of 2 failed with FloatingPointError: " in printed[0]
    assert "'broken' became NaN for seed" in printed[0]
    assert printed[1].splitlines()[-1].startswith("FloatingPointError: ")


@pytest.mark.evidence
def test_processes_may_take_their_time_and_go_on_after_a_failure(start):
    pair = start(UNEVEN)
    for process in pair:
        printed, _ = process.communicate(timeout=90)
        assert process.returncode == 0
        first, second, third = (line for line in printed.splitlines() if "Gloo" not in line)
        assert (first, third) == ("[0, 1]", "[20, 21]")
        assert "not today" in second
