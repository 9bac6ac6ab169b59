"""What a pass takes of a block of segments: rows of the tables, noise, a place for reports."""

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from dlbjax.engine import prng
from dlbjax.engine.plan import BLOCK, Steps
from dlbjax.engine.step import Carry, Runs, Tables
from dlbjax.policies.base import Policy


class Batch(NamedTuple):
    """As many runs as the compiled program takes; leaves (…, width)."""

    runs: Runs
    keys: Array  # made from the seeds
    carry: Carry
    reports: Array  # (C + 1, 3, width) realised, expected and offline regret; the last row is waste


def stream(keys: Array, number: int) -> Array:
    """Keys of the runs for one of the uses that a run has for random numbers."""
    return jax.vmap(lambda key: jax.random.fold_in(key, number))(keys)


def draw(policy: Policy, tables: Tables, keys: Array, number: Array, steps: Steps) -> Any:
    """The noise of a block and what its policy draws, for segments from a number on."""
    noise_key, policy_key = (jax.random.key_data(stream(keys, i)).T for i in (0, 1))
    number = number if steps.number is None else jnp.asarray(steps.number)
    noise: Any = steps.given
    dtype = tables.gaps.dtype
    if noise is None:
        noise = prng.normals(noise_key, number, BLOCK, tables.gains.g.shape[1], dtype)
    return noise, prng.uniforms(policy_key, number, BLOCK, policy.uniforms, dtype)


def reported(reports: Array, regrets: Array, slot: Array) -> Array:
    """The reports with those of a segment."""
    # Not `.at[].set`, which becomes a scatter and takes as long as the rest of the step.
    return jax.lax.dynamic_update_index_in_dim(reports, regrets, slot, 0)


def rows(tables: Tables, steps: Steps) -> tuple[tuple[Array, Array], Any]:
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
