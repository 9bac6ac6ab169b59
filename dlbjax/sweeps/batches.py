"""The runs of a sweep in batches, which several writers claim one by one.

The batches depend on the arguments of the sweep only, not on what is in the store already, so that all
writers of a sweep have the same batches.
"""

import ctypes
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

import numpy as np

from dlbjax.common.digest import digest, digest_text
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
    """All runs of a sweep in batches.

    Args:
      points: number of points in the grid of each series, by folder.
      seeds: of every series.
      most: runs in a batch at most.
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
    """Most runs of a batch: those that fit into a gigabyte, and take no longer than minutes."""
    each = _COPIES * 3 * 8 * (len(settings.rounds) + 1)
    return int(np.clip(_MEMORY / each, 1, _MOST_RUNS))


@contextmanager
def claimed(path: Path) -> Iterator[bool]:
    """Claim a batch for as long as the context lasts; whether it could be claimed.

    The system releases the claim when the process ends, however it ends.
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
            mine = False  # the last owner has just removed the file
        yield mine
        if mine:
            path.unlink(missing_ok=True)


def give_back_memory() -> None:
    """Return freed memory, which the C library keeps, to the system."""
    with suppress(OSError, AttributeError):  # there is no such function everywhere
        ctypes.CDLL(None).malloc_trim(0)
