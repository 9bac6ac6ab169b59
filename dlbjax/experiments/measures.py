"""What a result says about a policy: how much it lost, how fast that grows, where it ended up."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from scipy import stats

from dlbjax.result import Result


class Curve(NamedTuple):
    """One policy with one set of hyper-parameters."""

    label: str
    rounds: np.ndarray  # (C,)
    expected: np.ndarray  # (seeds, C) expected regret
    offline: np.ndarray  # (seeds, C) offline regret
    core_seconds: float  # what the policy's runs took, all hyper-parameters together

    @property
    def final(self) -> np.ndarray:
        """Expected regret of every run after the last round."""
        return self.expected[:, -1]

    @property
    def growth(self) -> float:
        """Power p in mean regret ∝ T^p over the last tenfold of rounds: 1 is linear, ½ a square root."""
        tenth = int(np.argmin(np.abs(self.rounds - self.rounds[-1] / 10)))
        late, early = np.maximum(self.expected[:, [-1, tenth]].mean(axis=0), 1e-12)
        return float(np.log(late / early) / np.log(self.rounds[-1] / self.rounds[tenth]))

    @property
    def late_rate(self) -> np.ndarray:
        """Offline regret per round of every run over the last tenth of the rounds."""
        from_ = int(np.argmin(np.abs(self.rounds - 0.9 * self.rounds[-1])))
        lost = self.offline[:, -1] - self.offline[:, from_]
        return lost / max(1, self.rounds[-1] - self.rounds[from_])

    def ends_at(self, gap: float) -> float:
        """Share of runs that lose `gap` a round in the end: that play one action, to 1 %."""
        return float(np.mean(np.abs(self.late_rate - gap) <= 0.01 * abs(gap)))


def curves(results: Mapping[str, Result]) -> dict[str, Curve]:
    """Every policy of the results with every set of its hyper-parameters, by label."""
    found = {}
    for name, result in results.items():
        labels = [label.replace(result.name, name, 1) for label in result.labels()]
        shape = (len(labels), *result.expected_regret.shape[-2:])
        expected, offline = (np.reshape(result.regret(k), shape) for k in ("expected", "offline"))
        spent = float(result.config["execution"]["core seconds"])
        for i, label in enumerate(labels):
            found[label] = Curve(label, result.rounds, expected[i], offline[i], spent)
    return found


def paired(one: np.ndarray, other: np.ndarray) -> tuple[float, float]:
    """Mean of one − other, run by run, and half of its 95 % interval (Student's t)."""
    difference = one - other
    runs = len(difference)
    if runs < 2:
        return float(difference.mean()), float("nan")
    error = difference.std(ddof=1) / np.sqrt(runs)
    return float(difference.mean()), float(stats.t.ppf(0.975, runs - 1) * error)
