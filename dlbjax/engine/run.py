"""The driver: some runs of a group through the horizon, a stretch of segments at a time.

The compiled program takes a fixed number of runs and of segments, so that another number of seeds or
another horizon compiles nothing; what is missing is filled up and thrown away.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from dlbjax.common.arrays import Array
from dlbjax.engine.blocks import Batch
from dlbjax.engine.kernels import spell
from dlbjax.engine.plan import Group, Steps
from dlbjax.engine.programs import compiled
from dlbjax.engine.scan import advance, begin
from dlbjax.engine.settings import MAPPED, Noise, Settings, Spelling
from dlbjax.engine.spelled import TooLongError
from dlbjax.engine.step import Runs
from dlbjax.policies.base import Policy

_REPORTS = 320  # reports come in multiples of this; by default there are at most 301
_STRETCH = 16  # blocks in a call of the compiled program
# Operations of a step spelled out, at most; and of the segments of a kernel.
_MOST_OPERATIONS = {np.dtype(np.float32): 5500, np.dtype(np.float64): 1500}
_OPERATIONS_OF_A_KERNEL = {np.dtype(np.float32): 4300, np.dtype(np.float64): 2600}
# Segments of a kernel that hands on so many numbers of a run at most: XLA merges kernels only while they
# read and write no more than 96 arrays, counted before all of them are merged.
_SEGMENTS = ((36, 8), (48, 4), (64, 2))
_MOST_KERNELS = 4  # in a turn of the loop, which has three or four more: noise, a report, counters


class Progress(NamedTuple):
    """Some runs of a group, part of the way, in arrays of the host."""

    runs: np.ndarray  # which, counted over policies and, within each, over seeds
    segments: int  # completed
    rounds: int  # completed
    carry: list[np.ndarray]  # leaves of the program's state, (…, runs)
    recorded: dict[str, np.ndarray]  # (rounds, …, runs)


class Snapshot(NamedTuple):
    """Some runs between two stretches; valid until the driver goes on, which reuses its memory."""

    runs: np.ndarray
    segments: int
    rounds: int
    batches: list[Batch]
    recorded: dict[str, list[np.ndarray]]

    def leaves(self, tree: Callable[[Batch], Any]) -> list[np.ndarray]:
        """Leaves of a part of the batches, on the host and of all runs, (…, runs)."""
        parts = [jax.tree.leaves(tree(batch)) for batch in self.batches]
        return [
            np.concatenate(list(map(np.asarray, leaf)), axis=-1)[..., : len(self.runs)]
            for leaf in zip(*parts, strict=True)
        ]

    def progress(self) -> Progress:
        """A copy that stays."""
        leaves = self.leaves(lambda batch: (batch.carry, batch.reports))
        recorded = {name: np.concatenate(parts) for name, parts in self.recorded.items()}
        return Progress(self.runs, self.segments, self.rounds, leaves, recorded)

    def outcome(self, reports: int, keep_policy: bool) -> dict[str, Any]:
        """What a call returns of the runs: leaves (runs, …).

        "regrets" is (runs, C, 3), recordings are (runs, T, …), "policy" the state in the end.
        """
        (regrets,) = self.leaves(lambda batch: batch.reports)
        out: dict[str, Any] = {"regrets": regrets[:reports].astype(np.float64)}
        out |= {name: np.concatenate(parts) for name, parts in self.recorded.items()}
        if keep_policy:
            structure = jax.tree.structure(self.batches[0].carry.policy)
            leaves = self.leaves(lambda batch: batch.carry.policy)
            out["policy"] = jax.tree.unflatten(structure, leaves)
        return jax.tree.map(lambda leaf: np.moveaxis(leaf, -1, 0), out)


def drive(
    group: Group, settings: Settings, numbers: np.ndarray, width: int, device: Any,
    progress: Progress | None = None, spelling: Spelling = MAPPED,
) -> Iterator[Snapshot]:  # fmt: skip
    """Some runs through the horizon on one device; yields where they are after every stretch.

    The host prepares a stretch while the device computes the one before.

    Args:
      group: the policies and their tables.
      settings: what was asked for.
      numbers: which runs, counted over policies and, within each, over seeds.
      width: how many of them the compiled program takes at a time.
      device: where.
      progress: where the runs are; at the start by default.
      spelling: how the step is spelled out, if it is; see `choose_spelling`.
    """
    policy, record = traced_part(group.policies[0]), every_round(settings)
    seeds = settings.seeds[numbers % len(settings.seeds)]
    filled = [fill(numbers[i : i + width], width) for i in range(0, len(numbers), width)]
    with tracing_as(settings), jax.default_device(device):
        tables = jax.device_put(cast_tree(group.tables, settings.dtype))
        with _compiling:
            batches = [
                _begin(policy, report_rows(settings), tables, *make_runs(group, settings, each))
                for each in filled
            ]
        if progress is not None:
            batches = _restored(progress, batches)
    done, segments = (0, 0) if progress is None else (progress.rounds, progress.segments)
    recorded = {name: [] if progress is None else [progress.recorded[name]] for name in record}
    begun = False
    blocks, waste = settings.chunk or _STRETCH, report_rows(settings) - 1
    while segments < group.size:
        steps, count = group.steps(segments, blocks, waste, spelling.turn)
        rounds = steps.moment.length.reshape(-1)
        if begun:
            yield _arrived(Snapshot(numbers, segments, done, batches, recorded), policy, seeds)
        with tracing_as(settings), jax.default_device(device):
            begin_at, end = (np.array(i, np.int32) for i in (segments, segments + count))
            seen = []
            for i, batch in enumerate(batches):
                these = steps
                if settings.noise is not None:
                    seed = filled[i] % len(settings.seeds)
                    these = steps._replace(given=_given(settings.noise, steps, done, seed))
                these = cast_tree(these, settings.dtype)
                with _compiling:  # returns as soon as the work is handed over
                    batches[i], each = _advance(
                        policy, record, spelling, tables, batch, these, begin_at, end
                    )
                seen.append(each)
        for name, kept in recorded.items():
            whole = np.concatenate([np.asarray(each[name]) for each in seen], axis=-1)
            flat = whole.reshape(-1, *whole.shape[2:])[..., : len(numbers)]
            kept.append(np.repeat(flat, rounds, axis=0))
        begun, done, segments = True, done + int(rounds.sum()), segments + count
    yield _arrived(Snapshot(numbers, segments, done, batches, recorded), policy, seeds)


def choose_spelling(group: Group, settings: Settings, device: Any) -> tuple[Spelling, str | None]:
    """How the step is spelled out, and a note where the question arises.

    MAPPED where it is not: on CPUs, and where it would take too many operations.
    """
    arms = tuple(map(tuple, group.tables.arms.tolist()))
    if settings.spelling == MAPPED:
        return MAPPED, "mapped as asked"
    if settings.spelling is not None:
        return settings.spelling._replace(arms=arms), "spelled out as asked"
    if device.platform != "gpu":
        return MAPPED, None
    with tracing_as(settings):
        steps, _ = group.steps(0, 1, waste=report_rows(settings) - 1)
        one = (group.tables, steps)
        runs, keys = make_runs(group, settings, np.zeros(2, int))
        segments, note = _segments_of_a_kernel(
            traced_part(group.policies[0]), every_round(settings), arms, settings.dtype,
            settings.promotion, *_shapes((*cast_tree(one, settings.dtype), runs, keys)),
        )  # fmt: skip
    if not segments:
        return MAPPED, note
    # A report ends its turn, so that turns are to be shorter than what lies between two reports.
    turns = group.size // (2 * segments * len(settings.rounds))
    return Spelling(segments, _power_of_two(min(turns, _MOST_KERNELS)), arms), note


@lru_cache(maxsize=256)
def _segments_of_a_kernel(
    policy: Policy, record: tuple[str, ...], arms: Any, dtype: np.dtype, promotion: Any,
    structure: Any, shapes: tuple[Any, ...],
) -> tuple[int, str]:  # fmt: skip
    """How many, or 0 where the step is too long to be spelled out; and a note."""
    found, most = [], _MOST_OPERATIONS[dtype]

    def look(tables: Any, steps: Any, runs: Any, keys: Any) -> None:
        batch = begin(policy, 2, tables, runs, keys)
        tables = tables._replace(arms=np.array(arms, tables.arms.dtype))
        found.append(spell(policy, record, tables, batch, steps, most))

    try:
        jax.eval_shape(look, *jax.tree.unflatten(structure, shapes))
    except TooLongError:
        return 0, f"mapped: spelled out it takes more than {most} operations"
    (step,) = found
    operations, on_arrays = step.rest.operations, step.noise.on_arrays | step.rest.on_arrays
    numbers = len(step.kept.places)
    segments = next((segments for most, segments in _SEGMENTS if numbers <= most), 1)
    segments = _power_of_two(min(_OPERATIONS_OF_A_KERNEL[dtype] // operations, segments))
    note = f"spelled out: {operations} operations, {segments} segments in a kernel"
    return segments, note + (f"; on arrays: {', '.join(sorted(on_arrays))}" if on_arrays else "")


def _power_of_two(number: int) -> int:
    """The largest that is not above a number, at least 1; BLOCK is a multiple of it."""
    return 1 << max(number.bit_length() - 1, 0)


def _shapes(tree: Any) -> tuple[Any, tuple[jax.ShapeDtypeStruct, ...]]:
    leaves, structure = jax.tree.flatten(tree)
    return structure, tuple(jax.ShapeDtypeStruct(leaf.shape, leaf.dtype) for leaf in leaves)


@contextmanager
def tracing_as(settings: Settings) -> Iterator[None]:
    """JAX's settings under which a pass is traced, whatever those of the thread are."""
    with (
        jax.enable_x64(settings.dtype == np.float64),
        jax.numpy_rank_promotion("allow"),  # users' policies may rely on it
        jax.numpy_dtype_promotion(settings.promotion),
    ):
        yield


