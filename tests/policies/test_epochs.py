from fractions import Fraction

import numpy as np
import pytest

from dlbjax.policies.dynlin_ucb import epoch_lengths
from dlbjax.policies.epochs import Epochs, as_epochs, constant_epochs, listed_epochs

RATES = [Fraction(p, 100) for p in (5, 10, 20, 25, 40, 50, 67, 90, 99)] + [Fraction(1, 3)]


def persistence(rate, most):
    """H_1 … H_most by exact arithmetic: the largest H with q^H ≤ m p^H, where ρ̄ = p/q."""
    p, q = rate.numerator, rate.denominator
    lengths, H, left, right = [], 0, q, p  # q^{H+1} and p^{H+1}
    for m in range(1, most + 1):
        while left <= m * right:
            H, left, right = H + 1, left * q, right * p
        lengths.append(H)
    return np.array(lengths)


def expanded(table):
    return np.repeat(table.lengths, table.counts)


@pytest.mark.parametrize("rate", RATES, ids=str)
def test_growing_epochs_are_exact(rate):
    expected = 1 + persistence(rate, 100_000)
    horizon = int(expected.sum())
    table = epoch_lengths(float(rate), horizon)
    np.testing.assert_array_equal(expanded(table), expected)
    assert table.rounds == horizon
    assert np.all(np.diff(table.lengths) > 0)  # runs are maximal
    assert np.all(table.counts > 0)


@pytest.mark.parametrize(
    ("rate", "m", "H"),
    [(0.1, 999, 2), (0.1, 1000, 3), (1 / 3, 242, 4), (1 / 3, 243, 5), (0.2, 125, 3), (0.5, 1, 0)],
)
def test_the_floor_is_right_where_floats_are_not(rate, m, H):
    assert expanded(epoch_lengths(rate, 10_000))[m - 1] == H + 1


def test_quotients_of_logarithms_are_wrong_there():
    assert np.floor(np.log(1000) / np.log(1 / 0.1)) == 2


@pytest.mark.parametrize("rate", RATES, ids=str)
@pytest.mark.parametrize("horizon", [1, 2, 3, 10, 57, 1000, 12_345])
def test_a_cut_epoch_is_still_played(rate, horizon):
    lengths = expanded(epoch_lengths(float(rate), horizon))
    np.testing.assert_array_equal(lengths, 1 + persistence(rate, len(lengths)))
    # Algorithm 1, line 2: M is one less than the first M' whose epochs sum to more than T.
    ends = np.cumsum(1 + persistence(rate, horizon + 1))
    M = int(np.argmax(ends > horizon))
    cut = M == 0 or ends[M - 1] < horizon
    assert len(lengths) == M + cut
    assert lengths.sum() - lengths[-1] < horizon <= lengths.sum()


@pytest.mark.parametrize("horizon", [1, 2, 1000])
def test_at_rate_zero_every_round_is_an_epoch(horizon):
    np.testing.assert_array_equal(expanded(epoch_lengths(0.0, horizon)), np.ones(horizon))
    np.testing.assert_array_equal(expanded(epoch_lengths(1e-300, horizon)), np.ones(horizon))


def test_at_rate_zero_the_table_is_that_of_constant_epochs():
    assert epoch_lengths(0.0, 10).same(constant_epochs(1, 10))


@pytest.mark.parametrize("rate", [0.2, 0.9, 0.999])
def test_tables_of_long_horizons_stay_small(rate):
    table = epoch_lengths(rate, 10**12)
    assert 10**12 <= table.rounds < 10**12 + table.lengths[-1]
    assert len(table.lengths) <= 1 + np.log(1e12) / np.log(1 / rate)


@pytest.mark.parametrize(
    ("length", "horizon", "count"), [(1, 5, 5), (2, 5, 3), (5, 5, 1), (7, 5, 1), (3.0, 9, 3)]
)
def test_constant_epochs_cover_the_horizon(length, horizon, count):
    table = constant_epochs(length, horizon)
    assert (table.lengths.tolist(), table.counts.tolist()) == ([length], [count])
    assert table.rounds == length * count


@pytest.mark.parametrize("length", [0, -1, 1.5, "3", None, True, np.nan])
def test_wrong_lengths_are_refused(length):
    with pytest.raises(ValueError, match=r"^epochs must be a whole number >= 1; got"):
        constant_epochs(length, 10)


@pytest.mark.parametrize("horizon", [1, 2, 3, 5, 8, 9])
def test_listed_epochs_keep_what_the_horizon_reaches(horizon):
    given = [2, 1, 1, 1, 3, 1]
    table = listed_epochs(given, horizon)
    lengths = expanded(table).tolist()
    assert lengths == given[: len(lengths)]
    assert sum(lengths[:-1]) < horizon <= sum(lengths)
    assert np.all(table.lengths[1:] != table.lengths[:-1])
    assert table.lengths.dtype == np.int64


def test_listed_epochs_of_small_integers_do_not_overflow():
    given = np.full(1000, 200, dtype=np.uint8)
    assert listed_epochs(given, 200_000).rounds == 200_000
    assert listed_epochs(given, 1000).rounds == 1000
    assert listed_epochs(given, 1000).lengths.dtype == np.int64


@pytest.mark.parametrize(
    "lengths",
    [
        [],
        [1, 0, 9],
        [1, -2, 19],
        [5.0, 5.0],
        [[5, 5]],
        [True] * 10,
        ["a", "b"],
        [None, 10],
        [[5], [3, 2]],
    ],
)
def test_wrong_lists_are_refused(lengths):
    with pytest.raises(ValueError, match=r"^epochs must be a list of whole numbers >= 1, .*; got"):
        listed_epochs(lengths, 10)


def test_lists_that_end_early_are_refused():
    with pytest.raises(
        ValueError, match=r"^epochs must cover the horizon of 10 rounds; the 2 .* 9$"
    ):
        listed_epochs([4, 5], 10)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (4, [4, 4, 4]),
        (np.int32(4), [4, 4, 4]),
        ([2, 8, 1], [2, 8]),
        (np.array([2, 8]), [2, 8]),
        ((5, 5), [5, 5]),
        (Epochs(np.array([3, 7]), np.array([1, 1])), [3, 7]),
        (epoch_lengths(0.5, 10), [1, 2, 2, 3, 3]),
    ],
)
def test_epochs_may_be_given_in_many_forms(value, expected):
    assert expanded(as_epochs(value, 10)).tolist() == expected


@pytest.mark.parametrize("value", [None, "often", 0, 2.5])
def test_what_are_no_epochs_is_refused(value):
    with pytest.raises(ValueError, match=r"^epochs must be"):
        as_epochs(value, 10)


def test_a_table_that_ends_early_is_refused():
    with pytest.raises(ValueError, match=r"^epochs must cover the horizon"):
        as_epochs(constant_epochs(1, 3), 10)


def test_same_compares_lengths_and_counts():
    table = listed_epochs([1, 2, 2], 5)
    assert table.same(listed_epochs([1, 2, 2, 9], 5))
    assert not table.same(listed_epochs([1, 2], 3))
    assert not table.same(listed_epochs([1, 3, 3], 5))
    assert not table.same(constant_epochs(1, 5))


def test_epochs_longer_than_any_horizon_end_with_it():
    for epochs in (2**62, [2**62, 2**62], np.array([2**63], dtype=np.uint64)):
        table = as_epochs(epochs, 100)
        assert table.rounds >= 100
        assert table.lengths.max() == 2**31 - 1
