"""`sweep`: problems × policies × hyper-parameters × seeds, batch by batch into a store."""

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from tqdm.auto import tqdm

from dlbjax._arrays import real_number
from dlbjax._digest import digest
from dlbjax.engine import fingerprint
from dlbjax.engine.settings import Settings, check_settings
from dlbjax.engine.simulate import Entry, as_grid, describe, make_passes, run_together
from dlbjax.engine.workers import choose_devices, most_runs
from dlbjax.policies.policy import Policy, PolicyGrid
from dlbjax.problem import Problem
from dlbjax.sweeps.batches import Batch, claimed, make_batches, runs_that_fit
from dlbjax.sweeps.store import Series, Store

_PATIENCE = 1.0  # seconds between two looks at work that others have claimed

Chosen = Policy | PolicyGrid | Callable[[Problem], Policy | PolicyGrid]


def sweep(
    problems: Problem | Mapping[str, Problem],
    policies: Chosen | Mapping[str, Chosen],
    horizon: int,
    seeds: int | Sequence[int],
    store: str | Path,
    *,
    rounds: Sequence[int] | None = None,
    dtype: Any = np.float64,
    devices: Sequence[Any] | None = None,
    progress: bool | None = None,
    checkpoint_every: float = 30.0,
) -> Store:
    """Run every policy on every problem, in batches that fit into memory, into a store.

    Runs that are in the store already are not computed again: the same call goes on with a sweep that
    was killed, one with more seeds, policies or problems adds to it. Any number of processes may make
    the call at once, on machines that share the folder: they divide the batches among them, each
    takes over what another left behind, and each returns when all is done. A run has the numbers that
    `simulate` gives it.

    Args:
      problems: problems by label, or one.
      policies: policies or grids by label, or one. Where they depend on the problem, functions of it:
        `lambda problem: dlb.dynlin_ucb(dlb.Bounds.of(problem))`.
      horizon: number of rounds T.
      seeds: how many runs of each (seeds 0, 1, …), or the seeds themselves.
      store: a folder of its own.
      rounds: rounds after which regret is reported, as in `simulate`. A run takes 24 bytes for each.
      dtype: float64 or float32, as in `simulate`.
      devices: JAX devices to use, as in `simulate`.
      progress: show a progress bar, as in `simulate`.
      checkpoint_every: seconds after which the state of a batch is saved, so that a killed sweep
        computes little again.

    Returns:
      The store, which can be opened with `dlb.Store(folder)` at any time meanwhile, too.

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
    every = real_number("checkpoint_every", checkpoint_every, at_least=0.0)
    settings = check_settings(1, horizon, seeds, None, (), rounds, dtype, None, None, devices)
    entries = _entries(problems, policies)
    series = [_series(label, entry, settings) for label, entry in entries]
    kept = Store.make(store)
    for each in series:
        kept.add(each)
    workers = choose_devices(settings.devices)
    most = runs_that_fit(settings, len(workers) * most_runs(workers[0]))
    waiting = make_batches([each.points for each in series], settings.seeds, most)
    total = settings.horizon * len(settings.seeds) * sum(each.points for each in series)
    with tqdm(
        total=total, unit=" rounds", unit_scale=True, delay=0 if progress else 2,
        disable=None if progress is None else not progress, desc=f"sweep {kept.path.name}",
    ) as bar:  # fmt: skip
        while waiting:
            left = []
            for batch in waiting:
                with claimed(kept.work / f"{batch.name}.lock") as mine:
                    if mine:
                        _do(
                            batch,
                            [e for _, e in entries],
                            series,
                            settings,
                            kept,
                            every,
                            bar.update,
                        )
                    else:
                        left.append(batch)
            if len(left) == len(waiting):
                time.sleep(_PATIENCE)
            waiting = left
    return kept


def _entries(problems: Any, policies: Any) -> list[tuple[str, Entry]]:
    """Label of the problem and entry, for every policy on every problem."""
    named = problems if isinstance(problems, Mapping) else {"problem": problems}
    chosen = policies if isinstance(policies, Mapping) else {"": policies}
    for name, table in (("problems", named), ("policies", chosen)):
        if not table or not all(isinstance(label, str) for label in table):
            raise ValueError(f"{name} must have at least one label, a string; got {list(table)}")
    made = []
    for label, problem in named.items():
        if not isinstance(problem, Problem):
            raise ValueError(
                f"problems must be dlbjax.Problems; {label!r} is {type(problem).__name__}"
            )
        for name, policy in chosen.items():
            # A Policy is a tuple, so that it cannot be called.
            grid = as_grid(policy(problem) if callable(policy) else policy)
            made.append((label, Entry(problem, name or grid.policies[0].name, grid)))
    return made


def _series(label: str, entry: Entry, settings: Settings) -> Series:
    one = settings._replace(seeds=settings.seeds[:1])
    passes = make_passes(entry.problem, entry.grid, one)
    return Series(
        problem=label,
        policy=entry.label,
        axes={name: np.asarray(values) for name, values in entry.grid.axes.items()},
        rounds=settings.rounds,
        config=describe(entry.problem, entry.grid, settings),
        fingerprint=fingerprint.of_settings(one)
        | fingerprint.of_passes(entry.problem, passes, one),
    )


def _do(
    batch: Batch, entries: list[Entry], series: list[Series], settings: Settings, store: Store,
    every: float, tick: Callable[[int], Any],
) -> None:  # fmt: skip
    """Compute what a batch lacks and put it into the store.

    A checkpoint lasts until all shards that come from it are drafted. So a writer that is killed
    leaves a checkpoint, from which drafts can be made again, or drafts that are complete.
    """
    if not list(store.work.glob(f"{batch.name}-*.checkpoint")):
        store.publish(batch.name)
    for seeds, chosen in _missing(batch, series, settings, store, tick).items():
        checkpoint = store.work / f"{batch.name}-{digest([seeds, chosen])}.checkpoint"
        results = run_together(
            [_points(entries[number], points) for number, points in chosen],
            settings._replace(seeds=np.array(seeds)), tick, checkpoint, every,
        )  # fmt: skip
        for (number, points), result in zip(chosen, results, strict=True):
            store.draft(series[number], np.array(points), result, batch.name)
        checkpoint.unlink()
        store.publish(batch.name)
    for left in [*store.work.glob(f"{batch.name}[-+]*"), *store.work.glob(f".{batch.name}*")]:
        left.unlink()  # what writers that were killed had half written


def _missing(
    batch: Batch, series: list[Series], settings: Settings, store: Store, tick: Callable[[int], Any]
) -> dict[tuple[int, ...], list[tuple[int, list[int]]]]:
    """Series and points that lack the same seeds, by those seeds; the others are ticked off."""
    wanted: dict[tuple[int, ...], list[tuple[int, list[int]]]] = {}
    for number in dict.fromkeys(cell.series for cell in batch.cells):
        points = np.array([cell.point for cell in batch.cells if cell.series == number])
        missing = store.missing(series[number], points, batch.seeds)
        tick(settings.horizon * int((~missing).sum()))
        for row in np.unique(missing[missing.any(axis=1)], axis=0):
            alike = points[(missing == row).all(axis=1)].tolist()
            wanted.setdefault(tuple(batch.seeds[row].tolist()), []).append((number, alike))
    return wanted


def _points(entry: Entry, points: list[int]) -> Entry:
    """Some points of an entry's grid."""
    policies = [entry.grid.policies[point] for point in points]
    return entry._replace(grid=PolicyGrid({"point": np.array(points)}, policies))
