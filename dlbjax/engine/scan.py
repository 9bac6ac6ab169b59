"""The pass: the compiled program that takes a batch of runs through a stretch of segments.

All runs advance side by side in the trailing axis of every array, (…, runs): with runs in the leading
axis a step takes two to four times as long. That is how CPUs do it; for GPUs the step is spelled out (see
`engine.spelled`), and a turn of the loop takes several segments.
"""

import math
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from dlbjax.engine import prng
from dlbjax.engine.plan import BLOCK, Steps
from dlbjax.engine.settings import MAPPED, Spelling
from dlbjax.engine.spelled import Spelled
from dlbjax.engine.step import Carry, Runs, Tables, alone, regrets, start, step
from dlbjax.engine.vectors import (
    Kept,
    from_vectors,
    kept_numbers,
    pack_vectors,
    spread_out,
    to_vectors,
    unpack_vectors,
)
from dlbjax.policies.base import Policy


class Batch(NamedTuple):
    """As many runs as the compiled program takes; leaves (…, width)."""

    runs: Runs
    keys: Array  # made from the seeds
    carry: Carry
    reports: Array  # (C + 1, 3, width) realised, expected and offline regret; the last row is waste


def begin(policy: Policy, rows: int, tables: Tables, runs: Runs, keys: Array) -> Batch:
    """All runs of a batch before their first round."""
    carry = start(policy, tables, runs, stream(keys, 2))
    return Batch(runs, keys, carry, jnp.zeros((rows, 3, len(keys)), tables.gaps.dtype))


def advance(
    policy: Policy, record: tuple[str, ...], spelling: Spelling, tables: Tables, batch: Batch,
    steps: Steps, first: Array, end: Array,
) -> tuple[Batch, dict[str, Array]]:  # fmt: skip
    """All runs of a batch through segments first..end−1; the batch, and what is recorded.

    Unless `spelling` is MAPPED the step is spelled out.
    """
    m, dtype, width = tables.gains.g.shape[1], tables.gaps.dtype, len(batch.keys)
    noise_key, policy_key = (jax.random.key_data(stream(batch.keys, i)).T for i in (0, 1))

    def drawn(number: Any, steps: Steps) -> tuple[Any, Array]:
        number = number if steps.number is None else steps.number
        noise = steps.given
        if noise is None:
            noise = prng.normals(noise_key, number, BLOCK, m, dtype)
        return noise, prng.uniforms(policy_key, number, BLOCK, policy.uniforms, dtype)

    def block(before: tuple[Any, Array], steps: Steps) -> tuple[tuple[Any, Array], Any]:
        state, number = before
        noise, uniforms = drawn(number, steps)
        rows, unpack = _rows(tables, steps)

        def segment(state: tuple[Carry, Array], inputs: Any) -> tuple[Any, dict[str, Array]]:
            carry, reports = state
            rows, e, uniforms = inputs
            maps, gains, now = unpack(rows)
            carry, seen = step(policy, tables, maps, gains, now, batch.runs, carry, e, uniforms)
            reports = _reported(reports, regrets(tables, carry), now.slot)
            return (carry, reports), {name: seen[name] for name in record}

        state, seen = jax.lax.scan(segment, state, (rows, noise, uniforms))
        return (state, number + BLOCK), seen

    def skip(before: tuple[Any, Array], steps: Steps) -> tuple[tuple[Any, Array], Any]:
        seen = {
            "actions": jnp.zeros((BLOCK, width), jnp.int32),
            "rewards": jnp.zeros((BLOCK, width), dtype),
            "states": jnp.zeros((BLOCK, len(tables.x1), width), dtype),
        }
        return before, {name: seen[name] for name in record}

    def unless_over(before: tuple[Any, Array], steps: Steps) -> tuple[tuple[Any, Array], Any]:
        return jax.lax.cond(before[1] < end, block, skip, before, steps)

    if spelling == MAPPED:
        state = (batch.carry, batch.reports)
        ((carry, reports), _), seen = jax.lax.scan(unless_over, (state, first), steps)
        return batch._replace(carry=carry, reports=reports), seen

    tables = tables._replace(arms=np.array(spelling.arms, tables.arms.dtype))
    kept, spelled = spell(policy, record, tables, batch, steps)
    begun = to_vectors(batch.carry)
    whole = _Whole(kept, begun, jax.tree.map(lambda leaf: leaf[..., 0], batch.carry))

    def turns(before: tuple[Any, Array], steps: Steps) -> tuple[tuple[Any, Array], Any]:
        state, number = before
        inputs = _by_turns((_rows(tables, steps)[0], drawn(number, steps)), spelling.turn)
        # Of the slots of a turn all but one are waste.
        slot = steps.moment.slot.reshape(-1, spelling.turn).min(axis=1)
        turn = partial(_turn, spelling, tables, spelled, whole, to_vectors(batch.runs))
        state, seen = jax.lax.scan(turn, state, (slot, *inputs))
        seen = jax.tree.map(lambda leaf: leaf.reshape(BLOCK, *leaf.shape[2:]), seen)
        return (state, number + BLOCK), seen

    # Not `unless_over`: a branch copies the reports, and blocks beyond the end change nothing.
    before = ((pack_vectors(kept.of(begun)), batch.reports), first)
    ((packed, reports), _), seen = jax.lax.scan(turns, before, steps)
    return batch._replace(carry=whole.carry(whole.vectors(packed)), reports=reports), seen


