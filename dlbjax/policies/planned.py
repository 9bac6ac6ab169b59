"""The best plan over a horizon that ends, played by someone who knows the system."""

import numpy as np

from dlbjax._arrays import Array
from dlbjax.policies.constant import init, update
from dlbjax.policies.policy import Epoch, Policy
from dlbjax.problem import Problem, check_problem
from dlbjax.theory.finite_horizon import optimal_plan


def act(params: tuple[()], vertices: Array, state: tuple[()], epoch: Epoch) -> Array:
    """What the plan says."""
    return epoch.plan


def planned(problem: Problem) -> Policy:
    """Play u*_{T,t} = argmax ⟨h^{[0,T−t]}, u⟩ in round t of T, which no policy beats in expectation.

    It beats `clairvoyant` by what the end of the horizon is worth: u* is the best action only of a
    horizon that does not end. See `dlbjax.theory.optimal_plan`.

    >>> import dlbjax as dlb
    >>> problem = dlb.problems.synthetic()
    >>> policies = {"plan": dlb.planned(problem), "u*": dlb.clairvoyant(problem)}
    >>> results = dlb.simulate(problem, policies, horizon=100)
    >>> bool(results["plan"].expected_regret[0, -1] < results["u*"].expected_regret[0, -1])
    True
    """
    check_problem(problem)

    def epochs(horizon: int) -> np.ndarray:
        changes = np.flatnonzero(np.diff(optimal_plan(problem, horizon))) + 1
        return np.diff(np.r_[0, changes, horizon])

    def plan(horizon: int, vertices: np.ndarray, epoch: Epoch) -> np.ndarray:
        return optimal_plan(problem, horizon)[epoch.start]

    return Policy(init, act, update, epochs, plan=plan, feedback=(), name="plan")
