"""Parts of results, and several results as one with a further axis."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, overload

import jax
import numpy as np

from dlbjax.common.arrays import instance_of, short
from dlbjax.common.hints import hint
from dlbjax.results.frames import axes_of
from dlbjax.results.result import RECORDED, REGRETS, Result, Results, shown, symbol

_RESERVED = ("policy", "seed", "round")


def select(result: Result, values: Mapping[str, Any]) -> Result:
    """The part of a result with these values of its axes and seeds; see `Result.sel`."""
    for axis, wanted in values.items():
        if axis == "seed":
            places = [
                _place(result.seeds, seed, "seed", result) for seed in np.ravel(wanted).tolist()
            ]
            result = _take(result, len(result.axes), places)
        elif axis not in result.axes:
            raise ValueError(f"{result.name!r} has no axis {axis!r}{hint(axis, list(result.axes))}")
        elif isinstance(wanted, str) or np.ndim(wanted) == 0:
            result = _pick(result, axis, _place(result.axes[axis], wanted, axis, result))
        else:
            places = [_place(result.axes[axis], value, axis, result) for value in wanted]
            result = _take(result, list(result.axes).index(axis), places)
    return result


def select_labels(results: Results, labels: Sequence[str]) -> Results:
    """Whole results by name and single curves by label, in the given order; see `Results.sel`."""
    found = Results()
    curves = {
        label: (name, point)
        for name, result in results.items()
        for point, label in enumerate(result.labels(name))
    }
    for label in labels:
        if label in results:
            found[label] = results[label]
        elif label in curves:
            name, point = curves[label]
            result = results[name]
            place = np.unravel_index(point, result.expected_regret.shape[:-2])
            for axis, i in zip(list(result.axes), place, strict=True):
                result = _pick(result, axis, int(i))
            found[label] = result
        else:
            possible = dict.fromkeys([*results, *curves])
            raise ValueError(f"no policy or curve is called {label!r}{hint(label, possible)}")
    return found


def select_values(results: Results, values: Mapping[str, Any]) -> Results:
    """What each result has of these values; results without such an axis stay whole."""
    for axis in values:
        known = [*axes_of(results), "seed"]
        if axis not in known:
            raise ValueError(f"no policy has an axis {axis!r}{hint(axis, known)}")
    found, errors = Results(), []
    for name, result in results.items():
        own = {axis: v for axis, v in values.items() if axis in result.axes or axis == "seed"}
        try:
            part = select(result, own)
        except ValueError as error:
            errors.append(error)
        else:
            found[name + part.name.removeprefix(result.name)] = part
    if not found:
        raise errors[0]
    return found


@overload
def concat(parts: Mapping[Any, Result], axis: str) -> Result: ...
@overload
def concat(parts: Mapping[Any, Results], axis: str) -> Results: ...
def concat(parts: Mapping[Any, Result] | Mapping[Any, Results], axis: str) -> Result | Results:
    """Join results that differ in one setting of the problem, which becomes their first axis.

    Args:
      parts: results by value of the setting, such as a number; all with the same policies, axes,
        seeds and reporting rounds.
      axis: name of the new axis.

    Returns:
      A `Result` if the parts are, else `Results`.

    >>> import dlbjax as dlb
    >>> def runs(sigma):
    ...     problem = dlb.problems.synthetic(sigma)
    ...     return dlb.simulate(problem, {"myopic": dlb.myopic(problem)}, horizon=100, seeds=5)
    >>> over_noise = dlb.concat({sigma: runs(sigma) for sigma in (0.01, 0.1)}, "sigma")
    >>> over_noise["myopic"].labels()
    ['myopic, σ=0.01', 'myopic, σ=0.1']
    """
    instance_of("parts", parts, Mapping, "a mapping from values to results")
    if not parts:
        raise ValueError("parts must hold at least one result")
    kinds = {type(value) for value in parts.values()}
    if not kinds <= {Result, Results} or len(kinds) > 1:
        names = ", ".join(sorted(kind.__name__ for kind in kinds))
        raise TypeError(f"parts must all be Result or all Results; got {names}")
    values = np.array(list(parts))
    texts = {isinstance(value, str) for value in parts}
    if values.ndim != 1 or values.dtype.kind not in "biufU" or len(texts) > 1:
        raise TypeError(f"keys of parts must be numbers, or all names; got {list(parts)!r:.80}")
    if not isinstance(axis, str) or axis in _RESERVED:
        raise ValueError(f"axis must be a name other than {', '.join(_RESERVED)}; got {axis!r}")
    if kinds == {Result}:
        return _join(list(parts.values()), axis, values)  # type: ignore[arg-type]
    several: list[Results] = list(parts.values())  # type: ignore[arg-type]
    for key, part in zip(parts, several, strict=True):
        if part.keys() != several[0].keys():
            raise ValueError(
                f"every part must have the same policies; {key!r} has {', '.join(part)}, the first has "
                f"{', '.join(several[0])}"
            )
    return Results({name: _join([p[name] for p in several], axis, values) for name in several[0]})


def _join(parts: list[Result], axis: str, values: np.ndarray) -> Result:
    first = parts[0]
    if axis in first.axes:
        raise ValueError(f"{first.name!r} has an axis {axis!r} already; choose another name")
    for part in parts[1:]:
        compared: dict[str, tuple[Any, Any]] = {
            "reporting rounds": (first.rounds, part.rounds),
            "seeds": (first.seeds, part.seeds),
            "axes": (list(first.axes), list(part.axes)),
        }
        for name in first.axes.keys() & part.axes.keys():
            compared[f"values of {name}"] = (first.axes[name], part.axes[name])
        for what, (one, other) in compared.items():
            if not np.array_equal(one, other):
                raise ValueError(
                    f"parts must have the same {what}; those of {first.name!r} are {short(one)} "
                    f"and {short(other)}"
                )

    def stacked(name: str) -> Any:
        arrays = [getattr(part, name) for part in parts]
        return None if any(array is None for array in arrays) else np.stack(arrays)

    return replace(
        first,
        axes={axis: values, **first.axes},
        config={"concatenated over": axis, "parts": [dict(part.config) for part in parts]},
        policy_state=None,
        **{name: stacked(name) for name in (*(f"{kind}_regret" for kind in REGRETS), *RECORDED)},
    )


def _pick(result: Result, axis: str, place: int) -> Result:
    """One value of an axis, which goes from the axes to the name."""
    text = f"{symbol(axis)}={shown(axis, result.axes[axis][place], result.rounds[-1])}"
    dim = list(result.axes).index(axis)
    part = _indexed(result, lambda leaf: leaf[(slice(None),) * dim + (place,)])
    axes = {name: values for name, values in result.axes.items() if name != axis}
    return replace(part, axes=axes, name=f"{result.name}, {text}")


def _take(result: Result, dim: int, places: list[int]) -> Result:
    """Some values of an axis, or some seeds, in the given order."""
    part = _indexed(result, lambda leaf: leaf[(slice(None),) * dim + (np.array(places, int),)])
    if dim == len(result.axes):
        return replace(part, seeds=result.seeds[places])
    axis = list(result.axes)[dim]
    return replace(part, axes={**result.axes, axis: result.axes[axis][places]})


def _indexed(result: Result, index: Callable[[Any], Any]) -> Result:
    """The result with everything that has leading axes and seeds indexed."""
    names = (*(f"{kind}_regret" for kind in REGRETS), *RECORDED, "policy_state")
    return replace(result, **{name: jax.tree.map(index, getattr(result, name)) for name in names})


def _place(values: np.ndarray, wanted: Any, axis: str, result: Result) -> int:
    """Index of a value, given as itself or as labels show it."""
    texts = [shown(axis, value, result.rounds[-1]) for value in values]
    if isinstance(wanted, str):
        found = [i for i, text in enumerate(texts) if text == wanted]
    elif values.dtype.kind == "U":
        found = []
    else:
        found = list(np.flatnonzero(np.isclose(values, wanted, rtol=1e-9, atol=0)))
    if len(found) != 1:
        several = "several values" if found else "no value"
        raise ValueError(
            f"{result.name!r} has {several} {wanted!r:.60} of {axis}. Possible are {', '.join(texts)}"
        )
    return int(found[0])
