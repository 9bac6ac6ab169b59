"""Products and searches over a few numbers, written out so that they cost their arithmetic.

For the functions of a policy, which are written for one run and mapped over hundreds. A product with a
3 × 3 matrix is then a handful of vector operations over the runs. As a `dot` XLA hands it to a library;
written out term by term it fuses with its neighbours. What that is worth, a one-run Lin-UCB on two
cores (3 channels, 256 runs), ns per round and run: 390 with `jnp.linalg.inv`, 63 with the inverse
written out and `@`, 26 with this module.
"""

from collections.abc import Callable
from functools import reduce, wraps
from inspect import signature
from typing import Any, NamedTuple, TypeVar, cast

import jax.numpy as jnp
import numpy as np

from dlbjax.common.arrays import Array, short, whole_number

_WRITTEN_OUT = 16  # terms; beyond, a contraction pays for itself
_SHARED_WRITTEN_OUT = 256  # entries of a matrix that all runs share

Function = TypeVar("Function", bound=Callable[..., Any])


def _shapes(*wanted: str) -> Callable[[Function], Function]:
    """Check the shapes of the first arguments, a letter for each size: what is written out fits anything."""

    def decorate(function: Function) -> Function:
        names = list(signature(function).parameters)

        @wraps(function)
        def checked(*arguments: Any, **named: Any) -> Any:
            given = {**dict(zip(names, arguments, strict=False)), **named}
            sizes: dict[str, int] = {}
            for name, letters in zip(names, wanted, strict=False):
                if name not in given:
                    continue
                shape = _shape(name, given[name])
                known = {letter: sizes.setdefault(letter, size)
                         for letter, size in zip(letters, shape, strict=False)}  # fmt: skip
                if len(shape) != len(letters) or shape != tuple(known[a] for a in letters):
                    needed = ", ".join(str(sizes.get(letter, letter)) for letter in letters)
                    raise ValueError(
                        f"{name} of {function.__name__} must have shape ({needed}); got {shape}"
                    )
            return function(*arguments, **named)

        return cast(Function, checked)

    return decorate


def _shape(name: str, value: Any) -> tuple[int, ...]:
    """The shape of an array of numbers, or a ValueError if it is none or empty."""
    is_array = isinstance(value, Array | np.generic) and value.dtype.kind in "biufV"  # V: float16s
    if not is_array or 0 in value.shape:
        raise ValueError(
            f"{name} must be an array of JAX or NumPy with numbers; got {short(value)}"
        )
    return value.shape


class Sum(NamedTuple):
    """A running sum, compensated in float32.

    There 10⁶ terms do not just lose digits: once the sum is 10⁶ times a term, the same part of every
    term is rounded away, and averages are off by a per cent.

    Attributes:
      value: the sum.
      error: what rounding took from the last addition; None in float64.
    """

    value: Array
    error: Array | None

    @classmethod
    def of(cls, value: Array) -> "Sum":
        """A sum that starts at a value."""
        _shape("value", value)
        return cls(value, jnp.zeros_like(value) if value.dtype == jnp.float32 else None)

    def add(self, term: Array) -> "Sum":
        """Kahan's summation: what rounding took from the last addition is given to the next."""
        _shape("term", term)
        if self.error is None:
            return Sum(self.value + term, None)
        term = term - self.error
        value = self.value + term
        return Sum(value, (value - self.value) - term)


@_shapes("ab", "b")
def matvec(matrix: Array, vector: Array, reused: bool = False) -> Array:
    """M x, for M (a, b) and x (b,); `reused` where much that follows uses each of its entries."""
    if vector.shape[0] > _WRITTEN_OUT:
        return matrix @ vector
    if reused:  # a reduction is kept, while XLA computes sums written out anew for everything that uses them
        return jnp.sum(matrix * vector[None, :], axis=1)
    return _total([matrix[:, i] * vector[i] for i in range(vector.shape[0])])


@_shapes("ab", "bc")
def matmul(one: Array, other: Array, reused: bool = False) -> Array:
    """M N, for M (a, b) and N (b, c); `reused` as in `matvec`."""
    if other.shape[0] > _WRITTEN_OUT:
        return one @ other
    if reused:
        return jnp.sum(one[:, :, None] * other[None], axis=1)
    return _total([one[:, i, None] * other[None, i] for i in range(other.shape[0])])


@_shapes("a", "a")
def dot(one: Array, other: Array) -> Array:
    """⟨x, y⟩, for x and y (a,)."""
    if one.shape[0] > _WRITTEN_OUT:
        terms = one * other
        # Not a reduction, the order of which depends on how many runs share a pass.
        while (count := terms.shape[0]) > _WRITTEN_OUT:
            half = (count + 1) // 2
            terms = terms[:half] + jnp.pad(terms[half:], (0, 2 * half - count))
        return _total([terms[i] for i in range(count)])
    return _total([one[i] * other[i] for i in range(one.shape[0])])


@_shapes("a", "b")
def outer(one: Array, other: Array) -> Array:
    """x yᵀ, for x (a,) and y (b,)."""
    return one[:, None] * other[None, :]


