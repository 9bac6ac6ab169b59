"""A process that was forked after JAX had been used says so instead of waiting for ever."""

import multiprocessing
import subprocess
import sys
import textwrap

import pytest

pytestmark = pytest.mark.skipif(
    "fork" not in multiprocessing.get_all_start_methods(), reason="the system cannot fork"
)


def run(code):
    code = textwrap.dedent(code)
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)


SETUP = """
    import os, warnings
    warnings.simplefilter("ignore")
    import numpy as np
    import dlbjax as dlb
    from dlbjax.sensitivity.relaxed import Parameters
    problem = dlb.problems.synthetic()
    policy = dlb.lin_ucb(dlb.Bounds.of(problem))

    def in_child(function):
        sent, got = os.pipe()
        if os.fork() == 0:
            try:
                function()
                text = "done"
            except BaseException as error:
                text = str(error)
            os.write(got, text.encode())
            os._exit(0)
        os.wait()
        return os.read(sent, 1000).decode()

    calls = {
        "simulate": lambda: dlb.simulate(problem, policy, 50),
        "agent": lambda: dlb.Agent(policy, problem.actions, 50),
        "ask and tell": lambda: (agent.ask(), agent.tell(1.0)),
        "identify": lambda: dlb.identify(np.eye(40)[:, :2], np.ones(40), order=1),
        "likelihood": lambda: dlb.log_likelihood(problem.system, np.eye(3), np.ones(3)),
        "relaxed": lambda: dlb.sensitivity.relaxed_gradient(
            Parameters(problem.system, 1.0), problem.actions.vertices,
            dlb.Bounds.of(problem), horizon=20, seeds=2),
    }
"""


def test_every_call_that_computes_is_rejected_after_a_fork():
    code = """
    agent = dlb.Agent(policy, problem.actions, 50)
    for name, call in calls.items():
        text = in_child(call)
        assert "forked" in text and "spawn" in text, (name, text)
    """
    done = run(SETUP + code)
    assert done.returncode == 0, done.stderr


def test_a_fork_before_anything_is_computed_is_allowed():
    done = run(SETUP + '    assert in_child(calls["simulate"]) == "done"')
    assert done.returncode == 0, done.stderr
