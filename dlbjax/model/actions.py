"""Action sets, given by the vertices of a polytope.

An upper confidence bound ⟨ĥ,u⟩ + β‖u‖_{V⁻¹} is convex in u, so over a polytope its maximum is at a
vertex, and the maximum over all vertices is exact.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import comb
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import null_space
from scipy.optimize import OptimizeResult, linprog
from scipy.spatial import HalfspaceIntersection

from dlbjax.common.arrays import describe, real_array, real_number, whole_number

MOST_VERTICES = 100_000
_TOLERANCE = 1e-9  # relative to the size of the set
_FAR = 1e15  # times the size of a set: a limit there has no effect
_PRECISE = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}


@dataclass(frozen=True, eq=False, repr=False)
class ActionSet:
    """A set of actions with its extreme points.

    Attributes:
      vertices: (K, d) distinct extreme points in lexicographic order (a finite list keeps its order).
      convex: whether mixtures of the vertices may be played too.
    """

    vertices: np.ndarray
    convex: bool = True

    def __repr__(self) -> str:
        return describe("ActionSet", vertices=self.vertices, convex=self.convex)

    def __len__(self) -> int:
        return len(self.vertices)

    @property
    def d(self) -> int:
        """Dimension of an action."""
        return self.vertices.shape[1]

    @property
    def radius(self) -> float:
        """U = max ‖u‖₂ over the set."""
        unit = _power_of_two(self._scale)
        return float(unit * np.linalg.norm(self.vertices / unit, axis=1).max())

    def index(self, action: ArrayLike) -> int:
        """Index of the vertex that equals an action, or −1 if there is none."""
        distance = np.abs(self.vertices - real_array("action", action, (self.d,))).max(axis=1)
        nearest = int(np.argmin(distance))
        return nearest if distance[nearest] <= _TOLERANCE * self._scale else -1

    def contains(self, action: ArrayLike) -> bool:
        """Whether an action may be played.

        >>> import dlbjax as dlb
        >>> paper = dlb.actions.budget(0.0, [1, 1, 1], total=1.5)
        >>> paper.contains([0.5, 0.5, 0.5]), paper.contains([1, 1, 1])
        (True, False)
        """
        point = real_array("action", action, (self.d,))
        if self.index(point) >= 0:
            return True
        if not self.convex:
            return False
        # The mixture of vertices nearest to the action in its worst coordinate.
        vertices, point = self.vertices.T / self._scale, point / self._scale
        distance = linprog(
            c=np.r_[np.zeros(len(self)), 1.0],
            A_ub=np.c_[np.r_[vertices, -vertices], -np.ones(2 * self.d)],
            b_ub=np.r_[point, -point],
            A_eq=np.r_[np.ones(len(self)), 0.0][None],
            b_eq=[1.0],
        )
        return bool(distance.x[-1] <= 1e-7)

    @property
    def _scale(self) -> float:
        return max(float(np.abs(self.vertices).max()), np.finfo(float).tiny)


def finite(points: ArrayLike) -> ActionSet:
    """A finite list of actions, in the order given.

    >>> import dlbjax as dlb
    >>> len(dlb.actions.finite([[1.0, 0.0], [0.0, 1.0]]))
    2
    """
    vertices = _host_array("points", points, (None, None))
    if vertices.size == 0:
        raise ValueError(f"points must hold at least one action; got shape {vertices.shape}")
    _check_count(len(vertices))
    first: dict[tuple[float, ...], int] = {}
    for i, point in enumerate(map(tuple, (vertices + 0.0).tolist())):
        if point in first:
            raise ValueError(
                f"points must be distinct; rows {first[point]} and {i} are both {list(point)}"
            )
        first[point] = i
    return ActionSet(vertices, convex=False)


def hypercube(d: int, low: float = 0.0, high: float = 1.0) -> ActionSet:
    """The cube [low, high]^d by its 2^d corners.

    >>> import dlbjax as dlb
    >>> dlb.actions.hypercube(2).vertices.tolist()
    [[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]]
    """
    d = whole_number("d", d, at_least=1)
    low, high = real_number("low", low), real_number("high", high)
    if low > high:
        raise ValueError(f"low must not exceed high; got low={low:g}, high={high:g}")
    if low == high:
        return ActionSet(np.full((1, d), low))
    _check_count(2 ** min(d, 1000))
    return ActionSet(np.stack(np.meshgrid(*[[low, high]] * d, indexing="ij"), -1).reshape(-1, d))


def simplex(d: int, total: float = 1.0) -> ActionSet:
    """{u ≥ 0, Σu = total}: the whole budget is spent. Its vertices put it all on one coordinate.

    >>> import dlbjax as dlb
    >>> dlb.actions.simplex(2, total=3.0).vertices.tolist()
    [[0.0, 3.0], [3.0, 0.0]]
    """
    d = whole_number("d", d, at_least=1)
    total = real_number("total", total, above=0.0)
    _check_count(d)
    return ActionSet(total * np.eye(d)[::-1])


def budget(low: ArrayLike, high: ArrayLike, total: float) -> ActionSet:
    """{low ≤ u ≤ high, Σu ≤ total}: per-platform limits and a total budget.

    A coordinate with low = high is fixed. Numbers are broadcast to the longer of the two limits.

    >>> import dlbjax as dlb
    >>> len(dlb.actions.budget(0.0, [1, 1, 1], total=1.5))     # the paper's action set
    10
    """
    low, high, total = _budget_limits(low, high, total)
    room = total - low.sum()
    top = np.minimum(high, low + room)
    side = top - low
    free = side > 0
    vertices = np.tile(low, (1, 1))
    if np.any(free):  # in units in which every side is one: those of the channels may differ widely
        eye, rows = np.eye(free.sum()), side[None, free] / room
        rows = rows[rows.sum(axis=1) > 1]  # drop a total that has no effect
        _check_count(_most_vertices(2 * len(eye) + len(rows), len(eye)), possible=True)
        if len(eye) > 12:  # qhull would take long to reach the limit
            _check_count(_budget_vertices(side[free] / room))
        sides = np.r_[np.ones(len(eye)), np.zeros(len(eye)), np.ones(len(rows))]
        unit = polytope(np.concatenate([eye, -eye, rows]), sides).vertices
        vertices = np.tile(low, (len(unit), 1))
        vertices[:, free] = np.where(unit == 1, top[free], low[free] + side[free] * unit)
    return ActionSet(np.stack([_without_noise(column) for column in vertices.T], axis=1))


def polytope(
    G: ArrayLike, g: ArrayLike, A_eq: ArrayLike | None = None, b_eq: ArrayLike | None = None
) -> ActionSet:
    """{u : G u ≤ g, A_eq u = b_eq}, with vertices found by qhull.

    Sets of lower dimension (through equalities, or inequalities that hold with equality) are handled
    inside their affine hull. Empty and unbounded sets, and those with too many vertices, raise a
    ValueError.

    >>> import dlbjax as dlb
    >>> triangle = dlb.actions.polytope([[-1, 0], [0, -1], [1, 2]], [0, 0, 2])
    >>> triangle.vertices.tolist()
    [[0.0, 0.0], [0.0, 1.0], [2.0, 0.0]]
    """
    rows, right, rows_eq, right_eq = constraints(G, g, A_eq, b_eq)
    set_ = _Constraints(
        *_unit_rows("G", rows, right, lambda g: g < 0),
        *_unit_rows("A_eq", rows_eq, right_eq, lambda b: b != 0),
    )
    # Tolerances are absolute in the solvers, so the set is first scaled to size one.
    sizes = np.unique(np.abs(np.r_[set_.g, set_.b_eq]))
    unit = sizes.max(initial=0) or 1.0
    centre, half = set_.box(unit)
    # Distant limits should not make the set look like a point.
    while np.abs(centre).max() + half <= 100 * _TOLERANCE * unit and np.any(
        smaller := (sizes > 0) & (sizes < unit)
    ):
        unit = sizes[smaller].max()
        centre, half = set_.box(unit)
    if half <= _TOLERANCE * unit:
        half = unit  # a single point
    else:
        shift, shrink = _bounding_box(set_.seen_from(centre, half))
        centre, half = centre + half * shift, half * shrink
    vertices = centre + half * _vertices(set_.seen_from(centre, half))
    return ActionSet(_tidy(vertices))


def _budget_vertices(shares: np.ndarray) -> int:
    """Count the vertices of {0 ≤ u ≤ shares, Σu ≤ 1}: corners within the total, edges that cross it."""
    sums = np.zeros(1)
    for share in shares:
        sums = np.concatenate([sums, sums + share])
    corner = np.arange(len(sums))
    count = np.count_nonzero(sums <= 1)
    for i, share in enumerate(shares):
        before = sums[(corner >> i) % 2 == 0]
        count += np.count_nonzero((before < 1) & (before + share > 1))
    return int(count)


def budget_constraints(
    low: ArrayLike, high: ArrayLike, total: float
) -> tuple[np.ndarray, np.ndarray]:
    """G and g of a budget set: high, low and total limits, in this order."""
    low, high, total = _budget_limits(low, high, total)
    eye = np.eye(len(low))
    return np.concatenate([eye, -eye, np.ones((1, len(low)))]), np.concatenate(
        [high, -low, [total]]
    )


def _budget_limits(
    low: ArrayLike, high: ArrayLike, total: float
) -> tuple[np.ndarray, np.ndarray, float]:
    bottom, top = _limits("low", low), _limits("high", high)
    d = max(bottom.size, top.size)
    bottom = np.broadcast_to(bottom, d) if bottom.ndim == 0 else _host_array("low", bottom, (d,))
    top = np.broadcast_to(top, d) if top.ndim == 0 else _host_array("high", top, (d,))
    total = real_number("total", total)
    if np.any(bottom > top):
        i = int(np.argmax(bottom > top))
        raise ValueError(f"low must not exceed high; coordinate {i} has {bottom[i]:g} > {top[i]:g}")
    if bottom.sum() > total + _TOLERANCE * max(1.0, abs(total)):
        raise ValueError(
            f"total must cover the lower limits, which sum to {bottom.sum():g}; got {total:g}"
        )
    return bottom, top, total


def constraints(
    G: ArrayLike, g: ArrayLike, A_eq: ArrayLike | None = None, b_eq: ArrayLike | None = None
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """G, g, A_eq and b_eq of a polytope with their shapes checked; no rows without equalities."""
    rows = _host_array("G", G, (None, None))
    m, d = rows.shape
    right = _host_array("g", g, (m,))
    if (A_eq is None) != (b_eq is None):
        raise ValueError("A_eq and b_eq go together; got only one of them")
    rows_eq = _host_array("A_eq", np.zeros((0, d)) if A_eq is None else A_eq, (None, d))
    right_eq = _host_array("b_eq", np.zeros(0) if b_eq is None else b_eq, (len(rows_eq),))
    if d == 0:
        raise ValueError("G must have at least one column (one per action coordinate); got none")
    return rows, right, rows_eq, right_eq


class _Constraints(NamedTuple):
    """{u : G u ≤ g, A_eq u = b_eq} with rows of unit norm, so that a slack is a distance."""

    G: np.ndarray
    g: np.ndarray
    A_eq: np.ndarray
    b_eq: np.ndarray

    def seen_from(self, centre: np.ndarray, unit: float) -> "_Constraints":
        """The same set in coordinates (u − centre)/unit."""
        with np.errstate(over="ignore"):
            g, b_eq = (self.g - self.G @ centre) / unit, (self.b_eq - self.A_eq @ centre) / unit
        return self._replace(g=np.minimum(g, _FAR), b_eq=b_eq)

    def box(self, unit: float) -> tuple[np.ndarray, float]:
        """Centre and half the longest side of the bounding box, computed in units of `unit`."""
        centre, half = _bounding_box(self.seen_from(np.zeros(self.G.shape[1]), unit))
        return unit * centre, unit * half

    def minimise(self, direction: np.ndarray) -> OptimizeResult:
        """Minimise ⟨direction, u⟩ over the set."""
        equalities = (self.A_eq, self.b_eq) if len(self.A_eq) else (None, None)
        return linprog(
            direction, self.G, self.g, *equalities, bounds=(None, None), options=_PRECISE
        )  # fmt: skip


def _limits(name: str, value: ArrayLike) -> np.ndarray:
    single = np.isscalar(value) or getattr(value, "ndim", 1) == 0
    return _host_array(name, value, () if single else (None,))


def _host_array(name: str, value: ArrayLike, shape: tuple[int | None, ...]) -> np.ndarray:
    return np.asarray(real_array(name, value, shape))  # fails on tracers, as qhull would


def _unit_rows(
    name: str, rows: np.ndarray, right: np.ndarray, impossible: Callable[[np.ndarray], np.ndarray]
) -> tuple[np.ndarray, np.ndarray]:
    largest = np.abs(rows).max(axis=1)
    keep = largest > 0
    if np.any(wrong := ~keep & impossible(right)):
        i = int(np.argmax(wrong))
        raise ValueError(
            f"the action set is empty: row {i} of {name} is zero but its right side is {right[i]:g}"
        )
    unit = _power_of_two(np.where(keep, largest, 1.0))
    norms = unit * np.linalg.norm(rows / unit[:, None], axis=1)
    with np.errstate(over="ignore"):
        rows, right = rows[keep] / norms[keep, None], right[keep] / norms[keep]
    if not np.all(np.isfinite(right)):
        i = int(np.flatnonzero(keep)[np.argmin(np.isfinite(right))])
        raise ValueError(f"row {i} of {name} is too small beside its right side; rescale them")
    return rows, right


def _power_of_two(size: float | np.ndarray) -> np.ndarray:
    """The largest power of two ≤ size: division by it is exact."""
    return np.ldexp(1.0, np.frexp(size)[1] - 1)


def _bounding_box(set_: _Constraints) -> tuple[np.ndarray, float]:
    """Centre and half the longest side of the bounding box; rejects empty and unbounded sets."""
    d = set_.G.shape[1]
    ends = np.zeros((2, d))
    for i in range(d):
        for side, sign in enumerate((1.0, -1.0)):
            answer = set_.minimise(sign * np.eye(d)[i])
            if answer.status == 2:
                raise ValueError(
                    "the action set is empty: no u satisfies G u <= g and A_eq u = b_eq"
                )
            if answer.status != 0:
                raise ValueError(
                    f"the action set must be bounded; coordinate {i} of u can go to "
                    f"{'minus' if side == 0 else 'plus'} infinity. Add limits to G and g"
                )
            ends[side, i] = answer.x[i]
    return ends.mean(axis=0), float((ends[1] - ends[0]).max() / 2)


def _vertices(set_: _Constraints) -> np.ndarray:
    """Vertices of a set of about unit size, found inside its affine hull."""
    G, g, A_eq, b_eq = set_
    most_slack = g - np.array([set_.minimise(row).fun for row in G])
    tight = most_slack <= 1e-7  # these hold with equality on the whole set
    equalities = np.concatenate([A_eq, G[tight]])
    point = np.linalg.lstsq(equalities, np.concatenate([b_eq, g[tight]]), rcond=None)[0]
    basis = null_space(equalities, rcond=1e-7) if len(equalities) else np.eye(G.shape[1])
    inside = _full_dimensional_vertices(G[~tight] @ basis, g[~tight] - G[~tight] @ point)
    vertices = point + inside @ basis.T
    for i, vertex in enumerate(vertices):  # solve again from the constraints active there
        active = np.abs(G @ vertex - g) <= 1e-7
        rows = np.concatenate([A_eq, G[active]])
        missing = np.concatenate([b_eq, g[active]]) - rows @ vertex
        vertices[i] = vertex + np.linalg.lstsq(rows, missing, rcond=1e-7)[0]
    coarse = np.round(vertices, 8)
    _, first = np.unique(coarse, axis=0, return_index=True)
    return vertices[first]


def _full_dimensional_vertices(G: np.ndarray, g: np.ndarray) -> np.ndarray:
    """Vertices of {y : G y ≤ g}, a bounded set with interior points, in its own coordinates."""
    dimension = G.shape[1]
    if dimension == 0:
        return np.zeros((1, 0))
    norms = np.linalg.norm(G, axis=1)
    keep = norms > 1e-9
    G, g = G[keep] / norms[keep, None], g[keep] / norms[keep]
    if dimension == 1:
        ends = g / G[:, 0]
        return np.array([[ends[G[:, 0] < 0].max()], [ends[G[:, 0] > 0].min()]])
    _check_count(_most_vertices(len(g), dimension), possible=True)
    deepest = linprog(  # the centre of the largest ball inside
        np.r_[np.zeros(dimension), -1.0], np.c_[G, np.ones(len(g))], g,
        bounds=[(None, None)] * dimension + [(0, None)], options=_PRECISE,
    ).x[:-1]  # fmt: skip
    vertices = HalfspaceIntersection(np.c_[G, -g], deepest).intersections
    vertices = vertices[np.all(np.isfinite(vertices), axis=1)]
    return vertices[np.all(vertices @ G.T <= g + 1e-7, axis=1)]


def _most_vertices(facets: int, dimension: int) -> int:
    """McMullen's upper bound theorem."""
    half, other = dimension // 2, (dimension + 1) // 2
    return comb(facets - other, half) + comb(facets - half - 1, other - 1)


def _tidy(vertices: np.ndarray) -> np.ndarray:
    """Vertices in lexicographic order, without rounding noise in the last digits."""
    _check_count(len(vertices))
    vertices = _without_noise(vertices)
    return vertices[np.lexsort(vertices.T[::-1])]


def _without_noise(values: np.ndarray) -> np.ndarray:
    """Round values to 14 digits of the largest."""
    largest = max(float(np.abs(values).max()), 1e-280)
    return np.round(values, 14 - int(np.ceil(np.log10(largest)))) + 0.0  # no −0


def _check_count(count: float, possible: bool = False) -> None:
    limit = 100 * MOST_VERTICES if possible else MOST_VERTICES
    count = min(count, 1e300)  # binomial coefficients may exceed the range of floats
    if count > limit:
        raise ValueError(
            f"the action set {'may have up to' if possible else 'has'} {count:.15g} vertices, more than "
            f"{limit}; use fewer coordinates or constraints, or `finite` with a chosen list"
        )
