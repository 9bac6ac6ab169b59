"""Calls of every public callable with one wrong argument: run as a program, it tries a share of them.

Functions, classes and methods are found by walking `dlbjax`, so that a new one is tried, too; it is reported
as unknown until `VALID` has values with which a call succeeds. Prints one line of JSON.
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
from collections.abc import Callable
from functools import cache, wraps
from pathlib import Path
from types import FunctionType, ModuleType
from typing import NamedTuple

import jax
import jax.numpy as jnp
import matplotlib
import matplotlib.pyplot as plt
import numpy as np

import dlbjax as dlb
from dlbjax.sensitivity.relaxed import Parameters as RelaxedParameters

PROBLEM = dlb.problems.synthetic()
BOUNDS = dlb.Bounds.of(PROBLEM)
POLICY = dlb.myopic(PROBLEM)
RNG = np.random.default_rng(0)
FOLDER = Path(tempfile.mkdtemp())
PAIR = dlb.sensitivity.random_problems(2, n=1, d=2)
RESULT = dlb.simulate(PROBLEM, POLICY, 20, 2)
MATRIX, VECTOR = jnp.eye(3), jnp.ones(3)


@cache
def table():
    """A file of spend and rewards."""
    spend = RNG.uniform(size=(120, 2)).round(3)
    rows = np.c_[spend, (spend.sum(axis=1) + 0.1 * RNG.normal(size=120)).round(3)]
    lines = ["a,b,y", *(",".join(map(str, row)) for row in rows.tolist())]
    (FOLDER / "log.csv").write_text("\n".join(lines))
    return FOLDER / "log.csv"


@cache
def fit():
    actions = RNG.uniform(size=(60, 2))
    return dlb.identify(actions, actions.sum(axis=1) + 0.1 * RNG.normal(size=60), order=1)


@cache
def model():
    return dlb.campaign.Model.of(dlb.identify(log().actions, log().rewards, order=1), log())


def agent(rounds=0, asked=False):
    """An agent after some rounds, with a file of its own."""
    path = Path(tempfile.mkdtemp(dir=FOLDER)) / "journal"
    made = dlb.Agent(POLICY, PROBLEM.actions, 20, path=path)
    for _ in range(rounds):
        made.ask()
        made.tell(0.5)
    if asked:
        made.ask()
    return made


@cache
def log():
    return dlb.campaign.read_log(table(), ["a", "b"], "y")


def store():
    return dlb.sweep(PROBLEM, POLICY, 20, 2, FOLDER / "runs.zarr")


def saved(kind):
    """The path of a file of this kind."""
    path = FOLDER / kind
    if kind == "result.npz":
        RESULT.save(path)
    elif kind == "model.json":
        model().save(path)
    else:
        content = {"system": {"A": [[0.5]], "B": [[1]], "omega": [1], "theta": [0]},
                   "actions": {"kind": "finite", "points": [[1], [0]]}}  # fmt: skip
        path.write_text(json.dumps(content))
    return path


class Later(NamedTuple):
    """A value that is made when a call needs it."""

    make: Callable


# An object of every class that has methods, made anew for every call; of some methods one of their own.
OBJECTS = {
    "ActionSet": lambda: PROBLEM.actions, "Bounds": lambda: BOUNDS, "System": lambda: PROBLEM.system,
    "Agent": agent, "Agent.tell": lambda: agent(asked=True), "Agent.correct": lambda: agent(rounds=1),
    "Epochs": lambda: dlb.Epochs(*np.ones((2, 1), int)),
    "Fit": fit, "Model": model, "Result": lambda: RESULT, "Results": lambda: dlb.Results(a=RESULT),
    "Store": store, "Sum": lambda: dlb.small.Sum.of(VECTOR),
    "Sensitivity": lambda: dlb.sensitivity.of(PROBLEM),
}  # fmt: skip
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
    "prior": dlb.Prior(np.zeros(4), np.eye(4), 1.0, np.ones(3), 0.5),
    "at": lambda x: (PROBLEM, POLICY), "values": VECTOR, "width": 0.1, "directions": 4, "order": 1, "m": 1.0,
    "store": FOLDER / "runs.zarr", "path": FOLDER / "new", "axis": "x", "parts": {1: RESULT, 2: RESULT},
    "matrix": MATRIX, "vector": VECTOR, "one": VECTOR, "other": VECTOR, "shared": MATRIX, "vectors": MATRIX,
    "probabilities": VECTOR / 3, "uniform": 0.5 * VECTOR[0], "flags": VECTOR > 0, "index": jnp.arange(3)[0],
    "term": VECTOR, "series": Later(lambda: store().series()[0]), "lag": 1, "lags": 1, "field": "A",
    "model": Later(model), "fit": Later(fit), "log": Later(log), "round": 1,
}  # fmt: skip
OWN = {
    "average_reward": {"actions": [0, 1]}, "predicted_rewards": {"actions": [0, 1]},
    "identify": {"actions": RNG.uniform(size=(60, 2)), "rewards": RNG.normal(size=60), "order": 1,
                 "refine": False},
    "log_likelihood": {"actions": np.eye(3), "rewards": np.ones(3)},
    "constant": {"action": [1.0, 0.5, 0.0]}, "polytope_prices": {"system": dlb.System(
        [[0.5]], [[1.0, 0.0]], [1.0], [0.0, 3.0])},
    "tune": {"problems": PAIR, "steps": 2},
    "validate": {"problems": PAIR, "tuned": dlb.sensitivity.Tuned(1.0, 0.5, 0, 0.5, 20, {}), "seeds": 2},
    "hard_instance": {"d": 2, "horizon": 1000}, "budget": {"high": [1.0, 1.0]},
    "budget_constraints": {"high": [1.0, 1.0]},
    "check_gradient": {"seeds": 4, "relaxed_seeds": 2}, "regret_slope": {"seeds": 4},
    "relaxed_gradient": {"seeds": 2},
    "smoothed_gradient": {"seeds": 4, "at": lambda x: (PROBLEM, POLICY), "values": [0.5]},
    "Policy": {"init": POLICY.init, "act": POLICY.act, "update": POLICY.update},
    "PolicyGrid": {"axes": {"x": np.ones(1)}, "policies": [POLICY]},
    "ProblemGrid": {"axes": {"x": np.ones(1)}, "problems": [PROBLEM]},
    "ProblemGrid.of": {"make": dlb.problems.synthetic},
    "Result": {name: getattr(RESULT, name) for name in ("rounds", "realised_regret", "expected_regret",
                                                        "offline_regret", "seeds")},
    "Epochs": {"lengths": np.ones(1, int), "counts": np.ones(1, int)}, "Epochs.same": {"other": dlb.Epochs(
        *np.ones((2, 1), int))},
    "Fit": {}, "Fit.bounds": {"actions": dlb.actions.simplex(2)},
    "load": {"path": saved("result.npz")}, "read_problem": {"path": saved("problem.json")},
    "read_model": {"path": Later(lambda: saved("model.json"))}, "read_log": {
        "path": table(), "actions": ["a", "b"], "reward": "y"},
    "Store": {"path": Later(lambda: store().path)}, "Store.drop": {"problem": "problem", "policy": "policy"},
    "Agent.tell": {"reward": 0.5}, "Agent.correct": {"reward": 0.5},
    "matmul": {"one": MATRIX, "other": MATRIX},
    "Sum.of": {"value": VECTOR},
}  # fmt: skip
WRONG = [
    None, True, -1, 0, 1, 2, 7, 10**9, 10**400, -(10**400), 0.5, 1.5, -0.1, 1e308, 1e-320, float("nan"),
    float("inf"), "", "x", "\x1b[31m", b"x", [], [[]], [1, [2]], [[1], [2, 3]], {}, {"a": 1}, [None], ["a"],
    [0.5], [0.5, 0.5], [[0.1] * 3] * 3, [[[1.0]]], np.zeros(0), np.zeros((0, 3)), np.full((3, 3), np.nan),
    np.array(["a"]), np.array([object()]), np.array([1 + 2j]), np.eye(2), np.eye(4) * 1e300, object(),
    lambda: 1, lambda x: x, int, iter([1]), slice(3), PROBLEM, BOUNDS, POLICY, PROBLEM.system, dlb,
    FOLDER / "missing", "/dev/zero", np.float32(0.3), np.int8(3), np.datetime64("2026-01-01"),
]  # fmt: skip
CLEAR = (ValueError, OSError, ImportError, FloatingPointError)
CLEAR_IF_OURS = (TypeError, RuntimeError)


def public(module, prefix="dlb", seen=None):
    """Every public callable below a module: functions, classes, and methods of `OBJECTS`."""
    seen = set() if seen is None else seen
    listed = getattr(module, "__all__", None)
    for name in listed or [n for n in vars(module) if not n.startswith("_")]:
        found = getattr(module, name)
        if isinstance(found, ModuleType):
            if found.__name__.startswith("dlbjax") and found not in seen:
                seen.add(found)
                yield from public(found, f"{prefix}.{name}", seen)
        elif isinstance(found, FunctionType | type) and found not in seen:
            home = found.__module__
            if home.startswith("dlbjax") if listed else home == module.__name__:
                seen.add(found)
                yield f"{prefix}.{name}", found
                if isinstance(found, type):
                    yield from methods(found, f"{prefix}.{name}")


def methods(found, prefix):
    """Public class methods of a class, and methods of the object that is known of it."""
    for name, made in inspect.getmembers_static(found):
        ours = str(getattr(made, "__module__", "")).startswith("dlbjax")
        if name.startswith("_") or not ours:
            continue
        if isinstance(made, classmethod):
            yield f"{prefix}.{name}", getattr(found, name)
        elif isinstance(made, FunctionType):
            yield f"{prefix}().{name}", of_an_object(found, made)


def of_an_object(found, method):
    """A function that makes an object of a class and calls its method."""
    name = f"{found.__name__}.{method.__name__}"
    make = OBJECTS.get(name, OBJECTS[found.__name__])

    @wraps(method)
    def call(**arguments):
        return getattr(make(), method.__name__)(**arguments)

    call.__qualname__ = name
    signature = inspect.signature(method)
    call.__signature__ = signature.replace(parameters=list(signature.parameters.values())[1:])
    return call


def base(function):
    """Arguments of a call that should succeed."""
    given = {}
    own = {**OWN.get(function.__name__, {}), **OWN.get(function.__qualname__, {})}
    for name, parameter in parameters_of(function).items():
        if name in own or parameter.default is parameter.empty:
            value = own.get(name, VALID.get(name, 1.0))
            given[name] = value.make() if isinstance(value, Later) else value
    return given


def parameters_of(function):
    """Parameters that can be given by name."""
    kinds = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    found = inspect.signature(function).parameters if function is not dlb.Results else {}
    return {name: parameter for name, parameter in found.items() if parameter.kind not in kinds}


def unclear(error):
    """Whether an error says nothing about what was given."""
    last = traceback.extract_tb(error.__traceback__)[-1].filename
    ours = last.startswith((os.path.dirname(dlb.__file__), __file__))
    return not str(error) or not isinstance(error, CLEAR + ours * CLEAR_IF_OURS)


COMPILING = []  # seconds of the events of JAX in a call


def on_event(event, seconds, **_):
    if event.startswith("/jax/core/compile"):
        COMPILING.append(seconds)


class Hangs(BaseException):
    """Raised in a call that takes too long."""


def on_alarm(*_):
    raise Hangs


def attempt(function, arguments):
    """Kind of trouble, or None; and the seconds it took, without those of compiling for other shapes."""
    COMPILING.clear()
    began, trouble = time.perf_counter(), None
    try:
        signal.alarm(20)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            function(**arguments)
    except Hangs:
        trouble = "takes over 20 s"
    except Exception as error:
        trouble = f"{type(error).__name__}: {error!s:.120}" if unclear(error) else None
    finally:
        signal.alarm(0)
        plt.close("all")
    return trouble, time.perf_counter() - began - sum(COMPILING)


def peak():
    """Most memory that this process had, in GB; getrusage may count the process that started this one."""
    status = Path("/proc/self/status").read_text()
    return int(re.search(r"VmHWM:\s*(\d+)", status)[1]) / 1e6


def main(share, shares, most):
    """Try every `shares`-th function; at most so many wrong values of each of its parameters."""
    resource.setrlimit(resource.RLIMIT_AS, (8 * 2**30, 8 * 2**30))
    matplotlib.use("Agg")
    os.chdir(FOLDER)
    signal.signal(signal.SIGALRM, on_alarm)
    jax.monitoring.register_event_duration_secs_listener(on_event)
    bad, calls, unknown, slowest, largest = [], 0, [], (0.0, ""), (0.0, "")
    functions = sorted(public(dlb), key=lambda pair: pair[0])
    for place, (name, function) in enumerate(functions):
        if place % shares != share:
            continue
        jax.clear_caches()  # a function does not answer for what others compiled
        arguments = base(function)
        try:
            function(**arguments)  # compiles
        except Exception as error:
            unknown.append(f"{name}: {error!r:.200}")
            continue
        for parameter in parameters_of(function):
            for number, wrong in enumerate(WRONG):
                if (number + place) % max(1, len(WRONG) // most):
                    continue
                print(f"{name}({parameter}={wrong!r:.60})", file=sys.stderr, flush=True)
                trouble, seconds = attempt(function, {**arguments, parameter: wrong})
                calls += 1
                text = f"{name}({parameter}={wrong!r:.60})"
                slowest = max(slowest, (seconds, text))
                if (memory := peak()) > largest[0]:
                    largest = (memory, text)
                if trouble:
                    bad.append(f"{text}: {trouble}")
    report = {
        "calls": calls,
        "bad": bad,
        "slowest": slowest,
        "largest": largest,
        "unknown": unknown,
    }
    print("\n" + json.dumps(report))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
