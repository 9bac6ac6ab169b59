"""The pool: the runs of several groups, spread over cores and devices.

Runs do not depend on each other, so they are dealt out in jobs: some runs of one group, on one device.
A worker is a thread that does one job after another; JAX computes outside of Python's lock. On CPUs one
device serves several workers, one per core; every other device has a worker of its own.
"""

import logging
import os
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from queue import SimpleQueue
from typing import Any, NamedTuple

import jax
import numpy as np

from dlbjax.common.processes import check_not_forked
from dlbjax.engine.checkpoint import Checkpoint
from dlbjax.engine.interrupts import interrupts
from dlbjax.engine.plan import Group
from dlbjax.engine.run import Progress, Snapshot, choose_spelling, drive
from dlbjax.engine.settings import Settings

_FEWEST = 16  # runs that are worth a worker of their own: from 32 runs on two cores beat one
_MOST = {"cpu": 512}  # runs of a job; a stretch is prepared once for all of them
_MOST_ELSEWHERE = (2**15, 2**18)  # at least and at most, by the device's memory
# Bytes for a run on such a device, which takes some 2¹⁴, or 2¹⁵ where it is recorded.
_ROOM = 2**17
# Runs that the compiled program takes on a CPU: the first number serves every job that is over sooner than
# another program is compiled; at most the second, so that the fixed cost of a step hardly shows and what it
# touches stays in the cache.
_USUAL, _WIDEST = 32, 128
# What their number is a multiple of: the library for products of matrices rounds in another way elsewhere.
_MULTIPLE = {np.dtype(np.float64): 8, np.dtype(np.float32): 32}
_MANY = 64  # numbers that all arms have together, beyond which half as many runs fit
_TOO_MANY = 4096  # beyond which that library rounds by the width, and the first fills the cache
_ROUNDED_ALIKE = (
    4096  # weights of arms times runs, beyond which XLA's loop over them rounds in another way
)
_WORTH_COMPILING = 2**21  # steps times runs of a job

_log = logging.getLogger("dlbjax")


class Job(NamedTuple):
    """Some runs of one group."""

    number: int  # of the group
    runs: np.ndarray
    progress: Progress | None = None  # where they are

    @property
    def key(self) -> tuple[int, int]:
        """Its name in a checkpoint."""
        return self.number, int(self.runs[0])

    def cost(self, groups: list[Group]) -> int:
        """Steps to compute, for starting the longest first."""
        done = 0 if self.progress is None else self.progress.segments
        return (groups[self.number].size - done) * len(self.runs)


def choose_devices(devices: Any) -> list[Any]:
    """One entry for every worker: the devices given, or all that JAX has, CPUs once per core."""
    if devices is not None:
        return list(devices)
    found = jax.local_devices()
    if len(found) == 1 and found[0].platform == "cpu":
        return found * len(os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else [0])
    return found