class _Whole(NamedTuple):
    """How the carry is put together of what is kept of it."""

    kept: Kept
    begun: list[Array]  # its numbers in the beginning, some of which never change
    of_one: Any

    def vectors(self, packed: list[Array]) -> list[Array]:
        """All its numbers."""
        dtypes = [vector.dtype for vector in self.kept.of(self.begun)]
        return self.kept.all(unpack_vectors(packed, dtypes), self.begun)

    def carry(self, vectors: list[Array]) -> Carry:
        """The carry itself."""
        return from_vectors(vectors, self.of_one, len(vectors[0]))


def _by_turns(inputs: Any, segments: int) -> Any:
    # One long row for each turn, because XLA multiplies what it has to index in several ways.
    return jax.tree.map(lambda leaf: leaf.reshape(BLOCK // segments, -1), inputs)


def _turn(
    spelling: Spelling, tables: Tables, spelled: Spelled, whole: _Whole, fixed: list[Array],
    state: tuple[list[Array], Array], inputs: Any,
) -> tuple[tuple[list[Array], Array], dict[str, Array]]:  # fmt: skip
    """Some kernels of several segments each, and what they report in the end."""
    (packed, reports), (slot, rows, noise) = state, inputs
    width, numbers = reports.shape[-1], len(whole.begun)
    shared = spread_out(spelled.numbers, width)
    vectors = [spread_out(each, width) for each in rows]
    vectors += [to_vectors(each.reshape(-1, width)) for each in noise]
    sizes = [len(each) // spelling.turn for each in vectors]
    carry, recorded = whole.vectors(packed), []
    for i in range(spelling.turn):
        floats, wholes, e, uniforms = (
            each[i * n : (i + 1) * n] for each, n in zip(vectors, sizes, strict=True)
        )
        answers = spelled([*floats, *wholes, *fixed, *carry, *e, *uniforms], shared)
        carry, seen = answers[:numbers], answers[numbers:]
        recorded.append(from_vectors(seen, spelled.answer[1], width))
        if (i + 1) % spelling.segments == 0:  # a kernel ends, and what follows reads what it wrote
            packed = jax.lax.optimization_barrier(pack_vectors(whole.kept.of(carry)))
            carry = whole.vectors(packed)
    reports = _reported(reports, regrets(tables, whole.carry(carry)), slot)
    return (packed, reports), jax.tree.map(lambda *leaves: jnp.stack(leaves), *recorded)


def spell(
    policy: Policy, record: tuple[str, ...], tables: Tables, batch: Batch, steps: Steps,
    most: int | None = None,
) -> tuple[Kept, Spelled]:  # fmt: skip
    """The step of one run spelled out, and what of its carry is kept.

    The step goes from a row of `_rows`, what the run is, its carry and its noise to its new carry and what is
    recorded.

    Raises:
      TooLongError: if it takes more than `most` operations.
    """
    dtype, width, m = tables.gaps.dtype, len(batch.keys), tables.gains.g.shape[1]
    rows, unpack = _rows(tables, jax.tree.map(lambda leaf: leaf[0], steps))
    noise = [jnp.zeros((count, width), dtype) for count in (m, policy.uniforms)]

    def one_step(own: Any, tables: Tables) -> Any:
        rows, *columns = own
        maps, gains, now = unpack(rows)
        runs, carry, e, uniforms = jax.tree.map(lambda leaf: leaf[..., None], columns)
        carry, seen = step(policy, tables, maps, gains, now, runs, carry, e, uniforms, alone)
        return jax.tree.map(
            lambda leaf: leaf[..., 0], (carry, {name: seen[name] for name in record})
        )

    def beginning(own: Any, tables: Tables) -> Any:
        runs, keys = jax.tree.map(lambda leaf: leaf[..., None], own)
        return jax.tree.map(lambda leaf: leaf[..., 0], start(policy, tables, runs, keys, alone))

    row = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape[1:], leaf.dtype), rows)
    spelled = Spelled(one_step, (row, *_of_one((batch.runs, batch.carry, *noise))), tables)
    before = [vector for each in rows for vector in spread_out(each[0], width)]
    before += to_vectors(batch.runs)
    numbers = sum(leaf.size for leaf in jax.tree.leaves(spelled.answer[0]))

    def after(carry: list[Any]) -> list[Any]:
        return spelled([*before, *carry, *to_vectors(noise)], most=most)[:numbers]

    own = (batch.runs, batch.keys)
    return kept_numbers(Spelled(beginning, _of_one(own), tables)(to_vectors(own)), after), spelled


def _of_one(tree: Any) -> Any:
    """The shapes of one run."""
    return jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape[:-1], leaf.dtype), tree)


