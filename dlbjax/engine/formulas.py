"""Operations of JAX as formulas of one run, for `engine.spelled`, which spells them out in turn."""

import itertools
import math
from collections.abc import Callable
from functools import partial
from typing import Any

import jax.numpy as jnp
from jax import lax


def _dot(
    one: Any, other: Any, *, dimension_numbers: Any, preferred_element_type: Any, **_: Any
) -> Any:
    summed, batch = dimension_numbers

    def arranged(x: Any, batch: Any, summed: Any) -> tuple[Any, list[int]]:
        free = [i for i in range(x.ndim) if i not in (*batch, *summed)]
        sizes = [math.prod(x.shape[i] for i in axes) for axes in (batch, free, summed)]
        return x.transpose(*batch, *free, *summed).reshape(sizes), [x.shape[i] for i in free]

    left, rows = arranged(one, batch[0], summed[0])
    right, columns = arranged(other, batch[1], summed[1])
    product = jnp.sum(left[:, :, None] * right[:, None], axis=-1, dtype=preferred_element_type)
    return product.reshape(*(one.shape[i] for i in batch[0]), *rows, *columns)


def _argmax(better: Any, x: Any, *, axes: Any, index_dtype: Any) -> Any:
    x = jnp.moveaxis(x, axes[0], 0)
    best, index = x[0], jnp.zeros(x.shape[1:], index_dtype)
    for i in range(1, len(x)):
        nan = (x[i] != x[i]) & (best == best)  # the first, if there is one
        found = better(x[i], best) | nan
        best, index = jnp.where(found, x[i], best), jnp.where(found, i, index)
    return index


def _running(combine: Any, x: Any, *, axis: int, reverse: bool) -> Any:
    x = jnp.flip(x, axis) if reverse else x
    rows = [x[(slice(None),) * axis + (i,)] for i in range(x.shape[axis])]
    out = jnp.stack(list(itertools.accumulate(rows, combine)), axis)
    return jnp.flip(out, axis) if reverse else out


def several_rows(
    x: Any, indices: Any, *, dimension_numbers: Any, slice_sizes: Any, mode: Any, fill_value: Any, **_: Any
) -> Any:  # fmt: skip
    """A gather at one index after the other."""
    *batch, count = indices.shape
    places = dimension_numbers.offset_dims
    one = dimension_numbers._replace(offset_dims=tuple(range(len(places))))
    parts = [
        lax.gather(x, row, one, slice_sizes, mode=mode, fill_value=fill_value)
        for row in indices.reshape(-1, count)
    ]
    out = jnp.stack(parts).reshape(*batch, *parts[0].shape)
    return jnp.moveaxis(out, range(len(batch), out.ndim), places)


def _lu(a: Any, **_: Any) -> Any:
    order, pivots = jnp.arange(len(a), dtype=jnp.int32), []
    for k in range(min(a.shape)):
        pivot = jnp.argmax(abs(a[k:, k])).astype(jnp.int32)
        pivots.append(k + pivot)

        def swapped(x: Any, k: int = k, pivot: Any = pivot) -> Any:
            below = jnp.arange(1, len(x) - k, dtype=pivot.dtype).reshape(-1, *[1] * (x.ndim - 1))
            others = jnp.where(below == pivot, x[k], x[k + 1 :])
            return jnp.concatenate([x[:k], x[k:][pivot][None], others])

        a, order = swapped(a), swapped(order)
        ratio = jnp.where(a[k, k] != 0, a[k + 1 :, k] / a[k, k], a[k + 1 :, k])[:, None]
        below = [a[k + 1 :, :k], ratio, a[k + 1 :, k + 1 :] - ratio * a[k, k + 1 :]]
        a = jnp.concatenate([a[: k + 1], jnp.concatenate(below, 1)])
    return a, jnp.stack(pivots), order


def _cholesky(a: Any, **_: Any) -> Any:
    n = len(a)
    lower: dict[tuple[int, int], Any] = {}
    for j in range(n):
        for i in range(j, n):
            rest = a[i, j] - sum(lower[i, k] * lower[j, k] for k in range(j))
            lower[i, j] = jnp.sqrt(rest) if i == j else rest / lower[j, j]
    zero = jnp.zeros_like(a[0, 0])
    return jnp.stack([jnp.stack([lower.get((i, j), zero) for j in range(n)]) for i in range(n)])


def _triangular_solve(
    a: Any, b: Any, *, left_side: bool, lower: bool, transpose_a: bool, unit_diagonal: bool, **_: Any
) -> Any:  # fmt: skip
    if not left_side:  # X A = B is Aᵀ Xᵀ = Bᵀ
        return _triangular_solve(
            a.T, b.T, left_side=True, lower=not lower, transpose_a=transpose_a,
            unit_diagonal=unit_diagonal,
        ).T  # fmt: skip
    a, lower = (a.T, not lower) if transpose_a else (a, lower)
    x: dict[int, Any] = {}
    for i in range(len(a)) if lower else reversed(range(len(a))):
        rest = b[i] - sum(a[i, k] * x[k] for k in x)
        x[i] = rest if unit_diagonal else rest / a[i, i]
    return jnp.stack([x[i] for i in range(len(a))])


OF_MATRICES: dict[str, Callable[..., Any]] = {
    "lu": _lu,
    "cholesky": _cholesky,
    "triangular_solve": _triangular_solve,
}
FORMULAS: dict[str, Callable[..., Any]] = {
    "dot_general": _dot,
    "argmax": partial(_argmax, jnp.greater),
    "argmin": partial(_argmax, jnp.less),
    "cumsum": partial(_running, lax.add),
    "cumprod": partial(_running, lax.mul),
    "cummax": partial(_running, lax.max),
    "cummin": partial(_running, lax.min),
    **OF_MATRICES,
}
