"""Figures of merit."""

import numpy as np
import scipy.stats

from dlbjax.identification.report import explained, ljung_box


def test_white_errors_have_uniform_p_values():
    """Kolmogorov and Smirnov's test; false alarm in one of 1000 seeds."""
    rng = np.random.default_rng(0)
    p = [ljung_box(rng.standard_normal(2000), (1200, 800), 0) for _ in range(300)]
    assert scipy.stats.kstest(p, "uniform").pvalue > 1e-3


def test_correlated_errors_have_tiny_p_values():
    rng = np.random.default_rng(0)
    white = rng.standard_normal(2001)
    assert ljung_box(white[1:] + 0.3 * white[:-1], (2000,), 0) < 1e-9


def test_missing_errors_are_left_out():
    rng = np.random.default_rng(0)
    errors = rng.standard_normal(2001)
    errors = errors[1:] + 0.3 * errors[:-1]
    errors[::7] = np.nan
    assert ljung_box(errors, (2000,), 0) < 1e-9


def test_too_few_errors_say_nothing():
    assert np.isnan(ljung_box(np.ones(5), (5,), 2))


def test_explained_share_of_the_known_rewards():
    rewards = np.array([1.0, 2.0, np.nan, 4.0])
    assert explained(rewards, np.nan_to_num(rewards)) == 1
    np.testing.assert_allclose(explained(rewards, np.full(4, 7 / 3)), 0, atol=1e-12)
