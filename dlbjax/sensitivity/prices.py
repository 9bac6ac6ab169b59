"""Shadow prices: what one more unit of a budget, or of any limit on the actions, is worth.

J*(g) = max{⟨h,u⟩ : G u ≤ g, A_eq u = b_eq} is concave in the limits, and its slopes are the optima of the
dual program. By complementary slackness these are the (y, z) with

    Gᵀy + A_eqᵀz = h,    y ≥ 0,    y_i = 0 where the i-th limit is not reached at u*.

Where there is more than one (a degenerate optimum) J* has a kink: the price of a limit is the largest y_i
where it is lowered, and the smallest where it is raised.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import linprog

from dlbjax.model.actions import budget_constraints, constraints
from dlbjax.model.system import System, check_system

_PRECISE = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}
_REACHED = 1e-9  # distance from a limit, relative to the actions' size


class OneSided(NamedTuple):
    """A derivative of J* from both sides; they differ at a kink.

    Attributes:
      below: per unit by which the limit is lowered. Infinite where the set would be empty.
      above: per unit by which it is raised. Infinite likewise.
    """

    below: float | np.ndarray
    above: float | np.ndarray

    @property
    def kink(self) -> bool | np.ndarray:
        """Where the two differ by more than rounding."""
        return ~np.isclose(self.below, self.above, rtol=1e-9, atol=1e-12)


class PolytopePrices(NamedTuple):
    """Prices of the limits of a polytope.

    Attributes:
      value: J*.
      action: (d,) an optimal action.
      g: dJ*/dg, (m,) each side.
      b_eq: dJ*/db_eq, likewise.
    """

    value: float
    action: np.ndarray
    g: OneSided
    b_eq: OneSided

    def __str__(self) -> str:
        return _table(self.value, self.action, g=self.g, b_eq=self.b_eq)


class BudgetPrices(NamedTuple):
    """Prices of the limits of a budget set.

    Attributes:
      value: J*.
      action: (d,) an optimal action.
      low: dJ*/d low, (d,) each side.
      high: dJ*/d high, likewise.
      total: dJ*/d total, a number each side.
    """

    value: float
    action: np.ndarray
    low: OneSided
    high: OneSided
    total: OneSided

    def __str__(self) -> str:
        return _table(self.value, self.action, total=self.total, low=self.low, high=self.high)


def budget_prices(system: System, low: ArrayLike, high: ArrayLike, total: float) -> BudgetPrices:
    """dJ*/d low, dJ*/d high and dJ*/d total for the set of `actions.budget` with these limits.

    >>> import dlbjax as dlb
    >>> system = dlb.problems.synthetic().system
    >>> prices = budget_prices(system, 0.0, [1, 1, 1], total=1.5)
    >>> prices.total.above, prices.high.above.round(4), prices.low.above.round(4)
    (0.5, array([0.0625, 0.    , 0.    ]), array([ 0.    ,  0.    , -0.3889]))
    """
    found = polytope_prices(system, *budget_constraints(low, high, total))
    d = system.d
    below, above = np.asarray(found.g)
    return BudgetPrices(
        found.value,
        found.action,
        # The limit is on −u: raising low lowers it.
        low=OneSided(0.0 - above[d : 2 * d], 0.0 - below[d : 2 * d]),
        high=OneSided(below[:d], above[:d]),
        total=OneSided(float(below[-1]), float(above[-1])),
    )


def polytope_prices(
    system: System,
    G: ArrayLike,
    g: ArrayLike,
    A_eq: ArrayLike | None = None,
    b_eq: ArrayLike | None = None,
) -> PolytopePrices:
    """dJ*/dg and dJ*/db_eq for the set {u : G u ≤ g, A_eq u = b_eq}; see `actions.polytope`.

    >>> import dlbjax as dlb
    >>> system = dlb.System([[0.5]], [[1.0, 0.0]], [1.0], [0.0, 3.0])            # h = (2, 3)
    >>> prices = polytope_prices(system, [[-1, 0], [0, -1], [1, 2]], [0, 0, 2])
    >>> prices.value, prices.action.tolist(), prices.g.below.round(6).tolist()
    (4.0, [2.0, 0.0], [0.0, 1.0, 2.0])
    """
    check_system(system)
    G, g, A_eq, b_eq = constraints(G, g, A_eq, b_eq)
    if G.shape[1] != system.d:
        raise ValueError(
            f"the limits are on {G.shape[1]} coordinates but B has {system.d} columns; they must agree"
        )
    h = np.asarray(system.h)
    unit = float(np.abs(h).max()) or 1.0  # tolerances are absolute in the solver
    action = _optimum(h / unit, G, g, A_eq, b_eq)
    reached = np.flatnonzero(_distances(G, g, action) <= _REACHED * _size(G, g, action))
    m, rows = len(reached), np.concatenate([G[reached], A_eq])
    below, above = np.zeros((2, len(G) + len(A_eq)))
    for i, limit in enumerate([*reached, *range(len(G), len(G) + len(A_eq))]):
        above[limit] = unit * _smallest(np.eye(len(rows))[i], rows, h / unit, m)
        below[limit] = -unit * _smallest(-np.eye(len(rows))[i], rows, h / unit, m)
    return PolytopePrices(
        float(h @ action),
        action,
        OneSided(below[: len(G)], above[: len(G)]),
        OneSided(below[len(G) :], above[len(G) :]),
    )


def _optimum(
    h: np.ndarray, G: np.ndarray, g: np.ndarray, A_eq: np.ndarray, b_eq: np.ndarray
) -> np.ndarray:
    equalities = (A_eq, b_eq) if len(A_eq) else (None, None)
    answer = linprog(-h, G, g, *equalities, bounds=(None, None), options=_PRECISE)
    if answer.status == 2:
        raise ValueError("the action set is empty: no u satisfies G u <= g and A_eq u = b_eq")
    if answer.status != 0:
        raise ValueError("J* must be bounded on the action set; it is not. Add limits to G and g")
    return answer.x + 0.0  # no −0


def _distances(G: np.ndarray, g: np.ndarray, action: np.ndarray) -> np.ndarray:
    """Of an action from each limit, in the units of the actions."""
    norms = np.linalg.norm(G, axis=1)
    return (g - G @ action) / np.where(norms > 0, norms, 1.0)


def _size(G: np.ndarray, g: np.ndarray, action: np.ndarray) -> float:
    """A length typical of the set: u*'s, or where that is zero the smallest limit's."""
    lengths = np.abs(_distances(G, g, np.zeros_like(action)))
    return float(max(np.abs(action).max(), lengths[lengths > 0].min(initial=1.0)))


def _smallest(direction: np.ndarray, rows: np.ndarray, h: np.ndarray, signed: int) -> float:
    """Least ⟨direction, y⟩ over rowsᵀy = h, of which the first `signed` y are ≥ 0."""
    bounds = [(0, None)] * signed + [(None, None)] * (len(rows) - signed)
    answer = linprog(direction, A_eq=rows.T, b_eq=h, bounds=bounds, options=_PRECISE)
    if answer.status == 2:
        raise ValueError(
            "the limits reached at u* differ from others by less than 1e-9 of the actions' size; remove "
            "limits that are almost the same"
        )
    return float(answer.fun) if answer.status == 0 else -np.inf


def _table(value: float, action: np.ndarray, **prices: OneSided) -> str:
    lines = [f"J* = {value:.6g} at u* = ({', '.join(f'{u:.4g}' for u in action)})"]
    lines += [f"{'limit':<10}{'lowered':>12}{'raised':>12}"]
    for name, sides in prices.items():
        for place, below in np.ndenumerate(sides.below):
            above = np.asarray(sides.above)[place]
            kink = "  kink" if np.asarray(sides.kink)[place] else ""
            entry = f"{name}[{place[0]}]" if place else name
            lines.append(f"{entry:<10}{below:>12.4g}{above:>12.4g}{kink}")
    return "\n".join(lines)
