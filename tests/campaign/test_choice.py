"""Choices against enumeration, a linear program and draws made here."""

import itertools

import matplotlib.pyplot as plt
import numpy as np
import pytest
from scipy import stats
from scipy.optimize import linprog

from dlbjax.campaign import choose
from dlbjax.campaign.choice import rehearse
from dlbjax.campaign.page import report
from tests.campaign.models import SYSTEM, model


@pytest.mark.parametrize("total", [None, 1.0, 3.5])
def test_the_best_allocation_is_that_of_a_linear_program(total):
    choice = choose(model(), 5, total)
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
    options = {tuple(o.allocation): o for o in choose(one, 1).options}
    gap, spread = SYSTEM.h[0] - SYSTEM.h[1], np.sqrt(0.04 + 0.09 - 2 * 0.01)
    positive = stats.multivariate_normal.cdf(  # and better than spending nothing
        [gap, SYSTEM.h[0]], cov=[[spread**2, 0.03], [0.03, 0.04]]
    )
    assert options[1.0, 0.0, 0.0].probability == pytest.approx(positive, abs=0.016)
    # Var(c + h₁) = 0.25 + 0.04 − 2·0.05, and Var(c) where nothing is spent
    assert options[1.0, 0.0, 0.0].std == pytest.approx(np.sqrt(0.19))
    assert options[0.0, 0.0, 0.0].std == pytest.approx(0.5)
    assert sum(o.probability for o in options.values()) == pytest.approx(1.0)


def test_a_certain_h_leaves_no_doubt():
    choice = choose(model(covariance=np.zeros((4, 4))), 3)
    assert [o.probability for o in choice.options][:2] == [1.0, 0.0]


def test_the_plan_is_the_best_of_all_from_todays_state():
    choice = choose(model(), 3)
    vertices = choice.problem.actions.vertices

    def worth(plan):
        x, total = SYSTEM.x1, 0.0
        for u in plan:
            total += 7.0 + SYSTEM.omega @ x + SYSTEM.theta @ u
            x = SYSTEM.A @ x + SYSTEM.B @ u
        return total

    best = max(worth(plan) for plan in itertools.product(vertices, repeat=3))
    assert worth(choice.plan) == pytest.approx(best)
    assert choice.plan_reward == pytest.approx(best)
    assert choice.constant_reward == pytest.approx(worth([choice.options[0].allocation] * 3))
    assert choice.baseline_reward == pytest.approx(worth([np.zeros(3)] * 3))


def test_a_page_holds_all_of_it_and_is_safe():
    open_before = plt.get_fignums()
    one = model(reward="<b>sales</b>", channels=("<i>fb</i>", "google_$", "bing_$^$"))
    choice = choose(one, 4)
    page = report(one, choice, rehearse(choice.problem, 50, seeds=2))
    assert page.count("data:image/png;base64,") == 4
    assert "<b>sales</b>" not in page
    assert "&lt;b&gt;sales&lt;/b&gt;" in page
    assert "<i>fb</i>" not in page
    assert "&lt;i&gt;fb&lt;/i&gt;" in page
    assert "look &lt;here&gt;" in page
    assert "<script" not in page
    assert f"{choice.options[0].reward:,.4g}" in page
    assert plt.get_fignums() == open_before
