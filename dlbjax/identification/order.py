"""How far back to regress, and how many states to take."""

from typing import NamedTuple

import numpy as np

from dlbjax.identification.data import Samples
from dlbjax.identification.ho_kalman import largest_order, realise
from dlbjax.identification.predict import predict
from dlbjax.identification.regression import Method, coefficients, regress

_LARGEST = 8
_FITTED = 0.8  # share of every episode that is fitted; the rest is held out
_TOLERANCE = 0.01


class Candidate(NamedTuple):
    """Root mean squared errors on the held-out rounds, in units of the rewards' spread.

    Attributes:
      order: number of states.
      one_step: error of predicting a reward from all rewards before it.
      free_run: error of predicting it from the rewards that are not held out.
      held_out: number of held-out rounds.
    """

    order: int
    one_step: float
    free_run: float
    held_out: int


def check_order(order: int, samples: Samples) -> None:
    """Raise a ValueError if an order has too many free parameters for the data."""
    d, m = samples.d, samples.m
    free = order * (d + 2 * m) + m * d + m  # up to a change of the state's coordinates
    known = samples.rewards.size - samples.missing
    if 2 * free > known:
        raise ValueError(
            f"order {order} has {free} free parameters, too many for {known} rewards; pass a smaller "
            "order or more data"
        )


def default_lags(samples: Samples, order: int | None, closed_loop: bool) -> int:
    """p = (N/(d+m))^{0.4}, as truncation costs less with every lag and coefficients always cost.

    At least as many as the order needs (None: up to 8, if the data allow), at most as many as leave five
    rounds for each coefficient.

    >>> import numpy as np
    >>> samples = Samples(np.zeros((20_000, 3)), np.zeros((20_000, 1)), (20_000,))
    >>> default_lags(samples, 3, closed_loop=True)
    30
    """
    d, m, N = samples.d, samples.m, len(samples.actions)
    k = d + m if closed_loop else d

    def affordable(lags: int) -> bool:
        return N - lags * len(samples.lengths) >= 5 * coefficients(lags, d, k)

    def needed(order: int) -> int:
        return next(p for p in range(2, 10 * order + 10) if largest_order(p, m, k) > order)

    if order is None:
        order = next((n for n in range(_LARGEST, 1, -1) if affordable(needed(n))), 1)
    lags = round((N / (d + m)) ** 0.4)
    while lags > needed(order) and not affordable(lags):
        lags -= 1
    return max(lags, needed(order))


def compare_orders(samples: Samples, lags: int, method: Method) -> list[Candidate]:
    """Errors of the orders 1, …, 8 on the last fifth of every episode, fitted to the rest."""
    fitted, later = samples.split(_FITTED)
    regression = regress(fitted, lags, method)
    known = ~np.isnan(samples.rewards).any(axis=1)
    scored = later & known
    if not scored.any():
        raise ValueError(
            "the last fifth of every episode, on which orders are compared, has no rewards; pass the "
            "order"
        )
    spread = np.nanstd(samples.rewards, axis=0)
    table = []
    for order in range(1, min(_LARGEST, largest_order(*regression.G.shape)) + 1):
        found = realise(regression, order)
        x1 = np.zeros((len(samples.lengths), order))
        errors = [
            (samples.rewards - predict(found, found.F, samples, used, x1))[scored] / spread
            for used in (known, known & ~later)
        ]
        one_step, free_run = (float(np.sqrt(np.mean(e**2))) for e in errors)
        table.append(Candidate(order, one_step, free_run, int(scored.sum())))
    return table


def choose_order(table: list[Candidate]) -> tuple[int, str]:
    """The smallest order that predicts nearly as well as the best, and a sentence on why.

    Nearly means within 1 %, or within 1/(2√n) if that is more, for n held-out rounds: errors over few
    rounds differ by chance.

    >>> tried = [Candidate(1, 0.3, 0.4, 900), Candidate(2, 0.1, 0.2, 900), Candidate(3, 0.1, 0.199, 900)]
    >>> choose_order(tried)[0]
    2
    """
    tolerance = max(_TOLERANCE, 0.5 / np.sqrt(table[0].held_out))
    best = {kind: min(getattr(row, kind) for row in table) for kind in ("one_step", "free_run")}
    for row in table:
        if all(getattr(row, kind) <= (1 + tolerance) * low for kind, low in best.items()):
            break
    else:  # none is good at both
        row = min(table, key=lambda row: row.one_step * row.free_run)
    reason = (
        f"order {row.order} is the smallest of 1 to {table[-1].order} whose errors on the last fifth of "
        f"the data ({row.one_step:.3g} one step ahead, {row.free_run:.3g} in free run, of the rewards' "
        f"spread) are within {tolerance:.1%} of the best ({best['one_step']:.3g} and "
        f"{best['free_run']:.3g})"
    )
    return row.order, reason
