"""What is known about Dynamical Linear Bandits beyond simulation, as functions."""

from dlbjax.theory.finite_horizon import average_reward, constant_gap, optimal_average, optimal_plan

__all__ = ["average_reward", "constant_gap", "optimal_average", "optimal_plan"]
