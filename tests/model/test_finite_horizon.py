"""Finite horizons against enumeration of all plans, and the paper's proposition against examples."""

from itertools import product

import numpy as np
import pytest

import dlbjax as dlb
from dlbjax import theory
from tests.oracles import model_of, random_stable


def random_problem(seed, n=2, d=2, K=3, rho=0.8):
    rng = np.random.default_rng(seed)
    system = dlb.System(
        random_stable(rng, n, rho), rng.normal(size=(n, d)), rng.normal(size=n),
        rng.normal(size=d), x1=rng.normal(size=n),
    )  # fmt: skip
    return dlb.Problem(system, dlb.actions.finite(rng.uniform(size=(K, d))))


def rewards_of(problem, plan, x1):
    m, x, rewards = model_of(problem), np.array(x1), []
    for index in plan:
        u = m.vertices[index]
        rewards.append(m.omega @ x + m.theta @ u)
        x = m.A @ x + m.B @ u
    return np.mean(rewards)


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("x1", [None, [3.0, -2.0]])
def test_no_plan_is_better(seed, x1):
    problem = random_problem(seed)
    start = problem.system.x1 if x1 is None else x1
    worth = {plan: rewards_of(problem, plan, start) for plan in product(range(3), repeat=5)}
    best = max(worth.values())
    plan = tuple(theory.optimal_plan(problem, 5).tolist())
    assert worth[plan] == pytest.approx(best, abs=1e-12)
    assert theory.optimal_average(problem, 5, x1) == pytest.approx(best, abs=1e-12)
    assert theory.average_reward(problem, np.array(plan), x1) == pytest.approx(best, abs=1e-12)


def test_far_from_the_end_the_plan_is_the_constant_optimum():
    problem = dlb.problems.real_world()
    plan = theory.optimal_plan(problem, 300_000)
    assert plan.shape == (300_000,)
    assert np.all(plan[:-30] == problem.optimal_index)
    assert plan[-1] == problem.actions.index(problem.myopic_action)
    np.testing.assert_array_equal(theory.optimal_plan(problem, 50), plan[-50:])


def test_delays_that_outlast_a_pause_are_seen():
    """Nothing arrives for three rounds, then everything: the first sums do not change."""
    problem = dlb.problems.delayed([1.0, 2.0], 4)
    assert theory.optimal_plan(problem, 8).tolist() == [1, 1, 1, 1, 0, 0, 0, 0]


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("horizon", [1, 3, 50, 400])
def test_constant_actions_obey_the_bound(seed, horizon):
    problem = random_problem(seed, n=3, d=3, K=6, rho=0.9)
    bounds = dlb.Bounds.of(problem)
    bound = theory.constant_gap(bounds, horizon, np.linalg.norm(problem.system.x1))
    for action in problem.actions.vertices:
        gap = theory.average_reward(problem, [action] * horizon) - action @ problem.h
        assert abs(gap) <= bound
    assert abs(theory.optimal_average(problem, horizon) - problem.optimal_value) <= bound


def test_the_printed_bound_fails_for_a_constant_action():
    """A = ρ = 0.5, H = 100: the gap is 0.04, the printed bound BUΩΦ(1−ρ^H)/(H(1−ρ)) is 0.02."""
    system = dlb.System(A=[[0.5]], B=[[1.0]], omega=[1.0], theta=[0.0])
    problem = dlb.Problem(system, dlb.actions.finite([[1.0]]))
    gap = problem.h[0] - theory.average_reward(problem, np.zeros(100, int))
    assert gap == pytest.approx(0.04, abs=1e-12)
    assert gap > (1 - 0.5**100) / (100 * 0.5)
    assert gap <= theory.constant_gap(dlb.Bounds.of(problem), 100) * (1 + 1e-12)


def test_no_such_bound_holds_for_every_policy():
    """Nothing for H rounds, then 1 for ever: J_H = 0 while J = 2."""
    system = dlb.System(A=[[0.5]], B=[[1.0]], omega=[1.0], theta=[0.0])
    problem = dlb.Problem(system, dlb.actions.finite([[0.0], [1.0]]))
    waits = theory.average_reward(problem, np.zeros(100, int))
    later = theory.average_reward(problem, np.r_[np.zeros(100, int), np.ones(100_000, int)])
    assert waits == 0
    assert later > 1.99
    assert abs(waits - problem.optimal_value) > theory.constant_gap(dlb.Bounds.of(problem), 100)


def test_the_plan_gains_on_the_constant_optimum_ever_less():
    problem = dlb.problems.real_world()
    gains = []
    for horizon in (5, 50, 500):
        constant = theory.average_reward(problem, [problem.optimal_action] * horizon)
        gains.append(theory.optimal_average(problem, horizon) - constant)
    assert gains[0] > gains[1] > gains[2] > 0


@pytest.mark.parametrize("horizon", [1, 7, 40])
def test_the_policy_plays_the_plan(horizon):
    problem = dlb.problems.real_world()
    result = dlb.simulate(problem, dlb.planned(problem), horizon, seeds=2, record="actions")
    for actions in result.actions:
        np.testing.assert_array_equal(actions, theory.optimal_plan(problem, horizon))
    lost = horizon * (problem.optimal_value - theory.optimal_average(problem, horizon))
    np.testing.assert_allclose(result.expected_regret[:, -1], lost, atol=1e-9)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda p: theory.optimal_plan(p, 0), "horizon must be"),
        (lambda p: theory.optimal_plan(p, 10**7 + 1), "horizon must be .* to 10000000"),
        (lambda p: theory.average_reward(p, [[1.0, 0.0]]), "actions must"),
        (lambda p: theory.average_reward(p, [[1.0, 0.0, 0.0]], x1=[1.0]), "x1 must"),
    ],
)
def test_wrong_arguments_are_rejected(call, message):
    with pytest.raises(ValueError, match=message):
        call(dlb.problems.synthetic())


@pytest.mark.parametrize(
    ("actions", "message"),
    [([0, 99], "indices of 10 vertices; got indices from 0 to 99"), ([0, -1], "from -1 to 0"),
     ([], "at least one round")],
)  # fmt: skip
def test_invalid_actions_are_rejected(actions, message):
    with pytest.raises(ValueError, match=message):
        dlb.theory.average_reward(dlb.problems.synthetic(), actions)
