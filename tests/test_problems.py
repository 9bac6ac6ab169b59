import numpy as np
import pytest

import dlbjax as dlb


def value(problem, action):
    """J(u) by playing u for a long time without noise."""
    s, x = problem.system, np.zeros(problem.system.n)
    for _ in range(500):
        x = s.A @ x + s.B @ action
    return s.omega @ x + s.theta @ action


def test_synthetic_is_what_the_paper_says_it_leads_to():
    problem = dlb.problems.synthetic()
    np.testing.assert_allclose(problem.h, [0.5625, 0.5, 1 / 9], rtol=1e-12)
    assert problem.optimal_action.tolist() == [1, 0.5, 0]
    assert problem.optimal_value == pytest.approx(0.8125, abs=1e-12)
    assert problem.system.rho == 0.2
    assert problem.system.phi == 1.0
    assert len(problem.actions) == 10


def test_the_printed_b11_would_make_the_papers_myopic_action_optimal():
    problem = dlb.problems.synthetic()
    s = problem.system
    assert s.B[0, 0] == 0.45
    B = s.B.copy()
    B[0, 0] = 0.25
    printed = dlb.Problem(dlb.System(s.A, B, s.omega, s.theta), problem.actions)
    assert printed.optimal_action.tolist() == [0.5, 1, 0]
    assert printed.optimal_value != pytest.approx(0.8125, abs=1e-2)


@pytest.mark.parametrize(
    ("action", "expected"),
    [([0, 1, 0.5], 0.5 + 1 / 18), ([0.5, 1, 0], 0.78125), ([1, 0.5, 0], 0.8125)],
)
def test_synthetic_values(action, expected):
    problem = dlb.problems.synthetic()
    assert value(problem, np.array(action)) == pytest.approx(expected, abs=1e-12)
    assert problem.system.value(np.array(action)) == pytest.approx(expected, abs=1e-12)
    i = problem.actions.index(action)
    assert problem.values[i] == pytest.approx(expected, abs=1e-12)
    assert problem.gaps[i] == pytest.approx(0.8125 - expected, abs=1e-12)


def test_synthetic_myopic_action():
    problem = dlb.problems.synthetic()
    assert problem.myopic_action.tolist() == [0, 1, 0.5]
    assert problem.system.value(problem.myopic_action) == pytest.approx(0.556, abs=5e-4)


def test_real_world_facts():
    problem = dlb.problems.real_world()
    s = problem.system
    assert s.rho == pytest.approx(0.667, abs=5e-4)
    np.testing.assert_allclose(s.omega @ s.B, [-0.084, -0.197, 0.009], atol=5e-4)
    np.testing.assert_allclose(s.markov(1), [-0.084, -0.197, 0.009], atol=5e-4)
    np.testing.assert_array_equal(s.theta, [0.13, 0.41, 0.02])
    assert len(problem.actions) == 10
    values = [value(problem, u) for u in problem.actions.vertices]
    assert problem.optimal_value == pytest.approx(max(values), abs=1e-12)
    assert problem.optimal_index == int(np.argmax(values))
    # The expert's allocation against the best immediate reward.
    assert s.theta @ [0.003, 0.497, 1] == pytest.approx(0.224, abs=5e-4)
    assert s.theta @ problem.myopic_action == pytest.approx(0.475, abs=1e-12)


@pytest.mark.parametrize("make", [dlb.problems.synthetic, dlb.problems.real_world])
@pytest.mark.parametrize("sigma", [None, 0.0, 0.5])
def test_noise_is_on_every_coordinate_and_the_reward(make, sigma):
    system = (make() if sigma is None else make(sigma=sigma)).system
    sigma = 0.01 if sigma is None else sigma
    np.testing.assert_allclose(system.state_noise, sigma**2 * np.eye(3))
    assert system.reward_noise == sigma
    np.testing.assert_array_equal(system.x1, np.zeros(3))
