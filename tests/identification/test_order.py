"""The choice of lags and order."""

from types import SimpleNamespace

import numpy as np
import pytest
import scipy.stats

from dlbjax.identification.data import Samples
from dlbjax.identification.fit import _spread
from dlbjax.identification.ho_kalman import largest_order
from dlbjax.identification.order import (
    Candidate,
    choose_order,
    compare_orders,
    default_lags,
    free_parameters,
)
from dlbjax.identification.refine import Refined


def of_length(T, d=3, m=1):
    return Samples(np.zeros((T, d)), np.zeros((T, m)), (T,))


@pytest.mark.parametrize("order", [1, 3, 8])
@pytest.mark.parametrize(("d", "m", "closed_loop"), [(1, 1, False), (3, 1, True), (2, 3, True)])
def test_lags_suffice_for_the_order(order, d, m, closed_loop):
    for T in (50, 1000, 100_000):
        lags = default_lags(of_length(T, d, m), order, closed_loop)
        assert largest_order(lags, m, d + m if closed_loop else d) > order


def test_lags_grow_with_the_data_and_leave_five_rounds_a_coefficient():
    lags = [default_lags(of_length(T), 2, True) for T in (100, 1000, 10_000, 100_000)]
    assert lags == sorted(lags)
    for T, p in zip((1000, 10_000, 100_000), lags[1:], strict=True):
        assert T - p >= 5 * (1 + 3 + 4 * p)


def test_without_an_order_lags_allow_four_where_the_data_do():
    assert largest_order(default_lags(of_length(1000), None, True), 1, 4) > 4
    assert default_lags(of_length(60), None, True) < 5


def compared(*log_likelihoods, T=200):
    """The orders compared where these are the maxima of the likelihood."""
    asked = []

    def maximised(order, size, smaller):
        asked.append((order, size))
        return Refined(None, None, None, log_likelihoods[order - 1], None)

    table = compare_orders(of_length(T, d=2), maximised)
    assert asked == [(n, 4) for n in range(1, len(table) + 1)]
    return list(table)


def test_the_order_with_the_best_criterion_is_chosen():
    """k = 5n + 4 parameters for d = 2, of which each costs 3·200/(200 − k − 1)."""
    table = compared(-300.0, -280.0, -278.0, -277.0)
    assert [row.parameters for row in table] == [9, 14, 19, 24]
    np.testing.assert_allclose(table[1].aic, 560 + 42 * 200 / 185)
    np.testing.assert_allclose(sum(row.weight for row in table), 1)
    np.testing.assert_allclose(
        table[2].weight / table[1].weight, np.exp(-(table[2].aic - table[1].aic) / 4)
    )
    order, reason = choose_order(table)
    assert order == 2
    assert reason.startswith(
        "order 2 has the best of Akaike's criterion among 1 to 4 (weights 0.00"
    )


def test_two_orders_in_a_row_that_are_not_better_end_the_comparison():
    assert len(compared(-280.0, -280.0, -280.0, 0.0)) == 3


def test_controls_and_starts_count_as_parameters():
    plain = Samples(np.zeros((50, 2)), np.zeros((50, 1)), (50,))
    more = Samples(np.zeros((50, 2)), np.zeros((50, 1)), (20, 30), np.zeros((50, 3)))
    assert free_parameters(2, more) == free_parameters(2, plain) + 3 + 2


def test_the_covariance_counts_few_samples_and_how_far_the_orders_differ():
    """Orders 1 and 2 with 9 and 14 parameters of 50 rewards, and weights of a quarter and three quarters."""

    def found(c, h, variance):
        model = SimpleNamespace(c=np.array([c]), h=np.array([h]))
        return Refined(model, None, variance * np.eye(3), 0.0, None)

    def widened(variance, freedom):
        student = scipy.stats.t(freedom).ppf(0.975) / scipy.stats.norm.ppf(0.975)
        return variance * student**2 * 50 / freedom * np.eye(3)

    samples = of_length(50, d=2)
    small, large = found(1.0, [2.0, 3.0], 0.5), found(1.5, [2.0, 4.0], 0.2)
    np.testing.assert_allclose(_spread(large, {}, 2, samples), widened(0.2, 36))
    table = {Candidate(1, 0, 9, 0, 0.25): small, Candidate(2, 0, 14, 0, 0.75): large}
    off = np.array([-0.5, 0.0, -1.0])
    expected = 0.25 * (widened(0.5, 41) + np.outer(off, off)) + 0.75 * widened(0.2, 36)
    np.testing.assert_allclose(_spread(large, table, 2, samples), expected)
