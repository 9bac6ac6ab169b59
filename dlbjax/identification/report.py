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
      shrunk: whether the first estimate of A was unstable and was shrunk; with refinement that
        concerns the starting point only.
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


def explained(samples: Samples, predicted: np.ndarray, value: np.ndarray) -> float:
    """R² = 1 − Σ(r − r̂)² / Σ(r − r̄)² of the rewards r = ⟨value, y⟩ that are known."""
    reward, guess = samples.rewards @ value, predicted @ value
    known = ~np.isnan(reward)
    spread = np.sum((reward[known] - reward[known].mean()) ** 2)
    return float(1 - np.sum((reward[known] - guess[known]) ** 2) / spread)


def free_run(model: StateSpace, samples: Samples, x1: np.ndarray) -> np.ndarray:
    """Predictions (N, m) from the actions alone."""
    unused = np.zeros(len(samples.actions), dtype=bool)
    return predict(model, np.zeros((len(model.A), samples.m)), samples, unused, x1)


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
