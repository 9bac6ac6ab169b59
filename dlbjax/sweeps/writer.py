"""A store as a sweep sees it: room for what is wanted, what of it is missing, what is damaged."""

import json
from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path

import numpy as np

from dlbjax.engine.identity import check_identity
from dlbjax.sweeps import layout
from dlbjax.sweeps.folder import Folder
from dlbjax.sweeps.layout import ARRAYS, ROOT, Documents, Series
from dlbjax.sweeps.store import DamagedError, Store, open_array


class Writer(Store):
    """A store that is written to; one at a time may be."""

    @classmethod
    def make(cls, path: str | Path, repair: bool = False) -> "Writer":
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
        documents: Documents = {}
        for path in self._folder.find():
            if path.endswith(f"/{ROOT}") and path.count("/") == 2:
                documents |= self._found(path.removesuffix(f"/{ROOT}"))
        self._enter(documents)
        return self

    def add(
        self, wanted: Sequence[Series], rounds: np.ndarray, seeds: np.ndarray
    ) -> list[tuple[Series, np.ndarray]]:
        """Make room for seeds of some series; each as it then is, and the rows of the seeds in it.

        Documents and coordinates are written before the root, by which readers know of them.
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
            files = series.files(seed=every, round=rounds, **series.axes)
            for path, content in files.items():
                if self._folder.read(path) != content:
                    self._folder.write(path, content)
            entered |= layout.documents_of(files)
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
        there = layout.read_series(documents[series.path])
        if there.identity == series.identity:
            return there
        if self._complete(there).any():
            check_identity(
                f"{self.path} holds {series.label} already,", there.identity, series.identity,
                f"Use another label, another store, or {self._how_to_drop(series)}",
            )  # fmt: skip
        return None

    def missing(self, series: Series, rows: np.ndarray, repair: bool = False) -> np.ndarray:
        """(points, rows) whether each of these runs is still to be done.

        With `repair` all of the series is read, and the runs in chunks that are damaged or missing are
        forgotten.

        Raises:
          ValueError: a chunk with runs that were done is not there.
        """
        if repair:
            self._forget_damaged(series)
        complete, files = self._complete(series), self._folder.find(series.path)
        for point, block, some in _cells(series):
            for name in ARRAYS if complete[point, some].any() else ():
                if (chunk := series.chunk(name, point, block)) not in files:
                    raise self._damaged(chunk, "the file is missing")
        return ~complete[:, rows]

    def _forget_damaged(self, series: Series) -> None:
        names = ("complete", *ARRAYS)
        arrays = [open_array(self.path, series.path, name) for name in names]
        for point, block, some in _cells(series):
            place = (*np.unravel_index(point, series.shape), some)
            try:
                done, *regrets = (array[place] for array in arrays)
                if not any(np.isnan(values[done]).any() for values in regrets):
                    continue
            except OSError:
                raise
            except Exception:  # whatever a codec makes of it
                pass
            self._folder.remove(*(series.chunk(name, point, block) for name in names))

    def remove_leftovers(self, series: Series) -> None:
        """Remove files that workers had not completed when they were killed."""
        leftovers = [name for name in self._folder.find(series.path) if name.endswith(".partial")]
        self._folder.remove(*leftovers)

    def _found(self, path: str) -> Documents:
        """The documents of the series with this path by that of its group; none if it is damaged."""
        try:
            group = json.loads(self._folder.read(f"{path}/{ROOT}") or b"")
            return layout.documents_of(layout.read_series(group).files())
        except OSError:
            raise
        except Exception:  # it can hold anything
            return {}


def _cells(series: Series) -> Iterator[tuple[int, int, slice]]:
    """Points, blocks of seeds, and the rows in each block."""
    for point, first in product(range(series.points), range(0, series.seeds, series.block)):
        yield point, first // series.block, slice(first, first + series.block)
