"""Regression and realisation."""

import numpy as np
import pytest

import dlbjax as dlb
from dlbjax.identification.data import Samples, read_samples
from dlbjax.identification.ho_kalman import hankel_singular_values, largest_order, realise
from dlbjax.identification.regression import Method, Regression, excitation, regress
from tests.identification.worlds import logged, relative_error, small

CLOSED = Method(closed_loop=True, intercept=False, ridge=0.0)
OPEN = CLOSED._replace(closed_loop=False)


@pytest.mark.parametrize("method", [CLOSED, OPEN, CLOSED._replace(intercept=True)])
def test_coefficients_are_those_of_ordinary_least_squares(method):
    rng = np.random.default_rng(0)
    u, y = rng.standard_normal((60, 2)), rng.standard_normal((60, 1))
    y[[20, 21]] = np.nan
    rows, targets = [], []
    for t in range(3, 60):
        past = [np.r_[u[t - i], y[t - i]] if method.closed_loop else u[t - i] for i in (1, 2, 3)]
        row = np.r_[1.0, u[t], np.concatenate(past)][0 if method.intercept else 1 :]
        if np.isfinite(row).all() and np.isfinite(y[t]).all():
            rows.append(row)
            targets.append(y[t, 0])
    expected, squares = np.linalg.lstsq(np.array(rows), np.array(targets))[:2]
    found = regress(Samples(u, y, (60,)), 3, method)
    constant = [found.c[0]] if method.intercept else []
    np.testing.assert_allclose(
        np.r_[constant, found.D[0], found.G[:, 0].ravel()], expected, atol=1e-10
    )
    assert found.rows == len(rows)
    np.testing.assert_allclose(found.S[0, 0], squares[0] / (len(rows) - len(expected)))


def test_lags_do_not_reach_into_another_episode():
    rng = np.random.default_rng(0)
    u, y = rng.standard_normal((50, 1)), rng.standard_normal((50, 1))
    cut = Samples(u, y, (20, 30))
    apart = [regress(Samples(u[a:b], y[a:b], (b - a,)), 2, OPEN) for a, b in ((0, 20), (20, 50))]
    assert regress(cut, 2, OPEN).rows == sum(part.rows for part in apart) == 46


def test_the_ridge_shrinks_all_but_the_constant():
    rng = np.random.default_rng(0)
    samples = Samples(rng.standard_normal((200, 1)), 5 + rng.standard_normal((200, 1)), (200,))
    found = regress(samples, 2, Method(closed_loop=False, intercept=True, ridge=1e6))
    assert np.abs(found.G).max() < 1e-5
    np.testing.assert_allclose(found.c, samples.rewards[2:].mean(axis=0), rtol=1e-3)


@pytest.mark.parametrize("method", [CLOSED, OPEN])
def test_without_noise_the_system_is_found_exactly(method):
    system = small(state_noise=0.0, reward_noise=0.0)
    found = realise(regress(read_samples(*logged(system)), 40, method), 2)
    h = found.D + found.C @ np.linalg.solve(np.eye(2) - found.A, found.B)
    np.testing.assert_allclose(h[0], system.h, rtol=1e-5)
    np.testing.assert_allclose(found.radius, system.rho, rtol=1e-5)
    for lag in range(1, 6):
        power = np.linalg.matrix_power(found.A, lag - 1)
        np.testing.assert_allclose((found.C @ power @ found.B)[0], system.markov(lag), atol=1e-5)


def test_taking_the_regression_for_b_is_biased_where_there_is_an_immediate_effect():
    problem = dlb.problems.real_world(sigma=0.01)
    system = problem.system
    found = realise(regress(read_samples(*logged(system, T=20_000)), 15, CLOSED), 3)

    def h(B):
        return (found.D + found.C @ np.linalg.solve(np.eye(3) - found.A, B))[0]

    assert relative_error(h(found.B), system.h) < 0.03
    assert relative_error(h(found.B - found.F @ found.D), system.h) > 0.3


def test_singular_values_show_the_order():
    values = hankel_singular_values(regress(read_samples(*logged(small())), 10, OPEN))
    assert values[1] > 10 * values[2]


def test_an_unstable_estimate_is_shrunk_and_says_so():
    G = 1.1 ** np.arange(6)[:, None, None]
    grows = Regression(np.zeros(1), np.zeros((1, 1)), G, np.eye(1), np.eye(6), 100)
    found = realise(grows, 1)
    np.testing.assert_allclose(found.radius, 1.1)
    np.testing.assert_allclose(found.A, [[0.99]])


def test_an_order_beyond_the_lags_is_rejected():
    found = regress(read_samples(*logged(small())), 4, CLOSED)
    most = largest_order(4, 1, 3)
    assert realise(found, most).A.shape == (most, most)
    with pytest.raises(ValueError, match=rf"order {most + 1} is too large for 4 lags"):
        realise(found, most + 1)


def test_too_few_rounds_are_rejected():
    with pytest.raises(ValueError, match=r"only 5 rounds have a reward and 5 lags before it"):
        regress(read_samples(*logged(small(), T=10)), 5, CLOSED)


def test_excitation_is_the_share_that_the_past_does_not_predict():
    rng = np.random.default_rng(0)
    u = np.zeros((20_000, 1))
    for t in range(1, len(u)):
        u[t] = 0.8 * u[t - 1] + rng.standard_normal()
    found = regress(Samples(u, u + rng.standard_normal(u.shape), (len(u),)), 5, CLOSED)
    np.testing.assert_allclose(excitation(found, 1), 1 - 0.8**2, rtol=0.05)
