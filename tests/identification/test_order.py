"""The choice of lags and order."""

import numpy as np
import pytest

import dlbjax as dlb
from dlbjax.identification.data import Samples, read_samples
from dlbjax.identification.ho_kalman import largest_order
from dlbjax.identification.order import Candidate, choose_order, compare_orders, default_lags
from dlbjax.identification.regression import Method
from tests.identification.worlds import logged, small

HOW = Method(closed_loop=True, intercept=True, ridge=1e-8)


def of_length(T, d=3, m=1):
    return Samples(np.zeros((T, d)), np.zeros((T, m)), (T,))


def table(*errors, held_out=10_000):
    return [Candidate(i + 1, e, e, held_out) for i, e in enumerate(errors)]


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


def test_without_an_order_lags_allow_eight_where_the_data_do():
    assert largest_order(default_lags(of_length(1000), None, True), 1, 4) > 8
    assert default_lags(of_length(60), None, True) < 5


def test_the_smallest_order_that_is_nearly_best_is_chosen():
    assert choose_order(table(0.5, 0.2, 0.1, 0.0995))[0] == 3
    assert choose_order(table(0.5, 0.2, 0.1, 0.098))[0] == 4
    assert choose_order(table(0.5, 0.2, 0.1, 0.098, held_out=100))[0] == 3


def test_where_none_is_good_at_both_the_product_decides():
    rows = [
        Candidate(1, 0.1, 0.5, 9999),
        Candidate(2, 0.2, 0.2, 9999),
        Candidate(3, 0.9, 0.1, 9999),
    ]
    assert choose_order(rows)[0] == 2


def test_the_reason_is_a_sentence_with_the_errors():
    _, reason = choose_order(table(0.5, 0.125, 0.124))
    assert reason.startswith("order 2 is the smallest of 1 to 3 whose errors on the last fifth")
    assert "0.125 one step ahead" in reason
    assert "within 1.0% of the best (0.124 and 0.124)" in reason


def test_errors_are_those_of_predictions_on_the_last_fifth():
    """With a strong system and little noise, order 2 leaves the noise and order 1 much more."""
    samples = read_samples(*logged(small(), T=2000))
    first, second, *_ = compare_orders(samples, 10, HOW)
    spread = samples.rewards.std()
    assert second.held_out == 400
    np.testing.assert_allclose(second.one_step * spread, 0.037, atol=0.005)
    assert second.one_step <= second.free_run < first.free_run / 3


def test_an_unknown_end_leaves_nothing_to_compare_on():
    actions, rewards = logged(small())
    rewards[480:] = np.nan
    with pytest.raises(ValueError, match=r"last fifth .* has no rewards; pass the order"):
        dlb.identify(actions, rewards)


def test_choosing_the_largest_order_compared_is_warned_of():
    actions, rewards = logged(small(), T=60)
    with pytest.warns(UserWarning, match="is the largest that was compared"):
        dlb.identify(actions, rewards, lags=2, refine=False)