def _reported(reports: Array, regrets: Array, slot: Array) -> Array:
    # Not `.at[].set`, which becomes a scatter and takes as long as the rest of the step.
    return jax.lax.dynamic_update_index_in_dim(reports, regrets, slot, 0)


def stream(keys: Array, number: int) -> Array:
    """Keys of the runs for one of the uses that a run has for random numbers."""
    return jax.vmap(lambda key: jax.random.fold_in(key, number))(keys)


def _rows(tables: Tables, steps: Steps) -> tuple[tuple[Array, Array], Any]:
    """What all runs share of each segment of a block, packed, and what unpacks a row."""
    maps = jax.tree.map(lambda table: table[steps.map], tables.maps)
    gains = jax.tree.map(lambda table: table[steps.gain], tables.gains)
    return _pack((maps, gains, steps.moment), tables.gaps.dtype)


def _pack(tree: Any, dtype: Any) -> tuple[tuple[Array, Array], Any]:
    """A pytree of (BLOCK, …) arrays as two, of floats and of whole numbers, and what unpacks a row.

    A scan slices each array it runs over once a step: two slices instead of twenty.
    """
    leaves, structure = jax.tree.flatten(tree)
    shapes = [leaf.shape[1:] for leaf in leaves]
    dtypes = [leaf.dtype for leaf in leaves]
    is_float = [jnp.issubdtype(leaf.dtype, jnp.floating) for leaf in leaves]

    def packed(kind: bool, dtype: Any) -> Array:
        flat = [leaf.reshape(BLOCK, -1).astype(dtype)
                for leaf, this in zip(leaves, is_float, strict=True) if this is kind]  # fmt: skip
        return jnp.concatenate(flat, axis=1)

    def unpack(rows: tuple[Array, Array]) -> Any:
        used = {True: 0, False: 0}
        parts = []
        for shape, dtype, kind in zip(shapes, dtypes, is_float, strict=True):
            first, size = used[kind], math.prod(shape)
            row = rows[0 if kind else 1][first : first + size]
            parts.append(row.reshape(shape).astype(dtype))
            used[kind] = first + size
        return jax.tree.unflatten(structure, parts)

    return (packed(True, dtype), packed(False, jnp.int32)), unpack
