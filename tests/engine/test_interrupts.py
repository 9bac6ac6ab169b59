"""Ctrl-C ends a call, wherever it comes."""

import os
import signal
import threading

import pytest

import dlbjax as dlb
from dlbjax.engine.interrupts import interrupts

PROBLEM = dlb.problems.synthetic()


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
