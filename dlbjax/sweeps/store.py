"""A folder of results that grows: several sweeps may write to it at once, and anyone can read it.

Every policy on every problem has a folder with a file that says what it is, about.json, and shards: .npz
files with the regret of some points of its grid for some seeds. A shard is written whole or not at
all and never changes, so that readers and writers need not know of each other; two writers that
compute the same runs write the same numbers.
"""

import json
import os
import re
from collections.abc import Iterator, Sequence
from functools import reduce
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from dlbjax.common.archive import read_archive, write_archive
from dlbjax.common.arrays import short
from dlbjax.common.digest import digest, digest_text
from dlbjax.common.files import as_path, write_atomically
from dlbjax.common.hints import hint, optional
from dlbjax.engine.identity import check_identity, versions
from dlbjax.results.result import REGRETS, Result, Results

_MARK, _ABOUT, _WORK = "store.json", "about.json", "work"
_FORMAT = 1
_POINT = "(point)"  # a column that nobody sees
RESERVED = (
    "problem",
    "policy",
    "point",
    _POINT,
    "seed",
    "round",
    *(f"{k}_regret" for k in REGRETS),
)


class Series(NamedTuple):
    """A policy, or a grid of them, on a problem."""

    problem: str  # label
    policy: str  # label
    axes: dict[str, np.ndarray]  # hyper-parameters that vary, and their values
    rounds: np.ndarray  # (C,) after which regret is reported
    config: dict[str, Any]  # what made it
    fingerprint: dict[str, Any]  # identity of its numbers

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the grid."""
        return tuple(len(values) for values in self.axes.values())

    @property
    def points(self) -> int:
        """Of the grid."""
        return int(np.prod(self.shape, dtype=int))

    @property
    def identity(self) -> str:
        """Identity that its shards carry."""
        return digest_text(json.dumps([self.problem, self.policy, self.fingerprint]))

    @property
    def folder(self) -> str:
        """Name of its folder, readable and unique."""
        words = re.sub(r"[^A-Za-z0-9.=-]+", "_", f"{self.problem}-{self.policy}")[:60]
        return f"{words}-{digest_text(json.dumps([self.problem, self.policy]))[:8]}"


class Shard(NamedTuple):
    """Which runs a file holds."""

    points: np.ndarray
    seeds: np.ndarray


class Store:
    """The results of sweeps in a folder, which can be read while it grows.

    >>> import dlbjax as dlb, tempfile
    >>> problem = dlb.problems.synthetic()
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = dlb.sweep({"synthetic": problem}, {"myopic": dlb.myopic}, 100, seeds=3, store=folder)
    ...     store = dlb.Store(folder)
    ...     print(store)
    ...     result = store.result("synthetic", "myopic")
    problem    policy  points  seeds
    synthetic  myopic       1      3
    >>> result.expected_regret.shape == (3, len(result.rounds))
    True
    """

    def __init__(self, path: str | Path):
        """Open a store that `sweep` has made."""
        self.path = as_path("path", path).absolute()
        if not (self.path / _MARK).is_file():
            raise ValueError(f"{path} is not a store of results; dlbjax.sweep makes one")
        mark = _read_json(self.path / _MARK)
        if mark.get("format") != _FORMAT:
            raise ValueError(
                f"{path} has format {mark.get('format')}, but this version of dlbjax reads format {_FORMAT}; "
                "read it with the version that made it"
            )
        self._series: dict[str, Series] = {}
        self._shards: dict[Path, Shard] = {}  # what was found in files, which do not change

    @classmethod
    def make(cls, path: Path) -> "Store":
        """A store in an empty folder, or the one that is there."""
        path.mkdir(parents=True, exist_ok=True)
        if not (path / _MARK).exists():
            others = [name for name in os.listdir(path) if not name.startswith(f".{_MARK}.")]
            if others and not (path / _MARK).exists():  # another writer may have made it just now
                raise ValueError(
                    f"{path} is a folder with other files in it, such as {min(others)}; give a new or "
                    "empty one"
                )
            _write_json(path / _MARK, {"format": _FORMAT, "versions": versions()})
        (path / _WORK).mkdir(exist_ok=True)
        return cls(path)

    def __str__(self) -> str:
        rows = [("problem", "policy", "points", "seeds")]
        for series in self.series():
            complete = len(self.complete(series))
            rows.append((series.problem, series.policy, str(series.points), str(complete)))
        a, b, c, d = (max(map(len, column)) for column in zip(*rows, strict=True))
        return "\n".join(f"{p:{a}}  {q:{b}}  {r:>{c}}  {s:>{d}}" for p, q, r, s in rows)

    def series(self) -> list[Series]:
        """The series in the store: every policy on every problem, sorted by label."""
        for about in self.path.glob(f"*/{_ABOUT}"):
            if about.parent.name not in self._series:
                self._series[about.parent.name] = _read_about(about)
        return sorted(self._series.values(), key=lambda series: (series.problem, series.policy))

    def complete(self, series: Series) -> np.ndarray:
        """Seeds whose runs are complete for all points."""
        by_point: list[list[np.ndarray]] = [[] for _ in range(series.points)]
        for shard in self._scan(series):
            for point in shard.points:
                by_point[point].append(shard.seeds)
        nothing = np.zeros(0, np.int64)
        return reduce(np.intersect1d, [np.unique(np.concatenate([nothing, *s])) for s in by_point])

    def result(
        self, problem: str | None = None, policy: str | None = None,
        rounds: Sequence[int] | None = None,
    ) -> Result:  # fmt: skip
        """The regret of one series, for the seeds that are complete.

        Args:
          problem: label of the problem; may be omitted if there is only one.
          policy: label of the policy; likewise.
          rounds: some of the reporting rounds, to save memory; all by default.
        """
        found = self._select(problem, policy)
        if len(found) > 1:
            labels = [f"problem={s.problem!r}, policy={s.policy!r}" for s in found]
            raise ValueError(f"there are {len(found)} series; choose one, such as {labels[0]}")
        return self._result(found[0], self.complete(found[0]), rounds)

    def results(self, problem: str | None = None, rounds: Sequence[int] | None = None) -> Results:
        """The policies on a problem, each with its complete seeds, to be plotted together."""
        found = self._select(problem, None)
        if len({series.problem for series in found}) > 1:
            raise ValueError(
                f"there are several problems; choose one, such as {found[0].problem!r}"
            )
        seeds = {series.policy: self.complete(series) for series in found}
        begun = [series for series in found if len(seeds[series.policy])] or found
        return Results({s.policy: self._result(s, seeds[s.policy], rounds) for s in begun})

    def to_xarray(
        self, problem: str | None = None, policy: str | None = None,
        rounds: Sequence[int] | None = None,
    ) -> Any:  # fmt: skip
        """Some series, or all, as one `xarray.Dataset` (problem, policy, axes…, seed, round).

        They must have the same axes. The dataset holds the seeds that are complete in all of them. Needs
        the `xarray` extra.
        """
        xarray = optional("xarray")

        found = self._select(problem, policy)
        for series in found[1:]:
            if not _same_axes(series, found[0]):
                raise ValueError(
                    f"{series.policy!r} on {series.problem!r} has other axes or rounds than "
                    f"{found[0].policy!r} on {found[0].problem!r}; choose by problem= and policy="
                )
        seeds = self.complete(found[0])
        for series in found[1:]:
            seeds = np.intersect1d(seeds, self.complete(series))
        sets = [
            self._result(series, seeds, rounds)
            .to_xarray()
            .drop_attrs()
            .expand_dims(problem=[series.problem], policy=[series.policy])
            for series in found
        ]
        return xarray.combine_by_coords(sets, join="exact")

    def to_pandas(
        self, problem: str | None = None, policy: str | None = None,
        rounds: Sequence[int] | None = None,
    ) -> Any:  # fmt: skip
        """Some series, or all, as a `pandas.DataFrame` with a row for every run and round.

        By default it has the last round only. It holds all runs, also those of incomplete seeds. Needs
        the `xarray` extra, which includes pandas.
        """
        pandas = optional("pandas")

        frames = []
        for series in self._select(problem, policy):
            chosen = _columns(series, series.rounds[-1:] if rounds is None else rounds)
            for shard, arrays in self._read(series):
                frames.append(pandas.DataFrame(_rows(series, shard, arrays, chosen)))
        if not frames:
            raise ValueError(f"{self.path} holds no such run yet")
        frame = pandas.concat(frames, ignore_index=True)
        keys = ["problem", "policy", _POINT, "seed", "round"]
        frame = frame.drop_duplicates(keys).sort_values(keys, ignore_index=True)
        return frame.drop(columns=_POINT)

    # --- for writers --------------------------------------------------------------------------

    def add(self, series: Series) -> None:
        """Make a place for a series, or make sure that the one there is the same."""
        folder = self.path / series.folder
        folder.mkdir(exist_ok=True)
        about = folder / _ABOUT
        _write_json(about, _about(series), replace=False)
        found = _read_about(about).fingerprint
        if found != series.fingerprint and not self._shards_of(series):
            _write_json(about, _about(series))  # of a call that never got anywhere
            found = series.fingerprint
        check_identity(
            f"{self.path} holds {series.policy!r} on {series.problem!r} already,", found,
            series.fingerprint, "Use another label, or another store",
        )  # fmt: skip

    def missing(self, series: Series, points: np.ndarray, seeds: np.ndarray) -> np.ndarray:
        """(points, seeds) whether each of these runs is still to be done."""
        done = np.zeros((series.points, len(seeds)), bool)
        for shard in self._scan(series):
            done[np.ix_(shard.points, np.isin(seeds, shard.seeds))] = True
        return ~done[points]

    def draft(self, series: Series, points: np.ndarray, result: Result, owner: str) -> None:
        """Write a shard, the regret (points, seeds, C) of some points, where readers do not see it."""
        header = {"kind": "Shard", "series": series.identity}
        arrays = {f"{kind}_regret": result.regret(kind) for kind in REGRETS}
        arrays |= {"points": points, "seeds": result.seeds}
        span = f"{result.seeds.min()}-{result.seeds.max()}"
        name = f"{span}-{digest([points, result.seeds])}.npz"
        draft = self.work / f"{owner}+{series.folder}+{name}"
        write_archive(draft, header, arrays, compress=False)

    def publish(self, owner: str) -> None:
        """Put all drafts of an owner in their places."""
        for draft in self.work.glob(f"{owner}+*"):
            _, folder, name = draft.name.split("+")
            os.replace(draft, self.path / folder / name)

    @property
    def work(self) -> Path:
        """Where writers keep what is not finished."""
        return self.path / _WORK

    # --- reading ------------------------------------------------------------------------------

    def _select(self, problem: str | None, policy: str | None) -> list[Series]:
        found = self.series()
        for kind, label in (("problem", problem), ("policy", policy)):
            labels = sorted({getattr(series, kind) for series in found})
            if label is not None and label not in labels:
                raise ValueError(f"there is no {kind} {label!r} here{hint(label, labels)}")
        found = [s for s in found if problem in (None, s.problem) and policy in (None, s.policy)]
        if not found:
            raise ValueError(f"{self.path} holds no such series yet")
        return found

    def _shards_of(self, series: Series) -> list[Path]:
        return sorted((self.path / series.folder).glob("[0-9]*.npz"))

    def _scan(self, series: Series) -> Iterator[Shard]:
        """Which runs each shard of a series holds; a file is looked at once."""
        for path in self._shards_of(series):
            if path not in self._shards:
                self._shards[path] = _read_shard(series, path, ["points", "seeds"])[0]
            yield self._shards[path]

    def _read(self, series: Series) -> Iterator[tuple[Shard, dict[str, np.ndarray]]]:
        for path in self._shards_of(series):
            yield _read_shard(series, path)

    def _result(self, series: Series, seeds: np.ndarray, rounds: Sequence[int] | None) -> Result:
        if len(seeds) == 0:
            raise ValueError(
                f"no seed of {series.policy!r} on {series.problem!r} is complete yet; to_pandas returns "
                "the runs that are"
            )
        chosen = _columns(series, series.rounds if rounds is None else rounds)
        regrets = np.full((len(REGRETS), series.points, len(seeds), len(chosen)), np.nan)
        for shard, arrays in self._read(series):
            there = np.isin(shard.seeds, seeds)
            columns = np.searchsorted(seeds, shard.seeds[there])
            for i, kind in enumerate(REGRETS):
                values = arrays[f"{kind}_regret"][:, there][..., chosen]
                regrets[i, shard.points[:, None], columns] = values
        realised, expected, offline = regrets.reshape(
            len(REGRETS), *series.shape, len(seeds), len(chosen)
        )
        return Result(
            series.rounds[chosen], realised, expected, offline, seeds=seeds, axes=series.axes,
            name=series.policy, config=series.config,
        )  # fmt: skip


def _read_shard(
    series: Series, path: Path, names: Sequence[str] | None = None
) -> tuple[Shard, dict[str, np.ndarray]]:
    """Which runs a shard holds, and its arrays, or some of them."""
    advice = "Remove it, and sweep again to compute its runs"
    try:
        header, arrays = read_archive(path, "a shard of a store", names)
    except ValueError as error:
        raise ValueError(f"{error}. {advice}") from error
    if header.get("series") != series.identity:
        raise ValueError(f"{path} belongs to another series than its folder. {advice}")
    try:
        shard = Shard(arrays["points"], arrays["seeds"])
        shape = (len(shard.points), len(shard.seeds), len(series.rounds))
        for kind in REGRETS if names is None else ():
            if arrays[f"{kind}_regret"].shape != shape:
                raise ValueError(f"{kind}_regret does not have shape {shape}")
        if shard.points.min() < 0 or shard.points.max() >= series.points:
            raise ValueError("it holds points that the grid does not have")
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{path} is damaged: {error}. {advice}") from error
    return shard, arrays


def _columns(series: Series, rounds: Sequence[int] | np.ndarray) -> np.ndarray:
    wanted = np.asarray(rounds)
    fits = wanted.ndim == 1 and wanted.size > 0 and wanted.dtype.kind in "iu"
    if not fits or np.any(np.diff(wanted) <= 0) or not np.all(np.isin(wanted, series.rounds)):
        raise ValueError(
            f"rounds must be some of the reporting rounds, {series.rounds[0]}…{series.rounds[-1]}, in "
            f"increasing order; got {short(rounds)}"
        )
    return np.searchsorted(series.rounds, wanted)


def _rows(
    series: Series, shard: Shard, arrays: dict[str, np.ndarray], chosen: np.ndarray
) -> dict[str, np.ndarray | str]:
    shape = (len(shard.points), len(shard.seeds), len(chosen))

    def spread(values: np.ndarray, axis: int) -> np.ndarray:
        rest = [size for i, size in enumerate(shape) if i > axis]
        return np.broadcast_to(values.reshape(-1, *[1] * len(rest)), shape).ravel()

    place = np.unravel_index(shard.points, series.shape) if series.axes else ()
    points = {
        name: spread(values[i], 0)
        for (name, values), i in zip(series.axes.items(), place, strict=True)
    }
    regrets = {f"{kind}_regret": arrays[f"{kind}_regret"][..., chosen].ravel() for kind in REGRETS}
    return {
        "problem": series.problem,
        "policy": series.policy,
        _POINT: spread(shard.points, 0),
        **points,
        "seed": spread(shard.seeds, 1),
        "round": spread(series.rounds[chosen], 2),
        **regrets,
    }


def _same_axes(one: Series, other: Series) -> bool:
    return (
        list(one.axes) == list(other.axes)
        and all(np.array_equal(one.axes[name], other.axes[name]) for name in one.axes)
        and np.array_equal(one.rounds, other.rounds)
    )


def _about(series: Series) -> dict[str, Any]:
    return {
        "format": _FORMAT,
        "problem": series.problem,
        "policy": series.policy,
        "axes": {name: np.asarray(values).tolist() for name, values in series.axes.items()},
        "rounds": series.rounds.tolist(),
        "fingerprint": series.fingerprint,
        "config": series.config,
    }


def _read_about(path: Path) -> Series:
    about = _read_json(path)
    try:
        return Series(
            problem=about["problem"],
            policy=about["policy"],
            axes={name: np.array(values) for name, values in about["axes"].items()},
            rounds=np.array(about["rounds"], dtype=np.int64),
            config=about["config"],
            fingerprint=about["fingerprint"],
        )
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{path} is damaged: {error!r}") from error


def _read_json(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_bytes())
    except ValueError as error:
        raise ValueError(f"{path} is damaged: {error}") from error
    if not isinstance(found, dict):
        raise ValueError(f"{path} is damaged: it does not hold a table")
    return found


def _write_json(path: Path, content: dict[str, Any], *, replace: bool = True) -> None:
    try:
        text = json.dumps(content, indent=1)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"config in the schedules of a sweep's policies must be fit for JSON: {error}"
        ) from error
    with write_atomically(path, replace=replace) as file:
        file.write(text.encode())
