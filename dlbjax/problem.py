"""A Dynamical Linear Bandit: a system and the actions that may be played on it."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from dlbjax._arrays import Array, is_traced, namespace
from dlbjax.actions import ActionSet
from dlbjax.system import System


@dataclass(frozen=True, eq=False)
class Problem:
    """A system with an action set.

    >>> import dlbjax as dlb
    >>> problem = dlb.problems.synthetic()
    >>> problem.optimal_action, round(problem.optimal_value, 6)
    (array([1. , 0.5, 0. ]), 0.8125)

    Under a JAX transformation the system may hold tracers. J* then has the derivatives of J(u*) with u*
    fixed (the envelope theorem); where several vertices tie, those of the first, and
    `dlbjax.sensitivity.of` reports the others.
    """

    system: System
    actions: ActionSet

    def __post_init__(self) -> None:
        if not isinstance(self.system, System):
            raise ValueError(f"system must be a dlbjax.System; got {type(self.system).__name__}")
        if not isinstance(self.actions, ActionSet):
            raise ValueError(
                "actions must come from dlbjax.actions (budget, polytope, simplex, hypercube, "
                f"finite); got {type(self.actions).__name__}"
            )
        if self.actions.d != self.system.d:
            raise ValueError(
                f"actions have {self.actions.d} coordinates but B has {self.system.d} columns; "
                "they must agree"
            )
        if not is_traced(self.system, self.actions.vertices):
            with np.errstate(all="ignore"):  # refused here, no need to warn as well
                finite = np.all(np.isfinite(self.values)) and np.all(np.isfinite(self.gaps))
            if not finite:
                raise ValueError(
                    "the values of the actions overflow: the numbers of system and actions are too large "
                    "together; choose other units"
                )

    @cached_property
    def h(self) -> Array:
        """Cumulative Markov parameter h = θ + Bᵀ(I − A)⁻ᵀω."""
        return self.system.h

    @cached_property
    def values(self) -> Array:
        """J(u) = ⟨h, u⟩ at every vertex."""
        return self.actions.vertices @ self.h

    @cached_property
    def optimal_index(self) -> int:
        """Index of u*; among vertices that tie with the best, the first."""
        return best_index(self.values)

    @property
    def optimal_action(self) -> Array:
        """u* = argmax J(u), the action an optimal policy plays for ever."""
        xp = namespace(self.optimal_index)
        return xp.asarray(self.actions.vertices)[self.optimal_index]

    @property
    def optimal_value(self) -> float:
        """J* = J(u*)."""
        value = self.values[self.optimal_index]
        return value if is_traced(value) else float(value)

    @property
    def gaps(self) -> Array:
        """J* − J(u) at every vertex."""
        return self.optimal_value - self.values

    @property
    def myopic_action(self) -> np.ndarray:
        """Argmax ⟨θ, u⟩: the best action for someone who sees the immediate effect only."""
        return self.actions.vertices[best_index(self.actions.vertices @ self.system.theta)]


def check_problem(problem: Any) -> Problem:
    """The problem, or a ValueError where it is none."""
    if not isinstance(problem, Problem):
        raise ValueError(f"problem must be a dlbjax.Problem; got {type(problem).__name__}")
    return problem


def best_index(values: Array) -> Array:
    """The first index whose value ties with the largest, so that rounding decides nothing."""
    index = namespace(values).argmax(ties(values))
    return index if is_traced(index) else int(index)


def ties(values: Array, among: Array = True) -> Array:
    """Which values are within 1e-12 of the largest, relative to the largest magnitude.

    Args:
      values: (K,) numbers.
      among: (K,) which of them take part; where none does, none is among the largest.

    >>> ties(np.array([3.0, 1.0, 3.0 - 1e-15])).tolist()
    [True, False, True]
    """
    xp = namespace(values, among)
    tolerance = 1e-12 * xp.max(xp.abs(values))
    largest = xp.max(xp.where(among, values, -np.inf))
    return among & (values >= largest - tolerance)