def traced_part(policy: Policy) -> Policy:
    """What of a policy is compiled in: its functions, and not its numbers."""
    return Policy(
        policy.init, policy.act, policy.update,
        feedback=policy.feedback, uniforms=policy.uniforms, name=policy.name,
    )  # fmt: skip


def every_round(settings: Settings) -> tuple[str, ...]:
    """What is recorded of every round."""
    return tuple(name for name in settings.record if name != "policy")


def fill(numbers: np.ndarray, width: int) -> np.ndarray:
    """An array (…, runs) with its last run repeated up to a width."""
    missing = width - numbers.shape[-1]
    return np.concatenate([numbers, np.repeat(numbers[..., -1:], missing, axis=-1)], axis=-1)


def make_runs(group: Group, settings: Settings, numbers: np.ndarray) -> tuple[Runs, Array]:
    """Runs by their numbers, and their keys."""
    place, seed = np.divmod(numbers, len(settings.seeds))

    def of_each(*leaves: Any) -> np.ndarray:
        return np.moveaxis(cast_leaf(np.stack(leaves), settings.dtype)[place], 0, -1)

    params = jax.tree.map(of_each, *(schedule.params for schedule in group.schedules))
    keys = jax.vmap(partial(jax.random.key, impl="threefry2x32"))(settings.seeds[seed])
    return Runs(jax.device_put(place.astype(np.int32)), params), keys


