"""`sweep`: problems × policies × hyper-parameters × seeds, batch by batch into a store."""

import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import BrokenExecutor, CancelledError, Executor, as_completed
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from tqdm.auto import tqdm

from dlbjax.common.arrays import instance_of, short
from dlbjax.common.files import as_path
from dlbjax.engine import identity
from dlbjax.engine.settings import Settings, check_settings
from dlbjax.engine.simulate import Entry, describe, make_entry
from dlbjax.model.grid import ProblemGrid, as_problem_grid
from dlbjax.model.problem import Problem
from dlbjax.policies.base import Policy, PolicyGrid
from dlbjax.sweeps.batches import Batch, batch_size, block_size, make_batches
from dlbjax.sweeps.layout import RESERVED, Series, axes_as_json, check_labels
from dlbjax.sweeps.store import Store
from dlbjax.sweeps.work import Task, compute, compute_packed, pack
from dlbjax.sweeps.writer import Writer

Chosen = Policy | PolicyGrid | Callable[[Problem], Policy | PolicyGrid]
AnyProblem = Problem | ProblemGrid


def sweep(
    problems: AnyProblem | Mapping[str, AnyProblem],
    policies: Chosen | Mapping[str, Chosen],
    horizon: int,
    seeds: int | Sequence[int],
    store: str | Path,
    *,
    executor: Executor | Any = None,
    rounds: Sequence[int] | None = None,
    dtype: str | type | np.dtype = np.float64,
    progress: bool | None = None,
    repair: bool = False,
) -> Store:
    """Run every policy on every problem, in batches that fit into memory, into a store.

    Runs that are in the store already are not computed again: the same call continues a sweep that was
    killed, and a call with more seeds, policies or problems adds to it. A run has the numbers that
    `simulate` gives it. Only what a batch had computed when it was killed is lost; a batch takes about
    a gigabyte of memory at most. One sweep at a time may write to a store.

    Args:
      problems: problems, or grids of them (`ProblemGrid`), by label; or one.
      policies: policies or grids by label, or one. Where they depend on the problem, functions of it:
        `lambda problem: dlb.dynlin_ucb(dlb.Bounds.of(problem))`.
      horizon: number of rounds T.
      seeds: how many runs of each (seeds 0, 1, …), or the seeds themselves.
      store: a folder, made where there is none, or the address of one, such as s3://bucket/runs.zarr.
        All workers must reach it under this name.
      executor: who computes: this process, on all of its cores and devices, by default; a
        `concurrent.futures.Executor` or a Dask client, whose workers then compute a batch each, on one
        core or device. Processes of a pool must be spawned, not forked. Problems and policies are
        sent to the workers with cloudpickle.
      rounds: rounds after which regret is reported, as in `simulate`. Each takes 24 bytes per run.
      dtype: float64 or float32, as in `simulate`.
      progress: show a progress bar, as in `simulate`.
      repair: whether to read all that the store has of these runs first, and compute anew what is
        damaged or missing.

    Returns:
      The store. `dlb.Store(path)` opens it at any time, also while it grows.

    >>> import dlbjax as dlb, tempfile
    >>> problems = {"synthetic": dlb.ProblemGrid.of(dlb.problems.synthetic, sigma=[0.01, 0.1])}
    >>> policies = {"Lin-UCB": lambda problem: dlb.lin_ucb(dlb.Bounds.of(problem), lam=[1.0, 10.0])}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     store = dlb.sweep(problems, policies, horizon=100, seeds=4, store=folder)
    ...     more = dlb.sweep(problems, policies, horizon=100, seeds=6, store=folder)  # two new seeds
    ...     frame = more.to_pandas()
    >>> len(frame), frame.columns.tolist()[:6]
    (24, ['problem', 'policy', 'sigma', 'lam', 'seed', 'round'])
    """
    as_path("store", store)  # before anything is traced
    settings = check_settings(1, horizon, seeds, None, (), rounds, dtype, None, None, None)
    submit = _submitter(executor)
    tasks = list(_tasks(problems, policies, settings))
    with _in_one_sentence(store):
        _run(tasks, settings, Writer.make(store, repair), submit, progress, repair)
        return Store(store)


def _run(
    tasks: list[Task], settings: Settings, store: Writer, submit: Callable[..., Any] | None,
    progress: bool | None, repair: bool,
) -> None:  # fmt: skip
    """Find out what is missing, have it computed, and check that it is there."""
    added = store.add([task.series for task in tasks], settings.rounds, settings.seeds)
    work: list[tuple[Task, Batch]] = []
    most = batch_size(settings, shared=submit is not None)
    for task, (series, rows) in zip(tasks, added, strict=True):
        missing = store.missing(series, rows, repair)
        batches = make_batches(missing, rows, settings.seeds, series.block, most)
        work += [(task._replace(store=store.path, series=series), batch) for batch in batches]
    runs = sum(task.series.points for task in tasks) * len(settings.seeds)
    left = sum(batch.runs for _, batch in work)
    with tqdm(
        total=settings.horizon * runs, initial=settings.horizon * (runs - left), unit=" rounds",
        unit_scale=True, delay=0 if progress else 2,
        disable=None if progress is None else not progress, desc=f"sweep {Path(store.path).name}",
    ) as bar:  # fmt: skip
        failures = list(_carry_out(work, submit, settings.horizon, bar.update))
    if failures:
        raise FloatingPointError(f"{failures[0]}. All runs that did not fail are in the store")
    there = {series.path for series in store.series()}
    for series, rows in added:
        if series.path not in there or store.missing(series, rows).any():
            raise ValueError(
                f"runs of {series.label} that were computed are not in {store.path}: something else "
                "changed it meanwhile; sweep again to complete it"
            )
        store.remove_leftovers(series)


