"""Action sets: what a learner may play, as the vertices of a polytope.

An upper confidence bound ⟨ĥ,u⟩ + β‖u‖_{V⁻¹} is convex in u, so over a polytope its maximum is at a
vertex, and looking at every vertex is exact.
"""

from dataclasses import dataclass
from math import comb

import numpy as np
from scipy.linalg import null_space
from scipy.optimize import linprog
from scipy.spatial import HalfspaceIntersection

from dlbjax._arrays import Array, real_array, real_number, whole_number

MOST_VERTICES = 100_000
_TOLERANCE = 1e-9  # relative to the size of the set


@dataclass(frozen=True, eq=False)
class ActionSet:
    """A set of actions with its extreme points.

    Attributes:
      vertices: (K, d) distinct extreme points in lexicographic order (a finite list keeps its own).
      convex: whether mixtures of the vertices may be played too.
    """

    vertices: np.ndarray
    convex: bool = True

    def __len__(self) -> int:
        return len(self.vertices)

    @property
    def d(self) -> int:
        """Dimension of an action."""
        return self.vertices.shape[1]

    @property
    def radius(self) -> float:
        """U = max ‖u‖₂ over the set."""
        return float(np.linalg.norm(self.vertices, axis=1).max())

    def index(self, action: Array) -> int:
        """Which vertex an action is, or −1 where it is none."""
        scale = max(1.0, float(np.abs(self.vertices).max()))
        close = np.all(np.abs(self.vertices - np.asarray(action)) <= _TOLERANCE * scale, axis=1)
        return int(np.argmax(close)) if close.any() else -1

    def contains(self, action: Array) -> bool:
        """Whether an action may be played.

        >>> import dlbjax as dlb
        >>> paper = dlb.actions.budget(0.0, [1, 1, 1], total=1.5)
        >>> paper.contains([0.5, 0.5, 0.5]), paper.contains([1, 1, 1])
        (True, False)
        """
        action = real_array("action", action, (self.d,))
        if self.index(action) >= 0:
            return True
        if not self.convex:
            return False
        scale = max(1.0, float(np.abs(self.vertices).max()))
        distance = (
            linprog(  # the mixture of vertices nearest to the action in the largest coordinate
                c=np.r_[np.zeros(len(self)), 1.0],
                A_ub=np.block(
                    [
                        [self.vertices.T, -np.ones((self.d, 1))],
                        [-self.vertices.T, -np.ones((self.d, 1))],
                    ]
                ),
                b_ub=np.r_[action, -action],
                A_eq=np.r_[np.ones(len(self)), 0.0][None],
                b_eq=[1.0],
            )
        )
        return bool(distance.x[-1] <= 1e-7 * scale)


def finite(points: Array) -> ActionSet:
    """A finite list of actions, in the order given.

    >>> import dlbjax as dlb
    >>> len(dlb.actions.finite([[1.0, 0.0], [0.0, 1.0]]))
    2
    """
    points = real_array("points", points, (None, None))
    if points.size == 0:
        raise ValueError(f"points must hold at least one action; got shape {points.shape}")
    _refuse_too_many(len(points))
    first: dict[tuple[float, ...], int] = {}
    for i, point in enumerate(map(tuple, points + 0.0)):
        if point in first:
            raise ValueError(
                f"points must be distinct; rows {first[point]} and {i} are both {list(point)}"
            )
        first[point] = i
    return ActionSet(points, convex=False)


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
    _refuse_too_many(2**d)
    return ActionSet(np.stack(np.meshgrid(*[[low, high]] * d, indexing="ij"), -1).reshape(-1, d))


def simplex(d: int, total: float = 1.0) -> ActionSet:
    """{u ≥ 0, Σu = total}: the whole budget is spent. Its vertices put it all on one coordinate.

    >>> import dlbjax as dlb
    >>> dlb.actions.simplex(2, total=3.0).vertices.tolist()
    [[0.0, 3.0], [3.0, 0.0]]
    """
    d = whole_number("d", d, at_least=1)
    total = real_number("total", total, above=0.0)
    _refuse_too_many(d)
    return ActionSet(total * np.eye(d)[::-1])


