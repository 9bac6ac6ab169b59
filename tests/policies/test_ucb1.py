"""UCB1 round by round against a plain NumPy loop, and under the bound of its paper."""

import numpy as np
import pytest

import dlbjax as dlb
from tests import baseline_oracles as loops
from tests.oracles import model_of
from tests.policies.replay import PROBLEMS, assert_agrees, fields_of, noise_for

T, K = 6000, 10


@pytest.mark.parametrize("make", PROBLEMS.values(), ids=PROBLEMS)
@pytest.mark.parametrize("scale", [None, 1.0, 0.05])
def test_ucb1_plays_as_the_loop_does(make, scale):
    problem = make()
    bounds = dlb.Bounds.of(problem)
    width = 4 * loops.reward_range(fields_of(bounds)) if scale is None else scale

    def loop(seed, eps, eta):
        return loops.ucb1(model_of(problem), width, eps, eta)

    policy = dlb.ucb1(bounds) if scale is None else dlb.ucb1(bounds, scale=scale)
    actions = assert_agrees(problem, policy, noise_for(problem, 2, T), loop)
    np.testing.assert_array_equal(actions[:, :K], [np.arange(K)] * 2)
    assert len({tuple(run) for run in actions}) == 2


def static(theta, sigma=0.1):
    """One arm per coordinate and no memory."""
    d = len(theta)
    system = dlb.System(A=[[0.0]], B=np.zeros((1, d)), omega=[0.0], theta=theta, sigma=sigma)
    return dlb.Problem(system, dlb.actions.finite(np.eye(d)))


def test_suboptimal_arms_are_pulled_as_seldom_as_the_paper_says():
    """E n_i ≤ 8 ln T/Δ² + 1 + π²/3 for rewards in [0, 1] (Auer et al., 2002, Theorem 1).

    The means are about a fifth of that, with a standard error of 2 %: fewer than 10⁻⁶ false alarms.
    """
    means, runs, horizon = np.array([0.3, 0.5, 0.7]), 20, 5000
    problem = static(means)
    rng = np.random.default_rng(0)
    noise = dlb.Noise(np.zeros((runs, horizon, 1)), rng.uniform(-0.3, 0.3, (runs, horizon)))
    policy = dlb.ucb1(dlb.Bounds.of(problem, rho_bar=0.1), scale=1.0)
    result = dlb.simulate(problem, policy, horizon, noise=noise, record="actions")
    for arm in (0, 1):
        pulls = np.sum(result.actions == arm, axis=1)
        bound = 8 * np.log(horizon) / (means[2] - means[arm]) ** 2 + 1 + np.pi**2 / 3
        assert pulls.mean() + 5 * pulls.std() / np.sqrt(runs) < bound


def test_the_scale_is_that_of_the_rewards():
    """Rewards and scale times 7 make no difference."""
    played = []
    for factor in (1.0, 7.0):
        problem = static(factor * np.array([0.3, 0.5, 0.45]), sigma=factor * 0.1)
        policy = dlb.ucb1(dlb.Bounds.of(problem, rho_bar=0.1), scale=factor)
        noise = noise_for(problem, 2, 1000)
        played.append(dlb.simulate(problem, policy, 1000, noise=noise, record="actions").actions)
    np.testing.assert_array_equal(*played)


def test_ties_go_to_the_first():
    """Equal rewards and no noise: the arms take turns in their order."""
    problem = static([0.5, 0.5, 0.5], sigma=0.0)
    policy = dlb.ucb1(dlb.Bounds.of(problem, rho_bar=0.1), scale=1.0)
    actions = dlb.simulate(problem, policy, 30, record="actions").actions[0]
    np.testing.assert_array_equal(actions, np.arange(30) % 3)


@pytest.mark.parametrize("scale", [-1.0, np.nan, "wide"])
def test_a_wrong_scale_is_refused(scale):
    with pytest.raises(ValueError, match=r"^scale must"):
        dlb.ucb1(dlb.Bounds.of(dlb.problems.synthetic()), scale=scale)
