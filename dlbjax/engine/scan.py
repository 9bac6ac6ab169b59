"""The pass: the compiled program that takes a batch of runs through a stretch of segments.

All runs advance side by side in the trailing axis of every array, (…, runs): with runs in the leading
axis a step takes two to four times as long. That is how CPUs do it; for GPUs see `engine.kernels`.
"""

from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from dlbjax.engine.blocks import Batch, draw, reported, rows, stream
from dlbjax.engine.kernels import advance_by_turns
from dlbjax.engine.plan import BLOCK, Steps
from dlbjax.engine.settings import MAPPED, Spelling
from dlbjax.engine.step import Carry, Runs, Tables, regrets, start, step
from dlbjax.policies.base import Policy


def begin(policy: Policy, count: int, tables: Tables, runs: Runs, keys: Array) -> Batch:
    """All runs of a batch before their first round; `count` rows of reports."""
    carry = start(policy, tables, runs, stream(keys, 2))
    return Batch(runs, keys, carry, jnp.zeros((count, 3, len(keys)), tables.gaps.dtype))


def advance(
    policy: Policy, record: tuple[str, ...], spelling: Spelling, tables: Tables, batch: Batch,
    steps: Steps, first: Array, end: Array,
) -> tuple[Batch, dict[str, Array]]:  # fmt: skip
    """All runs of a batch through segments first..end−1; the batch, and what is recorded.

    Unless `spelling` is MAPPED the step is spelled out.
    """
    if spelling != MAPPED:
        return advance_by_turns(policy, record, spelling, tables, batch, steps, first)

    def block(before: tuple[Any, Array], steps: Steps) -> tuple[tuple[Any, Array], Any]:
        state, number = before
        noise, uniforms = draw(policy, tables, batch.keys, number, steps)
        packed, unpack = rows(tables, steps)

        def segment(state: tuple[Carry, Array], inputs: Any) -> tuple[Any, dict[str, Array]]:
            carry, reports = state
            row, e, uniforms = inputs
            maps, gains, now = unpack(row)
            carry, seen = step(policy, tables, maps, gains, now, batch.runs, carry, e, uniforms)
            reports = reported(reports, regrets(tables, carry), now.slot)
            return (carry, reports), {name: seen[name] for name in record}

        state, seen = jax.lax.scan(segment, state, (packed, noise, uniforms))
        return (state, number + BLOCK), seen

    def skip(before: tuple[Any, Array], steps: Steps) -> tuple[tuple[Any, Array], Any]:
        dtype, width = tables.gaps.dtype, len(batch.keys)
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
