"""The human expert of the paper's experiment on real data."""

from collections.abc import Sequence

import numpy as np

from dlbjax.common.arrays import Array, real_array
from dlbjax.model.problem import Problem, check_problem
from dlbjax.policies.base import Policy
from dlbjax.policies.constant import constant

SPEND = (1_641_952, 259_591_273, 716_354_611)  # on Facebook, Google and Bing


def expert(problem: Problem, spend: Sequence[float] | Array = SPEND) -> Policy:
    """Always allocate the budget as it was spent in the past.

    The budget, the largest total that an action may have, is shared in proportion to the spend. A
    platform that would get more than any action gives it gets its limit, and the rest is shared among
    the others.

    Args:
      problem: the bandit; its actions give the budget and the limits.
      spend: (d,) what was spent on every platform, in any unit; that of the paper's data by default.

    >>> import dlbjax as dlb
    >>> problem = dlb.problems.real_world()
    >>> schedule = dlb.expert(problem).prepare(1, problem.actions.vertices)
    >>> schedule.arms.round(3)
    array([[0.003, 0.497, 1.   ]])
    """
    vertices = check_problem(problem).actions.vertices
    spend = np.asarray(real_array("spend", spend, (problem.actions.d,)))
    if spend.min() < 0 or spend.sum() == 0:
        raise ValueError(f"spend must be >= 0 and not all 0; got {spend.tolist()}")
    allocation = _share(vertices.sum(axis=1).max(), spend, vertices.max(axis=0))
    if not problem.actions.contains(allocation):
        raise ValueError(
            f"the spend leads to the allocation {allocation.round(3).tolist()}, which is not among the "
            "problem's actions; choose one that is and pass it to dlbjax.constant"
        )
    return constant(allocation, "expert")


def _share(budget: float, spend: np.ndarray, limits: np.ndarray) -> np.ndarray:
    """Proportional shares of a budget, none above its limit."""
    capped = np.zeros(len(spend), bool)
    while True:
        free = np.where(capped, 0, spend)
        rest = budget - limits[capped].sum()
        shares = np.where(capped, limits, free * (rest / max(free.sum(), np.finfo(float).tiny)))
        if not np.any(shares > limits):
            return shares
        capped |= shares > limits
