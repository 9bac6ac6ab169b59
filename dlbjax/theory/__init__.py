"""Theory of Dynamical Linear Bandits: optimal plans, confidence radii and regret bounds."""

from dlbjax.model.finite_horizon import (
    average_reward,
    constant_gap,
    lower_bound_horizon,
    optimal_average,
    optimal_plan,
    predicted_rewards,
)
from dlbjax.theory.confidence import beta, confidence_radius
from dlbjax.theory.regret import (
    expected_regret_bound,
    gap_regret_bound,
    lower_bound,
    offline_regret_bound,
    regret_difference,
    smallest_gap,
)

__all__ = [
    "average_reward",
    "beta",
    "confidence_radius",
    "constant_gap",
    "expected_regret_bound",
    "gap_regret_bound",
    "lower_bound",
    "lower_bound_horizon",
    "offline_regret_bound",
    "optimal_average",
    "optimal_plan",
    "predicted_rewards",
    "regret_difference",
    "smallest_gap",
]
