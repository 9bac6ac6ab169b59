"""Derivatives of mean regret by central differences with common random numbers.

The reference for every other estimator: it uses the true policy, any parameter, and nothing but `simulate`.
A run's normals depend on its seed and on the epochs, not on the parameter, so the runs at value + step and
value − step differ by what the parameter does, and the difference is taken seed by seed.

Common numbers help little. After one decision that differs, two runs stay different, so the
difference's spread hardly shrinks with the step and the standard error grows as 1/step, while the bias falls
as step². Synthetic problem, σ = 0.01, T = 10⁴, 2000 seeds, slope in log β:

    step 0.02: 635.7 ± 1.6      0.05: 627.7 ± 0.6      0.1: 628.6 ± 0.3      0.2: 622.7 ± 0.1

Give several steps, and the largest that no smaller one contradicts is chosen (Lepski's rule). With little
noise mean regret is itself jagged in a parameter, and the slope depends on the step: real-world problem,
σ = 0.01, T = 10⁴, log λ: −33.7 ± 0.4 at a step of 0.05, −41.6 ± 0.2 at 0.1.

Which estimator to use: this one for a reliable number, in one or a few parameters; `relaxed_gradient` for
many parameters at once and inside an optimisation (its variance is far smaller, its bias must be checked with
this one at the end); `smoothed_gradient` for a handful of parameters of any policy, where the relaxation does
not apply.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from dlbjax.common.arrays import real_array, real_number, whole_number
from dlbjax.engine.simulate import simulate
from dlbjax.sensitivity.points import Point, check_points, check_seeds

_AGREE = 2.0  # standard errors around each slope within which a larger step must stay


class Slope(NamedTuple):
    """A derivative of mean regret.

    Attributes:
      slope: the derivative.
      standard_error: of it, over seeds.
      step: the step it was taken with.
      steps, slopes, standard_errors: all steps that were tried, increasing.
    """

    slope: float
    standard_error: float
    step: float
    steps: np.ndarray
    slopes: np.ndarray
    standard_errors: np.ndarray


def regret_slope(
    at: Callable[[float], Point],
    value: float,
    step: float | Sequence[float],
    horizon: int,
    seeds: int | Sequence[int] = 1000,
    *,
    kind: str = "expected",
    **options: Any,
) -> Slope:
    """d/dx of mean regret at the horizon: (R(x + step) − R(x − step))/(2·step), seed by seed.

    Args:
      at: x ↦ (problem, policy). Compute outside of it what should not move with x, such as the bounds. The
        epochs must not depend on x.
      value: x.
      step: one step, or several to choose among: the largest up to which the intervals of two standard errors
        around the slopes have a point in common.
      horizon: rounds T.
      seeds: how many runs, or their seeds; each step simulates twice as many.
      kind: "expected", "realised" or "offline" regret.
      **options: passed to `simulate`.

    >>> import dlbjax as dlb, numpy as np
    >>> problem = dlb.problems.synthetic()
    >>> def at(x):                                      # x = θ₂, and nobody learns: R = T(J* − J(u))
    ...     system = problem.system
    ...     theta = np.array([0.0, x, 0.1])
    ...     changed = dlb.System(system.A, system.B, system.omega, theta, sigma=0.01)
    ...     return dlb.Problem(changed, problem.actions), dlb.constant([0.0, 1.0, 0.0])
    >>> slope = regret_slope(at, 0.5, 0.01, horizon=1000, seeds=3)
    >>> round(slope.slope, 6), round(slope.standard_error, 6)          # 1000 (½ − 1)
    (-500.0, 0.0)
    """
    value = real_number("value", value)
    horizon = whole_number("horizon", horizon, at_least=1)
    check_seeds(seeds)
    steps = np.sort(np.atleast_1d(real_array("step", step, None)))
    if steps.ndim != 1 or len(steps) == 0 or steps[0] <= 0:
        raise ValueError(f"step must be a number above 0, or a list of them; got {step!r:.60}")
    tried = []
    for width in steps:
        ends = [at(value + width), at(value - width)]
        check_points(ends, horizon)
        up, down = (
            simulate(problem, policy, horizon, seeds, rounds=[horizon], **options).regret(kind)[
                :, -1
            ]
            for problem, policy in ends
        )
        slopes = (up - down) / (2 * width)
        tried.append((slopes.mean(), slopes.std(ddof=1) / np.sqrt(len(slopes))))
    means, errors = np.array(tried).T
    best = _largest_agreeing(means, errors)
    return Slope(float(means[best]), float(errors[best]), float(steps[best]), steps, means, errors)


def _largest_agreeing(slopes: np.ndarray, errors: np.ndarray) -> int:
    """The last index before the intervals slope ± 2 standard errors cease to have a point in common."""
    low = np.maximum.accumulate(slopes - _AGREE * errors)
    high = np.minimum.accumulate(slopes + _AGREE * errors)
    apart = low > high
    return int(np.argmax(apart)) - 1 if apart.any() else len(slopes) - 1
