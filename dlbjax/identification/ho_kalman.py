"""From the regression's coefficients to a state space: Ho and Kalman's realisation."""

from typing import NamedTuple

import numpy as np

from dlbjax.identification.regression import Regression
from dlbjax.model.powers import spectral_radius

_STABLE = 0.99  # spectral radius to which an unstable estimate is shrunk
_SMALL = 1e-10  # added to the past's mean square, which is singular without noise


class Realisation(NamedTuple):
    """x̂_{t+1} = A x̂_t + B u_t + F e_t, y_t = c + C x̂_t + D u_t + e_t, e ~ N(0, S).

    Attributes:
      A: (n, n), shrunk to spectral radius 0.99 if the estimate was unstable.
      B: (n, d).
      C: (m, n).
      D: (m, d).
      c: (m,).
      F: (n, m) gain.
      S: (m, m) covariance of the innovations.
      radius: spectral radius of A before shrinking.
    """

    A: np.ndarray
    B: np.ndarray
    C: np.ndarray
    D: np.ndarray
    c: np.ndarray
    F: np.ndarray
    S: np.ndarray
    radius: float


def hankel_singular_values(regression: Regression) -> np.ndarray:
    """Singular values of the weighted Hankel matrix; as many as the order stand out from the noise."""
    return np.linalg.svd(_weighted(regression)[0], compute_uv=False)


def realise(regression: Regression, order: int) -> Realisation:
    """The system of an order whose predictions are closest to the regression's.

    The Hankel matrix H of the coefficients C Ā^i [B̃ F] is the product of the observability and the
    controllability matrix. It maps the past to predictions of the future, and is approximated by a
    matrix of rank n in that sense: H W, with WWᵀ the mean square of the past, has the singular value
    decomposition UsVᵀ, the observability matrix is Us, and the states VᵀW⁻¹·past are of size one.
    Then A = Ā + FC and B = B̃ + FD. On inputs alone the coefficients are C A^i B, and F = 0.

    Note:
      The paper takes B̃ for B, which is off by FD if there is an immediate effect D. See
      notebooks/errata.md.

    >>> import numpy as np
    >>> G = 0.5 ** np.arange(6)[:, None, None]
    >>> regression = Regression(np.zeros(1), np.zeros((1, 1)), G, np.eye(1), np.eye(6), rows=100)
    >>> found = realise(regression, order=1)
    >>> float(found.A[0, 0].round(6)), float((found.C @ found.B)[0, 0].round(6))
    (0.5, 1.0)
    """
    D, (p, m, k) = regression.D, regression.G.shape
    if order > (most := largest_order(p, m, k)):
        raise ValueError(
            f"order {order} is too large for {p} lags (at most {most}); pass more lags or a smaller "
            "order"
        )
    hankel, shifted, W = _weighted(regression)
    U, s, Vt = np.linalg.svd(hankel, full_matrices=False)
    U, s, Vt = U[:, :order], s[:order], Vt[:order]
    A_bar = (U / s).T @ shifted @ Vt.T
    C = U[:m] * s
    controllability = np.linalg.solve(W.T, Vt.T).T
    B, F = np.split(controllability[:, :k], [D.shape[1]], axis=1)
    if k == D.shape[1]:
        F = np.zeros((order, m))
    A = A_bar + F @ C
    radius = float(spectral_radius(A))
    if radius >= 1:
        A = A * (_STABLE / radius)
    return Realisation(A, B + F @ D, C, D, regression.c, F, regression.S, radius)


def largest_order(lags: int, m: int, k: int) -> int:
    """The largest order that p lags of coefficients (m, k) determine.

    >>> largest_order(10, 1, 4)
    8
    """
    rows, columns = _blocks(lags, m, k)
    return min(rows * m, columns * k)


def _blocks(lags: int, m: int, k: int) -> tuple[int, int]:
    """Block rows and columns of a Hankel matrix that is about as high as wide."""
    rows = min(max(1, round(lags * k / (m + k))), lags - 1)
    return rows, lags - rows


def _weighted(regression: Regression) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """HW with the Hankel matrix H of G_0, …, G_{p−2}, the same of G_1, …, G_{p−1}, and W."""
    G = regression.G
    p, m, k = G.shape
    rows, columns = _blocks(p, m, k)
    place = np.arange(rows)[:, None] + np.arange(columns)
    past = regression.past[: columns * k, : columns * k]
    W = np.linalg.cholesky(past + _SMALL * np.trace(past) / len(past) * np.eye(len(past)))

    def weighted(blocks: np.ndarray) -> np.ndarray:
        return blocks[place].swapaxes(1, 2).reshape(rows * m, columns * k) @ W

    return weighted(G), weighted(G[1:]), W