def _submitter(executor: Any) -> Callable[..., Any] | None:
    """How to hand out work, None for doing it here."""
    if hasattr(executor, "get_executor"):  # a Dask client
        executor = executor.get_executor()
    instance_of(
        "executor", executor, Executor | None, "a concurrent.futures.Executor or a Dask client"
    )
    return None if executor is None else executor.submit


def _tasks(problems: Any, policies: Any, settings: Settings) -> Iterator[Task]:
    """A task for every policy on every problem."""
    named = problems if isinstance(problems, Mapping) else {"problem": problems}
    by_name = policies if isinstance(policies, Mapping) else {"policy": policies}
    check_labels("problems", list(named))
    check_labels("policies", list(by_name))
    for label, problem in named.items():
        grid = as_problem_grid(problem)
        for name, policy in by_name.items():
            # A Policy is a tuple, so that it cannot be called.
            chosen = [policy(each) if callable(policy) else policy for each in grid.problems]
            pairs = zip(grid.problems, chosen, strict=True)
            entries = [make_entry(each, name, its, settings) for each, its in pairs]
            yield _task(label, grid, name, entries, settings)


def _task(
    label: str, problems: ProblemGrid, name: str, entries: list[Entry], settings: Settings
) -> Task:
    """The series of a policy on a problem, or on a grid of them, and what computes it."""
    outer, *inner = (
        axes_as_json(axes) for axes in (problems.axes, *(e.grid.axes for e in entries))
    )
    for other in inner[1:]:
        if other != inner[0]:
            raise ValueError(
                f"policy {name!r} has axes {short(inner[0])} on one problem of {label!r} and {short(other)} "
                "on another; they must be the same"
            )
    names = [axis for axis, *_ in outer + inner[0]]
    for axis in names:
        if axis in RESERVED or names.count(axis) > 1:
            raise ValueError(
                f"{axis!r} cannot be the name of an axis: the results have another of that name. Rename it"
            )
    one = settings._replace(seeds=settings.seeds[:1])
    fingerprint = identity.of_call([e.problem for e in entries], [e.groups for e in entries], one)
    fingerprint["axes"] = outer + inner[0]
    del fingerprint["seeds"]
    config, *others = (describe(entry, settings) for entry in entries)
    if problems.axes:
        config["problem"] = [config["problem"], *(each["problem"] for each in others)]
        config["policies"] += [policy for each in others for policy in each["policies"]]
    series = Series(
        label, name, _as_json(config), _as_json(fingerprint),
        reports=len(settings.rounds), block=block_size(settings),
    )  # fmt: skip
    every = [policy for entry in entries for policy in entry.grid.policies]
    return Task("", series, list(problems.problems), every, settings)


def _as_json(content: Mapping[str, Any]) -> Any:
    """As JSON returns it; numbers that it does not know as text."""
    try:
        return json.loads(json.dumps(content), parse_constant=str)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"config in the schedules of a sweep's policies must be fit for JSON: {error}"
        ) from error


def _carry_out(
    work: list[tuple[Task, Batch]], submit: Callable[..., Any] | None, horizon: int,
    tick: Callable[[int], Any],
) -> Iterator[FloatingPointError]:  # fmt: skip
    """Do the work here or have it done; yields what failed because of a policy."""
    if submit is None:
        for task, batch in work:
            try:
                compute(task, batch, tick, None)
            except FloatingPointError as error:
                yield error
        return
    packed = {task.series.path: pack(task) for task, _ in work}
    futures: dict[Any, Batch] = {}
    try:
        for task, batch in work:
            futures[submit(compute_packed, packed[task.series.path], batch)] = batch
        for future in as_completed(futures):
            try:
                future.result()
            except FloatingPointError as error:
                yield error
            tick(horizon * futures[future].runs)
    finally:
        for future in futures:
            future.cancel()


@contextmanager
def _in_one_sentence(store: str | Path) -> Iterator[None]:
    """Say of workers that were lost, and of files that cannot be written, what to do."""
    try:
        yield
    except (CancelledError, BrokenExecutor, _killed_worker()) as error:
        raise ConnectionError(
            f"workers of the sweep were lost ({error!r:.100}), killed perhaps, out of memory, or without "
            f"their scheduler. What they completed is in {store}: make the same call again, with a new "
            "executor, to go on"
        ) from error
    except OSError as error:
        why = f"{error.strerror or error}; what was completed is kept: make the same call again to go on"
        raise OSError(error.errno, why, os.fspath(store)) from error


def _killed_worker() -> type[BaseException]:
    """What Dask raises when it gives up a batch because four workers died of it."""
    dask = sys.modules.get("distributed")
    return dask.KilledWorker if dask else BrokenExecutor
