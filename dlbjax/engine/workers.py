"""Spreading the runs of several passes over cores and devices.

Runs do not talk to each other, so they are dealt out in jobs: some runs of one pass, on one device. A
worker is a thread that carries out one job after another; JAX computes outside Python's lock. On CPUs
one device serves several workers, one per core; every other device has a worker of its own.
"""

import logging
import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from queue import SimpleQueue
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.experimental.multihost_utils import process_allgather

from dlbjax.engine.passes import WIDTH, Pass, run
from dlbjax.engine.settings import Noise, Settings

_FEWEST = 64  # runs that are worth a worker of their own
_MOST = {"cpu": 512}  # runs whose state stays in a core's cache
_MOST_ELSEWHERE = 32_768

_log = logging.getLogger("dlbjax")


class Job(NamedTuple):
    """Some runs of one pass."""

    number: int  # of the pass
    runs: np.ndarray

    def cost(self, passes: list[Pass]) -> int:
        """Steps to compute, for starting the longest first."""
        return passes[self.number].segments * len(self.runs)


def choose_devices(devices: Any) -> list[Any]:
    """One entry for every worker: the devices given, or all that JAX has, CPUs once per core."""
    if devices is not None:
        return list(devices)
    found = jax.local_devices()
    if len(found) == 1 and found[0].platform == "cpu":
        return found * len(os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else [0])
    return found


def deal(passes: list[Pass], settings: Settings, workers: list[Any]) -> list[Job]:
    """Jobs of about equal size: no more than needed, but enough to keep every worker busy."""
    most = settings.batch or _MOST.get(workers[0].platform, _MOST_ELSEWHERE)
    jobs = []
    for number, pass_ in enumerate(passes):
        count = len(pass_.policies) * len(settings.seeds)
        parts = -(-count // most)
        if settings.batch is None:
            share = -(-len(workers) // len(passes))
            parts = max(parts, min(share, count // _FEWEST))
        size = -(-count // parts)
        size = size if settings.batch else -(-size // WIDTH) * WIDTH
        jobs += [Job(number, np.arange(i, min(i + size, count))) for i in range(0, count, size)]
    return sorted(jobs, key=lambda job: -job.cost(passes))


def carry_out(
    passes: list[Pass], settings: Settings, tick: Callable[[int], None]
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """All runs of all passes; "regrets" and recordings of each pass, (policies, seeds, …).

    Under `jax.distributed` every process takes an equal share of the seeds and gets all results. The
    second value says for each pass how its work was spread and what it cost here, with compilation.
    """
    hosts, count = jax.process_count(), len(settings.seeds)
    if hosts == 1:
        return _carry_out_here(passes, settings, tick)
    share = -(-count // hosts)
    mine = np.minimum(np.arange(share) + share * jax.process_index(), count - 1)
    noise = settings.noise and Noise(settings.noise.state[mine], settings.noise.reward[mine])
    here = settings._replace(seeds=settings.seeds[mine], noise=noise)
    done, execution = _carry_out_here(passes, here, tick)
    with jax.enable_x64(True):
        everywhere = process_allgather(done)  # leaves (hosts, policies, share, …)
    joined = jax.tree.map(lambda leaf: np.concatenate(list(leaf), axis=1)[:, :count], everywhere)
    return joined, [spent | {"hosts": hosts} for spent in execution]


def _carry_out_here(
    passes: list[Pass], settings: Settings, tick: Callable[[int], None]
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    workers = choose_devices(settings.devices)
    jobs = deal(passes, settings, workers)
    workers = workers[: len(jobs)]
    execution = {
        "platform": workers[0].platform,
        "workers": len(workers),
        "devices": len(set(workers)),
        "runs per job": max(len(job.runs) for job in jobs),
    }
    _log.info("dlbjax: %s", ", ".join(f"{key} {value}" for key, value in execution.items()))
    free: SimpleQueue[Any] = SimpleQueue()
    for device in workers:
        free.put(device)
    stop = threading.Event()

    def checked(rounds: int) -> None:
        if stop.is_set():
            raise InterruptedError
        tick(rounds)

    def work(job: Job) -> tuple[dict[str, Any], float]:
        device, begin = free.get(), time.perf_counter()
        try:
            out = run(passes[job.number], settings, job.runs, device, checked)
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
