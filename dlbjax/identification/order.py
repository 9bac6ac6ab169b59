"""How far back to regress, and how many states to take."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from dlbjax.identification.data import Samples
from dlbjax.identification.ho_kalman import largest_order
from dlbjax.identification.refine import Refined
from dlbjax.identification.regression import coefficients

_LARGEST = 4  # order that is compared
_COST = 3  # of a parameter, in units of 2 log L
_SOFT = 4  # by which differences of the criterion are divided for weights: they are uncertain themselves
_WORSE = 2  # orders in a row without a better criterion that end the comparison


class Candidate(NamedTuple):
    """An order that was compared.

    Attributes:
      order: number of states.
      log_likelihood: at its maximum, with the logarithm of the prior.
      parameters: number of free parameters k.
      aic: Akaike's criterion with three for each parameter, corrected for few samples,
        −2 log L + 3k N/(N − k − 1).
      weight: exp(−aic/4) over the sum of all orders compared.
    """

    order: int
    log_likelihood: float
    parameters: int
    aic: float
    weight: float


def free_parameters(order: int, samples: Samples) -> int:
    """Number of free parameters, up to a change of the state's coordinates."""
    d, m, q = samples.d, samples.m, samples.controls.shape[1]
    dynamics = order * (d + 2 * m + len(samples.lengths))  # A, B, C, gain and x1
    return dynamics + m * (1 + d + q) + m * (m + 1) // 2


def check_order(order: int, samples: Samples) -> None:
    """Raise a ValueError if an order has too many free parameters for the data."""
    free = free_parameters(order, samples)
    if (known := samples.rewards.size - samples.missing) < 2 * free:
        raise ValueError(
            f"order {order} has {free} free parameters, too many for {known} rewards; pass a smaller "
            "order or more data"
        )


def default_lags(samples: Samples, order: int | None, closed_loop: bool) -> int:
    """p = (N/(d+m))^{0.4}, as truncation costs less with every lag and coefficients always cost.

    At least as many as the order needs (None: up to 4, if the data allow), at most as many as leave five
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


def compare_orders(
    samples: Samples, maximised: Callable[[int, int, Refined | None], Refined]
) -> dict[Candidate, Refined]:
    """Orders 1, 2, … with their criterion and their estimates, until two in a row are not better.

    Args:
      samples: the data.
      maximised: the estimate of an order, compiled for orders up to a size, from that of one less.
    """
    most = max((n for n in range(1, _LARGEST + 1) if _affordable(n, samples)), default=0)
    if most == 0:
        check_order(1, samples)
    found: list[Refined] = []
    criteria: list[float] = []
    for n in range(1, most + 1):
        found.append(maximised(n, most, found[-1] if found else None))
        criteria.append(criterion(found[-1].log_likelihood, n, samples))
        if n - 1 - int(np.argmin(criteria)) == _WORSE:
            break
    weights = np.exp(-(np.array(criteria) - min(criteria)) / _SOFT)
    weights /= weights.sum()
    return {
        Candidate(
            n, refined.log_likelihood, free_parameters(n, samples), criteria[n - 1],
            float(weights[n - 1]),
        ): refined
        for n, refined in enumerate(found, 1)
    }  # fmt: skip


def criterion(log_likelihood: float, order: int, samples: Samples) -> float:
    """Akaike's criterion with three for each parameter (Bozdogan, 1994), corrected for few samples.

    A state more than needed gains more than a regular model's parameters would, since its eigenvalue can be
    anywhere. `benchmarks/decisions.py` measures what comes of it.
    """
    k, N = free_parameters(order, samples), samples.rewards.size - samples.missing
    return -2 * log_likelihood + _COST * k * N / (N - k - 1)


def choose_order(table: Sequence[Candidate]) -> tuple[int, str]:
    """The order with the best criterion, and a sentence on why.

    >>> tried = [Candidate(1, -30.0, 5, 70.0, 0.02), Candidate(2, -23.0, 8, 62.2, 0.98)]
    >>> choose_order(tried)
    (2, "order 2 has the best of Akaike's criterion among 1 to 2 (weights 0.02, 0.98)")
    """
    best = min(table, key=lambda row: row.aic)
    weights = ", ".join(f"{row.weight:.2f}" for row in table)
    return best.order, (
        f"order {best.order} has the best of Akaike's criterion among 1 to {table[-1].order} (weights "
        f"{weights})"
    )


def _affordable(order: int, samples: Samples) -> bool:
    return 2 * free_parameters(order, samples) <= samples.rewards.size - samples.missing