def deal(
    groups: list[Group], settings: Settings, workers: list[Any],
    begun: Sequence[tuple[int, Progress]] = (),
) -> list[Job]:  # fmt: skip
    """Jobs of about equal size: no more than needed, but enough to keep every worker busy.

    Runs that were begun (number of the group, and progress) stay together as they were.
    """
    most = settings.batch or most_runs(workers[0])
    jobs = [Job(number, progress.runs, progress) for number, progress in begun]
    for number, group in enumerate(groups):
        elsewhere = [progress.runs for i, progress in begun if i == number]
        left = np.arange(len(group.policies) * len(settings.seeds))
        left = np.setdiff1d(left, np.concatenate(elsewhere)) if elsewhere else left
        if len(left) == 0:
            continue
        parts = -(-len(left) // most)
        if settings.batch is None:
            share = -(-len(workers) // len(groups))
            parts = max(parts, min(share, len(left) // _FEWEST))
        size = -(-len(left) // parts)
        if settings.batch is None:
            width = choose_width(workers[0], size, group, settings.dtype)
            size = -(-size // width) * width
        jobs += [Job(number, left[i : i + size]) for i in range(0, len(left), size)]
    return sorted(jobs, key=lambda job: -job.cost(groups))


def most_runs(device: Any) -> int:
    """Runs of a job on a device, at most: what it has room for, a power of two."""
    if device.platform in _MOST:
        return _MOST[device.platform]
    room = (device.memory_stats() or {}).get("bytes_limit", 0) // _ROOM
    least, most = _MOST_ELSEWHERE
    return min(max(least, 1 << room.bit_length() >> 1), most)


def choose_width(device: Any, runs: int, group: Group, dtype: np.dtype) -> int:
    """How many runs of a job the compiled program takes at a time. Their numbers do not depend on it."""
    if device.platform != "cpu":
        return max(64, 1 << (runs - 1).bit_length())
    numbers = group.tables.arms.size
    if runs * group.size < _WORTH_COMPILING or numbers > _TOO_MANY:
        return _USUAL
    widest = _WIDEST // (1 if numbers <= _MANY else 2)
    if group.policies[0].uniforms:  # which weighs every arm, and adds up the weights
        widest = max(
            min(widest, _ROUNDED_ALIKE // len(group.tables.arms)) // _USUAL * _USUAL, _USUAL
        )
    each = -(-runs // -(-runs // widest))  # of the batches that are needed, about equally many
    return -(-each // _MULTIPLE[dtype]) * _MULTIPLE[dtype]


def compute(
    groups: list[Group], settings: Settings, tick: Callable[[int], None],
    checkpoint: Checkpoint | None = None,
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:  # fmt: skip
    """All runs of all groups; "regrets" and recordings of each group, (policies, seeds, …).

    The second value says for each group how its work was spread and what it cost, with compilation.
    `tick` is called with the rounds that were completed since the last time.
    """
    check_not_forked()
    workers = choose_devices(settings.devices)
    begun = checkpoint.read(groups, len(settings.seeds)) if checkpoint else []
    jobs = deal(groups, settings, workers, begun)
    workers = workers[: len(jobs)]
    execution = {
        "platform": workers[0].platform,
        "workers": len(workers),
        "devices": len(set(workers)),
        "runs per job": max(len(job.runs) for job in jobs),
    }
    if flags := os.environ.get("XLA_FLAGS"):
        execution["XLA_FLAGS"] = flags
    if jax.process_count() > 1:
        execution["hosts"] = jax.process_count()
    _log.info("dlbjax: %s", ", ".join(f"{key} {value}" for key, value in execution.items()))
    spellings = [choose_spelling(group, settings, workers[0]) for group in groups]
    longest = [max((len(job.runs) for job in jobs if job.number == i), default=0)
               for i in range(len(groups))]  # fmt: skip
    tick(sum(progress.rounds * len(progress.runs) for _, progress in begun))
    free: SimpleQueue[Any] = SimpleQueue()
    for device in workers:
        free.put(device)
    stop = threading.Event()

    def work(job: Job) -> tuple[dict[str, Any], float]:
        device, began = free.get(), time.perf_counter()
        try:
            if checkpoint:
                checkpoint.begin(job.key)
            last = carry_out(job, device)
            out = last.outcome(len(settings.rounds), keep_policy="policy" in settings.record)
            return out, time.perf_counter() - began
        finally:
            free.put(device)

    def must_stop() -> bool:
        return stop.is_set() or pressed.is_set()

    def carry_out(job: Job, device: Any) -> Snapshot:
        group, done = groups[job.number], 0 if job.progress is None else job.progress.rounds
        # On CPUs the same for all jobs of a group, so that it compiles once.
        most = longest[job.number] if device.platform == "cpu" else len(job.runs)
        width = choose_width(device, most, group, settings.dtype)
        spelling, _ = spellings[job.number]
        for snapshot in drive(group, settings, job.runs, width, device, job.progress, spelling):
            if checkpoint:
                finished = snapshot.segments == group.size
                checkpoint.offer(job.key, snapshot, finished, urgent=must_stop())
            if must_stop():
                raise InterruptedError
            tick((snapshot.rounds - done) * len(job.runs))
            done = snapshot.rounds
        return snapshot

    with interrupts() as pressed, ThreadPoolExecutor(len(workers)) as pool:
        futures = [pool.submit(work, job) for job in jobs]
        try:
            done = [future.result() for future in futures]
        except BaseException:
            stop.set()
            pool.shutdown(cancel_futures=True)
            raise
        finally:
            if checkpoint:
                checkpoint.write()
    joined, costs = [], []
    for i, group in enumerate(groups):
        mine = [(job.runs, *d) for job, d in zip(jobs, done, strict=True) if job.number == i]
        joined.append(_joined(group, settings, [(runs, out) for runs, out, _ in mine]))
        step = {} if spellings[i][1] is None else {"step": spellings[i][1]}
        costs.append(execution | step | {"core seconds": sum(seconds for *_, seconds in mine)})
    return joined, costs


def _joined(
    group: Group, settings: Settings, parts: list[tuple[np.ndarray, dict[str, Any]]]
) -> dict[str, Any]:
    shape = (len(group.policies), len(settings.seeds))
    order = np.argsort(np.concatenate([runs for runs, _ in parts]))

    def join(*leaves: np.ndarray) -> np.ndarray:
        return np.concatenate(leaves)[order].reshape(*shape, *leaves[0].shape[1:])

    return jax.tree.map(join, *(out for _, out in parts))
