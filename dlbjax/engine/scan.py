"""The pass: the compiled program that takes a batch of runs through a stretch of segments.

All runs advance side by side in the trailing axis of every array, (…, runs): with runs in the leading
axis a step takes two to four times as long. That is how CPUs do it; for GPUs the step is spelled out (see
`engine.spelled`), and a turn of the loop takes several segments.
"""

import math
from itertools import chain, pairwise
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from dlbjax.engine import prng
from dlbjax.engine.plan import BLOCK, Steps
from dlbjax.engine.spelled import (
    Spelled,
    from_vectors,
    pack_vectors,
    spread_out,
    to_vectors,
    unpack_vectors,
)
from dlbjax.engine.step import Carry, Runs, Tables, alone, start, step
from dlbjax.policies.base import Policy

MAPPED = (0, 0)  # in the place of how the step is spelled out


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
    policy: Policy, record: tuple[str, ...], spelled: tuple[int, int], tables: Tables, batch: Batch,
    steps: Steps, first: Array, end: Array,
) -> tuple[Batch, dict[str, Array]]:  # fmt: skip
    """All runs of a batch through segments first..end−1; the batch, and what is recorded.

    Unless `spelled` is MAPPED the step is spelled out: so many segments make a kernel, and so many
    kernels a turn of the loop, which may report once; BLOCK must be a multiple of the two.
    """
    m, dtype = tables.gains.g.shape[1], tables.gaps.dtype
    noise_key, policy_key = (jax.random.key_data(stream(batch.keys, i)).T for i in (0, 1))

    def block(before: tuple[Any, Array], steps: Steps) -> tuple[tuple[Any, Array], Any]:
        state, number = before
        noise = steps.given
        if noise is None:
            noise = prng.normals(noise_key, number, BLOCK, m, dtype)
        uniforms = prng.uniforms(policy_key, number, BLOCK, policy.uniforms, dtype)
        rows, unpack = _rows(tables, steps)

        def segment(state: tuple[Carry, Array], inputs: Any) -> tuple[Any, dict[str, Array]]:
            carry, reports = state
            rows, e, uniforms = inputs
            maps, gains, now = unpack(rows)
            carry, regrets, seen = step(
                policy, tables, maps, gains, now, batch.runs, carry, e, uniforms
            )
            # Not `.at[].set`, which becomes a scatter and takes as long as the rest of the step.
            reports = jax.lax.dynamic_update_index_in_dim(reports, regrets, now.slot, 0)
            return (carry, reports), {name: seen[name] for name in record}

        inputs = (rows, noise, uniforms)
        if spelled == MAPPED:
            state, seen = jax.lax.scan(segment, state, inputs)
        else:
            state, seen = _spelled_block(
                policy, record, spelled, tables, batch, unpack, state, inputs
            )
        return (state, number + BLOCK), seen

    def skip(before: tuple[Any, Array], steps: Steps) -> tuple[tuple[Any, Array], Any]:
        width = len(batch.keys)
        seen = {
            "actions": jnp.zeros((BLOCK, width), jnp.int32),
            "rewards": jnp.zeros((BLOCK, width), dtype),
            "states": jnp.zeros((BLOCK, len(tables.x1), width), dtype),
        }
        return before, {name: seen[name] for name in record}

    def unless_over(before: tuple[Any, Array], steps: Steps) -> tuple[tuple[Any, Array], Any]:
        if (
            spelled != MAPPED
        ):  # blocks beyond the end change nothing, and a branch copies the reports
            return block(before, steps)
        return jax.lax.cond(before[1] < end, block, skip, before, steps)

    carry: Any = batch.carry if spelled == MAPPED else pack_vectors(to_vectors(batch.carry), dtype)
    state = (carry, batch.reports)
    ((carry, reports), _), seen = jax.lax.scan(unless_over, (state, first), steps)
    if spelled != MAPPED:
        of_one = jax.tree.map(lambda leaf: leaf[..., 0], batch.carry)
        vectors = unpack_vectors(carry, _dtypes(batch.carry), dtype)
        carry = from_vectors(vectors, of_one, len(batch.keys))
    return batch._replace(carry=carry, reports=reports), seen


