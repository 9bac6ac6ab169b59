"""Columns that nobody chooses: trend, season, and a baseline for each group of episodes."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from dlbjax.common.arrays import real_number, strings, whole_number


class Calendar(NamedTuple):
    """A linear trend and a season as sines and cosines of the round's number.

    Attributes:
      trend: whether there is a trend.
      season: rounds in a period, or None without a season.
      harmonics: number of sines and of cosines.

    >>> Calendar(trend=True, season=4, harmonics=1).columns([0, 1, 5]).round(3)
    array([[0., 0., 1.],
           [1., 1., 0.],
           [5., 1., 0.]])
    """

    trend: bool = False
    season: float | None = None
    harmonics: int = 2

    @classmethod
    def of(cls, trend: bool, season: float | None, harmonics: int) -> "Calendar":
        """A calendar of checked arguments."""
        harmonics = whole_number("harmonics", harmonics, at_least=1, at_most=20)
        if season is None:
            return cls(trend, None, harmonics)
        season = float(real_number("season", season))
        if not season > 2 * harmonics:
            raise ValueError(
                f"season must be more than twice harmonics, in rounds; got {season:g} and {harmonics}"
            )
        return cls(trend, season, harmonics)

    @property
    def names(self) -> list[str]:
        """Names of the columns."""
        waves = range(1, self.harmonics + 1) if self.season else ()
        named = [f"season {wave} {k}" for k in waves for wave in ("sin", "cos")]
        return ["trend"] * self.trend + named

    def columns(self, rounds: Sequence[float] | np.ndarray) -> np.ndarray:
        """(T, k) values at the given rounds."""
        t = np.asarray(rounds, dtype=float)
        found = [t] if self.trend else []
        if self.season:
            for k in range(1, self.harmonics + 1):
                angle = 2 * np.pi * k * t / self.season
                found += [np.sin(angle), np.cos(angle)]
        return np.stack(found, axis=1) if found else np.zeros((len(t), 0))


def group_columns(
    groups: Sequence[str] | None, lengths: Sequence[int]
) -> tuple[list[str], np.ndarray]:
    """Names and (N, k) indicators of all groups of episodes but the last, which the baseline covers."""
    if groups is None:
        return [], np.zeros((sum(lengths), 0))
    groups = strings("groups", groups)
    if len(groups) != len(lengths):
        raise ValueError(
            f"groups must name the group of each of the {len(lengths)} episodes; got {len(groups)} names"
        )
    *names, last = dict.fromkeys(groups)
    table = np.array([[float(group == name) for name in names] for group in groups])
    table = table.reshape(len(groups), len(names))
    return [f"{name} less {last}" for name in names], np.repeat(table, lengths, axis=0)
