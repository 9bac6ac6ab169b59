"""A store of results: what sweeps write to and everybody reads from, also while it grows."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dlbjax.common.arrays import instance_of, short
from dlbjax.common.digest import digest
from dlbjax.common.hints import hint, optional
from dlbjax.results.frames import axes_of
from dlbjax.results.result import Result, Results
from dlbjax.sweeps import layout
from dlbjax.sweeps.folder import Folder
from dlbjax.sweeps.layout import ARRAYS, ROOT, Documents, Series

_REPAIR = "sweep again with repair=True to compute it anew"


class DamagedError(ValueError):
    """Something in a store is not as it was written."""


class Store:
    """The results of sweeps, in plain Zarr, which can be read while a sweep adds to them.

    `xarray.open_datatree(path, engine="zarr")` reads a store as well, without dlbjax. What this class
    adds is labels, `Result` objects, and checks: damaged and missing files raise a ValueError.

    >>> import dlbjax as dlb, tempfile
    >>> problem = dlb.problems.synthetic()
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = dlb.sweep({"synthetic": problem}, {"myopic": dlb.myopic}, 100, seeds=3, store=folder)
    ...     store = dlb.Store(folder)
    ...     print(store)
    ...     result = store.result("synthetic", "myopic")
    problem    policy  points  seeds  complete
    synthetic  myopic       1      3      100%
    >>> result.expected_regret.shape == (3, len(result.rounds))
    True
    """

    def __init__(self, path: str | Path):
        """Open a store that `sweep` has made, by its path or address (s3://…)."""
        self._folder = Folder(path)
        self._documents()

    @property
    def path(self) -> str:
        """Where it is: an absolute path, or an address."""
        return self._folder.address

    def __str__(self) -> str:
        rows = [("problem", "policy", "points", "seeds", "complete")]
        for s in self.series():
            done = int(100 * self._complete(s).mean()) if s.seeds else 0
            rows.append((s.problem, s.policy, str(s.points), str(s.seeds), f"{done}%"))
        a, b, c, d, e = (max(map(len, column)) for column in zip(*rows, strict=True))
        return "\n".join(
            f"{p:{a}}  {q:{b}}  {n:>{c}}  {m:>{d}}  {x:>{e}}" for p, q, n, m, x in rows
        )

    def series(self) -> list[Series]:
        """The series in the store: every policy on every problem, sorted by label."""
        found = [layout.read_series(d) for p, d in self._documents().items() if p.count("/") == 1]
        return sorted(found, key=lambda series: (series.problem, series.policy))

    def complete(self, series: Series) -> np.ndarray:
        """Seeds whose runs are complete for all points."""
        return self._read(series, "seed")[self._complete(series).all(axis=0)]

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
            raise ValueError(
                f"there are {len(found)} series; choose one, such as problem={found[0].problem!r}, "
                f"policy={found[0].policy!r}"
            )
        return self._result(found[0], rounds)

    def results(self, problem: str | None = None, rounds: Sequence[int] | None = None) -> Results:
        """The policies on a problem, each with its complete seeds, to be plotted together."""
        found = self._select(problem, None)
        if len({series.problem for series in found}) > 1:
            raise ValueError(
                f"there are several problems; choose one, such as {found[0].problem!r}"
            )
        return Results({s.policy: self._result(s, rounds) for s in self._begun(found)})

    def to_xarray(self) -> Any:
        """Everything, as an `xarray.DataTree` that reads what it is asked for."""
        self._documents()  # checks them
        return optional("xarray", "sweeps").open_datatree(self.path, engine="zarr")

    def to_pandas(
        self, problem: str | None = None, policy: str | None = None,
        rounds: Sequence[int] | None = None,
    ) -> Any:  # fmt: skip
        """Some series, or all, as a `pandas.DataFrame` with a row for every run and round.

        By default it has the last round only. Only seeds that are complete are in it.
        """
        pandas = optional("pandas", "sweeps")
        frames, found = [], {}
        for series in self._begun(self._select(problem, policy)):
            result = self._result(series, [series.horizon] if rounds is None else rounds)
            frames.append(Results({series.policy: result}).to_pandas(result.rounds.tolist()))
            frames[-1].insert(0, "problem", series.problem)
            found[series.path] = result
        order = ["problem", "policy", *axes_of(found), "seed", "round", *ARRAYS]
        return pandas.concat(frames, ignore_index=True)[order]

    def drop(self, problem: str, policy: str) -> None:
        """Remove a series and all of its runs."""
        [series] = self._select(problem, policy)
        inside, documents = f"{series.path}/", self._documents()
        self._enter({p: d for p, d in documents.items() if not f"{p}/".startswith(inside)})
        self._folder.remove(series.path)

    def _documents(self) -> Documents:
        """All documents but the root's, checked."""
        content = self._folder.read(ROOT)
        if content is None:
            raise ValueError(f"{self.path} is not a store of results; dlbjax.sweep makes one")
        try:
            documents, found = layout.read_root(content)
        except Exception as error:  # it can hold anything
            raise self._damaged(ROOT, error) from error
        if found != layout.FORMAT:
            raise ValueError(
                f"{self.path} has format {found}, but this version of dlbjax reads format "
                f"{layout.FORMAT}; read it with the version that made it"
            )
        return documents

    def _enter(self, documents: Documents) -> None:
        self._folder.write(ROOT, layout.write_root(documents))

    def _damaged(self, what: str, why: object, advice: str = _REPAIR) -> DamagedError:
        return DamagedError(f"{what} of {self.path} is damaged: {why}; {advice}")

    def _how_to_drop(self, series: Series) -> str:
        call = f"dlbjax.Store({self.path!r}).drop({series.problem!r}, {series.policy!r})"
        return f"remove it by {call}"

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

    def _read(self, series: Series, name: str, *place: Any) -> np.ndarray:
        """An array of a series, or some of it."""
        instance_of("series", series, Series, "one of those that Store.series() gives")
        zarr = optional("zarr", "sweeps")
        try:
            group = zarr.open_group(self.path, mode="r", use_consolidated=True)
            values = group[f"{series.path}/{name}"].oindex[place or ...]
            if name == "seed" and np.any(values < 0):
                raise ValueError("a chunk is missing")
            if name == "round" and digest(values) != series.identity["rounds"]:
                raise ValueError("it does not have the digest it was written with")
        except OSError:
            raise
        except Exception as error:  # whatever a codec makes of it
            advice = self._how_to_drop(series) if name == "seed" else _REPAIR
            raise self._damaged(f"{series.path}/{name}", error, advice) from error
        return values

    def _complete(self, series: Series) -> np.ndarray:
        """(points, seeds) which runs are there."""
        return self._read(series, "complete").reshape(series.points, -1)

    def _begun(self, found: list[Series]) -> list[Series]:
        """Those of which some seeds are complete; all, to be rejected later, if there are none."""
        return [series for series in found if len(self.complete(series))] or found

    def _result(self, series: Series, rounds: Sequence[int] | None) -> Result:
        whole = self._complete(series).all(axis=0)
        if not whole.any():
            raise ValueError(f"no seed of {series.label} is complete yet")
        there = self._read(series, "round")
        chosen = _columns(there, rounds)
        every = (slice(None),) * (len(series.axes) + 1)
        regrets = {}
        for name in ARRAYS:
            regrets[name] = self._read(series, name, *every, chosen)[..., whole, :]
            if np.isnan(regrets[name]).any():
                raise self._damaged(f"{series.path}/{name}", "a chunk is missing")
        return Result(
            there[chosen], **regrets, seeds=self.complete(series), axes=series.axes,
            name=series.policy, config=series.config,
        )  # fmt: skip


def open_array(address: str, path: str, name: str) -> Any:
    """An array by its own document, as writers do."""
    return optional("zarr", "sweeps").open_array(f"{address}/{path}/{name}", mode="r+")


def _columns(there: np.ndarray, rounds: Sequence[int] | np.ndarray | None) -> np.ndarray:
    wanted = there if rounds is None else np.asarray(rounds)
    fits = wanted.ndim == 1 and wanted.size > 0 and wanted.dtype.kind in "iu"
    if not fits or np.any(np.diff(wanted) <= 0) or not np.all(np.isin(wanted, there)):
        raise ValueError(
            f"rounds must be some of the reporting rounds, {there[0]}…{there[-1]}, in increasing order; "
            f"got {short(rounds)}"
        )
    return np.searchsorted(there, wanted)
