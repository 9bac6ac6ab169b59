"""Measures of a policy's regret: its final value, its growth and its rate at the end."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from scipy import stats

from dlbjax.results.result import Result


class Curve(NamedTuple):
    """Regret of one policy with one combination of hyper-parameters.

    Attributes:
      label: name of the policy and its hyper-parameters.
      rounds: (C,) reporting rounds.
      expected: (seeds, C) expected regret.
      offline: (seeds, C) offline regret.
    """

    label: str
    rounds: np.ndarray
    expected: np.ndarray
    offline: np.ndarray

    @property
    def final(self) -> np.ndarray:
        """(seeds,) Expected regret after the last round."""
        return self.expected[:, -1]

    @property
    def pace(self) -> float:
        """Regret per round over the last tenth of the rounds, divided by that from 40 to 50 % of them.

        1 is linear growth, less is sublinear: 0.69 for regret that grows as √T, 0.93 for T^0.9.
        """
        mean = self.expected.mean(axis=0)
        late, early = (self._rate(mean, end) for end in (1.0, 0.5))
        return float(late / early) if early > 0 else float("inf" if late > 0 else 0.0)

    @property
    def late_rate(self) -> np.ndarray:
        """(seeds,) Offline regret per round over the last tenth of the rounds."""
        return self._rate(self.offline, 1.0)

    def _rate(self, regret: np.ndarray, end: float) -> np.ndarray:
        """Regret per round over the tenth of the rounds that ends at the share `end` of them."""
        first, last = (
            int(np.argmin(np.abs(self.rounds - share * self.rounds[-1])))
            for share in (end - 0.1, end)
        )
        rounds = max(1, self.rounds[last] - self.rounds[first])
        return (regret[..., last] - regret[..., first]) / rounds


def curves(results: Mapping[str, Result]) -> dict[str, Curve]:
    """One curve per policy and combination of hyper-parameters, by label."""
    found = {}
    for name, result in results.items():
        labels = result.labels(name)
        shape = (len(labels), *result.expected_regret.shape[-2:])
        expected, offline = (np.reshape(result.regret(k), shape) for k in ("expected", "offline"))
        for i, label in enumerate(labels):
            found[label] = Curve(label, result.rounds, expected[i], offline[i])
    return found


def paired(one: np.ndarray, other: np.ndarray) -> tuple[float, float]:
    """Mean of one − other, run by run, and half the width of its 95 % interval (Student's t)."""
    difference = one - other
    runs = len(difference)
    if runs < 2:
        return float(difference.mean()), float("nan")
    error = difference.std(ddof=1) / np.sqrt(runs)
    return float(difference.mean()), float(stats.t.ppf(0.975, runs - 1) * error)
