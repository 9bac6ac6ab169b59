"""The expert's constant allocation: its value, and that it may be played."""

import numpy as np
import pytest

import dlbjax as dlb
from tests.oracles import model_of, steady_reward
from tests.policies.replay import PROBLEMS

LIMITS = dlb.actions.budget(0.0, [0.2, 0.3, 1.0], total=1.2)
ROOMY = dlb.actions.budget(0.0, [1.0, 1.0, 1.0], total=0.9)

# By hand: what exceeds a limit goes to the others in proportion to their spend, until it fits.
CASES = {
    "even": (None, (1, 1, 1), [0.5, 0.5, 0.5]),
    "one limit": (None, (8, 1, 1), [1.0, 0.25, 0.25]),
    "one limit, uneven rest": (None, (1, 100, 10), [0.5 / 11, 1.0, 5 / 11]),
    "a second limit is passed when the first is met": (LIMITS, (10, 2.5, 1.5), [0.2, 0.3, 0.7]),
    "no limit is met": (ROOMY, (1, 2, 6), [0.1, 0.2, 0.6]),
}


@pytest.mark.parametrize(("actions", "spend", "allocation"), CASES.values(), ids=CASES)
def test_the_budget_is_shared_in_proportion_within_limits(actions, spend, allocation):
    paper = dlb.problems.real_world()
    problem = paper if actions is None else dlb.Problem(paper.system, actions)
    played = dlb.expert(problem, spend=spend).prepare(1, problem.actions.vertices).arms
    np.testing.assert_allclose(played, [allocation], atol=1e-12)
    assert problem.actions.contains(played[0])


@pytest.mark.parametrize("make", PROBLEMS.values(), ids=PROBLEMS)
def test_the_expert_of_the_paper(make):
    """(.003, .497, 1), which spends the whole budget; Bing's limit is met, the rest is shared."""
    problem = make()
    policy = dlb.expert(problem)
    action = policy.prepare(1, problem.actions.vertices).arms[0]
    np.testing.assert_allclose(action, [0.003, 0.497, 1.0], atol=5e-4)
    assert action[0] / action[1] == pytest.approx(1641952 / 259591273, rel=1e-12)
    assert action.sum() == pytest.approx(1.5, rel=1e-12)
    assert problem.actions.contains(action)
    result = dlb.simulate(problem, policy, 100, seeds=2, rounds=[100])
    gap = problem.optimal_value - steady_reward(model_of(problem)) @ action
    np.testing.assert_allclose(result.offline_regret, 100 * gap, rtol=1e-9)
