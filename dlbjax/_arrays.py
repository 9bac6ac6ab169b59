"""Turning what a user passes into checked arrays, and choosing NumPy or JAX by what comes in."""

from collections.abc import Iterator
from types import ModuleType
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np

Array: TypeAlias = Any  # a NumPy array on the host, a JAX array or tracer inside a transformation


def is_traced(*values: Array) -> bool:
    """Whether any number in the values is being traced, so that it is not known yet."""
    # Iterators are no input anywhere, and JAX warns where it meets one.
    known = [value for value in values if not isinstance(value, Iterator)]
    return any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(known))


def namespace(*values: Array) -> ModuleType:
    """`jax.numpy` where JAX is tracing one of the values, `numpy` (in float64) otherwise.

    Quantities of the model are written once against this namespace: on the host they are exact to
    double precision whatever JAX's settings are, and under `jax.grad` or `jax.vmap` they trace.
    """
    return jnp if is_traced(*values) else np


def real_array(name: str, value: Array, shape: tuple[int | None, ...] | None) -> Array:
    """`value` as a float64 array, or a ValueError naming it.

    The shape may leave sizes open with None, or be None itself.
    """
    if is_traced(value):
        array = value
    else:
        try:
            array = np.asarray(value)
            if array.dtype.kind not in "iufb":
                raise TypeError
            array = np.array(array, dtype=np.float64)
        except (TypeError, ValueError):
            raise ValueError(
                f"{name} must hold real numbers in {shape_in_words(shape)}; got {short(value)}"
            ) from None
    if shape is not None and not fits(array.shape, shape):
        raise ValueError(
            f"{name} must have {shape_in_words(shape)}; got shape {tuple(array.shape)}"
        )
    if not is_traced(array):
        if not np.all(np.isfinite(array)):
            place = tuple(int(i) for i in np.argwhere(~np.isfinite(array))[0])
            at = f" at index {place}" if place else ""
            raise ValueError(f"{name} must be finite; got {array[place]}{at}")
        array.flags.writeable = False
    return array


def real_number(
    name: str,
    value: Array,
    *,
    above: float | None = None,
    at_least: float | None = None,
    below: float | None = None,
    at_most: float | None = None,
) -> Array:
    """`value` as a finite float within the stated limits, or a ValueError naming it."""
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


def whole_number(name: str, value: Any, *, at_least: int, at_most: int | None = None) -> int:
    """`value` as an int within limits, or a ValueError naming it."""
    is_whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
    if not is_whole and isinstance(value, float) and value.is_integer():
        is_whole = True  # 1e6 is how people write a horizon
    if not is_whole or value < at_least or (at_most is not None and value > at_most):
        limit = f">= {at_least}" if at_most is None else f"from {at_least} to {at_most}"
        raise ValueError(f"{name} must be a whole number {limit}; got {short(value)}")
    return int(value)


def count_of_rounds(name: str, value: Array, *, at_least: int) -> Array:
    """A number of rounds, or an array of them, not below a limit; or a ValueError naming it."""
    rounds = real_array(name, value, None)
    if not is_traced(rounds) and np.any(rounds < at_least):
        raise ValueError(f"{name} must be >= {at_least}; got {float(np.min(rounds)):g}")
    return rounds


def fits(got: tuple[int, ...], shape: tuple[int | None, ...]) -> bool:
    """Whether an array's shape is the one wanted, in which None leaves a size open."""
    return len(got) == len(shape) and all(
        want is None or want == size for want, size in zip(shape, got, strict=True)
    )


def shape_in_words(shape: tuple[int | None, ...] | None) -> str:
    """A shape that is wanted, for a message."""
    if shape is None:
        return "an array"
    if not shape:
        return "shape () (a single number)"
    sizes = ", ".join("any" if size is None else str(size) for size in shape)
    return f"shape ({sizes}{',' if len(shape) == 1 else ''})"


def short(value: Any) -> str:
    """A value for a message, on one line."""
    text = " ".join(repr(value).split())
    return text if len(text) <= 60 else text[:57] + "..."
