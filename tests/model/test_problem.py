import numpy as np
import pytest
from scipy.optimize import linprog

import dlbjax as dlb
from dlbjax.model.problem import best_index


def static(theta):
    """A system whose state does nothing: h = θ."""
    d = len(theta)
    return dlb.System(A=[[0.5]], B=np.zeros((1, d)), omega=[1.0], theta=theta)


@pytest.mark.parametrize("seed", range(5))
def test_optimal_action_and_gaps_agree_with_a_linear_program(seed):
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((2, 2))
    A *= 0.7 / np.abs(np.linalg.eigvals(A)).max()
    B, omega, theta = rng.standard_normal((2, 3)), rng.standard_normal(2), rng.standard_normal(3)
    problem = dlb.Problem(dlb.System(A, B, omega, theta), dlb.actions.budget(-1.0, np.ones(3), 1.5))
    h = theta + sum(B.T @ np.linalg.matrix_power(A, s).T @ omega for s in range(200))
    best = linprog(-h, np.ones((1, 3)), [1.5], bounds=(-1, 1))
    np.testing.assert_allclose(problem.h, h, rtol=1e-10)
    np.testing.assert_allclose(problem.optimal_action, best.x, atol=1e-10)
    assert problem.optimal_value == pytest.approx(-best.fun)
    np.testing.assert_allclose(problem.values, [h @ u for u in problem.actions.vertices])
    np.testing.assert_allclose(problem.gaps, -best.fun - problem.values, atol=1e-12)
    assert problem.gaps[problem.optimal_index] == 0.0
    assert np.all(problem.gaps >= 0)


def test_myopic_action_ignores_the_state():
    system = dlb.System(A=[[0.5]], B=[[5.0, 0.0]], omega=[1.0], theta=[0.1, 0.2])
    problem = dlb.Problem(system, dlb.actions.simplex(2))
    assert problem.myopic_action.tolist() == [0, 1]
    assert problem.optimal_action.tolist() == [1, 0]


@pytest.mark.parametrize(
    ("theta", "index"),
    [
        ([1.0, 1.0, 1.0], 0),
        ([1.0 - 1e-13, 1.0, 0.0], 0),
        ([1.0 - 1e-11, 1.0, 1.0], 1),
        ([0.0, 1.0, 1.0 + 5e-13], 1),
        ([0.0, 1.0, 2.0], 2),
        ([-1.0, -2.0, -3.0], 0),
    ],
)
def test_ties_go_to_the_lowest_index(theta, index):
    problem = dlb.Problem(static(theta), dlb.actions.finite(np.eye(3)))
    assert problem.optimal_index == best_index(np.array(theta)) == index
    assert problem.optimal_value == theta[index]
    assert problem.optimal_action.tolist() == np.eye(3)[index].tolist()
    assert problem.myopic_action.tolist() == np.eye(3)[index].tolist()


@pytest.mark.parametrize(
    ("system", "chosen", "message"),
    [
        (static([1, 2]), dlb.actions.simplex(3), r"^actions have 3 coord.* but B has 2 columns"),
        ("A", dlb.actions.simplex(3), r"^system must be a dlbjax\.System; got str"),
        (static([1, 2]), np.eye(2), r"^actions must come from dlbjax\.actions .*; got ndarray"),
    ],
)
def test_a_system_and_actions_that_do_not_fit_are_rejected(system, chosen, message):
    with pytest.raises(ValueError, match=message):
        dlb.Problem(system, chosen)


def test_values_that_overflow_are_rejected():
    system = dlb.System(A=[[0.5]], B=[[1e200]], omega=[1e200], theta=[0.0])
    with pytest.raises(ValueError, match="the values of the actions overflow"):
        dlb.Problem(system, dlb.actions.hypercube(1))


@pytest.mark.parametrize(
    "make", [dlb.Bounds.of, dlb.clairvoyant, dlb.myopic, dlb.planned, dlb.expert]
)
def test_other_types_than_problems_are_rejected(make):
    with pytest.raises(ValueError, match=r"^problem must be a dlbjax\.Problem; got float"):
        make(1.0)


def test_repr_shows_the_optimum():
    text = repr(dlb.problems.synthetic())
    assert text.startswith("Problem(states=3, vertices=10, h=[0.5625, 0.5, 0.1111]")
    assert "optimal_action=[1, 0.5, 0]" in text
    assert "optimal_value=0.8125" in text
