"""Where the maximisation of the likelihood starts."""

from collections.abc import Sequence

import numpy as np
from scipy.signal import lfilter

from dlbjax.identification.data import Samples
from dlbjax.identification.ho_kalman import Realisation, realise
from dlbjax.identification.regression import Method, regress

_MEMORIES = (0.5, 0.8, 0.95)  # largest eigenvalue of A
_RIDGE = 1e-6  # of the regression on memories, per round and in the units of the fit


def without_controls(samples: Samples, intercept: bool) -> tuple[Samples, np.ndarray]:
    """The samples less the effect of their controls, and that effect (m, q).

    The effect is the least squares estimate beside actions of several memories.
    """
    found = _remembering(samples, _MEMORIES, intercept)
    E = found.D[:, samples.d :]
    return Samples(samples.actions, samples.rewards - samples.controls @ E.T, samples.lengths), E


def with_controls(found: Realisation, E: np.ndarray) -> Realisation:
    """A realisation with the effects of controls, which reach no state."""
    B = np.pad(found.B, ((0, 0), (0, E.shape[1])))
    return found._replace(B=B, D=np.concatenate([found.D, E], axis=1))


def realisations(samples: Samples, order: int, lags: int, method: Method) -> list[Realisation]:
    """Starting points of an order: Ho and Kalman's, and some of given memories.

    The first are those with all lags, with half of them, and by the other method; they find coloured noise
    and oscillations, and are poor where the lags are nearly collinear. The others have eigenvalues of A
    spread up to 0.5, 0.8 and 0.95, and explain at least as much as the regression without any delay.
    """
    plain, E = without_controls(samples, method.intercept)
    other = method._replace(closed_loop=not method.closed_loop)
    found = []
    for fewer, way in ((lags, method), (lags // 2, method), (lags, other)):
        try:
            found.append(with_controls(realise(regress(plain, max(2, fewer), way), order), E))
        except ValueError:  # too few lags for the order, or too few rounds for the lags
            continue
    spread = (1 + np.arange(order)) / order
    return found + [_remembering(samples, rho * spread, method.intercept) for rho in _MEMORIES]


def _remembering(
    samples: Samples, rho: Sequence[float] | np.ndarray, intercept: bool
) -> Realisation:
    """The least squares fit of B, D and c where A = diag(ρ) and C is of ones for every output."""
    n, d, m = len(rho), samples.d, samples.m
    sums = [_delayed_sums(samples, r) for r in rho]
    constant = np.full((len(samples.actions), 1), float(intercept))
    table = np.concatenate([constant, samples.inputs, *sums], axis=1)
    known = ~np.isnan(samples.rewards).any(axis=1)
    table, target = table[known], samples.rewards[known]
    penalty = _RIDGE * len(table) * np.eye(table.shape[1])
    penalty[0, 0] = 0.0
    found = np.linalg.lstsq(table.T @ table + penalty, table.T @ target, rcond=None)[0]
    residuals = target - table @ found
    c, D, B = np.split(found, [1, 1 + samples.inputs.shape[1]])
    # With several outputs the states of the first serve for all: a start, not an estimate.
    B = np.pad(B.reshape(n, d, m)[..., 0], ((0, 0), (0, samples.controls.shape[1])))
    S = residuals.T @ residuals / len(table)
    return Realisation(
        np.diag(rho), B, np.ones((m, n)), D.T, c[0], np.zeros((n, m)), S, float(max(rho))
    )


def _delayed_sums(samples: Samples, rho: float) -> np.ndarray:
    """(N, d) sums Σ_{s≥1} ρ^{s−1} u_{t−s} within each episode."""
    return np.concatenate(
        [lfilter([0.0, 1.0], [1.0, -rho], u, axis=0) for u, _ in samples.episodes()]
    )