def report_rows(settings: Settings) -> int:
    """Rows of the reports: filled up, and one for what no report wants."""
    return -(-len(settings.rounds) // _REPORTS) * _REPORTS + 1


def _restored(progress: Progress, batches: list[Batch]) -> list[Batch]:
    """The batches with the state that was saved, if it is one of these runs."""
    state = [(batch.carry, batch.reports) for batch in batches]
    width = batches[0].reports.shape[-1]
    leaves, structure = jax.tree.flatten(state[0])
    filled = [fill(leaf, width * len(batches)) for leaf in progress.carry]
    expected = [((*leaf.shape[:-1], width * len(batches)), leaf.dtype) for leaf in leaves]
    if [(leaf.shape, leaf.dtype) for leaf in filled] != expected:
        raise ValueError("the checkpoint holds arrays that do not fit these runs; remove it")
    restored = []
    for i, batch in enumerate(batches):
        here = slice(i * width, (i + 1) * width)
        parts = [jnp.array(leaf[..., here]) for leaf in filled]
        carry, reports = jax.tree.unflatten(structure, parts)
        restored.append(batch._replace(carry=carry, reports=reports))
    return restored


def _given(noise: Noise, steps: Steps, done: int, seed: np.ndarray) -> np.ndarray:
    """Replayed noise for the rounds of a stretch, (blocks, BLOCK, n + 1, runs)."""
    length = steps.moment.length
    flat = length.reshape(-1)
    t = done + np.cumsum(flat) - flat
    t = np.minimum(t, noise.reward.shape[1] - 1)  # segments of no rounds use none of it
    both = np.concatenate([noise.state[seed][:, t], noise.reward[seed][:, t, None]], axis=-1)
    return np.moveaxis(both, 0, -1).reshape(*length.shape, -1, len(seed))


def _arrived(snapshot: Snapshot, policy: Policy, seeds: np.ndarray) -> Snapshot:
    """Wait for a stretch to be computed, and check it."""
    leaves = snapshot.leaves(lambda batch: batch.carry.policy)
    if not leaves:
        jax.block_until_ready([batch.reports for batch in snapshot.batches])
    check_state(policy, leaves, seeds, snapshot.rounds)
    return snapshot


def check_state(policy: Policy, leaves: list[np.ndarray], seeds: np.ndarray, rounds: int) -> None:
    """Reject NaN in a policy's state, (…, runs): it spoils decisions, but need not show in the regret."""
    for leaf in leaves:
        if leaf.dtype.kind == "f" and np.isnan(leaf).any():
            run = int(np.argwhere(np.isnan(leaf))[0, -1])
            raise FloatingPointError(
                f"the state of policy {policy.name!r} became NaN for seed {seeds[run]} by round "
                f"{rounds}; look for a division by zero or an overflow in its update"
            )


def cast_leaf(array: Any, dtype: np.dtype) -> np.ndarray:
    """Floats in the dtype of a run, whole numbers in 32 bits."""
    array = np.asarray(array)
    if array.dtype.kind == "f":
        try:
            with np.errstate(over="raise"):
                return array.astype(dtype)
        except FloatingPointError:
            raise ValueError(
                "a number of the problem or of a policy is beyond float32; use dtype float64, or other "
                "units"
            ) from None
    return array.astype(np.int32) if array.dtype.kind in "iu" else array


def cast_tree(tree: Any, dtype: np.dtype) -> Any:
    """`cast_leaf` for all leaves."""
    return jax.tree.map(partial(cast_leaf, dtype=dtype), tree)


_compiling = threading.Lock()  # so that workers do not compile the same program side by side


_begin = compiled(begin, static=2)
_advance = compiled(advance, static=3, donate=(4,))
