"""Spreading the runs of several passes over cores and devices.

Runs do not talk to each other, so they are dealt out in jobs: some runs of one pass, on one device. A
worker is a thread that carries out one job after another; JAX computes outside Python's lock. On CPUs
one device serves several workers, one per core; every other device has a worker of its own.
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

from dlbjax.engine.checkpoint import Checkpoint
from dlbjax.engine.passes import WIDTH, Pass, Progress, run
from dlbjax.engine.settings import Settings

_FEWEST = 16  # runs that are worth a worker of their own: from 32 runs on two cores beat one
_MOST = {"cpu": 512}  # runs whose state stays in a core's cache
_MOST_ELSEWHERE = 32_768

_log = logging.getLogger("dlbjax")


class Job(NamedTuple):
    """Some runs of one pass."""

    number: int  # of the pass
    runs: np.ndarray
    progress: Progress | None = None  # how far they are

    @property
    def key(self) -> tuple[int, int]:
        """Its name in a checkpoint."""
        return self.number, int(self.runs[0])

    def cost(self, passes: list[Pass]) -> int:
        """Steps to compute, for starting the longest first."""
        done = 0 if self.progress is None else self.progress.segments
        return (passes[self.number].segments - done) * len(self.runs)


def choose_devices(devices: Any) -> list[Any]:
    """One entry for every worker: the devices given, or all that JAX has, CPUs once per core."""
    if devices is not None:
        return list(devices)
    found = jax.local_devices()
    if len(found) == 1 and found[0].platform == "cpu":
        return found * len(os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else [0])
    return found


def deal(
    passes: list[Pass], settings: Settings, workers: list[Any],
    begun: Sequence[tuple[int, Progress]] = (),
) -> list[Job]:  # fmt: skip
    """Jobs of about equal size: no more than needed, but enough to keep every worker busy.

    Runs that were begun (number of the pass, and progress) stay together as they were.
    """
    most = settings.batch or most_runs(workers[0])
    jobs = [Job(number, progress.runs, progress) for number, progress in begun]
    for number, pass_ in enumerate(passes):
        elsewhere = [progress.runs for i, progress in begun if i == number]
        left = np.arange(len(pass_.policies) * len(settings.seeds))
        left = np.setdiff1d(left, np.concatenate(elsewhere)) if elsewhere else left
        if len(left) == 0:
            continue
        parts = -(-len(left) // most)
        if settings.batch is None:
            share = -(-len(workers) // len(passes))
            parts = max(parts, min(share, len(left) // _FEWEST))
        size = -(-len(left) // parts)
        size = size if settings.batch else -(-size // WIDTH) * WIDTH
        jobs += [Job(number, left[i : i + size]) for i in range(0, len(left), size)]
    return sorted(jobs, key=lambda job: -job.cost(passes))


def most_runs(device: Any) -> int:
    """Runs that a device advances together at most."""
    return _MOST.get(device.platform, _MOST_ELSEWHERE)


def carry_out(
    passes: list[Pass], settings: Settings, tick: Callable[[int], None],
    checkpoint: Checkpoint | None = None,
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:  # fmt: skip
    """All runs of all passes; "regrets" and recordings of each pass, (policies, seeds, …).

    The second value says for each pass how its work was spread and what it cost, with compilation.
    """
    workers = choose_devices(settings.devices)
    begun = checkpoint.read(passes, len(settings.seeds)) if checkpoint else []
    jobs = deal(passes, settings, workers, begun)
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
    tick(sum(progress.rounds * len(progress.runs) for _, progress in begun))
    free: SimpleQueue[Any] = SimpleQueue()
    for device in workers:
        free.put(device)
    stop = threading.Event()

    def work(job: Job) -> tuple[dict[str, Any], float]:
        pass_ = passes[job.number]

        def edge(rounds: int, segments: int, so_far: Callable[[], Progress]) -> None:
            finished = segments == pass_.segments
            begun = segments > 0
            if checkpoint and begun and (finished or stop.is_set() or checkpoint.wants(job.key)):
                checkpoint.put(job.key, so_far(), finished)
            if stop.is_set():
                raise InterruptedError
            tick(rounds)

        device, begin = free.get(), time.perf_counter()
        try:
            if checkpoint:
                checkpoint.begin(job.key)
            out = run(pass_, settings, job.runs, device, edge, job.progress)
            return out, time.perf_counter() - begin
        finally:
            free.put(device)

    with ThreadPoolExecutor(len(workers)) as pool:
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
    for i, pass_ in enumerate(passes):
        mine = [(job.runs, *d) for job, d in zip(jobs, done, strict=True) if job.number == i]
        joined.append(_joined(pass_, settings, [(runs, out) for runs, out, _ in mine]))
        costs.append(execution | {"core seconds": sum(seconds for *_, seconds in mine)})
    return joined, costs


def _joined(
    pass_: Pass, settings: Settings, parts: list[tuple[np.ndarray, dict[str, Any]]]
) -> dict[str, Any]:
    shape = (len(pass_.policies), len(settings.seeds))
    order = np.argsort(np.concatenate([runs for runs, _ in parts]))

    def join(*leaves: np.ndarray) -> np.ndarray:
        return np.concatenate(leaves)[order].reshape(*shape, *leaves[0].shape[1:])

    return jax.tree.map(join, *(out for _, out in parts))
