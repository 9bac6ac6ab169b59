"""Choices against enumeration, a linear program and draws made here."""

import itertools
import re
from dataclasses import replace

import matplotlib.pyplot as plt
import numpy as np
import pytest
from scipy import stats
from scipy.optimize import linprog

from dlbjax.campaign import choose, pictures
from dlbjax.campaign.page import report
from tests.campaign.models import SYSTEM, model


@pytest.mark.parametrize("total", [None, 1.0, 3.5])
def test_the_best_allocation_is_that_of_a_linear_program(total):
    choice = choose(model(), 5, total, nearby=None)
    found = linprog(
        -SYSTEM.h, A_ub=np.ones((1, 3)), b_ub=[2.5 if total is None else total],
        bounds=[(0, 2), (0, 1), (0, 1)],
    )  # fmt: skip
    best = choice.options[0]
    assert best.reward == pytest.approx(7.0 - found.fun)
    np.testing.assert_allclose(best.allocation, found.x, atol=1e-9)
    rewards = [option.reward for option in choice.options]
    assert rewards == sorted(rewards, reverse=True)


def test_probabilities_and_errors():
    """With one channel of two to choose, P(h₁ > h₂) is a normal's; 10⁵ draws, ten standard errors."""
    one = model(high=np.array([1.0, 1.0, 0.0]), total=1.0)
    one = replace(one, fit=one.fit | {"mean_spend": [1e-9, 0.0, 0.0]})  # nothing counts as near
    options = {tuple(o.allocation): o for o in choose(one, 1, nearby=None).options}
    gap, spread = SYSTEM.h[0] - SYSTEM.h[1], np.sqrt(0.04 + 0.09 - 2 * 0.01)
    positive = stats.multivariate_normal.cdf(  # and better than spending nothing
        [gap, SYSTEM.h[0]], cov=[[spread**2, 0.03], [0.03, 0.04]]
    )
    assert options[1.0, 0.0, 0.0].probability == pytest.approx(positive, abs=0.016)
    # Var(c + h₁) = 0.25 + 0.04 − 2·0.05, and Var(c) where nothing is spent
    assert options[1.0, 0.0, 0.0].std == pytest.approx(np.sqrt(0.19))
    assert options[0.0, 0.0, 0.0].std == pytest.approx(0.5)
    assert sum(o.probability for o in options.values()) == pytest.approx(1.0)


def test_a_current_allocation_that_cannot_be_is_rejected():
    with pytest.raises(ValueError, match=r"^current must be spend on each channel, >= \[0\.0, 0"):
        choose(model(), 3, current=[-1.0, 1.0, 1.0])


def test_a_certain_h_leaves_no_doubt():
    choice = choose(model(covariance=np.zeros((4, 4))), 3, nearby=None)
    assert choice.options[0].better == 1.0
    assert [o.probability for o in choice.options][:2] == [1.0, 0.0]


def test_the_plan_is_the_best_of_all_from_todays_state():
    choice = choose(model(), 3, nearby=None)
    vertices = choice.problem.actions.vertices

    def worth(plan):
        x, total = SYSTEM.x1, 0.0
        for t, u in enumerate(plan, 20):
            angle = 2 * np.pi * t / 52
            total += 0.01 * (t - 9.5) + 0.5 * np.sin(angle) - 0.2 * np.cos(angle)
            total += 7.0 + SYSTEM.omega @ x + SYSTEM.theta @ u
            x = SYSTEM.A @ x + SYSTEM.B @ u
        return total

    best = max(worth(plan) for plan in itertools.product(vertices, repeat=3))
    assert worth(choice.plan) == pytest.approx(best)
    assert choice.plan_reward == pytest.approx(best)
    assert choice.constant_reward == pytest.approx(worth([choice.options[0].allocation] * 3))
    assert choice.current_reward == pytest.approx(worth([[1.0, 0.5, 0.5]] * 3))
    assert choice.baseline_reward == pytest.approx(worth([np.zeros(3)] * 3))


def test_a_page_holds_all_of_it_and_is_safe():
    open_before = plt.get_fignums()
    one = model(reward="<b>sales</b>", channels=("<i>fb</i>", "google_$", "bing_$^$"))
    choice = choose(one, 4)
    page = report(one, choice)
    assert page.count("data:image/png;base64,") == 4
    assert "<b>sales</b>" not in page
    assert "&lt;b&gt;sales&lt;/b&gt;" in page
    assert "<i>fb</i>" not in page
    assert "&lt;i&gt;fb&lt;/i&gt;" in page
    assert "look &lt;here&gt;" in page
    assert "<script" not in page
    assert f"{choice.options[0].reward:.3g}" in page
    assert "2026-11-23 to 2026-12-14" in page
    assert "per region" not in page
    assert "per region" in report(replace(one, fit={**one.fit, "regions": 2}), choice)
    assert plt.get_fignums() == open_before