def budget(low: Array, high: Array, total: float) -> ActionSet:
    """{low ≤ u ≤ high, Σu ≤ total}: per-platform limits and a total budget.

    A coordinate with low = high is frozen. Numbers are broadcast to the longer of the two limits.

    >>> import dlbjax as dlb
    >>> len(dlb.actions.budget(0.0, [1, 1, 1], total=1.5))     # the paper's action set
    10
    """
    d = max(np.size(low), np.size(high))
    low = real_array("low", np.broadcast_to(low, d) if np.ndim(low) == 0 else low, (d,))
    high = real_array("high", np.broadcast_to(high, d) if np.ndim(high) == 0 else high, (d,))
    total = real_number("total", total)
    if np.any(low > high):
        i = int(np.argmax(low > high))
        raise ValueError(f"low must not exceed high; coordinate {i} has {low[i]:g} > {high[i]:g}")
    if low.sum() > total + _TOLERANCE * max(1.0, abs(total)):
        raise ValueError(
            f"total must cover the lower limits, which sum to {low.sum():g}; got {total:g}"
        )
    eye = np.eye(d)
    return polytope(
        np.concatenate([eye, -eye, np.ones((1, d))]), np.concatenate([high, -low, [total]])
    )


def polytope(G: Array, g: Array, A_eq: Array = None, b_eq: Array = None) -> ActionSet:
    """{u : G u ≤ g, A_eq u = b_eq} by its vertices, which qhull finds.

    Sets of lower dimension (through equalities, or inequalities that leave no room) are handled
    inside their affine hull. Empty, unbounded and enormous sets are refused.

    >>> import dlbjax as dlb
    >>> triangle = dlb.actions.polytope([[-1, 0], [0, -1], [1, 2]], [0, 0, 2])
    >>> triangle.vertices.tolist()
    [[0.0, 0.0], [0.0, 1.0], [2.0, 0.0]]
    """
    G = real_array("G", G, (None, None))
    m, d = G.shape
    g = real_array("g", g, (m,))
    if (A_eq is None) != (b_eq is None):
        raise ValueError("A_eq and b_eq go together; got only one of them")
    A_eq = np.zeros((0, d)) if A_eq is None else real_array("A_eq", A_eq, (None, d))
    b_eq = np.zeros(0) if b_eq is None else real_array("b_eq", b_eq, (len(A_eq),))
    if d == 0:
        raise ValueError("G must have at least one column (one per action coordinate); got none")

    # Rows of unit norm, so that a slack is a distance.
    norms = np.linalg.norm(G, axis=1)
    keep = norms > 0
    if np.any(g[~keep] < 0):
        i = int(np.argmax(~keep & (g < 0)))
        raise ValueError(f"the action set is empty: row {i} of G is zero but g[{i}] = {g[i]:g} < 0")
    G, g = G[keep] / norms[keep, None], g[keep] / norms[keep]

    low, high = _bounding_box(G, g, A_eq, b_eq)
    scale = max(float((high - low).max()), float(np.abs([low, high]).max()), 1e-300)
    tolerance = _TOLERANCE * scale
    tight = _implicit_equalities(G, g, A_eq, b_eq, tolerance)
    equalities = np.concatenate([A_eq, G[tight]])
    point = np.linalg.lstsq(equalities, np.concatenate([b_eq, g[tight]]), rcond=None)[0]
    basis = null_space(equalities, rcond=1e-10) if len(equalities) else np.eye(d)
    G_in, g_in = G[~tight] @ basis, g[~tight] - G[~tight] @ point
    vertices = point + _full_dimensional_vertices(G_in, g_in, tolerance) @ basis.T
    vertices = _polished(vertices, G, g, A_eq, b_eq, tolerance)
    return ActionSet(_distinct(vertices, scale))


