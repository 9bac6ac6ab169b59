"""What the estimators that simulate share: points to compare, and the seeds they have in common."""

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from dlbjax._arrays import whole_number
from dlbjax.epochs import as_epochs
from dlbjax.policies.policy import Policy
from dlbjax.problem import Problem

Point: TypeAlias = tuple[Problem, Policy]


def check_points(points: Sequence[Any], horizon: int) -> None:
    """Refuse what is no (problem, policy), and epochs that differ: the normals would not be common."""
    for point in points:
        is_pair = isinstance(point, tuple) and len(point) == 2
        if not (is_pair and isinstance(point[0], Problem) and isinstance(point[1], Policy)):
            raise ValueError(f"at(x) must return a (Problem, Policy); got {point!r:.60}")
    first, *others = (as_epochs(policy.epochs, horizon) for _, policy in points)
    if not all(first.same(other) for other in others):
        raise ValueError(
            "the parameter changes the policy's epochs (ρ̄ does), so the same seed would not mean the "
            "same random numbers and regret jumps between epoch tables; hold the epochs fixed with "
            "epochs=…, or compare the settings with simulate"
        )


def check_seeds(seeds: int | Sequence[int]) -> None:
    """Refuse a single run, which has no standard error."""
    if np.ndim(seeds) == 0:
        whole_number("seeds", seeds, at_least=2)
    elif len(seeds) < 2:  # type: ignore[arg-type]
        raise ValueError(f"seeds must hold at least two, for a standard error; got {seeds!r:.60}")
