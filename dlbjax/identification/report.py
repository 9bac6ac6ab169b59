"""How well a model fits the samples."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import scipy.stats

from dlbjax.identification.data import Samples
from dlbjax.identification.model import StateSpace
from dlbjax.identification.predict import predict

_LAGS = 20


class Report(NamedTuple):
    """Figures of merit of a fit.

    Attributes:
      samples: number of rounds.
      missing: number of missing rewards.
      log_likelihood: of the rewards, each episode started from N(x1, P) with its fitted x1 and the
        filter's steady-state covariance P.
      r2_one_step: share of the reward's variance explained by predicting one round ahead.
      r2_free_run: share explained by the actions alone, from the first round on.
      whiteness: p-value of Ljung and Box's test that the one-step errors are uncorrelated; a small
        value means that the model misses something, as with too small an order.
      rho: spectral radius of A.
      phi: Φ(A), infinite for a nilpotent A.
      shrunk: whether the estimate of A was unstable and was shrunk; never with refinement.
    """

    samples: int
    missing: int
    log_likelihood: float
    r2_one_step: float
    r2_free_run: float
    whiteness: float
    rho: float
    phi: float
    shrunk: bool


class Parts(NamedTuple):
    """What the fitted rewards of a free run, by the actions alone, consist of.

    Attributes:
      level: (N,) baseline and controls.
      carried: (N,) effect of the state from which an episode starts.
      channels: (N, d) effects of each channel's actions, at once and delayed.
      rewards: (N,) what was seen, NaN where missing.
    """

    level: np.ndarray
    carried: np.ndarray
    channels: np.ndarray
    rewards: np.ndarray

    @property
    def fitted(self) -> np.ndarray:
        """(N,) the sum of all parts."""
        return self.level + self.carried + self.channels.sum(axis=1)


def parts_of(model: StateSpace, samples: Samples, x1: np.ndarray, value: np.ndarray) -> Parts:
    """The parts of ⟨value, y⟩ for a model of actions and controls."""
    d, unused = samples.d, np.zeros(len(samples.actions), dtype=bool)
    gain, nothing = np.zeros((len(model.A), samples.m)), np.zeros_like(x1)

    def run(inputs: np.ndarray, x1: np.ndarray) -> np.ndarray:
        alone = Samples(inputs, samples.rewards, samples.lengths)
        bare = model._replace(B=model.B[:, :d], D=model.D[:, :d], c=np.zeros(samples.m))
        return predict(bare, gain, alone, unused, x1) @ value

    one = [run(samples.actions * (np.arange(d) == i), nothing) for i in range(d)]
    level = np.asarray((model.c + samples.controls @ model.D[:, d:].T) @ value)
    return Parts(
        level, run(0 * samples.actions, x1), np.stack(one, axis=1), samples.rewards @ value
    )


def explained(rewards: np.ndarray, predicted: np.ndarray) -> float:
    """R² = 1 − Σ(r − r̂)² / Σ(r − r̄)² of the rewards (N,) that are known."""
    known = ~np.isnan(rewards)
    spread = np.sum((rewards[known] - rewards[known].mean()) ** 2)
    return float(1 - np.sum((rewards[known] - predicted[known]) ** 2) / spread)


def ljung_box(errors: np.ndarray, lengths: Sequence[int], fitted: int) -> float:
    """p-value of Ljung and Box's Q = Σ_k N_k r_k² over 20 lags, which is χ² if errors are white.

    r_k is the correlation of the N_k pairs of errors k rounds apart.

    Args:
      errors: one-step errors; NaN where missing.
      lengths: of the episodes; both errors of a pair are from the same episode.
      fitted: degrees of freedom subtracted for fitted parameters.
    """
    known = ~np.isnan(errors)
    episodes = np.repeat(np.arange(len(lengths)), lengths)
    e = np.where(known, errors - np.nanmean(errors), 0.0)
    variance = np.mean(e[known] ** 2)
    lags = min(_LAGS, len(e) // 5)
    if lags <= fitted or variance == 0:
        return float("nan")
    Q = 0.0
    for k in range(1, lags + 1):
        pairs = known[k:] & known[:-k] & (episodes[k:] == episodes[:-k])
        Q += np.sum((e[k:] * e[:-k])[pairs]) ** 2 / (max(pairs.sum(), 1) * variance**2)
    return float(scipy.stats.chi2.sf(Q, lags - fitted))
