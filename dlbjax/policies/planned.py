"""The best plan over a horizon that ends, played by someone who knows the system."""

import numpy as np

from dlbjax.common.arrays import Array
from dlbjax.model.finite_horizon import optimal_plan
from dlbjax.model.problem import Problem, check_problem
from dlbjax.policies.base import Epoch, Policy, Schedule
from dlbjax.policies.constant import init, update


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

    def prepare(horizon: int, vertices: np.ndarray) -> Schedule:
        plan = np.asarray(optimal_plan(problem, horizon))
        changes = np.flatnonzero(np.diff(plan)) + 1
        return Schedule(
            epochs=np.diff(np.r_[0, changes, horizon]), plan=lambda epoch: plan[epoch.start]
        )

    return Policy(init, act, update, feedback=(), name="plan", prepare=prepare, vectors=True)
