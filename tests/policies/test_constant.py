"""Policies that play one action: closed forms of their regret."""

import numpy as np
import pytest

import dlbjax as dlb
from tests.oracles import model_of, steady_reward

T = 50


def regret_of(problem, action):
    """Expected regret after every round of one action for ever, by recursion."""
    m = model_of(problem)
    best = (m.vertices @ steady_reward(m)).max()
    z, lost = m.x1, []
    for _ in range(T):
        lost.append(best - m.omega @ z - m.theta @ action)
        z = m.A @ z + m.B @ action
    return np.cumsum(lost)


@pytest.mark.parametrize("make", [dlb.problems.synthetic, dlb.problems.real_world])
@pytest.mark.parametrize("action", [[0.5, 0.5, 0.5], [0.0, 0.0, 0.0], [0.1, 0.9, 0.2]])
def test_constant_loses_what_its_action_loses(make, action):
    problem = make(sigma=0.1)
    policy = dlb.constant(action)
    result = dlb.simulate(problem, policy, T, seeds=8, rounds=range(1, T + 1), record="actions")
    expected = np.tile(regret_of(problem, np.array(action)), (8, 1))
    np.testing.assert_allclose(result.expected_regret, expected, rtol=1e-12, atol=1e-12)
    gap = problem.optimal_value - steady_reward(model_of(problem)) @ np.array(action)
    np.testing.assert_allclose(result.offline_regret[3], gap * np.arange(1, T + 1), rtol=1e-12)
    index = problem.actions.index(action)
    np.testing.assert_array_equal(result.actions, index)
    assert (index == -1) == any(0 < a < 1 for a in action)


@pytest.mark.parametrize("make", [dlb.problems.synthetic, dlb.problems.real_world])
def test_clairvoyant_and_myopic_play_what_enumeration_finds(make):
    problem = make()
    m = model_of(problem)
    for policy, value in [
        (dlb.clairvoyant(problem), m.vertices @ steady_reward(m)),
        (dlb.myopic(problem), m.vertices @ m.theta),
    ]:
        result = dlb.simulate(problem, policy, T, seeds=8, rounds=range(1, T + 1), record="actions")
        np.testing.assert_array_equal(result.actions, np.argmax(value))
    assert policy.name == "myopic"


def test_the_paper_s_numbers():
    """J* = 0.8125; u° = (.5, 1, 0) has J = 0.78125, the truly myopic (0, 1, .5) has J = 0.5556."""
    problem = dlb.problems.synthetic()
    policies = {"u°": dlb.constant([0.5, 1.0, 0.0]), "myopic": dlb.myopic(problem)}
    results = dlb.simulate(problem, policies, 1000, seeds=8)
    assert results["u°"].offline_regret[0, -1] == pytest.approx(1000 * (0.8125 - 0.78125))
    assert results["myopic"].offline_regret[0, -1] == pytest.approx(1000 * (0.8125 - 0.5 - 0.5 / 9))


@pytest.mark.parametrize(
    ("action", "message"),
    [
        ([1.0, 1.0, 1.0], "plays .1.0, 1.0, 1.0., which is not in the problem's action set"),
        ([0.5, 0.5], r"arms must have shape \(any, 3\); got shape \(1, 2\)"),
    ],
)
def test_actions_that_may_not_be_played_are_refused(action, message):
    with pytest.raises(ValueError, match=message):
        dlb.simulate(dlb.problems.synthetic(), dlb.constant(action), T)


@pytest.mark.parametrize("action", [[np.nan, 0, 0], "all", [[0.5, 0.5, 0.5]], 1.0])
def test_what_is_no_action_is_refused(action):
    with pytest.raises(ValueError, match="action must"):
        dlb.constant(action)


def test_an_interior_point_of_a_finite_list_is_refused():
    actions = dlb.actions.finite(np.eye(3))
    problem = dlb.Problem(dlb.problems.synthetic().system, actions)
    with pytest.raises(ValueError, match="not in the problem's action set"):
        dlb.simulate(problem, dlb.constant([0.5, 0.5, 0.0]), T)
