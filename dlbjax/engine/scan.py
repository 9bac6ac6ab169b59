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
import numpy as np
from jax import Array

from dlbjax.engine import prng
from dlbjax.engine.plan import BLOCK, Steps
from dlbjax.engine.settings import MAPPED, Spelling
from dlbjax.engine.spelled import (
    Spelled,
    from_vectors,
    pack_vectors,
    spread_out,
    to_vectors,
    unpack_vectors,
)
from dlbjax.engine.step import Account, Carry, Runs, Tables, alone, start, step
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
            carry, seen = step(policy, tables, maps, gains, now, batch.runs, carry, e, uniforms)
            reports = _reported(reports, Account.of(carry).regrets(tables), now.slot)
            return (carry, reports), {name: seen[name] for name in record}

        inputs = (rows, noise, uniforms)
        if spelling == MAPPED:
            state, seen = jax.lax.scan(segment, state, inputs)
        else:
            state, seen = _spelled_block(
                policy, record, spelling, tables, batch, unpack, state, inputs
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
            spelling != MAPPED
        ):  # a branch copies the reports, and blocks beyond the end change nothing
            return block(before, steps)
        return jax.lax.cond(before[1] < end, block, skip, before, steps)

    carry: Any = batch.carry if spelling == MAPPED else pack_vectors(to_vectors(batch.carry))
    state = (carry, batch.reports)
    ((carry, reports), _), seen = jax.lax.scan(unless_over, (state, first), steps)
    if spelling != MAPPED:
        of_one = jax.tree.map(lambda leaf: leaf[..., 0], batch.carry)
        vectors = unpack_vectors(carry, _dtypes(batch.carry))
        carry = from_vectors(vectors, of_one, len(batch.keys))
    return batch._replace(carry=carry, reports=reports), seen


def spelled_step(
    policy: Policy, record: tuple[str, ...], tables: Tables, batch: Batch, unpack: Any, inputs: Any
) -> Spelled:
    """The step of one run: from a row of `inputs`, what the run is and its carry, to its new carry,
    what of it the regrets depend on, and what is recorded.
    """  # fmt: skip

    def one(own: Any, tables: Tables) -> Any:
        rows, *columns = own
        maps, gains, now = unpack(rows)
        of_run = jax.tree.map(lambda leaf: leaf[..., None], columns)
        runs, carry, e, uniforms = of_run
        carry, seen = step(policy, tables, maps, gains, now, runs, carry, e, uniforms, over=alone)
        kept = {name: seen[name] for name in record}
        return jax.tree.map(lambda leaf: leaf[..., 0], (carry, Account.of(carry), kept))

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
    policy: Policy, record: tuple[str, ...], spelling: Spelling, tables: Tables, batch: Batch,
    unpack: Any, state: tuple[Any, Array], inputs: Any,
) -> tuple[tuple[Any, Array], dict[str, Array]]:  # fmt: skip
    """A block of segments with the step spelled out; the carry in packed vectors."""
    tables = tables._replace(arms=np.array(spelling.arms, tables.arms.dtype))
    spelled = spelled_step(policy, record, tables, batch, unpack, inputs)
    fixed = to_vectors(batch.runs)
    _, of_account, of_seen = spelled.answer
    dtypes = _dtypes(batch.carry)
    numbers = len(dtypes), sum(leaf.size for leaf in of_account)
    edges = [i * spelling.segments // spelling.kernels for i in range(spelling.kernels + 1)]
    (_, reports), ((floats, wholes), *noise) = state, inputs
    waste, width, dtype = len(reports) - 1, reports.shape[-1], reports.dtype

    def segment(carry: list[Array], account: list[Array], shared: list[Array], row: Any) -> Any:
        slot, *own, e, uniforms = row
        answers = spelled([*chain(*own), *fixed, *carry, *e, *uniforms], shared)
        carry, new, seen = (answers[i:j] for i, j in pairwise((0, numbers[0], sum(numbers), None)))
        account = [jnp.where(slot < waste, *pair) for pair in zip(new, account, strict=True)]
        return carry, account, from_vectors(seen, of_seen, width)

    def turn(state: tuple[list[Array], Array], rows: Any) -> tuple[Any, dict[str, Array]]:
        (packed, reports), (slot, slots, rows, noise) = state, rows
        shared = spread_out(spelled.numbers, width)
        vectors = [spread_out(each, width) for each in rows]
        vectors += [to_vectors(each.reshape(-1, width)) for each in noise]
        sizes = [len(each) // spelling.segments for each in vectors]
        account, recorded = [jnp.zeros(width, dtype)] * numbers[1], []
        for first, last in pairwise(edges):  # each a kernel
            carry = unpack_vectors(packed, dtypes)
            for i in range(first, last):
                row = [each[i * n : (i + 1) * n] for each, n in zip(vectors, sizes, strict=True)]
                carry, account, seen = segment(carry, account, shared, (slots[i], *row))
                recorded.append(seen)
            packed, account = jax.lax.optimization_barrier((pack_vectors(carry), account))
        regrets = from_vectors(account, of_account, width).regrets(tables)
        reports = _reported(reports, regrets, slot)
        return (packed, reports), jax.tree.map(lambda *leaves: jnp.stack(leaves), *recorded)

    # One long row for each turn, because XLA multiplies what it has to index in several ways.
    turns = jax.tree.map(
        lambda leaf: leaf.reshape(BLOCK // spelling.segments, -1),
        (jax.vmap(lambda *row: unpack(row)[2].slot)(floats, wholes), (floats, wholes), noise),
    )
    slot = turns[0].min(axis=1)  # of a turn's slots all but one are waste
    state, seen = jax.lax.scan(turn, state, (slot, *turns))
    return state, jax.tree.map(lambda leaf: leaf.reshape(BLOCK, *leaf.shape[2:]), seen)


def _reported(reports: Array, regrets: Array, slot: Array) -> Array:
    # Not `.at[].set`, which becomes a scatter and takes as long as the rest of the step.
    return jax.lax.dynamic_update_index_in_dim(reports, regrets, slot, 0)


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
