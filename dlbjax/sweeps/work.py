"""What a worker of a sweep does: compute a batch, and write its chunks."""

import ctypes
from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache
from itertools import groupby
from typing import Any, NamedTuple

import jax
import numpy as np

from dlbjax.common.hints import optional
from dlbjax.common.processes import check_not_forked
from dlbjax.engine.identity import source, versions
from dlbjax.engine.settings import Settings
from dlbjax.engine.simulate import make_entry, run_together
from dlbjax.model.problem import Problem
from dlbjax.policies.base import Policy, PolicyGrid
from dlbjax.sweeps.batches import Batch
from dlbjax.sweeps.layout import ARRAYS, Series
from dlbjax.sweeps.store import open_array

_MMAP_THRESHOLD = -3  # in malloc.h


class Task(NamedTuple):
    """All that a worker has to know of a series."""

    store: str
    series: Series
    problems: list[Problem]
    policies: list[Policy]  # one for every point, those of the first problem first
    settings: Settings


def compute(
    task: Task, batch: Batch, tick: Callable[[int], None], devices: list[Any] | None
) -> None:
    """Compute a batch and write it; its runs count as complete when all of it is written."""
    with suppress(OSError, AttributeError):  # there is no such function everywhere
        # Large arrays go back to the system when they are freed; the C library would keep them, in pieces
        # that no other thread can use.
        ctypes.CDLL(None).mallopt(_MMAP_THRESHOLD, 2**20)
    series, each = task.series, len(task.policies) // len(task.problems)
    settings = task.settings._replace(seeds=batch.seeds, devices=devices)
    entries = []
    for number, points in groupby(batch.points.tolist(), lambda point: point // each):
        chosen = list(points)
        grid = PolicyGrid({"point": np.array(chosen)}, [task.policies[i] for i in chosen])
        entries.append(make_entry(task.problems[number], series.policy, grid, settings))
    results = run_together(entries, settings, tick, None, 0.0)
    for name in (*ARRAYS, "complete"):
        array = open_array(task.store, series.path, name)
        if name == "complete":
            values = np.ones((len(batch.points), len(batch.rows)), bool)
        else:
            values = np.concatenate([getattr(result, name) for result in results])
        for point, mine in zip(batch.points, values, strict=True):
            array.oindex[(*np.unravel_index(point, series.shape), batch.rows)] = mine


def pack(task: Task) -> bytes:
    """A task for workers in other processes, whatever functions its policies are."""
    dumps = optional("cloudpickle", "sweeps").dumps
    return dumps((_code(), dumps(task)))


def compute_packed(packed: bytes, batch: Batch) -> None:
    """`compute` in a worker of an executor: on one core or device, as its others are for others."""
    check_not_forked()
    compute(_unpacked(packed), batch, lambda rounds: None, jax.local_devices()[:1])


@lru_cache(maxsize=64)  # functions that are made again are compiled again
def _unpacked(packed: bytes) -> Task:
    loads = optional("cloudpickle", "sweeps").loads
    code, task = loads(packed)
    if code != _code():
        raise ValueError(
            f"a worker has other code than the sweep ({_code()} there, {code} here); install the same "
            "everywhere"
        )
    return loads(task)


def _code() -> dict[str, str]:
    return versions() | {"digest of the code": source()}
