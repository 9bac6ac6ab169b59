"""The gradient of mean regret in several parameters at once, by Gaussian smoothing.

For a smooth or jumping function R, the smoothed x ↦ E R(x + width·ξ), ξ ~ N(0, I), has the gradient

    E[ξ·(R(x + width·ξ) − R(x − width·ξ))]/(2·width).

Both ends of a direction ξ use the same seeds (antithetic, common random numbers). The directions are
whitened, so that Σ ξξᵀ = directions·I exactly: the estimate is then the least-squares slope, without error on
a linear function with any number of directions, where the plain average has a relative error of
√(parameters/directions).
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from dlbjax.common.arrays import real_array, whole_number
from dlbjax.engine.simulate import simulate
from dlbjax.policies.base import PolicyGrid
from dlbjax.sensitivity.points import Point, check_points, check_seeds


class SmoothedGradient(NamedTuple):
    """Gradient of smoothed mean regret.

    Attributes:
      gradient: (parameters,) the estimate.
      standard_error: (parameters,) over directions and over seeds; on average not too small.
      regret: mean regret around the point.
    """

    gradient: np.ndarray
    standard_error: np.ndarray
    regret: float


def smoothed_gradient(
    at: Callable[[np.ndarray], Point],
    values: Sequence[float] | np.ndarray,
    width: float | Sequence[float],
    horizon: int,
    directions: int = 32,
    seeds: int | Sequence[int] = 32,
    *,
    kind: str = "expected",
    random_seed: int = 0,
    **options: Any,
) -> SmoothedGradient:
    """Gradient of mean regret at the horizon, smoothed by a Gaussian.

    Policies on the same problem with the same epochs advance in one pass of 2·directions·seeds runs. Where
    `at` makes a new problem each time, there is a pass for each.

    Args:
      at: (parameters,) ↦ (problem, policy); the epochs must not depend on the parameters.
      values: the point.
      width: standard deviation of the smoothing, one or one per parameter. It is the step of a central
        difference: the bias falls as width², the standard error grows as 1/width.
      horizon: rounds T.
      directions: how many, more than there are parameters.
      seeds: how many runs at each end of each direction, or their seeds.
      kind: "expected", "realised" or "offline" regret.
      random_seed: of the directions.
      **options: passed to `simulate`.

    >>> import dlbjax as dlb, numpy as np
    >>> problem = dlb.problems.synthetic()
    >>> bounds = dlb.Bounds.of(problem)
    >>> def at(x):                                                          # x = (log λ, log of the scale)
    ...     return problem, dlb.dynlin_ucb(bounds, lam=np.exp(x[0]), scale=np.exp(x[1]))
    >>> found = smoothed_gradient(at, [np.log(np.log(2000)), 0.0], 0.1, horizon=2000, directions=8, seeds=8)
    >>> found.gradient.shape, bool(found.gradient[1] > 4 * found.standard_error[1])
    ((2,), True)
    """
    here = real_array("values", values, (None,))
    widths = real_array("width", width, None)
    if widths.ndim > 1 or np.any(widths <= 0) or (widths.ndim and widths.shape != here.shape):
        raise ValueError(
            f"width must be a number above 0, or one for each of {len(here)} parameters; got {width!r:.60}"
        )
    count = whole_number("directions", directions, at_least=len(here) + 1, at_most=10**5)
    random_seed = whole_number("random_seed", random_seed, at_least=0)
    horizon = whole_number("horizon", horizon, at_least=1)
    check_seeds(seeds)
    xi = _directions(count, len(here), random_seed)
    points = np.concatenate([here + widths * xi, here - widths * xi])
    regrets = _regrets([at(point) for point in points], horizon, seeds, kind, options)
    differences = (regrets[:count] - regrets[count:]) / 2  # (directions, seeds)
    each_seed = differences.T @ xi / count
    gradient = each_seed.mean(axis=0)
    unexplained = differences.mean(axis=1) - xi @ gradient
    over_directions = ((xi * unexplained[:, None]) ** 2).sum(axis=0) / (count * (count - len(here)))
    over_seeds = each_seed.var(axis=0, ddof=1) / len(each_seed)
    return SmoothedGradient(
        gradient / widths, np.sqrt(over_directions + over_seeds) / widths, float(regrets.mean())
    )


def _directions(count: int, size: int, seed: int) -> np.ndarray:
    """(count, size) Gaussian directions, rescaled so that Σ ξξᵀ = count·I."""
    xi = np.random.default_rng(seed).normal(size=(count, size))
    return np.linalg.solve(np.linalg.cholesky(xi.T @ xi / count), xi.T).T


def _regrets(
    points: list[Point],
    horizon: int,
    seeds: int | Sequence[int],
    kind: str,
    options: dict[str, Any],
) -> np.ndarray:
    """Regret at the horizon, (points, seeds); points that share a problem go in one pass."""
    check_points(points, horizon)
    by_problem: dict[int, list[int]] = {}
    for place, (problem, _) in enumerate(points):
        by_problem.setdefault(id(problem), []).append(place)
    regrets: dict[int, np.ndarray] = {}
    for places in by_problem.values():
        grid = PolicyGrid({"point": np.array(places)}, [points[place][1] for place in places])
        result = simulate(points[places[0]][0], grid, horizon, seeds, rounds=[horizon], **options)
        regrets |= dict(zip(places, result.regret(kind)[..., -1], strict=True))
    return np.array([regrets[place] for place in range(len(points))])
