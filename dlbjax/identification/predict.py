"""Predictions of rewards by a filter with a constant gain, and its best starting states."""

import numpy as np

from dlbjax.identification.data import Samples
from dlbjax.identification.ho_kalman import Realisation
from dlbjax.identification.model import StateSpace


def predict(
    model: StateSpace | Realisation,
    F: np.ndarray,
    samples: Samples,
    used: np.ndarray,
    x1: np.ndarray,
) -> np.ndarray:
    """Predictions (N, m) from x̂_{t+1} = A x̂_t + B u_t + F e_t, where e_t = 0 at rounds not used.

    Args:
      model: A, B, C, D and c.
      F: (n, m) gain.
      samples: actions and rewards.
      used: (N,) whether the reward of a round, which must be known, corrects the state; a free run
        uses none.
      x1: (E, n) states from which the episodes start.

    >>> import dlbjax as dlb
    >>> samples = Samples(np.ones((3, 1)), np.zeros((3, 1)), (3,))
    >>> model = StateSpace.of(dlb.System([[0.5]], [[1.0]], [1.0], [0.0]))
    >>> predict(model, np.zeros((1, 1)), samples, np.zeros(3, dtype=bool), np.zeros((1, 1)))[:, 0]
    array([0. , 1. , 1.5])
    """
    A, B, C, D, c = model[:5]
    direct = samples.inputs @ D.T + c
    driven = samples.inputs @ B.T
    driven[used] += (samples.rewards - direct)[used] @ F.T
    A_bar = A - F @ C
    states = np.empty((len(used), len(A)))
    for first, length, x in zip(samples.starts, samples.lengths, x1, strict=True):
        for t, corrects in enumerate(used[first : first + length].tolist(), first):
            states[t] = x
            x = (A_bar if corrects else A) @ x + driven[t]
    return direct + states @ C.T


def starting_states(found: Realisation, samples: Samples) -> tuple[np.ndarray, np.ndarray]:
    """The states (E, n) that minimise the squared one-step errors, and those errors (N, m).

    Predictions are affine in the state an episode starts from, so n + 1 predictions determine them all.
    """
    n, E = len(found.A), len(samples.lengths)
    known = ~np.isnan(samples.rewards).any(axis=1)

    def errors(x: np.ndarray) -> np.ndarray:
        x1 = np.broadcast_to(x, (E, n))
        return samples.rewards - predict(found, found.F, samples, known, x1)

    from_zero = errors(np.zeros(n))
    slopes = np.stack([from_zero - errors(unit) for unit in np.eye(n)], axis=-1)  # (N, m, n)
    x1 = np.zeros((E, n))
    left = from_zero.copy()
    for i, (first, length) in enumerate(zip(samples.starts, samples.lengths, strict=True)):
        rows = np.arange(first, first + length)[known[first : first + length]]
        slope = slopes[rows].reshape(-1, n)
        x1[i] = np.linalg.lstsq(slope, from_zero[rows].ravel(), rcond=1e-6)[0]
        left[rows] -= slopes[rows] @ x1[i]
    return x1, left
