"""How J*, the margin of u*, the horizon's value and regret depend on the system and on the bounds.

`of` answers for a problem; `budget_prices` and `polytope_prices` for the limits of its action set. The
functions of `exact` are pure functions of a system and the vertices of its action set, for `jax.grad`,
`jax.vmap` and `jax.jit` (inside `jax.enable_x64(True)` for double precision).

A policy's choice is piecewise constant in every parameter, so that differentiating simulated regret along a
run is wrong. `regret_slope` takes differences with common random numbers, `relaxed_gradient` softens the
choice and is biased (`check_gradient` says by how much), `smoothed_gradient` smooths the regret; `tune` uses
the second, and `validate` checks the outcome.
"""

from dlbjax.sensitivity.check import GradientCheck, check_gradient
from dlbjax.sensitivity.differences import Slope, regret_slope
from dlbjax.sensitivity.exact import (
    Parameters,
    horizon_value,
    margin,
    optimal_value,
    planned_value,
    steady_state,
    value_derivatives,
)
from dlbjax.sensitivity.prices import (
    BudgetPrices,
    OneSided,
    PolytopePrices,
    budget_prices,
    polytope_prices,
)
from dlbjax.sensitivity.relaxed import Parameters as RelaxedParameters
from dlbjax.sensitivity.relaxed import RelaxedGradient, relaxed_gradient, relaxed_regret
from dlbjax.sensitivity.smoothed import SmoothedGradient, smoothed_gradient
from dlbjax.sensitivity.summary import Entry, Sensitivity, Vertex, of
from dlbjax.sensitivity.tuning import Tuned, Validation, random_problems, tune, validate

__all__ = [
    "BudgetPrices",
    "Entry",
    "GradientCheck",
    "OneSided",
    "Parameters",
    "PolytopePrices",
    "RelaxedGradient",
    "RelaxedParameters",
    "Sensitivity",
    "Slope",
    "SmoothedGradient",
    "Tuned",
    "Validation",
    "Vertex",
    "budget_prices",
    "check_gradient",
    "horizon_value",
    "margin",
    "of",
    "optimal_value",
    "planned_value",
    "polytope_prices",
    "random_problems",
    "regret_slope",
    "relaxed_gradient",
    "relaxed_regret",
    "smoothed_gradient",
    "steady_state",
    "tune",
    "validate",
    "value_derivatives",
]
