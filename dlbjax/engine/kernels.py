"""The pass on GPUs: the step spelled out, several segments to a kernel.

A turn of the loop is a kernel for the noise of all its segments, which no action changes, some kernels of
several segments each, and a report. What a kernel hands to the next goes through memory, and is packed.
"""

from functools import partial
from itertools import chain
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.lax import optimization_barrier

from dlbjax.engine.blocks import Batch, draw, reported, rows
from dlbjax.engine.plan import BLOCK, Steps
from dlbjax.engine.settings import Spelling
from dlbjax.engine.spelled import Spelled
from dlbjax.engine.step import Added, Carry, Tables, alone, disturb, play, regrets, row, start
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


class Step(NamedTuple):
    """The step of one run in two parts, spelled out, and what is carried of the second."""

    noise: Spelled  # row, own part of the carry, normals → that part after, what it adds
    rest: (
        Spelled  # row, what noise adds, the run, rest of the carry, draws → that rest after, record
    )
    kept: Kept


def advance_by_turns(
    policy: Policy, record: tuple[str, ...], spelling: Spelling, tables: Tables, batch: Batch,
    steps: Steps, first: Array,
) -> tuple[Batch, dict[str, Array]]:  # fmt: skip
    """`engine.scan.advance` with the step spelled out; segments beyond the end change nothing."""
    tables = tables._replace(arms=np.array(spelling.arms, tables.arms.dtype))
    step = spell(policy, record, tables, batch, steps)
    whole = _Whole(step.kept, batch.carry)

    def block(before: tuple[Any, Array], steps: Steps) -> tuple[tuple[Any, Array], Any]:
        state, number = before
        shared, _ = rows(tables, steps)
        normals, uniforms = draw(policy, tables, batch.keys, number, steps)

        def of_kernels(segments: int, *leaves: Array) -> list[list[Array]]:
            # Arrays of its own for each kernel, because XLA copies what several have to slice.
            turns, kernels = BLOCK // spelling.turn, spelling.turn // segments
            parts = [leaf.reshape(turns, kernels, segments * leaf[0].size) for leaf in leaves]
            return [[part[:, i] for part in parts] for i in range(kernels)]

        # Of the slots of a turn all but one are waste.
        slot = steps.moment.slot.reshape(-1, spelling.turn).min(axis=1)
        inputs = (
            slot,
            of_kernels(spelling.noise, *shared, normals),
            of_kernels(spelling.segments, *shared, uniforms),
        )
        turn = partial(_turn, spelling, tables, step, whole, to_vectors(batch.runs))
        state, seen = jax.lax.scan(turn, state, inputs)
        seen = jax.tree.map(lambda leaf: leaf.reshape(BLOCK, *leaf.shape[2:]), seen)
        return (state, number + BLOCK), seen

    before = ((whole.packed(batch.carry), batch.reports), first)
    ((packed, reports), _), seen = jax.lax.scan(block, before, steps)
    return batch._replace(carry=whole.carry(packed), reports=reports), seen


class _Whole:
    """How the carry is put together of what is kept of it, packed."""

    def __init__(self, kept: Kept, carry: Carry):
        self.kept, self.width = kept, len(carry.action)
        self.of_one = _alone(_parts(carry))
        # Some of the rest never changes.
        self.noise, self.begun = map(to_vectors, _parts(carry))
        self.dtypes = [[each.dtype for each in part] for part in (self.noise, kept.of(self.begun))]

    def packed(self, carry: Carry) -> list[list[Array]]:
        noise, rest = map(to_vectors, _parts(carry))
        return [pack_vectors(noise), pack_vectors(self.kept.of(rest))]

    def vectors(self, packed: list[list[Array]]) -> list[list[Array]]:
        """All numbers of both parts."""
        noise, rest = map(unpack_vectors, packed, self.dtypes)
        return [noise, self.kept.all(rest, self.begun)]

    def carry(self, packed: list[list[Array]]) -> Carry:
        (disturbance, noise), rest = (
            from_vectors(vectors, of_one, self.width)
            for vectors, of_one in zip(self.vectors(packed), self.of_one, strict=True)
        )
        return rest._replace(disturbance=disturbance, noise=noise)


def _parts(carry: Carry) -> tuple[Any, Carry]:
    """The noise's own part of a carry, and the rest."""
    rest = carry._replace(disturbance=None, noise=None)  # type: ignore[arg-type]
    return (carry.disturbance, carry.noise), rest


