"""Epoch tables: how many rounds each decision of a policy is held."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from dlbjax.common.arrays import instance_of, short, whole_number

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

    def ends(self, horizon: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Number, rounds before, and length of the first and the last epoch that begin in a horizon."""
        horizon = whole_number("horizon", horizon, at_least=1)
        before = np.cumsum(self.lengths * self.counts) - self.lengths * self.counts
        row = int(np.searchsorted(before, horizon, side="left")) - 1
        whole = min(
            int(self.counts[row]), -(-(horizon - int(before[row])) // int(self.lengths[row]))
        )
        last = int(self.counts[:row].sum()) + whole
        t = int(before[row]) + (whole - 1) * int(self.lengths[row])
        return (
            np.array([1, last]),
            np.array([0, t]),
            np.array([self.lengths[0], self.lengths[row]]),
        )

    def same(self, other: "Epochs") -> bool:
        """Whether two tables hold the same epochs."""
        instance_of("other", other, Epochs, "a dlbjax.Epochs")
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


def settling_rounds(rho_bar: float, m: int) -> int:
    """⌈log m / log(1/ρ̄)⌉: after how many rounds what decays by ρ̄ is down to 1/m; 0 at ρ̄ = 0.

    >>> settling_rounds(0.1, 1000), settling_rounds(0.1, 1001)
    (3, 4)
    """
    if rho_bar == 0:
        return 0
    H = persistence(m, rho_bar)
    return H if rho_bar**-H >= m * (1 - 1e-12) else H + 1


def persistence(m: int, rho_bar: float) -> int:
    """H_m = ⌊log m / log(1/ρ̄)⌋, the largest H with ρ̄^−H ≤ m; 0 at ρ̄ = 0.

    Comparing powers with the integer m, with a guard against the last digits, gives the exact floor
    where the quotient of logarithms does not: at ρ̄ = 0.1, m = 1000 the quotient is 2.9999999999999996.

    >>> persistence(999, 0.1), persistence(1000, 0.1)
    (2, 3)
    """
    if rho_bar == 0 or m == 1:
        return 0
    H = max(0, round(np.log(m) / -np.log(rho_bar)))
    while first_epoch(H, rho_bar) > m:
        H -= 1
    while first_epoch(H + 1, rho_bar) <= m:
        H += 1
    return H


def first_epoch(H: int, rho_bar: float) -> int:
    """The first m with H_m ≥ H, ⌈ρ̄^−H⌉; 2⁶² where it is larger than any horizon.

    >>> first_epoch(3, 0.1)
    1000
    """
    if H > 0 and (rho_bar == 0 or -H * np.log2(rho_bar) > 60):
        return 2**62
    return int(np.ceil(rho_bar**-H * (1 - 1e-12)))


def as_epochs(value: Any, horizon: int) -> Epochs:
    """An epoch table from what a schedule may give: a table, one length, or a list."""
    if isinstance(value, Epochs):
        if value.rounds < horizon:
            raise ValueError(
                f"epochs must cover the horizon of {horizon} rounds; the table given ends at {value.rounds}"
            )
        return value
    if np.isscalar(value) or getattr(value, "ndim", 1) == 0:
        return constant_epochs(value, horizon)
    return listed_epochs(value, horizon)
