"""Conversion and checks of numerical arguments, and the choice between NumPy and JAX."""

import textwrap
from collections.abc import Iterator
from types import ModuleType, UnionType
from typing import Any, TypeAlias, overload

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

Array: TypeAlias = jax.Array | np.ndarray  # NumPy's on the host, JAX's inside a transformation
_LARGEST = 2**63 - 1  # whole number that NumPy can hold
Number: TypeAlias = float | Array  # a scalar of either kind, or an array that broadcasts


def is_traced(*values: object) -> bool:
    """Whether JAX is tracing any leaf of the given pytrees, so that its value is not known yet."""
    # No argument may be an iterator, and JAX warns about one.
    trees = [value for value in values if not isinstance(value, Iterator)]
    return any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(trees))


def namespace(*values: object) -> ModuleType:
    """`jax.numpy` if JAX is tracing any leaf of the given pytrees, `numpy` (in float64) otherwise.

    Quantities of the model are written once against this namespace: on the host they are exact to
    double precision regardless of JAX's settings, and under `jax.grad` or `jax.vmap` they trace.
    """
    return jnp if is_traced(*values) else np


def real_array(name: str, value: ArrayLike, shape: tuple[int | None, ...] | None) -> Array:
    """Convert `value` to a read-only float64 array, or raise a ValueError that names it.

    A size of None in `shape` allows any size; a `shape` of None allows any shape. A traced value keeps its
    dtype and is checked for its shape only.
    """
    if is_traced(value):
        traced = jnp.asarray(value)
        _check_shape(name, traced, shape)
        return traced
    try:
        array = np.asarray(value)
        if array.dtype.kind not in "iufb":
            raise TypeError
        array = np.array(array, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(
            f"{name} must hold real numbers in {shape_in_words(shape)}; got {short(value)}"
        ) from None
    _check_shape(name, array, shape)
    if not np.all(np.isfinite(array)):
        place = tuple(int(i) for i in np.argwhere(~np.isfinite(array))[0])
        at = f" at index {place}" if place else ""
        raise ValueError(f"{name} must be finite; got {array[place]}{at}")
    array.flags.writeable = False
    return array


@overload
def real_number(
    name: str, value: float, *, above: float | None = ..., at_least: float | None = ...,
    below: float | None = ..., at_most: float | None = ...,
) -> float: ...  # fmt: skip
@overload
def real_number(
    name: str, value: ArrayLike, *, above: float | None = ..., at_least: float | None = ...,
    below: float | None = ..., at_most: float | None = ...,
) -> Number: ...  # fmt: skip
def real_number(
    name: str,
    value: ArrayLike,
    *,
    above: float | None = None,
    at_least: float | None = None,
    below: float | None = None,
    at_most: float | None = None,
) -> Number:
    """Convert `value` to a finite float within limits, or raise a ValueError that names it."""
    number = real_array(name, value, ())
    if is_traced(number):
        return number
    limits = [
        (above is None or number > above, f"> {above}"),
        (at_least is None or number >= at_least, f">= {at_least}"),
        (below is None or number < below, f"< {below}"),
        (at_most is None or number <= at_most, f"<= {at_most}"),
    ]
    if not all(ok for ok, _ in limits):
        wanted = " and ".join(text for _, text in limits if not text.endswith("None"))
        raise ValueError(f"{name} must be {wanted}; got {float(number):g}")
    return float(number)


def whole_number(name: str, value: Any, *, at_least: int, at_most: int = _LARGEST) -> int:
    """Convert `value` to an int within limits, or raise a ValueError that names it."""
    is_whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
    if not is_whole and isinstance(value, float) and value.is_integer():
        is_whole = True  # horizons are often written as 1e6
    if not is_whole or not at_least <= value <= at_most:
        is_low = not is_whole or value < at_least
        limit = (
            f">= {at_least}" if at_most == _LARGEST and is_low else f"from {at_least} to {at_most}"
        )
        raise ValueError(f"{name} must be a whole number {limit}; got {short(value)}")
    return int(value)


def instance_of(name: str, value: Any, kind: type | UnionType, called: str) -> None:
    """Raise a ValueError that names the value unless it is of this kind."""
    if not isinstance(value, kind):
        raise ValueError(f"{name} must be {called}; got {short(value)}")


def strings(name: str, values: Any) -> list[str]:
    """A list of strings, or a ValueError that names it."""
    if isinstance(values, list | tuple) and all(isinstance(value, str) for value in values):
        return list(values)
    raise ValueError(f"{name} must be a list of texts; got {short(values)}")


def count_of_rounds(name: str, value: ArrayLike, *, at_least: int) -> Array:
    """Convert one or several numbers of rounds to an array, or raise a ValueError that names them."""
    rounds = real_array(name, value, None)
    if not is_traced(rounds) and np.any(rounds < at_least):
        raise ValueError(f"{name} must be >= {at_least}; got {float(np.min(rounds)):g}")
    return rounds


def fits(got: tuple[int, ...], shape: tuple[int | None, ...]) -> bool:
    """Whether a shape matches the required one, in which None allows any size."""
    return len(got) == len(shape) and all(
        want is None or want == size for want, size in zip(shape, got, strict=True)
    )


def shape_in_words(shape: tuple[int | None, ...] | None) -> str:
    """A required shape, for an error message."""
    if shape is None:
        return "an array"
    if not shape:
        return "shape () (a single number)"
    sizes = ", ".join("any" if size is None else str(size) for size in shape)
    return f"shape ({sizes}{',' if len(shape) == 1 else ''})"


def short(value: object) -> str:
    """A value in at most 60 characters, for an error message."""
    text = " ".join(repr(value).split())
    return text if len(text) <= 60 else text[:57] + "..."


def describe(kind: str, **values: object) -> str:
    """A repr of named numbers and arrays in lines of at most 100 characters, where they fit.

    >>> describe("Noise", sigma=np.float64(0.1), weights=np.eye(2))
    'Noise(sigma=0.1, weights=[[1, 0], [0, 1]])'
    """
    # Within a value non-breaking spaces keep the line whole.
    parts = [f"{name}={_rounded(value)}".replace(" ", "\xa0") for name, value in values.items()]
    lines = textwrap.fill(
        f"{kind}({', '.join(parts)})", 100, subsequent_indent="  ",
        break_long_words=False, break_on_hyphens=False,
    )  # fmt: skip
    return lines.replace("\xa0", " ")


def _rounded(value: object) -> str:
    """Numbers to 4 digits, a large array by its shape and range, anything else by its repr."""
    if not isinstance(value, float | Array) or is_traced(value) or np.size(value) == 0:
        return short(value)
    array = np.asarray(value)
    if array.size > 36:
        return f"<{array.shape} array from {array.min():.4g} to {array.max():.4g}>"
    return str(_texts(array.tolist())).replace("'", "")


def _texts(numbers: Any) -> Any:
    return (
        [_texts(n) for n in numbers] if isinstance(numbers, list) else f"{numbers + 0.0:.4g}"
    )  # no −0


def _check_shape(name: str, array: Array, shape: tuple[int | None, ...] | None) -> None:
    if shape is not None and not fits(array.shape, shape):
        raise ValueError(
            f"{name} must have {shape_in_words(shape)}; got shape {tuple(array.shape)}"
        )
