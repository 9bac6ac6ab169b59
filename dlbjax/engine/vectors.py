"""The numbers of all runs as vectors over the runs, one for each number that a run has.

A loop carries few arrays better than many: numbers of a state that stay equal are carried once, those that
never change not at all, and the rest two by two in complex ones.
"""

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax


def to_vectors(tree: Any) -> list[jax.Array]:
    """Every number of a run in a pytree of (…, runs) as a vector.

    >>> import jax.numpy as jnp
    >>> [vector.tolist() for vector in to_vectors({"matrix": jnp.arange(4.0).reshape(2, 2)})]
    [[0.0, 1.0], [2.0, 3.0]]
    """
    # Slices of one long vector, because XLA multiplies what it has to index in several ways.
    return [
        lax.slice(leaf.reshape(-1), (i,), (i + leaf.shape[-1],))
        for leaf in jax.tree.leaves(tree)
        for i in range(0, leaf.size, leaf.shape[-1])
    ]


def from_vectors(vectors: Sequence[jax.Array], of_one: Any, runs: int) -> Any:
    """The reverse of `to_vectors`, for a pytree whose leaves in one run are as in `of_one`."""
    rest = iter(vectors)

    def whole(leaf: Any) -> jax.Array:
        parts = list(itertools.islice(rest, math.prod(leaf.shape)))
        flat = jnp.concatenate(parts) if parts else jnp.zeros(0, leaf.dtype)
        return flat.reshape(*leaf.shape, runs)

    return jax.tree.map(whole, of_one)


def pack_vectors(vectors: Sequence[jax.Array]) -> list[jax.Array]:
    """Vectors of 4 or 8 bytes a number, two by two in complex ones.

    XLA first makes a kernel of each array that a loop carries, with all that it depends on, and then
    merges those; the fewer there are, the more segments fit into one.
    """
    floats = [_as_floats(vector) for vector in vectors]
    dtypes = sorted({vector.dtype for vector in floats}, key=str)
    alike = ([vector for vector in floats if vector.dtype == dtype] for dtype in dtypes)
    # An odd one is paired with the first, as the last may never change.
    pairs = (zip(each[::2], each[1::2] + each[:1], strict=False) for each in alike)
    return [lax.complex(*pair) for each in pairs for pair in each]


def unpack_vectors(packed: Sequence[jax.Array], dtypes: Sequence[Any]) -> list[jax.Array]:
    """The reverse of `pack_vectors`."""
    parts = [part for pair in packed for part in (lax.real(pair), lax.imag(pair))]
    wide = [jnp.dtype(dtype).itemsize == 8 for dtype in dtypes]
    narrow = iter([part for part in parts if part.dtype.itemsize == 4])
    rest = iter([part for part in parts if part.dtype.itemsize == 8])
    return [
        _from_floats(next(rest if is_wide else narrow), dtype)
        for is_wide, dtype in zip(wide, dtypes, strict=True)
    ]


def _as_floats(vector: jax.Array) -> jax.Array:
    """The same bits as float32 or float64; shorter numbers as whole ones of 32 bits."""
    if vector.dtype in (jnp.float32, jnp.float64):
        return vector
    if vector.dtype.itemsize < 4:
        vector = vector.astype(jnp.int32)
    return lax.bitcast_convert_type(vector, f"float{8 * vector.dtype.itemsize}")


def _from_floats(bits: jax.Array, dtype: Any) -> jax.Array:
    dtype = jnp.dtype(dtype)
    if dtype == bits.dtype:
        return bits
    if dtype.itemsize < 4:
        return lax.bitcast_convert_type(bits, jnp.int32).astype(dtype)
    return lax.bitcast_convert_type(bits, dtype)


def spread_out(numbers: jax.Array, runs: int) -> list[jax.Array]:
    """Numbers that all runs share as vectors."""
    # All of them at once, since each would count as an array of its own that a kernel has to take.
    wide = lax.broadcast_in_dim(numbers, (len(numbers), runs), (0,)).reshape(-1)
    return [lax.slice(wide, (i * runs,), ((i + 1) * runs,)) for i in range(len(numbers))]


class Kept(NamedTuple):
    """Which numbers of a state are carried from step to step.

    Attributes:
      places: of those.
      source: for each number of the state its place among those, or None if it never changes.
    """

    places: list[int]
    source: list[int | None]

    def of(self, vectors: Sequence[Any]) -> list[Any]:
        """What is carried of all numbers."""
        return [vectors[i] for i in self.places]

    def all(self, carried: Sequence[Any], first: Sequence[Any]) -> list[Any]:
        """All numbers from what is carried, and from the state in the beginning."""
        pairs = zip(self.source, first, strict=True)
        return [start if i is None else carried[i] for i, start in pairs]


def kept_numbers(first: Sequence[Any], step: Callable[[list[Any]], list[Any]]) -> Kept:
    """What a state has to carry: of numbers that stay equal, as in a symmetric matrix, one.

    Args:
      first: the numbers before the first step; those known to be equal are one object.
      step: the numbers after a step from those before, all of them vectors.
    """

    def labels(numbers: Sequence[Any]) -> list[int]:
        seen: dict[Any, int] = {}
        return [seen.setdefault(number, i) for i, number in enumerate(numbers)]

    groups: list[int] = []
    finer, changes = labels([*map(id, first)]), [True]
    while groups != finer:
        groups = finer

        def once(*vectors: Any, groups: list[int] = groups) -> None:
            nonlocal finer, changes
            before = [vectors[group] for group in groups]
            after = step(before)
            finer = labels([*zip(groups, map(id, after), strict=True)])
            changes = [x is not y for x, y in zip(before, after, strict=True)]

        jax.eval_shape(once, *(jax.ShapeDtypeStruct(x.shape, x.dtype) for x in first))
    # The last first: in that order XLA merges the kernels of more policies into one.
    places = [i for i, group in enumerate(groups) if group == i and changes[i]][::-1]
    source = [places.index(group) if changes[i] else None for i, group in enumerate(groups)]
    return Kept(places, source)
