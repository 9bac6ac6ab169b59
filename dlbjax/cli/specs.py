"""Policies and problems from one line of text, such as `dynlin_ucb:rho_bar=[0.1,0.2],lam=5`."""

import inspect
import re
from collections.abc import Callable, Collection, Mapping
from typing import Any

from dlbjax.common.hints import hint
from dlbjax.model.bounds import Bounds
from dlbjax.model.files import read_problem
from dlbjax.model.grid import ProblemGrid
from dlbjax.model.problem import Problem
from dlbjax.model.problems import real_world, synthetic
from dlbjax.policies.base import Policy, PolicyGrid
from dlbjax.policies.catalogue import POLICIES, takes

PROBLEMS: Mapping[str, Callable[..., Problem]] = {
    make.__name__: make for make in (synthetic, real_world)
}
BOUNDS_KEYS = ("rho_bar", *Bounds.__dataclass_fields__)


def policy_from(text: str, problem: Problem) -> Policy | PolicyGrid:
    """Make the policy described by `NAME[:key=value,…]` for a problem.

    A value is a number or a list of numbers in brackets. The keys are the arguments of the function of
    that name. If it takes bounds, it is given the tightest valid ones, `Bounds.of(problem, rho_bar)`;
    `rho_bar` and the fields of `Bounds` are then keys as well, unless the function has arguments of
    these names.

    >>> import dlbjax as dlb
    >>> grid = policy_from("dynlin_ucb:rho_bar=[0.1,0.2],lam=5", dlb.problems.synthetic())
    >>> grid.axes
    {'rho_bar': array([0.1, 0.2])}
    """
    try:
        name, given = _parse(text)
        make = _look_up(name, POLICIES)
        _check(given, policy_keys(make), _required(make))
        return make(*_leading_arguments(make, problem, given), **given)
    except ValueError as error:
        raise ValueError(f"policy {text!r:.60}: {error}") from error


def problem_from(text: str) -> Problem:
    """Make the problem described by the path of a .json or .toml file or by `NAME[:key=value,…]`.

    >>> problem_from("synthetic:sigma=0.5").system.reward_noise
    0.5
    """
    return _problem(text, lambda make, given: make(**given))


def problem_grid_from(text: str) -> Problem | ProblemGrid:
    """The same, where values may also be lists of numbers.

    >>> problem_grid_from("synthetic:sigma=[0.1,0.5]").axes
    {'sigma': array([0.1, 0.5])}
    """

    def build(make: Callable[..., Problem], given: dict[str, Any]) -> Problem | ProblemGrid:
        several = any(isinstance(value, list) for value in given.values())
        return ProblemGrid.of(make, **given) if several else make(**given)

    return _problem(text, build)


def _problem(text: str, build: Callable[..., Any]) -> Any:
    if text.endswith((".json", ".toml")):
        return read_problem(text)
    try:
        name, given = _parse(text)
        make = _look_up(name, PROBLEMS, "FILE.json", "FILE.toml")
        _check(given, own_keys(make), _required(make))
        return build(make, given)
    except ValueError as error:
        raise ValueError(f"problem {text!r:.60}: {error}") from error


def own_keys(make: Callable[..., Any]) -> list[str]:
    """The arguments of a function that are keys."""
    names = inspect.signature(make).parameters
    return [name for name in names if name not in ("bounds", "problem", "name")]


def policy_keys(make: Callable[..., Any]) -> list[str]:
    """All keys of a policy: its arguments and those of its bounds."""
    own = own_keys(make)
    further = BOUNDS_KEYS if takes(make) == "bounds" else ()
    return own + [key for key in further if key not in own]


def _leading_arguments(
    make: Callable[..., Any], problem: Problem, given: dict[str, Any]
) -> tuple[Any, ...]:
    """The problem or bounds that a policy takes first; removes the keys of the bounds from `given`."""
    if takes(make) == "problem":
        return (problem,)
    if not takes(make):
        return ()
    of_bounds = {key: given.pop(key) for key in list(given) if key not in own_keys(make)}
    bounds = Bounds.of(problem, of_bounds.pop("rho_bar", None))
    return (bounds.replace(**of_bounds),)


def _required(make: Callable[..., Any]) -> list[str]:
    parameters = inspect.signature(make).parameters
    return [key for key in own_keys(make) if parameters[key].default is inspect.Parameter.empty]


def _look_up(name: str, table: Mapping[str, Any], *others: str) -> Any:
    if name not in table:
        raise ValueError(f"there is no {name!r:.60}{hint(name, [*table, *others])}")
    return table[name]


def _check(given: Collection[str], keys: Collection[str], required: Collection[str]) -> None:
    for key in given:
        if key not in keys:
            raise ValueError(f"it has no key {key!r:.60}{hint(key, keys)}")
    for key in required:
        if key not in given:
            raise ValueError(f"it needs {key}=…")


def _parse(text: str) -> tuple[str, dict[str, Any]]:
    name, colon, rest = text.partition(":")
    given: dict[str, Any] = {}
    # A comma separates where a key follows; the others are inside a list.
    for item in re.split(r",(?=\s*\w+\s*=)", rest) if colon else ():
        key, equals, value = (part.strip() for part in item.partition("="))
        if not key or not equals:
            raise ValueError(f"key=value,… must follow the colon; got {item!r:.60}")
        if key in given:
            raise ValueError(f"{key} is given twice; remove one")
        given[key] = _value(key, value)
    return name.strip(), given


def _value(key: str, text: str) -> Any:
    try:
        if text.startswith("[") and text.endswith("]"):
            return [_number(entry) for entry in text[1:-1].split(",")]
        return _number(text)
    except ValueError:
        raise ValueError(
            f"{key} must be a finite number or a list of them such as [0.1,0.2]; got {text!r:.60}"
        ) from None


def _number(text: str) -> int | float:
    number = float(text)
    if not abs(number) < float("inf"):
        raise ValueError
    return int(number) if number.is_integer() and abs(number) < 2**53 else number