def spelled_step(
    policy: Policy, record: tuple[str, ...], tables: Tables, batch: Batch, unpack: Any, inputs: Any
) -> Spelled:
    """The step of one run: from a row of `inputs`, what the run is and its carry, to its new carry,
    its three regrets and what is recorded.
    """  # fmt: skip

    def one(own: Any, tables: Tables) -> Any:
        rows, *columns = own
        maps, gains, now = unpack(rows)
        of_run = jax.tree.map(lambda leaf: leaf[..., None], columns)
        runs, carry, e, uniforms = of_run
        carry, regrets, seen = step(
            policy, tables, maps, gains, now, runs, carry, e, uniforms, over=alone
        )
        kept = {name: seen[name] for name in record}
        return jax.tree.map(lambda leaf: leaf[..., 0], (carry, regrets, kept))

    rows, *noise = jax.tree.map(
        lambda leaf: jax.ShapeDtypeStruct(leaf.shape[1:], leaf.dtype), inputs
    )
    of_all = (batch.runs, batch.carry, *noise)
    of_one = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape[:-1], leaf.dtype), of_all)
    return Spelled(one, (rows, *of_one), tables)


def spell_once(
    policy: Policy, record: tuple[str, ...], tables: Tables, batch: Batch, steps: Steps, most: int
) -> Spelled:
    """The step spelled out for a single segment of a block, to see what it takes.

    Raises:
      TooLongError: if it takes more than `most` operations.
    """
    rows, unpack = _rows(tables, steps)
    width, m = len(batch.keys), tables.gains.g.shape[1]
    drawn = [jnp.zeros((BLOCK, count, width), tables.gaps.dtype) for count in (m, policy.uniforms)]
    inputs = (rows, *drawn)
    spelled = spelled_step(policy, record, tables, batch, unpack, inputs)
    vectors = [vector for each in rows for vector in spread_out(each[0], width)]
    spelled(
        vectors + to_vectors((batch.runs, batch.carry, *(each[0] for each in drawn))), most=most
    )
    return spelled


def _spelled_block(
    policy: Policy, record: tuple[str, ...], spelled_as: tuple[int, int], tables: Tables, batch: Batch,
    unpack: Any, state: tuple[Any, Array], inputs: Any,
) -> tuple[tuple[Any, Array], dict[str, Array]]:  # fmt: skip
    """A block of segments with the step spelled out; the carry in packed vectors."""
    spelled = spelled_step(policy, record, tables, batch, unpack, inputs)
    dtypes, fixed = _dtypes(batch.carry), to_vectors(batch.runs)
    segments, together = spelled_as[0], math.prod(spelled_as)
    (_, reports), ((floats, wholes), *noise) = state, inputs
    waste, width, dtype = len(reports) - 1, reports.shape[-1], reports.dtype

    def segment(carry: list[Array], report: list[Array], shared: list[Array], row: Any) -> Any:
        slot, *own, e, uniforms = row
        answers = spelled([*chain(*own), *fixed, *carry, *e, *uniforms], shared)
        carry, regrets, seen = (
            answers[i:j] for i, j in pairwise((0, len(dtypes), len(dtypes) + 3, None))
        )
        report = [
            jnp.where(slot < waste, new, old) for new, old in zip(regrets, report, strict=True)
        ]
        return carry, report, from_vectors(seen, spelled.answer[2], width)

    def turn(state: tuple[list[Array], Array], rows: Any) -> tuple[Any, dict[str, Array]]:
        (packed, reports), (slot, slots, rows, noise) = state, rows
        shared = spread_out(spelled.numbers, width)
        vectors = [spread_out(each, width) for each in rows]
        vectors += [to_vectors(each.reshape(-1, width)) for each in noise]
        sizes = [len(each) // together for each in vectors]
        report, recorded = [jnp.zeros(width, dtype)] * 3, []
        for first in range(0, together, segments):  # each a kernel
            carry = unpack_vectors(packed, dtypes, dtype)
            for i in range(first, first + segments):
                row = [each[i * n : (i + 1) * n] for each, n in zip(vectors, sizes, strict=True)]
                carry, report, seen = segment(carry, report, shared, (slots[i], *row))
                recorded.append(seen)
            packed, report = jax.lax.optimization_barrier((pack_vectors(carry, dtype), report))
        reports = jax.lax.dynamic_update_index_in_dim(reports, jnp.stack(report), slot, 0)
        return (packed, reports), jax.tree.map(lambda *leaves: jnp.stack(leaves), *recorded)

    # One long row for each turn, because XLA multiplies what it has to index in several ways.
    turns = jax.tree.map(
        lambda leaf: leaf.reshape(BLOCK // together, leaf.size * together // BLOCK),
        (jax.vmap(lambda *row: unpack(row)[2].slot)(floats, wholes), (floats, wholes), noise),
    )
    slot = turns[0].min(axis=1)  # of a turn's slots all but one are waste
    state, seen = jax.lax.scan(turn, state, (slot, *turns))
    return state, jax.tree.map(lambda leaf: leaf.reshape(BLOCK, *leaf.shape[2:]), seen)


def _dtypes(tree: Any) -> list[Any]:
    """The dtype of every vector of a pytree."""
    return [vector.dtype for vector in to_vectors(tree)]


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
