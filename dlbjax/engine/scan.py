"""The pass: the compiled program that takes a batch of runs through a stretch of segments.

All runs advance side by side in the trailing axis of every array, (…, runs): with runs in the leading
axis a step takes two to four times as long.
"""

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from dlbjax.engine import prng
from dlbjax.engine.plan import BLOCK, Steps
from dlbjax.engine.step import Carry, Runs, Tables, start, step
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
    policy: Policy, record: tuple[str, ...], tables: Tables, batch: Batch, steps: Steps,
    first: Array, end: Array,
) -> tuple[Batch, dict[str, Array]]:  # fmt: skip
    """All runs of a batch through segments first..end−1; the batch, and what is recorded."""
    m, dtype = tables.gains.g.shape[1], tables.gaps.dtype
    noise_key, policy_key = (jax.random.key_data(stream(batch.keys, i)).T for i in (0, 1))

    def block(before: tuple[Any, Array], steps: Steps) -> tuple[tuple[Any, Array], Any]:
        state, number = before
        noise = steps.given
        if noise is None:
            noise = prng.normals(noise_key, number, BLOCK, m, dtype)
        uniforms = prng.uniforms(policy_key, number, BLOCK, policy.uniforms, dtype)
        maps = jax.tree.map(lambda table: table[steps.map], tables.maps)
        gains = jax.tree.map(lambda table: table[steps.gain], tables.gains)
        rows, unpack = _pack((maps, gains, steps.moment), dtype)

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

        state, seen = jax.lax.scan(segment, state, (rows, noise, uniforms))
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
        return jax.lax.cond(before[1] < end, block, skip, before, steps)

    state = (batch.carry, batch.reports)
    ((carry, reports), _), seen = jax.lax.scan(unless_over, (state, first), steps)
    return batch._replace(carry=carry, reports=reports), seen


def stream(keys: Array, number: int) -> Array:
    """Keys of the runs for one of the uses that a run has for random numbers."""
    return jax.vmap(lambda key: jax.random.fold_in(key, number))(keys)


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
