"""`sweep`: problems × policies × hyper-parameters × seeds, batch by batch into a store."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from tqdm.auto import tqdm

from dlbjax.common.arrays import real_number
from dlbjax.common.digest import digest, digest_text
from dlbjax.common.files import as_path
from dlbjax.engine import identity
from dlbjax.engine.settings import Settings, check_settings
from dlbjax.engine.simulate import Entry, describe, make_entry, run_together
from dlbjax.model.problem import Problem
from dlbjax.policies.base import Policy, PolicyGrid
from dlbjax.sweeps.batches import Batch, claimed, give_back_memory, make_batches, runs_that_fit
from dlbjax.sweeps.store import RESERVED, Series, Store

_PATIENCE = 1.0  # seconds before trying again to claim batches that others have claimed

Chosen = Policy | PolicyGrid | Callable[[Problem], Policy | PolicyGrid]


def sweep(
    problems: Problem | Mapping[str, Problem],
    policies: Chosen | Mapping[str, Chosen],
    horizon: int,
    seeds: int | Sequence[int],
    store: str | Path,
    *,
    rounds: Sequence[int] | None = None,
    dtype: str | type | np.dtype = np.float64,
    devices: Sequence[Any] | None = None,
    progress: bool | None = None,
    checkpoint_every: float = 30.0,
) -> Store:
    """Run every policy on every problem, in batches that fit into memory, into a store.

    Runs that are in the store already are not computed again: the same call continues a sweep that was
    killed, and a call with more seeds, policies or problems adds to it. Any number of processes may make
    the call at once, on machines that share the folder: they divide the batches among them, each takes
    over what a killed one left, and each returns when all runs are done. A run has the numbers that
    `simulate` gives it. A batch that was computed in part is continued by the same call only; a batch
    takes about a gigabyte of memory at most.

    Args:
      problems: problems by label, or one.
      policies: policies or grids by label, or one. Where they depend on the problem, functions of it:
        `lambda problem: dlb.dynlin_ucb(dlb.Bounds.of(problem))`.
      horizon: number of rounds T.
      seeds: how many runs of each (seeds 0, 1, …), or the seeds themselves.
      store: a folder for this purpose only, made where there is none.
      rounds: rounds after which regret is reported, as in `simulate`. Each takes 24 bytes per run.
      dtype: float64 or float32, as in `simulate`.
      devices: JAX devices to use, as in `simulate`.
      progress: show a progress bar, as in `simulate`.
      checkpoint_every: seconds between two checkpoints of a batch, from which a killed sweep resumes.

    Returns:
      The store. `dlb.Store(folder)` opens it at any time, also while it grows.

    >>> import dlbjax as dlb, tempfile
    >>> problems = {f"sigma={s}": dlb.problems.synthetic(s) for s in (0.01, 0.1)}
    >>> policies = {"Lin-UCB": lambda problem: dlb.lin_ucb(dlb.Bounds.of(problem), lam=[1.0, 10.0])}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     store = dlb.sweep(problems, policies, horizon=100, seeds=4, store=folder)
    ...     more = dlb.sweep(problems, policies, horizon=100, seeds=6, store=folder)  # two new seeds
    ...     frame = more.to_pandas()
    >>> len(frame), frame.columns.tolist()[:5]
    (24, ['problem', 'policy', 'lam', 'seed', 'round'])
    """
    folder = as_path("store", store)
    every = real_number("checkpoint_every", checkpoint_every, at_least=0.0)
    settings = check_settings(1, horizon, seeds, None, (), rounds, dtype, None, None, devices)
    tasks = [
        Task(entry.problem, entry.grid, _series(label, entry, settings))  # without the large tables
        for label, entry in _entries(problems, policies, settings)
    ]
    kept = Store.make(folder)
    for task in tasks:
        kept.add(task.series)
    points = {task.series.folder: task.series.points for task in tasks}
    waiting = make_batches(points, settings.seeds, runs_that_fit(settings))
    with tqdm(
        total=settings.horizon * len(settings.seeds) * sum(points.values()), unit=" rounds",
        unit_scale=True, delay=0 if progress else 2,
        disable=None if progress is None else not progress, desc=f"sweep {kept.path.name}",
    ) as bar:  # fmt: skip

        def tick(rounds: int) -> None:
            bar.update(rounds)

        by_folder = {task.series.folder: task for task in tasks}
        work = Work(by_folder, settings, kept, every, tick, failures=[])
        while waiting:
            left = [batch for batch in waiting if not work.do(batch)]
            if len(left) == len(waiting):
                time.sleep(_PATIENCE)
            waiting = left
    if work.failures:
        raise FloatingPointError(f"{work.failures[0]}. All runs that did not fail are in the store")
    return kept


def _entries(
    problems: Problem | Mapping[str, Problem], policies: Chosen | Mapping[str, Chosen],
    settings: Settings,
) -> Iterator[tuple[str, Entry]]:  # fmt: skip
    """Label of the problem and entry, for every policy on every problem."""
    named = problems if isinstance(problems, Mapping) else {"problem": problems}
    by_name = policies if isinstance(policies, Mapping) else {"": policies}
    for name, labels in (("problems", list(named)), ("policies", list(by_name))):
        if not labels or not all(isinstance(label, str) for label in labels):
            raise ValueError(f"{name} must have at least one label, a string; got {labels}")
    for label, problem in named.items():
        if not isinstance(problem, Problem):
            raise ValueError(
                f"problems must be dlbjax.Problems; {label!r} is {type(problem).__name__}"
            )
        for name, policy in by_name.items():
            # A Policy is a tuple, so that it cannot be called.
            chosen = policy(problem) if callable(policy) else policy
            yield label, make_entry(problem, name, chosen, settings)


def _series(label: str, entry: Entry, settings: Settings) -> Series:
    for name in entry.grid.axes:
        if name in RESERVED:
            raise ValueError(
                f"{name!r} cannot be the name of an axis: results have a column of that name. Rename it"
            )
    axes = {name: np.asarray(values) for name, values in entry.grid.axes.items()}
    one = settings._replace(seeds=settings.seeds[:1])
    return Series(
        problem=label,
        policy=entry.label,
        axes=axes,
        rounds=settings.rounds,
        config=describe(entry, settings),
        fingerprint=identity.of_settings(one)
        | identity.of_groups(entry.problem, entry.groups, one)
        | {"axes": {name: values.tolist() for name, values in axes.items()}},
    )


class Task(NamedTuple):
    """A policy, or a grid of them, on a problem, and its place in the store."""

    problem: Problem
    grid: PolicyGrid
    series: Series


class Work(NamedTuple):
    """What all batches of a sweep share."""

    tasks: Mapping[str, Task]  # by folder
    settings: Settings
    store: Store
    checkpoint_every: float
    tick: Callable[[int], None]  # called with the number of rounds completed since the last call
    failures: list[FloatingPointError]

    def do(self, batch: Batch) -> bool:
        """Compute what a batch lacks and put it into the store, unless another writer has claimed it.

        A checkpoint is removed when all shards computed with it are drafted. So a writer that is killed
        leaves a checkpoint, from which drafts can be made again, or drafts that are complete.
        """
        store = self.store
        with claimed(store.work / f"{batch.name}.lock") as mine:
            if not mine:
                return False
            if not list(store.work.glob(f"{batch.name}-*.checkpoint")):
                store.publish(batch.name)
            for seeds, chosen in self._missing(batch).items():
                self._compute(batch.name, np.array(seeds), chosen)
                give_back_memory()
            leftovers = [store.work.glob(f"{begin}{batch.name}[-+]*") for begin in ("", ".")]
            for path in chain(*leftovers):  # incomplete files of writers that were killed
                path.unlink()
        return True

    def _missing(self, batch: Batch) -> dict[tuple[int, ...], list[tuple[str, list[int]]]]:
        """Folders and points that lack the same seeds, by those seeds; ticks for runs that are done."""
        wanted: dict[tuple[int, ...], list[tuple[str, list[int]]]] = {}
        for folder in dict.fromkeys(cell.series for cell in batch.cells):
            points = np.array([cell.point for cell in batch.cells if cell.series == folder])
            missing = self.store.missing(self.tasks[folder].series, points, batch.seeds)
            self.tick(self.settings.horizon * int((~missing).sum()))
            for row in np.unique(missing[missing.any(axis=1)], axis=0):
                alike = points[(missing == row).all(axis=1)].tolist()
                wanted.setdefault(tuple(batch.seeds[row].tolist()), []).append((folder, alike))
        return wanted

    def _compute(self, name: str, seeds: np.ndarray, chosen: list[tuple[str, list[int]]]) -> None:
        content = digest_text(f"{chosen} {digest(seeds)}")
        checkpoint = self.store.work / f"{name}-{content}.checkpoint"
        try:
            results = run_together(
                [self._points(self.tasks[folder], points) for folder, points in chosen],
                self.settings._replace(seeds=seeds), self.tick, checkpoint, self.checkpoint_every,
            )  # fmt: skip
        except FloatingPointError as error:
            checkpoint.unlink(missing_ok=True)
            if len(chosen) == 1:
                self.failures.append(error)
            else:  # find out which of them failed
                for one in chosen:
                    self._compute(name, seeds, [one])
            return
        for (folder, points), result in zip(chosen, results, strict=True):
            self.store.draft(self.tasks[folder].series, np.array(points), result, name)
        checkpoint.unlink()
        self.store.publish(name)

    def _points(self, task: Task, points: list[int]) -> Entry:
        """Some points of a task's grid."""
        policies = [task.grid.policies[point] for point in points]
        grid = PolicyGrid({"point": np.array(points)}, policies)
        return make_entry(task.problem, task.series.policy, grid, self.settings)
