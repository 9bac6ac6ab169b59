"""What happened in a campaign, round by round, and what of it a policy observes."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np


class Outcomes(NamedTuple):
    """What is observed of epochs, one row each, given what happened in their rounds.

    Attributes:
      observed: whether there is a reward.
      last: the last reward that was observed; NaN where there is none.
      total: the sum of the rewards; where some are missing, their mean times the epoch's length; NaN where
        there is none.
      vector: (epochs, d) what was spent: the same in all rounds, or else the mean.
    """

    observed: np.ndarray
    last: np.ndarray
    total: np.ndarray
    vector: np.ndarray

    @classmethod
    def of(
        cls,
        starts: np.ndarray,
        ends: np.ndarray,
        rewards: Sequence[float],
        spend: Sequence[Sequence[float]],
    ) -> "Outcomes":
        """Of the epochs from rounds `starts` to `ends`; NaN stands for a missing reward.

        Sums are taken round by round, so that an epoch alone and one of many have the same bits.
        """
        begin = int(starts[0])
        y = np.array(rewards[begin : ends[-1]])
        u = np.array(spend[begin : ends[-1]])
        starts, ends = starts - begin, ends - begin
        lengths = ends - starts
        last, total, seen = np.zeros((3, len(starts)))
        vectors, same = np.zeros((len(starts), u.shape[1])), np.ones(len(starts), bool)
        for k in range(int(lengths.max(initial=0))):
            row = np.flatnonzero(lengths > k)
            at = starts[row] + k
            known = ~np.isnan(y[at])
            last[row[known]] = y[at[known]]
            total[row[known]] += y[at[known]]
            seen[row[known]] += 1
            vectors[row] += u[at]
            same[row] &= np.all(u[at] == u[starts[row]], axis=1)
        some = (seen < lengths) & (seen > 0)
        total[some] *= lengths[some] / seen[some]
        last[seen == 0] = total[seen == 0] = np.nan
        vector = np.where(same[:, None], u[starts], vectors / lengths[:, None])
        return cls(seen > 0, last, total, vector)