def _turn(
    spelling: Spelling, tables: Tables, step: Step, whole: _Whole, fixed: list[Array],
    state: tuple[list[list[Array]], Array], inputs: Any,
) -> tuple[tuple[list[list[Array]], Array], dict[str, Array]]:  # fmt: skip
    """Kernels for the noise, kernels for the rest, and what they report in the end."""
    (packed, reports), (slot, for_noise, for_rest) = state, inputs
    own, rest = whole.vectors(packed)
    kept_noise, kept = packed

    def of_segments(segments: int, shared: list[Array], own: Array) -> Any:
        """What the segments of a kernel share, and what is each run's."""
        spread = (_of_each(spread_out(leaf, whole.width), segments) for leaf in shared)
        lines = [list(chain(*line)) for line in zip(*spread, strict=True)]
        vectors = to_vectors(own.reshape(-1, whole.width))
        return zip(lines, _of_each(vectors, segments), strict=True)

    # Behind a barrier a kernel ends, and what follows reads what it wrote.
    added: list[Array] = []
    numbers = spread_out(step.noise.numbers, whole.width)
    for *shared, normals in for_noise:
        new: list[Array] = []
        for line, normal in of_segments(spelling.noise, shared, normals):
            answers = step.noise([*line, *own, *normal], numbers)
            own, new = answers[: len(own)], [*new, *answers[len(own) :]]
        kept_noise, ready = optimization_barrier((pack_vectors(own), pack_vectors(new)))
        own, _ = whole.vectors([kept_noise, kept])
        added += unpack_vectors(ready, [each.dtype for each in new])

    recorded = []
    numbers, more = spread_out(step.rest.numbers, whole.width), iter(_of_each(added, spelling.turn))
    for *shared, uniforms in for_rest:
        for line, draws in of_segments(spelling.segments, shared, uniforms):
            answers = step.rest([*line, *next(more), *fixed, *rest, *draws], numbers)
            rest, seen = answers[: len(rest)], answers[len(rest) :]
            recorded.append(from_vectors(seen, step.rest.answer[1], whole.width))
        kept = optimization_barrier(pack_vectors(whole.kept.of(rest)))
        _, rest = whole.vectors([kept_noise, kept])

    packed = [kept_noise, kept]
    reports = reported(reports, regrets(tables, whole.carry(packed)), slot)
    return (packed, reports), jax.tree.map(lambda *leaves: jnp.stack(leaves), *recorded)


def _of_each(vectors: list[Array], segments: int) -> list[list[Array]]:
    size = len(vectors) // segments
    return [vectors[i * size : (i + 1) * size] for i in range(segments)]


def spell(
    policy: Policy, record: tuple[str, ...], tables: Tables, batch: Batch, steps: Steps,
    most: int | None = None,
) -> Step:  # fmt: skip
    """The step of one run, spelled out.

    Raises:
      TooLongError: if it takes more than `most` operations.
    """
    dtype, width, m = tables.gaps.dtype, len(batch.keys), tables.gains.g.shape[1]
    packed, unpack = rows(tables, jax.tree.map(lambda leaf: leaf[0], steps))
    line = tuple(jax.ShapeDtypeStruct(leaf.shape[1:], leaf.dtype) for leaf in packed)
    observes_total, shows_state = "total" in policy.feedback, "states" in record

    def noise(own: Any, tables: Tables) -> Any:
        line, *columns = own
        maps, gains, _ = unpack(line)
        (W, noise), e = _widened(columns)
        *after, (W, last, total) = disturb(maps, gains, W, noise, e)
        seen: Any = {"state": W, "last": last}
        if not shows_state:  # then its part of the last reward is all that matters
            seen = {"last": last + row(maps.last_state, W)}
        return _alone((after, {**seen, "total": total} if observes_total else seen))

    def rest(own: Any, tables: Tables) -> Any:
        line, *columns = own
        maps, _, now = unpack(line)
        added, runs, carry, uniforms = _widened(columns)
        # Flags of each run, because of those that all share XLA makes kernels of their own.
        valid = runs.configuration >= 0
        now = now._replace(starts=now.starts & valid, ends=now.ends & valid)
        nothing = jnp.zeros_like(carry.shadow)
        added = Added(added.get("state", nothing), added["last"], added.get("total", nothing[0]))
        after, seen = play(policy, tables, maps, now, runs, carry, added, uniforms, alone)
        return _alone((after, {name: seen[name] for name in record}))

    def beginning(own: Any, tables: Tables) -> Any:
        runs, keys = _widened(own)
        return _alone(_parts(start(policy, tables, runs, keys, alone))[1])

    own, carry = _parts(batch.carry)
    normals, uniforms = (jnp.zeros((count, width), dtype) for count in (m, policy.uniforms))
    of_noise = Spelled(noise, (line, *_alone((own, normals))), tables)
    added = jax.tree.map(lambda leaf: jnp.zeros((*leaf.shape, width), dtype), of_noise.answer[1])
    of_rest = Spelled(rest, (line, *_alone((added, batch.runs, carry, uniforms))), tables)

    lines = [vector for each in packed for vector in spread_out(each[0], width)]
    before = [*lines, *to_vectors((added, batch.runs))]
    numbers = len(to_vectors(carry))

    def after(carry: list[Any]) -> list[Any]:
        return of_rest([*before, *carry, *to_vectors(uniforms)], most=most)[:numbers]

    start_of = (batch.runs, batch.keys)
    begun = Spelled(beginning, _alone(start_of), tables)(to_vectors(start_of))
    of_noise([*lines, *to_vectors((own, normals))])  # which counts its operations
    return Step(of_noise, of_rest, kept_numbers(begun, after))


def _widened(tree: Any) -> Any:
    """One run as a batch of one."""
    return jax.tree.map(lambda leaf: leaf[..., None], tree)


def _alone(tree: Any) -> Any:
    """The first run of a batch."""
    return jax.tree.map(lambda leaf: leaf[..., 0], tree)
