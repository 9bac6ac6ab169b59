"""Calls of every public function with one wrong argument: run as a program, it tries a share of them.

Everything is found by walking `dlbjax`; a function that is new is tried, too, as soon as `VALID` has a value
for its parameters. Prints one line of JSON.
"""

import inspect
import json
import os
import re
import resource
import signal
import sys
import tempfile
import time
import traceback
import warnings
from pathlib import Path
from types import FunctionType, ModuleType

import numpy as np

import dlbjax as dlb
from dlbjax.sensitivity.relaxed import Parameters as RelaxedParameters

PROBLEM = dlb.problems.synthetic()
BOUNDS = dlb.Bounds.of(PROBLEM)
POLICY = dlb.myopic(PROBLEM)
RNG = np.random.default_rng(0)
FOLDER = Path(tempfile.mkdtemp())

# Values that make a call succeed, by the name of the parameter, and by function where names clash.
VALID = {
    "A": PROBLEM.system.A, "B": PROBLEM.system.B, "omega": PROBLEM.system.omega,
    "theta": PROBLEM.system.theta, "sigma": 0.1, "problem": PROBLEM, "problems": PROBLEM,
    "policy": POLICY, "policies": POLICY, "horizon": 20, "seeds": 2, "bounds": BOUNDS, "lam": 1.0,
    "delta": 0.1, "system": PROBLEM.system, "actions": PROBLEM.actions, "vertices": PROBLEM.actions.vertices,
    "action": [1.0, 0.5, 0.0], "d": 3, "rounds": 20, "V": np.eye(3), "gap": 0.1, "rho": 0.5, "rho_bar": 0.5,
    "rewards": [0.2, 0.5], "delay": 2, "weights": [0.5, 0.5], "coefficients": [0.5], "decay": [0.5, 0.1],
    "effect": [0.2, 0.3], "count": 2, "low": 0.0, "high": [1.0, 1.0, 1.0], "total": 1.5,
    "points": [[1.0, 0.0], [0.0, 1.0]], "G": [[-1, 0], [0, -1], [1, 1]], "g": [0, 0, 1], "name": "x",
    "state": np.zeros((1, 20, 3)), "reward": np.zeros((1, 20)), "alpha": 0.5, "temperature": 1.0,
    "parameters": RelaxedParameters(PROBLEM.system, 1.0), "value": 0.5, "step": 0.1, "gamma": 0.9,
    "prior": dlb.Prior(np.zeros(4), np.eye(4), 1.0, np.ones(3), 0.5), "at": lambda x: (PROBLEM, POLICY),
    "values": [0.5], "width": 0.1, "directions": 4, "lags": 1,
}  # fmt: skip
OWN = {
    "average_reward": {"actions": [0, 1]}, "predicted_rewards": {"actions": [0, 1]},
    "identify": {"actions": RNG.uniform(size=(60, 2)), "rewards": RNG.normal(size=60), "order": 1,
                 "refine": False},
    "log_likelihood": {"actions": np.eye(3), "rewards": np.ones(3)},
    "constant": {"action": [1.0, 0.5, 0.0]}, "polytope_prices": {"system": dlb.System(
        [[0.5]], [[1.0, 0.0]], [1.0], [0.0, 3.0])},
    "tune": {"problems": dlb.sensitivity.random_problems(2, n=1, d=2), "steps": 2},
    "validate": {"problems": dlb.sensitivity.random_problems(2, n=1, d=2)},
    "hard_instance": {"d": 2, "horizon": 1000}, "budget": {"high": [1.0, 1.0]},
    "regret_slope": {"seeds": 4}, "relaxed_gradient": {"seeds": 2},
}  # fmt: skip
WRONG = [
    None, True, -1, 0, 1, 2, 7, 10**9, 10**400, -(10**400), 0.5, 1.5, -0.1, 1e308, 1e-320, float("nan"),
    float("inf"), "", "x", "\x1b[31m", b"x", [], [[]], [1, [2]], [[1], [2, 3]], {}, {"a": 1}, [None], ["a"],
    [0.5], [0.5, 0.5], [[0.1] * 3] * 3, [[[1.0]]], np.zeros(0), np.zeros((0, 3)), np.full((3, 3), np.nan),
    np.array(["a"]), np.array([object()]), np.array([1 + 2j]), np.eye(2), np.eye(4) * 1e300, object(),
    lambda: 1, lambda x: x, int, iter([1]), slice(3), PROBLEM, BOUNDS, POLICY, PROBLEM.system, dlb,
    FOLDER / "missing", "/dev/zero", np.float32(0.3), np.int8(3), np.datetime64("2026-01-01"),
]  # fmt: skip
CLEAR = (ValueError, TypeError, OSError, ImportError, FloatingPointError)


