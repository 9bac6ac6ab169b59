"""A store of results: what sweeps write to and everybody reads from, also while it grows."""

import json
from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from dlbjax.common.arrays import short
from dlbjax.common.digest import digest
from dlbjax.common.hints import hint, optional
from dlbjax.engine.identity import check_identity, versions
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
        documents = self._documents()
        found = [layout.read_series(p, documents) for p in documents if p.count("/") == 1]
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
        documents = self._documents()
        self._enter(
            {p: d for p, d in documents.items() if not f"{p}/".startswith(f"{series.path}/")}
        )
        self._folder.remove(series.path)

    # --- for sweeps ---------------------------------------------------------------------------

    @classmethod
    def make(cls, path: str | Path, repair: bool = False) -> "Store":
        """A store in an empty folder, or the one that is there.

        Args:
          path: where.
          repair: whether to write a damaged root again, from the documents of the series.
        """
        self = cls.__new__(cls)
        self._folder = Folder(path)
        try:
            if self._folder.read(ROOT) is not None:
                self._documents()
                return self
            if not repair and (others := self._folder.find()):
                raise ValueError(
                    f"store must be a new or empty folder, or a store; {path} holds other files, such as "
                    f"{min(others) or 'itself'}. Where it was a store, repair=True makes it one again"
                )
        except DamagedError:
            if not repair:
                raise
        groups = [p.removesuffix(f"/{ROOT}") for p in self._folder.find() if p.endswith(f"/{ROOT}")]
        found = [self._found(group) for group in groups if group.count("/") == 1]
        self._enter({p: d for documents in found for p, d in documents.items()})
        return self

    def add(
        self, wanted: Sequence[Series], rounds: np.ndarray, seeds: np.ndarray, repair: bool = False
    ) -> list[tuple[Series, np.ndarray]]:
        """Make room for seeds of some series; each as it then is, and the rows of the seeds in it.

        Documents and coordinates are written before the root, by which readers know of them; with
        `repair`, coordinates that are there already are written again.
        """
        documents, added = self._documents(), []
        entered = dict(documents)
        for series in wanted:
            there = self._same_series(series, documents)
            old = np.zeros(0, np.int64)
            if there is None:  # what a call left that never got anywhere, if anything
                self._folder.remove(series.path)
            else:
                old = self._read(there, "seed")
                series = series._replace(block=there.block, config=there.config)
            every = np.concatenate([old, seeds[~np.isin(seeds, old)]])
            series = series._replace(seeds=len(every))
            entered |= (mine := series.documents())
            for path, document in (layout.parents(mine) | mine).items():
                if self._folder.read(f"{path}/{ROOT}") != layout.dump(document):
                    self._folder.write(f"{path}/{ROOT}", layout.dump(document))
            if there is None or len(every) > len(old) or repair:
                for name, values in {"seed": every, "round": rounds, **series.axes}.items():
                    open_array(self.path, series.path, name)[:] = values
            order = np.argsort(every)
            added.append((series, order[np.searchsorted(every, seeds, sorter=order)]))
        if entered != documents:
            self._enter(entered)
        return added

    def _same_series(self, series: Series, documents: Documents) -> Series | None:
        """The series as it is here, None if it is new; a ValueError if something else has its labels.

        A series that the root does not know, because a sweep was killed or another one has written the
        root since, is taken over.
        """
        if series.path not in documents:
            found = self._found(series.path)
            if not found:
                return None
            documents |= found
            self._enter(documents)
        there = layout.read_series(series.path, documents)
        if there.identity == series.identity:
            return there
        if self._complete(there).any():
            check_identity(
                f"{self.path} holds {series.label} already,", there.identity, series.identity,
                f"Use another label, another store, or {self._how_to_drop(series)}",
            )  # fmt: skip
        return None

    def missing(self, series: Series, rows: np.ndarray) -> np.ndarray:
        """(points, rows) whether each of these runs is still to be done.

        Raises:
          ValueError: a chunk with runs that were done is not there.
        """
        complete, files = self._complete(series), self._folder.find(series.path)
        for point, block in _cells(series, complete):
            for name in ARRAYS:
                if (chunk := series.chunk(name, point, block)) not in files:
                    raise self._damaged(chunk, "the file is missing")
        return ~complete[:, rows]

    def remove_leftovers(self, series: Series) -> None:
        """Remove files that workers had not completed when they were killed."""
        leftovers = [name for name in self._folder.find(series.path) if name.endswith(".partial")]
        self._folder.remove(*leftovers)

    def forget_damaged(self, series: Series) -> None:
        """Read all of a series, and forget the runs in chunks that are damaged or missing."""
        names = ("complete", *ARRAYS)
        arrays = [open_array(self.path, series.path, name) for name in names]
        for point, block in _cells(series, np.ones((series.points, series.seeds), bool)):
            place = (*np.unravel_index(point, series.shape), _rows(series, block))
            try:
                done, *regrets = (array[place] for array in arrays)
                sound = not any(np.isnan(values[done]).any() for values in regrets)
            except OSError:
                raise
            except Exception:  # whatever a codec makes of it
                sound = False
            if not sound:
                self._folder.remove(*(series.chunk(name, point, block) for name in names))

    # --- reading ------------------------------------------------------------------------------

    def _documents(self) -> Documents:
        """All documents but the root's, checked."""
        content = self._folder.read(ROOT)
        if content is None:
            raise ValueError(f"{self.path} is not a store of results; dlbjax.sweep makes one")
        try:
            documents, about = layout.read_root(content)
        except Exception as error:  # it can hold anything
            raise self._damaged(ROOT, error) from error
        if about["format"] != layout.FORMAT:
            raise ValueError(
                f"{self.path} has format {about['format']}, but this version of dlbjax reads format "
                f"{layout.FORMAT}; read it with the version that made it"
            )
        return documents

    def _found(self, path: str) -> Documents:
        """The documents of a series in their own files, none if some are missing or damaged."""
        names = [n.removesuffix(f"/{ROOT}") for n in self._folder.find(path) if n.endswith(ROOT)]
        try:
            found = {n: json.loads(self._folder.read(f"{n}/{ROOT}") or b"") for n in names}
            layout.read_series(path, found)
            return found
        except OSError:
            raise
        except Exception:  # they can hold anything
            return {}

    def _enter(self, documents: Documents) -> None:
        about = {"format": layout.FORMAT, "software": versions()}
        self._folder.write(ROOT, layout.write_root(documents, about))

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


def _rows(series: Series, block: int) -> slice:
    return slice(block * series.block, (block + 1) * series.block)


def _cells(series: Series, complete: np.ndarray) -> Iterator[tuple[int, int]]:
    """Points and blocks of seeds of which something is complete."""
    blocks = range(-(-series.seeds // series.block))
    for point, block in product(range(series.points), blocks):
        if complete[point, _rows(series, block)].any():
            yield point, block


def _columns(there: np.ndarray, rounds: Sequence[int] | np.ndarray | None) -> np.ndarray:
    wanted = there if rounds is None else np.asarray(rounds)
    fits = wanted.ndim == 1 and wanted.size > 0 and wanted.dtype.kind in "iu"
    if not fits or np.any(np.diff(wanted) <= 0) or not np.all(np.isin(wanted, there)):
        raise ValueError(
            f"rounds must be some of the reporting rounds, {there[0]}…{there[-1]}, in increasing order; "
            f"got {short(rounds)}"
        )
    return np.searchsorted(there, wanted)
