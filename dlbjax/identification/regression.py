"""Ridge regression of the rewards on the past: the first step of identification.

In its predictive form a system is an infinite regression without hidden state,

    y_t = c + D u_t + Σ_{i≥1} C Ā^{i−1} (B̃ u_{t−i} + F y_{t−i}) + e_t,    Ā = A − FC,  B̃ = B − FD,

with F the gain of its Kalman filter and e_t white, however the actions are chosen: the closed loop. Ā^i
vanishes, so that p lags suffice. On inputs alone, y_t = c + D u_t + Σ C A^{i−1} B u_{t−i} + noise, the
noise is coloured and the actions must not depend on the rewards: the open loop.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from dlbjax.identification.data import Samples

_ROWS = 65_536  # of the regression, in memory at a time


class Method(NamedTuple):
    """How to regress.

    Attributes:
      closed_loop: whether past rewards are among the regressors.
      intercept: whether there is a constant, which is not penalised.
      ridge: weight of the squared coefficients, per round.
    """

    closed_loop: bool
    intercept: bool
    ridge: float


class Regression(NamedTuple):
    """Coefficients of the regression.

    Attributes:
      c: (m,) constant.
      D: (m, d) of u_t.
      G: (p, m, k) of u_{t−i} and, in the closed loop, y_{t−i}, for i = 1, …, p; k is d or d + m.
      S: (m, m) covariance of the residuals.
      past: (pk, pk) mean square of (u_{t−1}, y_{t−1}, …, u_{t−p}, y_{t−p}).
      rows: number of rounds used.
    """

    c: np.ndarray
    D: np.ndarray
    G: np.ndarray
    S: np.ndarray
    past: np.ndarray
    rows: int


def regress(samples: Samples, lags: int, method: Method) -> Regression:
    """Ridge regression over every round whose reward and p predecessors are known.

    Args:
      samples: the data.
      lags: p.
      method: closed or open loop, with a constant or without, and the penalty.

    >>> import numpy as np
    >>> u = np.array([[1.0], [0.0], [0.0], [2.0], [1.0]])
    >>> samples = Samples(u, np.roll(u, 1), (5,))
    >>> found = regress(samples, 1, Method(closed_loop=False, intercept=False, ridge=0.0))
    >>> float(found.G[0, 0, 0].round(6)), found.rows
    (1.0, 4)
    """
    d, m = samples.d, samples.m
    past = d + m if method.closed_loop else d
    size = coefficients(lags, d, past)
    gram = np.zeros((size + m, size + m))
    rows = 0
    for table in _tables(samples, lags, method.closed_loop):
        gram += table.T @ table
        rows += len(table)
    columns = slice(0 if method.intercept else 1, size)
    needed = size - columns.start
    if rows <= needed:
        raise ValueError(
            f"only {rows} rounds have a reward and {lags} lags before it, too few for {needed} "
            f"coefficients; pass a smaller order or more data, or fewer lags than {lags}"
        )
    penalty = method.ridge * rows * np.eye(size)
    penalty[0, 0] = 0.0
    Z, target = gram[columns, columns] + penalty[columns, columns], gram[columns, size:]
    solution = np.zeros((size, m))
    solution[columns] = np.linalg.lstsq(Z, target)[0]
    residual = gram[size:, size:] - target.T @ solution[columns]
    return Regression(
        c=solution[0],
        D=solution[1 : 1 + d].T,
        G=solution[1 + d :].reshape(lags, past, m).swapaxes(1, 2),
        S=(residual + residual.T) / 2 / (rows - needed),
        past=gram[1 + d : size, 1 + d : size] / rows,
        rows=rows,
    )


def enough_rows(samples: Samples, lags: int, method: Method) -> bool:
    """Whether there are at least two rounds to regress on for each coefficient."""
    k = samples.d + samples.m if method.closed_loop else samples.d
    rows = sum(len(table) for table in _tables(samples, lags, method.closed_loop))
    return rows >= 2 * coefficients(lags, samples.d, k)


def coefficients(lags: int, d: int, k: int) -> int:
    """Number of coefficients of each output's regression."""
    return 1 + d + lags * k


def excitation(regression: Regression, d: int) -> float:
    """The least share of an action coordinate's mean square that past actions do not predict.

    >>> import numpy as np
    >>> u = np.tile([0.0, 1.0, -1.0], 10)[:, None]                      # of period three
    >>> method = Method(closed_loop=False, intercept=False, ridge=0.0)
    >>> excitation(regress(Samples(u, u, (30,)), 4, method), 1) < 1e-9
    True
    """
    p, _, k = regression.G.shape
    actions = (np.arange(p)[:, None] * k + np.arange(d)).ravel()
    square = regression.past[np.ix_(actions, actions)]
    now, before = square[:d, :d], square[d:, d:]
    across = square[d:, :d]
    left = np.diag(now - across.T @ np.linalg.lstsq(before, across)[0])
    return float(np.min(left / np.diag(now)))


def _tables(samples: Samples, lags: int, closed_loop: bool) -> Iterator[np.ndarray]:
    """The rows of the regression without missing rewards, in batches."""
    for u, y in samples.episodes():
        for first in range(lags, len(u), _ROWS):
            table = _table(u, y, first, min(first + _ROWS, len(u)), lags, closed_loop)
            yield table[~np.isnan(table).any(axis=1)]


def _table(
    u: np.ndarray, y: np.ndarray, first: int, last: int, lags: int, closed_loop: bool
) -> np.ndarray:
    """Rows (1, u_t, past of lag 1, …, past of lag p, y_t) for first ≤ t < last."""
    before = np.concatenate([u, y], axis=1) if closed_loop else u
    windows = sliding_window_view(before[first - lags : last - 1], lags, axis=0)[..., ::-1]
    past = windows.swapaxes(1, 2).reshape(last - first, -1)
    return np.concatenate([np.ones((last - first, 1)), u[first:last], past, y[first:last]], axis=1)
