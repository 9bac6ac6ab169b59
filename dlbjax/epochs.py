"""Epoch tables: how many rounds each decision of a policy is held."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from dlbjax._arrays import short, whole_number

LONGEST = 2**31 - 1  # rounds are counted in 32 bits: no horizon is longer, and no epoch need be


class Epochs(NamedTuple):
    """Epoch lengths as runs of equal ones: `counts[i]` epochs of `lengths[i]` rounds.

    Run lengths keep a table small however long the horizon is: one run for a policy that decides
    every round, about log T / log(1/ρ̄) runs for DynLin-UCB.
    """

    lengths: np.ndarray  # (R,) rounds per epoch
    counts: np.ndarray  # (R,) epochs of that length in a row

    @property
    def rounds(self) -> int:
        """Rounds that the table covers."""
        return int(np.sum(self.lengths * self.counts))

    def same(self, other: "Epochs") -> bool:
        """Whether two tables hold the same epochs."""
        return np.array_equal(self.lengths, other.lengths) and np.array_equal(
            self.counts, other.counts
        )


def constant_epochs(length: int, horizon: int) -> Epochs:
    """Epochs of one length until the horizon is covered.

    >>> constant_epochs(4, horizon=10)
    Epochs(lengths=array([4]), counts=array([3]))
    """
    length = min(whole_number("epochs", length, at_least=1), LONGEST)
    return Epochs(np.array([length]), np.array([-(-horizon // length)]))


def listed_epochs(lengths: Sequence[int] | np.ndarray, horizon: int) -> Epochs:
    """Epochs as listed, in rounds; the list must reach the horizon.

    >>> listed_epochs([2, 1, 1, 1, 3], horizon=6)
    Epochs(lengths=array([2, 1, 3]), counts=array([1, 3, 1]))
    """
    try:
        array = np.asarray(lengths)
    except ValueError:  # a ragged list
        array = np.zeros(0)
    if array.ndim != 1 or array.size == 0 or array.dtype.kind not in "iu" or array.min() < 1:
        raise ValueError(
            f"epochs must be a list of whole numbers >= 1, the rounds of each epoch; got {short(lengths)}"
        )
    array = np.minimum(array.astype(np.uint64), LONGEST).astype(np.int64)
    total = int(array.sum(dtype=np.int64))
    if total < horizon:
        raise ValueError(
            f"epochs must cover the horizon of {horizon} rounds; the {len(array)} given sum to {total}"
        )
    array = array[: 1 + int(np.searchsorted(np.cumsum(array, dtype=np.int64), horizon))]
    starts = np.flatnonzero(np.r_[True, array[1:] != array[:-1]])
    return Epochs(array[starts].astype(np.int64), np.diff(np.r_[starts, len(array)]))


def growing_epochs(rho_bar: float, horizon: int, extra: int = 0) -> Epochs:
    """DynLin-UCB's epochs: 1 + H_m rounds with H_m = ⌊log m / log(1/ρ̄)⌋, and H_m = 0 at ρ̄ = 0.

    `extra` lengthens every epoch by that many rounds.

    H_m is the largest H with ρ̄^{−H} ≤ m. Comparing powers with the integer m, with a guard against
    the last digits, gives the exact floor where the quotient of logarithms does not: at ρ̄ = 0.1,
    m = 1000 the quotient is 2.9999999999999996.

    >>> growing_epochs(0.1, horizon=20)
    Epochs(lengths=array([1, 2]), counts=array([9, 6]))
    """
    lengths, counts = [], []
    m, rounds = 1, 0
    while rounds < horizon:
        H = _persistence(m, rho_bar)
        until = m + horizon if rho_bar == 0 else min(_threshold(H + 1, rho_bar), m + horizon)
        length = H + 1 + extra
        count = min(max(1, until - m), -(-(horizon - rounds) // length))
        lengths.append(length)
        counts.append(count)
        m, rounds = m + count, rounds + count * length
    return Epochs(np.array(lengths), np.array(counts))


def settling_rounds(rho_bar: float, m: int) -> int:
    """⌈log m / log(1/ρ̄)⌉: after how many rounds what decays by ρ̄ is down to 1/m; 0 at ρ̄ = 0.

    >>> settling_rounds(0.1, 1000), settling_rounds(0.1, 1001)
    (3, 4)
    """
    if rho_bar == 0:
        return 0
    H = _persistence(m, rho_bar)
    return H if rho_bar**-H >= m * (1 - 1e-12) else H + 1


def _threshold(H: int, rho_bar: float) -> int:
    """The first m with log m / log(1/ρ̄) ≥ H."""
    exponent = -H * np.log2(rho_bar)
    return 2**62 if exponent > 60 else int(np.ceil(rho_bar**-H * (1 - 1e-12)))


def _persistence(m: int, rho_bar: float) -> int:
    if rho_bar == 0 or m == 1:
        return 0
    H = max(0, round(np.log(m) / -np.log(rho_bar)))
    while _threshold(H, rho_bar) > m:
        H -= 1
    while _threshold(H + 1, rho_bar) <= m:
        H += 1
    return H


def as_epochs(value: Any, horizon: int) -> Epochs:
    """An epoch table from what a policy may give: a table, one length, a list, or a function of T."""
    if callable(value):
        value = value(horizon)
    if isinstance(value, Epochs):
        if value.rounds < horizon:
            raise ValueError(
                f"epochs must cover the horizon of {horizon} rounds; the table given ends at {value.rounds}"
            )
        return value
    if np.isscalar(value) or getattr(value, "ndim", 1) == 0:
        return constant_epochs(value, horizon)
    return listed_epochs(value, horizon)