def _bounding_box(
    G: np.ndarray, g: np.ndarray, A_eq: np.ndarray, b_eq: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The smallest box around the set; refuses empty and unbounded ones."""
    d = G.shape[1]
    ends = np.zeros((2, d))
    for i in range(d):
        for side, sign in enumerate((1.0, -1.0)):
            answer = linprog(
                sign * np.eye(d)[i], G, g, A_eq if len(A_eq) else None,
                b_eq if len(A_eq) else None, bounds=(None, None),
            )  # fmt: skip
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
    return ends[0], ends[1]


def _implicit_equalities(
    G: np.ndarray, g: np.ndarray, A_eq: np.ndarray, b_eq: np.ndarray, tolerance: float
) -> np.ndarray:
    """Which inequalities hold with equality all over the set."""
    equalities = (A_eq, b_eq) if len(A_eq) else (None, None)
    most = np.array(
        [gi - linprog(row, G, g, *equalities, bounds=(None, None)).fun
         for row, gi in zip(G, g, strict=True)]
    )  # fmt: skip
    return most <= tolerance


def _full_dimensional_vertices(G: np.ndarray, g: np.ndarray, tolerance: float) -> np.ndarray:
    """Vertices of {y : G y ≤ g}, a bounded set with interior points, in its own coordinates."""
    dimension = G.shape[1]
    if dimension == 0:
        return np.zeros((1, 0))
    norms = np.linalg.norm(G, axis=1)
    keep = norms > 1e-12
    G, g = G[keep] / norms[keep, None], g[keep] / norms[keep]
    if dimension == 1:
        ends = g / G[:, 0]
        return np.array([[ends[G[:, 0] < 0].max()], [ends[G[:, 0] > 0].min()]])
    _refuse_too_many(_most_vertices(len(g), dimension), possible=True)
    centre = linprog(  # the deepest point: the centre of the largest ball inside
        np.r_[np.zeros(dimension), -1.0], np.c_[G, np.ones(len(g))], g,
        bounds=[(None, None)] * dimension + [(0, None)],
    ).x[:-1]  # fmt: skip
    vertices = HalfspaceIntersection(np.c_[G, -g], centre).intersections
    vertices = vertices[np.all(np.isfinite(vertices), axis=1)]
    return vertices[np.all(vertices @ G.T <= g + 10 * tolerance, axis=1)]


def _most_vertices(facets: int, dimension: int) -> int:
    """McMullen's upper bound theorem."""
    half, other = dimension // 2, (dimension + 1) // 2
    return comb(facets - other, half) + comb(facets - half - 1, other - 1)


def _polished(
    vertices: np.ndarray,
    G: np.ndarray,
    g: np.ndarray,
    A_eq: np.ndarray,
    b_eq: np.ndarray,
    tolerance: float,
) -> np.ndarray:
    """Each vertex solved again from the constraints that hold there, to full precision."""
    polished = np.empty_like(vertices)
    for i, vertex in enumerate(vertices):
        active = np.abs(G @ vertex - g) <= 10 * tolerance
        rows = np.concatenate([A_eq, G[active]])
        offset = np.concatenate([b_eq, g[active]]) - rows @ vertex
        polished[i] = vertex + np.linalg.lstsq(rows, offset, rcond=1e-10)[0]
    return polished


def _distinct(vertices: np.ndarray, scale: float) -> np.ndarray:
    """Vertices in lexicographic order, without repetitions, free of the last digits' noise."""
    digits = 12 - int(np.floor(np.log10(scale)))
    vertices = np.round(vertices, digits) + 0.0
    coarse = np.round(vertices / (_TOLERANCE * scale)).astype(np.int64)
    _, first = np.unique(coarse, axis=0, return_index=True)
    _refuse_too_many(len(first))
    vertices = vertices[first]
    return vertices[np.lexsort(vertices.T[::-1])]


def _refuse_too_many(count: int, possible: bool = False) -> None:
    limit = 100 * MOST_VERTICES if possible else MOST_VERTICES
    if count > limit:
        raise ValueError(
            f"the action set {'may have up to' if possible else 'has'} {count} vertices, more than "
            f"{limit}; use fewer coordinates or constraints, or `finite` with a chosen list"
        )
