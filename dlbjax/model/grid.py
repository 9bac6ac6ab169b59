"""Problems that differ in some of their numbers."""

from collections.abc import Callable, Mapping, Sequence
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from dlbjax.common.arrays import short
from dlbjax.model.problem import Problem, check_problem


class ProblemGrid(NamedTuple):
    """Problems that differ in some of their numbers only, and the axes of the grid they form.

    Attributes:
      axes: name of each number that varies and the values it takes.
      problems: one for every combination, the last axis varying fastest.
    """

    axes: Mapping[str, np.ndarray]
    problems: Sequence[Problem]

    @classmethod
    def of(cls, make: Callable[..., Problem], **arguments: Any) -> "ProblemGrid":
        """`make(**arguments)`, once for every combination of the arguments that are lists.

        >>> import dlbjax as dlb
        >>> grid = dlb.ProblemGrid.of(dlb.problems.synthetic, sigma=[0.01, 0.1])
        >>> [problem.system.reward_noise for problem in grid.problems]
        [0.01, 0.1]
        """
        axes = {name: np.asarray(v) for name, v in arguments.items() if np.ndim(v) == 1}
        points = product(*(values.tolist() for values in axes.values()))
        chosen = (dict(zip(axes, point, strict=True)) for point in points)
        return cls(axes, [make(**arguments | each) for each in chosen])


def as_problem_grid(problem: Any) -> ProblemGrid:
    """A grid of problems, of one point if it is a single one; validated."""
    if not isinstance(problem, ProblemGrid):
        return ProblemGrid({}, [check_problem(problem)])
    axes, problems = problem
    if not isinstance(axes, Mapping) or not all(np.ndim(values) == 1 for values in axes.values()):
        raise ValueError(f"axes of the grid must map names to lists of values; got {short(axes)}")
    size = int(np.prod([len(values) for values in axes.values()], dtype=int))
    if size == 0 or size != len(problems):
        raise ValueError(f"the grid's axes make {size} points, but it holds {len(problems)}")
    for each in problems:
        check_problem(each)
    return problem