@pytest.mark.parametrize("episodes", [1, 2])
def test_the_past_has_dates_where_rows_are_one_round_apart(episodes):
    one = model()
    axis = pictures.history(replace(one, fit={**one.fit, "episodes": episodes})).axes[-1].xaxis
    dated = axis.get_major_formatter()(-3.0) == "2026-10-26"
    assert dated == (episodes == 1)
    assert (axis.get_label_text() == "rows before the last of the log") == (episodes == 2)
    plt.close("all")


def test_nothing_on_a_page_is_certain_or_in_powers_of_ten():
    """Also where the estimate has no doubts, and where an error has three digits before the point."""
    one = model(covariance=np.zeros((4, 4)))
    choice = choose(one, 4)
    assert choice.options[0].better == 1
    controls = one.controls._replace(std=np.full(len(one.controls.names), 235.0))
    page = re.sub('base64,[^"]*', "", report(replace(one, controls=controls), choice))
    assert "with a probability of <b>over 99%</b>" in page
    assert "± 460" in page
    assert "e+" not in page


def inside(point, rows):
    """Whether a point is a mixture of rows."""
    equal = np.vstack([rows.T, np.ones(len(rows))])
    return linprog(np.zeros(len(rows)), A_eq=equal, b_eq=np.append(point, 1.0)).status == 0


def test_the_region_is_near_what_was_played():
    one = model()
    choice = choose(one, 2)
    spend, now = one.history.spend, np.array([1.0, 0.5, 0.5])
    corners = choice.problem.actions.vertices
    assert np.all(np.abs(corners - now) <= 0.3 * now + 1e-9)
    assert np.all(corners.sum(axis=1) <= 2.5 + 1e-9)
    assert all(inside(now + (1 - 1e-6) * (corner - now), spend) for corner in corners)
    outer = now * (1 + 0.3 * np.array(list(itertools.product([-1, 1], repeat=3))))
    assert not all(inside(corner, spend) for corner in outer)  # some had to be pulled in
    assert choice.warnings == ()
    assert "outside what was ever played" in choose(one, 2, nearby=None).warnings[0]
    assert "never played" in choose(one, 2, 0.05).warnings[0]


def test_gains_over_the_current_allocation():
    one = model()
    choice = choose(one, 2, current=[1.0, 0.4, 0.6])
    best = choice.options[0]
    moved = best.allocation - [1.0, 0.4, 0.6]
    std = np.sqrt(moved @ one.covariance[1:, 1:] @ moved)
    np.testing.assert_allclose([best.gain, best.gain_std], [SYSTEM.h @ moved, std])
    assert best.better == pytest.approx(stats.norm.cdf(SYSTEM.h @ moved / std))
    assert best.reward - choice.current.reward == pytest.approx(best.gain)
    assert choice.current.gain == 0


def test_near_equal_corners_share_their_probability():
    """Two channels of the same certain effect: each corner that has all of the budget is as good."""
    twin = replace(model(), covariance=np.zeros((4, 4)), high=np.array([0.0, 1.0, 1.0]), total=1.0)
    system = twin.system
    B, theta = np.array(system.B), np.array(system.theta)
    B[:, 2], theta[2] = B[:, 1], theta[1] * 1.0001
    alike = replace(twin, system=type(system)(system.A, B, system.omega, theta, sigma=0.1))
    options = choose(alike, 1, nearby=None).options
    assert [option.probability for option in options] == [1.0, 1.0, 0.0]


def test_limits_at_the_time_of_the_plan():
    choice = choose(model(), 2, low=[0.9, 0.0, 0.0], high=[2.0, 0.4, 1.0])
    corners = choice.problem.actions.vertices
    assert corners[:, 0].min() >= 0.9 - 1e-9
    assert corners[:, 1].max() <= 0.4 + 1e-9


@pytest.mark.parametrize("total", [2.5, 1.8])
def test_a_limit_on_change_against_a_grid(total):
    """Over two rounds, up or down to a total, against the best of a fine grid of plans."""
    one = model(high=np.array([2.0, 1.0, 0.5]), low=np.array([0.0, 0.0, 0.5]), total=total)
    choice = choose(one, 2, change=0.1, nearby=None)
    assert np.abs(np.diff(np.vstack([[1.0, 0.5, 0.5], choice.plan]), axis=0)).max() <= 0.1 + 1e-9
    steps = np.array(list(itertools.product(np.linspace(-0.1, 0.1, 5), repeat=2)))
    first = np.array([1.0, 0.5]) + steps
    h0, h1 = SYSTEM.markov(0)[:2], SYSTEM.markov(0)[:2] + SYSTEM.markov(1)[:2]
    plans = [(u, u + step) for u in first for step in steps]
    most = total - 0.5 + 1e-9
    worth = [h1 @ u + h0 @ v for u, v in plans if max(u.sum(), v.sum()) <= most]
    plan = choice.plan[:, :2]
    assert h1 @ plan[0] + h0 @ plan[1] == pytest.approx(max(worth))
    with pytest.raises(ValueError, match="no plan keeps both the limits and the limit on change"):
        choose(one, 2, change=0.1, nearby=None, low=[1.5, 0.0, 0.0])