def public(module, prefix="dlb", seen=None):
    """Every public callable below a module: functions, classes, and constructors of classes."""
    seen = set() if seen is None else seen
    for name in getattr(module, "__all__", [n for n in vars(module) if not n.startswith("_")]):
        found = getattr(module, name)
        if isinstance(found, ModuleType):
            if found.__name__.startswith("dlbjax") and found not in seen:
                seen.add(found)
                yield from public(found, f"{prefix}.{name}", seen)
        elif (
            isinstance(found, FunctionType | type)
            and found.__module__.startswith("dlbjax")
            and found not in seen
        ):
            seen.add(found)
            yield f"{prefix}.{name}", found
            if isinstance(found, type):
                for method, made in vars(found).items():
                    if isinstance(made, classmethod) and not method.startswith("_"):
                        yield f"{prefix}.{name}.{method}", getattr(found, method)


def base(function):
    """Arguments of a call that should succeed, or None if some are not known."""
    given = {}
    own = OWN.get(function.__name__, {})
    for name, parameter in inspect.signature(function).parameters.items():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            continue
        if name in own or (parameter.default is parameter.empty and name in VALID):
            given[name] = own.get(name, VALID.get(name))
        elif parameter.default is parameter.empty:
            return None
    return given


def unclear(error):
    """Whether an error says nothing about what was given."""
    if isinstance(error, CLEAR) and str(error):
        frames = traceback.extract_tb(error.__traceback__)
        ours = os.path.dirname(dlb.__file__)
        return isinstance(error, TypeError) and not frames[-1].filename.startswith((ours, __file__))
    return True


class Hangs(BaseException):
    """Raised in a call that takes too long."""


def on_alarm(*_):
    raise Hangs


def attempt(function, arguments):
    """Kind of trouble, or None; and the seconds until the arguments were rejected."""
    began = time.perf_counter()
    try:
        signal.alarm(20)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            function(**arguments)
        return None, 0.0  # what is accepted may compile for other shapes
    except Hangs:
        trouble = "takes over 20 s"
    except Exception as error:
        trouble = f"{type(error).__name__}: {error!s:.120}" if unclear(error) else None
    finally:
        signal.alarm(0)
    return trouble, time.perf_counter() - began


def main(share, shares, most):
    """Try every `shares`-th function; at most so many wrong values of each of its parameters."""
    resource.setrlimit(resource.RLIMIT_AS, (8 * 2**30, 8 * 2**30))
    os.chdir(FOLDER)
    signal.signal(signal.SIGALRM, on_alarm)
    bad, calls, tried, unknown, slowest = [], 0, [], [], (0.0, "")
    functions = sorted(public(dlb), key=lambda pair: pair[0])
    for place, (name, function) in enumerate(functions):
        if place % shares != share:
            continue
        try:
            arguments = base(function)
        except ValueError:
            arguments = None
        if arguments is None:
            unknown.append(name)
            continue
        tried.append(name)
        attempt(function, arguments)  # compiles
        parameters = inspect.signature(function).parameters
        for parameter in parameters:
            kind = parameters[parameter].kind
            if kind in (kind.VAR_POSITIONAL, kind.VAR_KEYWORD):
                continue
            for number, wrong in enumerate(WRONG):
                if (number + place) % max(1, len(WRONG) // most):
                    continue
                print(f"{name}({parameter}={wrong!r:.60})", file=sys.stderr, flush=True)
                trouble, seconds = attempt(function, {**arguments, parameter: wrong})
                calls += 1
                text = f"{name}({parameter}={wrong!r:.60})"
                slowest = max(slowest, (seconds, text))
                if trouble:
                    bad.append(f"{text}: {trouble}")
    # Not getrusage, which may count the process this one was started from.
    status = Path("/proc/self/status").read_text()
    memory = int(re.search(r"VmHWM:\s*(\d+)", status)[1]) / 1e6  # GB
    report = {"calls": calls, "bad": bad, "slowest": slowest, "memory": memory, "tried": tried,
              "unknown": unknown}  # fmt: skip
    print("\n" + json.dumps(report))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
