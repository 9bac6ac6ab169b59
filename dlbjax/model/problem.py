"""A Dynamical Linear Bandit: a system and its action set."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from dlbjax.common.arrays import Array, Number, describe, is_traced, namespace
from dlbjax.model.actions import ActionSet
from dlbjax.model.system import System


@dataclass(frozen=True, eq=False, repr=False)
class Problem:
    """A system with an action set.

    Attributes:
      system: the hidden linear system.
      actions: the action set, with as many coordinates as B has columns.

    >>> import dlbjax as dlb
    >>> problem = dlb.problems.synthetic()
    >>> problem.optimal_action, round(problem.optimal_value, 6)
    (array([1. , 0.5, 0. ]), 0.8125)

    Under a JAX transformation the system may hold tracers. J* then has the derivatives of J(u*) with u*
    fixed (the envelope theorem); where several vertices tie, those of the first.
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
            with np.errstate(all="ignore"):  # rejected below without a warning
                finite = np.all(np.isfinite(self.values)) and np.all(np.isfinite(self.gaps))
            if not finite:
                raise ValueError(
                    "the values of the actions overflow: the numbers of system and actions are too large "
                    "together; choose larger units"
                )

    def __repr__(self) -> str:
        names = ("h", "optimal_action", "optimal_value")
        known = {} if is_traced(self.values) else {name: getattr(self, name) for name in names}
        return describe("Problem", states=self.system.n, vertices=len(self.actions), **known)

    @cached_property
    def h(self) -> Array:
        """Cumulative Markov parameter h = θ + Bᵀ(I − A)⁻ᵀω."""
        return self.system.h

    @cached_property
    def values(self) -> Array:
        """J(u) = ⟨h, u⟩ at every vertex."""
        return self.actions.vertices @ self.h

    @cached_property
    def optimal_index(self) -> int | Array:
        """Index of u*, the first of the vertices that tie with the best."""
        return best_index(self.values)

    @property
    def optimal_action(self) -> Array:
        """u* = argmax J(u), the action an optimal policy plays forever."""
        xp = namespace(self.optimal_index)
        return xp.asarray(self.actions.vertices)[self.optimal_index]

    @property
    def optimal_value(self) -> Number:
        """J* = J(u*)."""
        value = self.values[self.optimal_index]
        return value if is_traced(value) else float(value)

    @property
    def gaps(self) -> Array:
        """J* − J(u) at every vertex."""
        return self.optimal_value - self.values

    @property
    def myopic_action(self) -> np.ndarray:
        """argmax ⟨θ, u⟩, the best action by immediate effects alone."""
        return self.actions.vertices[best_index(self.actions.vertices @ self.system.theta)]


def check_problem(problem: Any) -> Problem:
    """Return the problem, or raise a ValueError if it is not a `Problem`."""
    if not isinstance(problem, Problem):
        raise ValueError(f"problem must be a dlbjax.Problem; got {type(problem).__name__}")
    return problem


def best_index(values: Array) -> int | Array:
    """First index whose value ties with the largest, so that the choice does not depend on rounding."""
    index = namespace(values).argmax(ties(values))
    return index if is_traced(index) else int(index)


def ties(values: Array, among: bool | Array = True) -> Array:
    """Which values are within 1e-12 of the largest, relative to the largest magnitude.

    Args:
      values: (K,) numbers.
      among: (K,) mask of the numbers compared; all False gives all False.

    >>> ties(np.array([3.0, 1.0, 3.0 - 1e-15])).tolist()
    [True, False, True]
    """
    xp = namespace(values, among)
    tolerance = 1e-12 * xp.max(xp.abs(values))
    largest = xp.max(xp.where(among, values, -np.inf))
    return among & (values >= largest - tolerance)