@_shapes("ab", "b")
def products(shared: Array, vector: Array) -> Array:
    """M x, for M (a, b) that all runs share, such as the vertices, and a run's own x (b,).

    Over the runs this is one product of two matrices, which a library is good at where M is not small.
    """
    if shared.size > _SHARED_WRITTEN_OUT:
        return jnp.matmul(shared, vector, precision="highest")
    return matvec(shared, vector)


@_shapes("ab", "bb")
def quadratic_forms(vectors: Array, matrix: Array) -> Array:
    """uᵀ M u for every row u of vectors (a, b) that all runs share, with a run's own symmetric M (b, b)."""
    d = matrix.shape[0]
    pairs = [(i, j) for i in range(d) for j in range(i + 1)]
    weights = [(1 if i == j else 2) * vectors[:, i] * vectors[:, j] for i, j in pairs]
    return products(jnp.stack(weights, axis=1), jnp.stack([matrix[pair] for pair in pairs]))


@_shapes("aa")
def inverse(matrix: Array) -> Array:
    """Inverse of a symmetric positive definite matrix (d, d), by sweeps, which need no pivoting there."""
    d = matrix.shape[0]
    if d > _WRITTEN_OUT // 2:
        return _inverse_by_rows(matrix)
    lower = {(i, j): matrix[i, j] for i in range(d) for j in range(i + 1)}

    def place(i: int, j: int) -> tuple[int, int]:
        return max(i, j), min(i, j)

    for k in range(d):
        others = [i for i in range(d) if i != k]
        pivot = 1 / lower[k, k]
        column = {i: lower[place(i, k)] for i in others}
        scaled = {i: column[i] * pivot for i in others}
        for i in others:
            lower[place(i, k)] = scaled[i]
            for j in others:
                if j <= i:
                    lower[i, j] = lower[i, j] - scaled[i] * column[j]
        lower[k, k] = -pivot
    return -jnp.stack([jnp.stack([lower[place(i, j)] for j in range(d)]) for i in range(d)])


def _inverse_by_rows(matrix: Array) -> Array:
    """The same sweeps over whole matrices, of which there are few enough to compile."""
    for k in range(matrix.shape[0]):
        here = one_hot(jnp.asarray(k), matrix.shape[0])
        pivot = 1 / matrix[k, k]
        # The root of the pivot in both factors keeps it symmetric, and no square can overflow.
        column = jnp.where(here, -1, matrix[:, k]) * jnp.sqrt(pivot)
        matrix = jnp.where(here[:, None] | here[None], 0, matrix) - outer(column, column)
    return -matrix


@_shapes("a")
def first_best(values: Array) -> Array:
    """The first index whose value is within a part in 10¹² of the largest, so that rounding decides nothing.

    Where a value is NaN it is the index after the last, which the simulator rejects.
    """
    best = largest(values)
    return first_of(values >= best * jnp.where(best > 0, 1 - 1e-12, 1 + 1e-12))


@_shapes("")
def one_hot(index: Array, count: int) -> Array:
    """Which of 0..count−1 an index is, (count,)."""
    count = whole_number("count", count, at_least=1, at_most=10**6)
    return jnp.arange(count, dtype=index.dtype) == index


@_shapes("a", "")
def entry(values: Array, index: Array) -> Array:
    """The value at an index, for values (count,). Indexing would take each run on its own."""
    return total(jnp.where(one_hot(index, values.shape[0]), values, 0))


@_shapes("a", "")
def draw(probabilities: Array, uniform: Array) -> Array:
    """The first index at which the running sum of probabilities (count,) exceeds a uniform number."""
    count = probabilities.shape[0]
    if count > _WRITTEN_OUT:
        passed = jnp.sum(jnp.cumsum(probabilities) <= uniform, dtype=jnp.int32)
    else:
        sums, passed = probabilities[0], jnp.zeros((), jnp.int32)
        for i in range(1, count):
            passed = passed + (sums <= uniform).astype(jnp.int32)
            sums = sums + probabilities[i]
    return jnp.minimum(passed, count - 1)


def total(values: Array) -> Array:
    """Sum of a vector, or of the rows of a matrix."""
    if not _shape("values", values):
        raise ValueError("values of total must be a vector or a matrix; got a number")
    return jnp.sum(values, axis=0)  # a reduction is kept; see `matvec`


@_shapes("a")
def largest(values: Array) -> Array:
    """Maximum of a vector."""
    if values.shape[0] > _WRITTEN_OUT:
        return jnp.max(values)
    return reduce(jnp.maximum, [values[i] for i in range(values.shape[0])])


@_shapes("a")
def first_of(flags: Array) -> Array:
    """Index of the first flag that is set, their count where none is; flags (count,)."""
    count = flags.shape[0]
    # Indices as floats, so that the search fills whole vector registers.
    if count > _WRITTEN_OUT:
        index = jnp.arange(count, dtype=jnp.float32)
        return jnp.min(jnp.where(flags, index, count)).astype(jnp.int32)
    first = jnp.asarray(count, jnp.float32)
    for i in reversed(range(count)):
        first = jnp.where(flags[i], i, first)
    return first.astype(jnp.int32)


def _total(terms: list[Array]) -> Array:
    total = terms[0]
    for term in terms[1:]:
        total = total + term
    return total
