"""Checks that the estimators which simulate share: the points they compare, and the common seeds."""

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np

from dlbjax.common.arrays import whole_number
from dlbjax.model.problem import Problem
from dlbjax.policies.base import Policy, make_schedule

Point: TypeAlias = tuple[Problem, Policy]


def check_points(points: Sequence[Point], horizon: int) -> None:
    """Reject points that are not a (problem, policy), or whose epochs differ: normals are per epoch."""
    epochs = []
    for point in points:
        is_pair = isinstance(point, tuple) and len(point) == 2
        if not (is_pair and isinstance(point[0], Problem) and isinstance(point[1], Policy)):
            raise ValueError(f"at(x) must return a (Problem, Policy); got {point!r:.60}")
        problem, policy = point
        epochs.append(make_schedule(policy, horizon, problem.actions).epochs)
    if not all(epochs[0].same(other) for other in epochs[1:]):
        raise ValueError(
            "the parameter changes the policy's epochs (ρ̄ does), so that a seed no longer gives the same "
            "random numbers and regret jumps between epoch tables; hold the epochs fixed with epochs=…, "
            "or compare the settings with simulate"
        )


def check_seeds(seeds: int | Sequence[int]) -> None:
    """Reject a single run, which has no standard error."""
    if np.ndim(seeds) == 0:
        whole_number("seeds", seeds, at_least=2)
    elif np.size(seeds) < 2:
        raise ValueError(f"seeds must hold at least two, for a standard error; got {seeds!r:.60}")
