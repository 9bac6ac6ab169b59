"""How much J*, the margin of u*, the state and the horizon's value move with the system and the budget.

`of` answers for a problem; `budget_prices` and `polytope_prices` for the limits of its action set. The
others are pure functions of a system and the vertices of its action set, for `jax.grad`, `jax.vmap` and
`jax.jit` (inside `jax.enable_x64(True)` for double precision).
"""

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
from dlbjax.sensitivity.summary import Entry, Sensitivity, Vertex, of

__all__ = [
    "BudgetPrices",
    "Entry",
    "OneSided",
    "Parameters",
    "PolytopePrices",
    "Sensitivity",
    "Vertex",
    "budget_prices",
    "horizon_value",
    "margin",
    "of",
    "optimal_value",
    "planned_value",
    "polytope_prices",
    "steady_state",
    "value_derivatives",
]
