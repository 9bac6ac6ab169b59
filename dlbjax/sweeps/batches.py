"""The work of a sweep in batches, and which of several writers does which.

How the runs fall into batches depends on what the sweep asks for only, not on what is there already,
so that all writers of a sweep agree on the batches and can claim them one by one.
"""

import ctypes
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

import numpy as np

from dlbjax._digest import digest, digest_text
from dlbjax.engine.settings import Settings

_FEWEST_SEEDS = 256  # in a batch, where there are so many
_MOST_RUNS = 8192  # so that a batch takes seconds to minutes
_COPIES = 8  # of a run's reports that exist at a time: on the device, in the result, in the file…
_MEMORY = 2**30  # bytes for them


class Cell(NamedTuple):
    """One point of a series' grid."""

    series: str  # its folder
    point: int


class Batch(NamedTuple):
    """Some cells, each for the same seeds."""

    cells: tuple[Cell, ...]
    seeds: np.ndarray

    @property
    def name(self) -> str:
        """The same for all writers of a sweep."""
        return digest_text(f"{self.cells} {digest(self.seeds)}")


def make_batches(points: Mapping[str, int], seeds: np.ndarray, most: int) -> list[Batch]:
    """All runs of a sweep in batches of at most so many.

    Args:
      points: how many the grid of each series has, by folder.
      seeds: of every series.
      most: runs in a batch.
    """
    cells = [Cell(name, point) for name, count in points.items() for point in range(count)]
    size = min(len(seeds), most, max(_FEWEST_SEEDS, most // len(cells)))
    width = max(1, most // size)
    return [
        Batch(tuple(cells[i : i + width]), seeds[j : j + size])
        for j in range(0, len(seeds), size)
        for i in range(0, len(cells), width)
    ]


def runs_that_fit(settings: Settings) -> int:
    """Runs of a batch: no more than a gigabyte holds, and than take minutes."""
    each = _COPIES * 3 * 8 * (len(settings.rounds) + 1)
    return int(np.clip(_MEMORY / each, 1, _MOST_RUNS))


@contextmanager
def claimed(path: Path) -> Iterator[bool]:
    """Whether this process may have a piece of work, for as long as the context lasts.

    The system gives it back when the process ends, however it ends.
    """
    try:
        import fcntl
    except ImportError:
        raise NotImplementedError(
            "a sweep needs a system that can lock files, such as Linux or macOS; use simulate"
        ) from None
    with open(path, "ab") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        except OSError as error:
            raise OSError(
                error.errno, f"files here cannot be locked ({error.strerror}); put the store elsewhere",
                str(path),
            ) from None  # fmt: skip
        try:
            mine = os.fstat(file.fileno()).st_ino == os.stat(path).st_ino
        except FileNotFoundError:
            mine = False  # who had it before removed the file just now
        yield mine
        if mine:
            path.unlink(missing_ok=True)


def give_back_memory() -> None:
    """Ask the C library for what it keeps of memory that was freed; between batches nothing is needed."""
    with suppress(OSError, AttributeError):  # there is no such function, or no such need
        ctypes.CDLL(None).malloc_trim(0)
