"""Problems in JSON or TOML files, which can be run without writing Python."""

import inspect
import json
import re
import sys
import tomllib
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import numpy as np
from scipy.spatial import QhullError

from dlbjax.common.files import as_path, read_limited
from dlbjax.model.actions import ActionSet, budget, finite, hypercube, polytope, simplex
from dlbjax.model.problem import Problem
from dlbjax.model.system import System

_Made = TypeVar("_Made")
_KINDS: dict[str, Callable[..., ActionSet]] = {
    kind.__name__: kind for kind in (budget, polytope, simplex, hypercube, finite)
}


def read_problem(path: str | Path) -> Problem:
    """Read the problem in a .json or .toml file.

    Table `system` holds the arguments of `System`; table `actions` a `kind` (budget, polytope, simplex,
    hypercube or finite) and the arguments of the function of that name in `dlbjax.actions`. A key `fit`
    may say where the numbers come from and is not read. Invalid content raises a ValueError that starts
    with the path. A .toml file may have 64 KiB, a .json file 8 MiB.

    >>> import os, tempfile
    >>> text = '''
    ... [system]
    ... A = [[0.5]]
    ... B = [[1.0, 0.0]]
    ... omega = [1.0]
    ... theta = [0.0, 3.0]
    ... sigma = 0.1
    ...
    ... [actions]
    ... kind = "budget"
    ... low = 0.0
    ... high = [1.0, 1.0]
    ... total = 1.5
    ... '''
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "two_platforms.toml")
    ...     with open(path, "w") as file:
    ...         _ = file.write(text)
    ...     problem = read_problem(path)
    >>> problem.h, problem.optimal_action
    (array([2., 3.]), array([0.5, 1. ]))
    """
    return read_file(path, problem_of)


def read_file(path: str | Path, make: Callable[[Any], _Made]) -> _Made:
    """Parse a .json or .toml file and call `make` on it; a ValueError starts with the path."""
    path = as_path("path", path)
    try:
        parse = _PARSERS[path.suffix]
    except KeyError:
        raise ValueError(f"{path}: a problem file must end in {' or '.join(_PARSERS)}") from None
    raw = read_limited(path, _LIMITS[path.suffix], f"a {path.suffix} file of a problem")
    try:
        return make(parse(raw.decode("utf-8-sig")))
    except UnicodeDecodeError as error:
        reason = f"must be UTF-8 text; byte {error.start} is not"
    except RecursionError:
        reason = "is nested too deeply; the deepest list needed is a list of rows"
    except QhullError:
        reason = (
            "the vertices of the action set cannot be found; bring its numbers to similar sizes"
        )
    except (ValueError, ArithmeticError) as error:
        reason = str(error)
    raise ValueError(f"{path}: {reason}")


def problem_of(content: Any) -> Problem:
    """Make the problem that a parsed file describes."""
    _check_keys("the file", content, required=("system", "actions"), optional=("fit",))
    _check_arguments(System, "system", content["system"])
    actions = content["actions"]
    kind = actions.get("kind") if isinstance(actions, dict) else None
    if not isinstance(kind, str) or kind not in _KINDS:
        raise ValueError(f"actions must have a kind, one of {', '.join(_KINDS)}; got {kind!r:.60}")
    arguments = {name: value for name, value in actions.items() if name != "kind"}
    _check_arguments(_KINDS[kind], "actions", arguments)
    with np.errstate(all="ignore"):  # an overflow is rejected by name, without a warning
        system = System(**content["system"])
        if arguments.get("d", system.d) != system.d:  # before a large set is allocated
            raise ValueError(
                f"actions.d must be {system.d}, the columns of B; got {arguments['d']!r:.60}"
            )
        return Problem(system, _KINDS[kind](**arguments))


def _check_arguments(make: Callable[..., Any], name: str, table: Any) -> None:
    """Reject a table that does not hold the arguments of `make`, all of them numbers."""
    parameters = inspect.signature(make).parameters.values()
    required = [p.name for p in parameters if p.default is p.empty]
    _check_keys(name, table, required, [p.name for p in parameters if p.default is not p.empty])
    for key, value in table.items():
        _check_numbers(f"{name}.{key}", value)


def _check_keys(
    name: str, table: Any, required: Collection[str], optional: Collection[str]
) -> None:
    allowed = ", ".join([*required, *(f"{key} (optional)" for key in optional)])
    if not isinstance(table, dict):
        raise ValueError(f"{name} must be a table with the keys {allowed}; got {table!r:.60}")
    for key in table:
        if key not in required and key not in optional:
            raise ValueError(f"{name} has an unknown key {key!r:.60}; its keys are {allowed}")
    for key in required:
        if key not in table:
            raise ValueError(f"{name} lacks the key {key!r}; its keys are {allowed}")


def _check_numbers(name: str, value: Any) -> None:
    """Reject values that NumPy would convert to numbers, such as true, or reject without a name."""
    if isinstance(value, list):
        for entry in value:
            _check_numbers(name, entry)
    elif type(value) not in (int, float):
        raise ValueError(f"{name} must hold numbers only; got {value!r:.60}")
    elif not abs(value) <= sys.float_info.max:
        raise ValueError(f"{name} must be finite; got {value!r:.60}")


def _parse_json(text: str) -> Any:
    return json.loads(text, object_pairs_hook=_object, parse_constant=_reject_constant)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Make a JSON object; Python's reader would silently keep the last of repeated keys."""
    table: dict[str, Any] = {}
    for name, value in pairs:
        if name in table:
            raise ValueError(f"the key {name!r:.60} appears twice in one table")
        table[name] = value
    return table


def _reject_constant(text: str) -> NoReturn:
    raise ValueError(f"numbers must be finite; got {text}")


def _parse_toml(text: str) -> Any:
    # Python's reader takes time and memory in the square of the parts of a dotted key.
    lines = (line for line in text.splitlines() if not line.lstrip().startswith("#"))
    if any(run.count(".") > 100 for line in lines for run in re.findall(r"[^,\[\]]+", line)):
        raise ValueError("a key has more than 100 dotted parts; two are enough, such as system.A")
    return tomllib.loads(text)


_LIMITS = {".json": 2**23, ".toml": 2**16}  # bytes
_PARSERS: dict[str, Callable[[str], Any]] = {".json": _parse_json, ".toml": _parse_toml}
