"""The runs of a series in batches: what is computed in one go, by one worker."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from dlbjax.engine.settings import Settings

_BLOCK = 256  # seeds in a chunk, if they fit
_LONG = 2**31  # rounds of all runs in a chunk, for which fewer seeds make a chunk
_FEWEST = 32
_MOST_RUNS = 8192  # in a batch
_SHARE = 2**27  # rounds of all runs in a batch for one of several workers: about a second or more
_COPIES = 8  # of a run's reports that exist at a time: on the device, in the result, in the chunk…
_MEMORY = 2**30  # bytes for them


class Batch(NamedTuple):
    """Some points of a series, each for the same seeds."""

    points: np.ndarray
    rows: np.ndarray  # of the seeds in the store
    seeds: np.ndarray

    @property
    def runs(self) -> int:
        """How many."""
        return len(self.points) * len(self.seeds)


def block_size(settings: Settings) -> int:
    """Seeds in a chunk."""
    return min(_BLOCK, runs_that_fit(settings), max(_FEWEST, _LONG // settings.horizon))


def batch_size(settings: Settings, shared: bool) -> int:
    """Runs in a batch at most; fewer where several workers share the work."""
    fit = runs_that_fit(settings)
    return min(fit, max(block_size(settings), _SHARE // settings.horizon)) if shared else fit


def runs_that_fit(settings: Settings) -> int:
    """Runs that take about a gigabyte of memory, but no more than take minutes."""
    each = _COPIES * 3 * 8 * (len(settings.rounds) + 1)
    return int(np.clip(_MEMORY / each, 1, _MOST_RUNS))


def make_batches(
    missing: np.ndarray, rows: np.ndarray, seeds: np.ndarray, block: int, most: int
) -> Iterator[Batch]:
    """The missing runs of a series in batches. No two of them share a chunk.

    Args:
      missing: (points, seeds) whether each run is still to be done.
      rows: (seeds,) of the seeds in the store.
      seeds: (seeds,) themselves.
      block: seeds in a chunk.
      most: runs in a batch, if a chunk is not more.
    """
    order = np.argsort(rows)
    missing, rows, seeds = missing[:, order], rows[order], seeds[order]
    points, blocks = np.arange(len(missing)), rows // block
    deep = max(1, most // (len(missing) * block))  # blocks of seeds
    wide = max(1, most // (deep * block))
    for part in np.split(np.arange(len(rows)), np.flatnonzero(np.diff(blocks // deep)) + 1):
        for first in range(0, len(points), wide):
            some = points[first : first + wide]
            lacking = missing[np.ix_(some, part)]
            for pattern in np.unique(lacking[lacking.any(axis=1)], axis=0):
                alike = some[(lacking == pattern).all(axis=1)]
                yield Batch(alike, rows[part[pattern]], seeds[part[pattern]])
