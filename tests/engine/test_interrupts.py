"""Ctrl-C ends a call, wherever it comes."""

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time

import numpy as np
import pytest

import dlbjax as dlb
from dlbjax.engine.interrupts import interrupts

PROBLEM = dlb.problems.synthetic()
PRESSED = """
    import gc, signal, sys
    import dlbjax as dlb
    signal.signal(signal.SIGINT, signal.default_int_handler)
    problem = dlb.problems.synthetic()
    gc.set_threshold(50)  # callbacks of the garbage collector swallow the exception
    for i in range(int(sys.argv[1])):
        policy = dlb.lin_ucb(dlb.Bounds.of(problem))
        try:
            print("begun", flush=True)
            dlb.simulate(problem, policy, 100_000_000, 32, checkpoint=None if i % 2 else sys.argv[2])
            print("finished", flush=True)
        except KeyboardInterrupt:
            print("stopped", flush=True)
"""


@pytest.fixture(autouse=True)
def _python_handles_ctrl_c():
    """As in a terminal: a process started in the background may ignore the signal."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


class Finalised:
    """Presses Ctrl-C while it is finalised, where Python prints the exception and drops it."""

    def __del__(self):
        os.kill(os.getpid(), signal.SIGINT)
        for _ in range(1000):  # the handler runs within these
            pass


def presses_when_prepared():
    policy = dlb.lin_ucb(dlb.Bounds.of(PROBLEM))

    def prepare(horizon, vertices):
        Finalised()
        return policy.prepare(horizon, vertices)

    return policy._replace(prepare=prepare)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_ctrl_c_that_python_drops_ends_the_block():
    with pytest.raises(KeyboardInterrupt), interrupts():
        Finalised()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_ctrl_c_that_python_drops_stops_a_simulation():
    done = []
    policy = presses_when_prepared()

    def prepare(horizon, vertices):
        schedule = policy.prepare(horizon, vertices)
        return schedule._replace(plan=lambda epoch: done.append(1) or schedule.plan(epoch))

    with pytest.raises(KeyboardInterrupt):
        dlb.simulate(PROBLEM, policy._replace(prepare=prepare), 10_000_000, 16)
    assert len(done) < 100  # of some 2 500 stretches
    dlb.simulate(PROBLEM, dlb.lin_ucb(dlb.Bounds.of(PROBLEM)), 100)  # as if nothing had been


def test_blocks_may_be_nested_and_other_errors_pass():
    def fails():
        with interrupts() as outer, interrupts() as inner:
            assert inner is outer
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fails()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_handlers_of_others_and_other_threads_are_left_alone():
    seen = []
    before = signal.signal(signal.SIGINT, lambda *_: seen.append(1))
    try:
        with interrupts():
            os.kill(os.getpid(), signal.SIGINT)
    finally:
        signal.signal(signal.SIGINT, before)
    assert seen == [1]
    thread = threading.Thread(target=lambda: dlb.simulate(PROBLEM, dlb.myopic(PROBLEM), 10))
    thread.start()
    thread.join()


@pytest.mark.slow
@pytest.mark.parametrize("times", [4, pytest.param(100, marks=pytest.mark.evidence)])
def test_ctrl_c_is_honoured_every_time_and_soon(times, tmp_path):
    """At random moments of a call: while it compiles, computes and writes a checkpoint."""
    rng, waits = np.random.default_rng(times), []
    command = [sys.executable, "-c", textwrap.dedent(PRESSED), str(times), tmp_path / "checkpoint"]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        for i in range(times):
            assert child.stdout.readline() == "begun\n"
            time.sleep(float(rng.uniform(0, 0.5 if i else 3)))
            pressed = time.monotonic()
            child.send_signal(signal.SIGINT)
            assert child.stdout.readline() == "stopped\n", f"press {i} was lost"
            waits.append(time.monotonic() - pressed)
        assert child.wait(timeout=30) == 0
    finally:
        child.kill()
        child.communicate()
    assert max(waits) < 20  # compiling is not interrupted


COMMAND = """
    import signal
    signal.signal(signal.SIGINT, signal.default_int_handler)
    from dlbjax.cli import entry
    print("begun", flush=True)
    entry()
"""


@pytest.mark.evidence
def test_ctrl_c_ends_the_command_with_130():
    """At random moments after the imports, within which JAX's callback may drop the exception unseen."""
    rng = np.random.default_rng(0)
    asked = ["run", "synthetic", "--policy", "lin_ucb", "--horizon", "100000000", "--seeds", "32"]
    command = [sys.executable, "-c", textwrap.dedent(COMMAND), *asked]
    for _ in range(20):
        child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        try:
            assert child.stdout.readline() == "begun\n"
            time.sleep(float(rng.uniform(0, 8)))
            child.send_signal(signal.SIGINT)
            _, said = child.communicate(timeout=60)
        finally:
            child.kill()
        assert child.returncode == 130, said
        assert said.endswith("dlbjax: interrupted\n"), said
