from itertools import product
from math import comb

import numpy as np
import pytest
from scipy.optimize import linprog

from dlbjax import actions


def cube(d, low=0.0, high=1.0):
    return np.r_[np.eye(d), -np.eye(d)], np.r_[np.full(d, high), np.full(d, -low)]


def random_polytope(seed, d, cuts=6):
    """A box cut by random halfspaces, all with one point inside."""
    rng = np.random.default_rng([seed, d])
    inside = rng.uniform(-1, 1, d)
    rows = rng.standard_normal((cuts, d))
    G, g = cube(d, -2.0, 2.0)
    return np.r_[G, rows], np.r_[g, rows @ inside + rng.uniform(0.1, 1.0, cuts)]


def best_by_lp(direction, G, g, A_eq=None, b_eq=None):
    return -linprog(-direction, G, g, A_eq, b_eq, bounds=(None, None)).fun


def in_hull(point, others):
    return linprog(
        np.zeros(len(others)), A_eq=np.c_[others, np.ones(len(others))].T, b_eq=np.r_[point, 1.0]
    ).success


def assert_is_the_polytope(vertices, G, g, A_eq=None, b_eq=None, directions=20, scale=1.0):
    """Feasible vertices whose maximum is the LP's in every direction span the whole set."""
    d = vertices.shape[1]
    assert np.all(vertices @ np.asarray(G).T <= g + 1e-9 * scale)
    if A_eq is not None:
        np.testing.assert_allclose(vertices @ np.transpose(A_eq), [b_eq] * len(vertices), atol=1e-9)
    for direction in np.random.default_rng(0).standard_normal((directions, d)):
        expected = best_by_lp(direction, G, g, A_eq, b_eq)
        assert (vertices @ direction).max() == pytest.approx(expected, abs=1e-8 * scale)


def lexicographic(vertices):
    rows = list(map(tuple, vertices.tolist()))
    return rows == sorted(set(rows))


PAPER = [
    [0.0, 0.0, 0.0],
    [0.0, 0.0, 1.0],
    [0.0, 0.5, 1.0],
    [0.0, 1.0, 0.0],
    [0.0, 1.0, 0.5],
    [0.5, 0.0, 1.0],
    [0.5, 1.0, 0.0],
    [1.0, 0.0, 0.0],
    [1.0, 0.0, 0.5],
    [1.0, 0.5, 0.0],
]


def test_the_papers_set_has_these_ten_vertices_in_this_order():
    assert actions.budget(0.0, [1, 1, 1], total=1.5).vertices.tolist() == PAPER
    assert actions.budget([0, 0, 0], 1.0, total=1.5).vertices.tolist() == PAPER


@pytest.mark.parametrize("d", range(1, 7))
def test_hypercube_has_all_corners(d):
    expected = [list(corner) for corner in product([-1.0, 2.0], repeat=d)]
    assert actions.hypercube(d, -1, 2).vertices.tolist() == expected
    assert actions.polytope(*cube(d, -1, 2)).vertices.tolist() == expected
    assert actions.hypercube(d, 0.3, 0.3).vertices.tolist() == [[0.3] * d]


@pytest.mark.parametrize("d", range(1, 7))
def test_simplex_has_one_vertex_per_coordinate(d):
    expected = sorted((2.5 * np.eye(d)).tolist())
    assert actions.simplex(d, 2.5).vertices.tolist() == expected
    by_equality = actions.polytope(-np.eye(d), np.zeros(d), np.ones((1, d)), [2.5])
    np.testing.assert_allclose(by_equality.vertices, expected, atol=1e-11)


@pytest.mark.parametrize("d", range(2, 6))
def test_cross_polytope_has_two_vertices_per_coordinate(d):
    G = np.array(list(product([1.0, -1.0], repeat=d)))
    vertices = actions.polytope(G, np.ones(2**d)).vertices
    expected = sorted(np.r_[np.eye(d), -np.eye(d)].tolist())
    np.testing.assert_allclose(vertices, expected, atol=1e-11)


@pytest.mark.parametrize("d", [2, 3, 4, 5])
@pytest.mark.parametrize("total", [0.5, 1.0, 1.5, 2.0, 2.5, 10.0])
def test_budget_sets_have_a_closed_form(d, total):
    # Corners within the budget, and, where the budget cuts an edge, its whole part plus the rest.
    whole, rest = int(total), total - int(total)
    count = sum(comb(d, k) for k in range(min(whole, d) + 1))
    if rest > 0 and whole < d:
        count += d * comb(d - 1, whole)
    vertices = actions.budget(0.0, np.ones(d), total).vertices
    assert len(vertices) == count
    assert set(np.unique(vertices)) <= {0.0, rest, 1.0}
    assert vertices.sum(1).max() == min(total, d)


@pytest.mark.parametrize("d", range(2, 7))
@pytest.mark.parametrize("seed", range(3))
def test_random_polytopes_agree_with_linear_programs(d, seed):
    G, g = random_polytope(seed, d)
    vertices = actions.polytope(G, g).vertices
    assert lexicographic(vertices)
    assert_is_the_polytope(vertices, G, g)


@pytest.mark.parametrize("d", [2, 3, 4])
@pytest.mark.parametrize("seed", range(3))
def test_vertices_are_extreme(d, seed):
    vertices = actions.polytope(*random_polytope(seed, d)).vertices
    for i, vertex in enumerate(vertices):
        assert not in_hull(vertex, np.delete(vertices, i, axis=0))


@pytest.mark.parametrize("d", range(2, 6))
def test_shuffled_rescaled_and_repeated_rows_change_nothing(d):
    G, g = random_polytope(9, d)
    rng = np.random.default_rng(d)
    order = rng.permutation(np.r_[np.arange(len(g)), np.arange(len(g))])
    factor = 10.0 ** rng.uniform(-9, 9, len(order))
    other = actions.polytope(G[order] * factor[:, None], g[order] * factor)
    np.testing.assert_allclose(other.vertices, actions.polytope(G, g).vertices, atol=1e-11)


@pytest.mark.parametrize("seed", range(5))
def test_many_facets_through_one_vertex_leave_one_vertex(seed):
    rows = np.random.default_rng(seed).standard_normal((9, 3))
    rows[:, 2] = np.abs(rows[:, 2]) + 0.5  # a cone with its apex at (0.3, 0.7, 1.1)
    apex = np.array([0.3, 0.7, 1.1])
    G, g = np.r_[rows, cube(3)[0]], np.r_[rows @ apex, cube(3, -9, 9)[1]]
    vertices = actions.polytope(G, g).vertices
    assert np.sum(np.linalg.norm(vertices - apex, axis=1) < 1e-6) == 1
    assert_is_the_polytope(vertices, G, g, scale=10.0)


def test_redundant_constraints_change_nothing():
    G, g = cube(3)
    touching = np.array([[1, 1, 0], [1, 1, 1], [-1, -1, -1], [1, -1, 0]])  # at a vertex or an edge
    vertices = actions.polytope(
        np.r_[G, touching, touching, np.zeros((1, 3))], np.r_[g, [2, 3, 0, 1], [5, 5, 5, 5], 0]
    ).vertices
    assert vertices.tolist() == actions.hypercube(3).vertices.tolist()


@pytest.mark.parametrize("scale", [1e-6, 1e-3, 1.0, 1e3, 1e6])
def test_vertices_scale_with_the_set(scale):
    paper = actions.budget(0.0, scale * np.ones(3), total=1.5 * scale).vertices
    np.testing.assert_allclose(paper, scale * np.array(PAPER), rtol=1e-11)
    G, g = random_polytope(1, 3)
    vertices = actions.polytope(G, scale * g).vertices
    expected = scale * actions.polytope(G, g).vertices
    np.testing.assert_allclose(vertices, expected, atol=1e-10 * scale)


@pytest.mark.parametrize("scale", [1e-9, 1e-12])
def test_vertices_of_very_small_sets(scale):
    paper = actions.budget(0.0, scale * np.ones(3), total=1.5 * scale).vertices
    np.testing.assert_allclose(paper, scale * np.array(PAPER), rtol=1e-11)


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e6])
def test_thin_sets_keep_their_thickness(scale):
    thin = 5e-7
    G, g = np.r_[cube(2)[0], [[1.0, 1.0], [-1.0, -1.0]]], np.r_[cube(2)[1], 1 + thin, -1.0]
    expected = [[0, 1], [thin, 1], [1, 0], [1, thin]]
    vertices = actions.polytope(G, scale * g).vertices
    np.testing.assert_allclose(vertices, scale * np.array(expected), atol=1e-11 * scale)


def test_sets_far_from_the_origin():
    vertices = actions.budget(1e3, np.full(3, 1e3 + 1), total=3e3 + 1.5).vertices
    np.testing.assert_allclose(vertices - 1e3, PAPER, atol=1e-9)


def test_coordinates_of_different_sizes():
    vertices = actions.budget(0.0, [1.0, 1e4], total=1e4).vertices
    np.testing.assert_allclose(vertices, [[0, 0], [0, 1e4], [1, 0], [1, 9999]], atol=1e-8)


def test_an_equality_cuts_the_cube_in_a_hexagon():
    G, g = cube(3)
    vertices = actions.polytope(G, g, [[2, 2, 2]], [3]).vertices
    expected = [p for p in product([0.0, 0.5, 1.0], repeat=3) if sorted(p) == [0, 0.5, 1]]
    np.testing.assert_allclose(vertices, expected, atol=1e-12)
    assert_is_the_polytope(vertices, G, g, [[2, 2, 2]], [3])


def test_inequalities_that_leave_no_room_act_as_an_equality():
    G, g = cube(3)
    pinned = np.r_[G, [[1, 1, 1], [-2, -2, -2]]]
    vertices = actions.polytope(pinned, np.r_[g, 1.5, -3]).vertices
    np.testing.assert_allclose(vertices, actions.polytope(G, g, [[1, 1, 1]], [1.5]).vertices)
    assert len(vertices) == 6


def test_a_budget_that_the_lower_limits_spend_leaves_a_point():
    assert actions.budget([0.25, 0.5], [1, 1], total=0.75).vertices.tolist() == [[0.25, 0.5]]


def test_repeated_equalities_count_once():
    vertices = actions.polytope(*cube(2), [[1, 1], [2, 2], [0, 0]], [1, 2, 0]).vertices
    np.testing.assert_allclose(vertices, [[0, 1], [1, 0]], atol=1e-12)


def test_equalities_alone_may_leave_a_point():
    vertices = actions.polytope(np.zeros((0, 2)), [], [[1, 1], [1, -1]], [3, 1]).vertices
    np.testing.assert_allclose(vertices, [[2, 1]], atol=1e-12)


def test_a_segment_in_space():
    rows = [[1, -1, 0], [0, 1, -2]]  # u = (2s, 2s, s)
    vertices = actions.polytope(*cube(3), rows, [0, 0]).vertices
    np.testing.assert_allclose(vertices, [[0, 0, 0], [1, 1, 0.5]], atol=1e-12)


def test_an_interval():
    vertices = actions.polytope([[2.0], [-1.0], [3.0]], [3.0, 0.5, 12.0]).vertices
    np.testing.assert_allclose(vertices, [[-0.5], [1.5]])


@pytest.mark.parametrize("d", [3, 4, 5])
def test_random_slices_agree_with_linear_programs(d):
    G, g = random_polytope(4, d)
    inside = actions.polytope(G, g).vertices.mean(0)
    A_eq = np.random.default_rng(d).standard_normal((2, d))
    vertices = actions.polytope(G, g, A_eq, A_eq @ inside).vertices
    assert lexicographic(vertices)
    assert_is_the_polytope(vertices, G, g, A_eq, A_eq @ inside)


def test_frozen_coordinates_stay():
    vertices = actions.budget([0, 0.3, 0], [1, 0.3, 1], total=1.8).vertices
    expected = [[0, 0.3, 0], [0, 0.3, 1], [0.5, 0.3, 1], [1, 0.3, 0], [1, 0.3, 0.5]]
    np.testing.assert_allclose(vertices, expected, atol=1e-12)


def test_a_point():
    assert actions.budget([0.1, 0.2], [0.1, 0.2], total=1).vertices.tolist() == [[0.1, 0.2]]


@pytest.mark.parametrize("high", [[0.0, 0.0], [1.0, 1.0]])
def test_the_origin_alone_is_a_set(high):
    assert actions.budget(0.0, high, total=0.0).vertices.tolist() == [[0.0, 0.0]]


def test_rescaled_equalities_change_nothing():
    rows, right = np.array([[1.0, 1, 0], [0, 1, -1]]), np.array([1.0, 0])
    factor = np.array([1e11, 1.0])
    other = actions.polytope(*cube(3), factor[:, None] * rows, factor * right).vertices
    np.testing.assert_allclose(other, actions.polytope(*cube(3), rows, right).vertices, atol=1e-11)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([[1, 0], [-1, 0]], [0, -1]), r"^the action set is empty: no u satisfies"),
        ((*cube(2), [[1, 1]], [3]), r"^the action set is empty: no u satisfies"),
        ((*cube(2), [[0, 0]], [1]), r"empty: row 0 of A_eq is zero but its right side is 1$"),
        (
            ([[1], [0], [-1], [0]], [1, 5, 0, -2]),
            r"empty: row 3 of G is zero but its right side is -2$",
        ),
        ((-np.eye(2), [0, 0]), r"must be bounded; coordinate 0 of u can go to plus infinity. Add"),
        (([[1, 0], [-1, 0], [0, 1]], [1, 0, 5]), r"bounded; coordinate 1 of u .* to minus infin"),
        (([[1, 1], [-1, -1]], [1, 1]), r"^the action set must be bounded; coordinate 0"),
        ((np.zeros((0, 2)), []), r"^the action set must be bounded"),
        ((np.zeros((2, 0)), [1, 1]), r"^G must have at least one column .*; got none"),
        (([[1, np.nan]], [1]), r"^G must be finite; got nan at index \(0, 1\)"),
        (([[1, 1]], [np.inf]), r"^g must be finite; got inf at index \(0,\)"),
        (([1, 1], [1]), r"^G must have shape \(any, any\); got shape \(2,\)"),
        (([["a", "b"]], [1]), r"^G must hold real numbers"),
        ((np.eye(2), [1, 1, 1]), r"^g must have shape \(2,\); got shape \(3,\)"),
        ((*cube(2), [[1, 1, 1]], [1]), r"^A_eq must have shape \(any, 2\); got shape \(1, 3\)"),
        ((*cube(2), [[1, 1]], [1, 2]), r"^b_eq must have shape \(1,\); got shape \(2,\)"),
        ((*cube(2), [[1, 1]]), r"^A_eq and b_eq go together"),
        ((*cube(2), None, [1]), r"^A_eq and b_eq go together"),
        (cube(40), r"^the action set may have up to [\d.e+]+ vertices, more than \d+; use fewer"),
    ],
)
def test_bad_polytopes_are_rejected(arguments, message):
    with pytest.raises(ValueError, match=message):
        actions.polytope(*arguments)


def test_a_small_set_that_misses_by_a_twentieth_is_empty():
    G, g = np.r_[cube(2)[0], [[1.0, 1.0], [-1.0, -1.0]]], np.r_[cube(2)[1], 1.0, -1.05]
    with pytest.raises(ValueError, match="empty"):
        actions.polytope(G, 1e-6 * g)


def test_enormous_sets_are_rejected_after_counting(monkeypatch):
    monkeypatch.setattr(actions, "MOST_VERTICES", 9)
    with pytest.raises(ValueError, match=r"^the action set has 10 vertices, more than 9; use few"):
        actions.budget(0.0, [1, 1, 1], total=1.5)


@pytest.mark.parametrize(("facets", "d"), [(4, 2), (7, 2), (6, 3), (8, 3), (7, 4), (9, 4), (8, 5)])
def test_bound_on_the_number_of_vertices_is_that_of_cyclic_polytopes(facets, d):
    # Facets of the cyclic polytope (Gale's evenness condition) = vertices of its dual.
    count = 0
    for chosen in product([0, 1], repeat=facets):
        if sum(chosen) == d:
            out = [i for i in range(facets) if not chosen[i]]
            count += all(sum(chosen[i:j]) % 2 == 0 for i in out for j in out if i < j)
    assert actions._most_vertices(facets, d) == count


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: actions.hypercube(0), r"^d must be a whole number >= 1; got 0"),
        (lambda: actions.hypercube(2.5), r"^d must be a whole number >= 1; got 2\.5"),
        (lambda: actions.hypercube(2, 1, 0), r"^low must not exceed high; got low=1, high=0"),
        (lambda: actions.hypercube(2, 0, np.inf), r"^high must be finite; got inf"),
        (lambda: actions.hypercube(2, "a"), r"^low must hold real numbers"),
        (lambda: actions.hypercube(17), r"^the action set has 131072 vertices, more than 100000"),
        (lambda: actions.simplex(0), r"^d must be a whole number"),
        (lambda: actions.simplex(2, 0), r"^total must be > 0\.0; got 0"),
        (lambda: actions.simplex(100_001), r"^the action set has 100001 vertices"),
        (lambda: actions.budget([0, 2], [1, 1], 5), r"^low must not .* coordinate 1 has 2 > 1"),
        (lambda: actions.budget([1, 1], 2, 1), r"^total must cover the lower .* sum to 2; got 1"),
        (lambda: actions.budget([0, 0], [1, 1, 1], 1), r"^low must have shape \(3,\); got shape"),
        (lambda: actions.budget(0, [1, np.nan], 1), r"^high must be finite; got nan at index"),
        (lambda: actions.budget(0, [1, 1], np.nan), r"^total must be finite; got nan"),
        (lambda: actions.budget("a", [1, 1], 1), r"^low must hold real numbers"),
        (lambda: actions.finite([]), r"^points must have shape \(any, any\)"),
        (lambda: actions.finite(np.ones((0, 2))), r"^points must hold at least one action"),
        (lambda: actions.finite([[1, 0], [0, 0], [1, -0.0]]), r"^points must be .* 0 and 2 are"),
        (lambda: actions.finite([[np.nan]]), r"^points must be finite"),
        (lambda: actions.finite(np.arange(100_001.0)[:, None]), r"^the action set has 100001"),
        (lambda: actions.hypercube(20_000), r"^the action set has"),
        (lambda: actions.budget([[0], [0, 0]], [1, 1], 1), r"^low must"),
    ],
)
def test_bad_sets_are_rejected(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_finite_keeps_points_and_order():
    points = [[3.0, 1.0], [0.0, 2.0], [1.0, 1.0]]
    chosen = actions.finite(points)
    assert chosen.vertices.tolist() == points
    assert not chosen.convex
    assert (len(chosen), chosen.d) == (3, 2)


def test_radius_is_the_largest_norm():
    assert actions.budget(0.0, [1, 1, 1], total=1.5).radius == pytest.approx(np.sqrt(1.25))
    assert actions.finite([[3.0, -4.0], [1.0, 1.0]]).radius == 5.0


def test_index_finds_vertices_and_nothing_else():
    paper = actions.budget(0.0, [1, 1, 1], total=1.5)
    for i, vertex in enumerate(PAPER):
        assert paper.index(vertex) == i
        assert paper.index(np.array(vertex) + 1e-10) == i
        assert paper.index(np.array(vertex) + 1e-8) == -1
    assert paper.index([0.5, 0.5, 0.5]) == -1
    assert actions.finite([[1.0], [0.0]]).index([0.0]) == 1


@pytest.mark.parametrize("action", [0.0, [0.0], [0.0, 0.0]])
def test_index_rejects_actions_of_another_shape(action):
    with pytest.raises(ValueError, match="action must have shape"):
        actions.budget(0.0, [1, 1, 1], total=1.5).index(action)


@pytest.mark.parametrize(
    ("action", "inside"),
    [
        ([0.5, 0.5, 0.5], True),
        ([1, 0.5, 0], True),
        ([0.2, 0.3, 0.1], True),
        ([0.5, 0.5, 0.501], False),
        ([1.001, 0, 0], False),
        ([-0.001, 0.1, 0.1], False),
        ([1, 1, 1], False),
    ],
)
@pytest.mark.parametrize("scale", [1.0, 1e6])
def test_contains_is_whether_the_constraints_hold(action, inside, scale):
    paper = actions.budget(0.0, scale * np.ones(3), total=1.5 * scale)
    assert paper.contains(scale * np.array(action)) == inside


def test_contains_and_index_hold_for_small_sets():
    small = actions.budget(0.0, 1e-6 * np.ones(2), total=1.5e-6)
    assert not small.contains([1.05e-6, 0.0])
    assert small.index([1.0005e-6, 0.0]) == -1


def test_contains_of_a_slice_and_of_a_list():
    simplex = actions.simplex(2)
    assert simplex.contains([0.5, 0.5])
    assert not simplex.contains([0.5, 0.49])
    corners = actions.finite([[0.0, 1.0], [1.0, 0.0]])
    assert corners.contains([1.0, 0.0])
    assert not corners.contains([0.5, 0.5])


@pytest.mark.parametrize("action", [[1, 0], [1, 0, np.nan], "abc"])
def test_contains_rejects_invalid_actions(action):
    with pytest.raises(ValueError, match=r"^action must"):
        actions.budget(0.0, [1, 1, 1], total=1.5).contains(action)


@pytest.mark.parametrize(
    ("high", "total", "expected"),
    [
        ([3e7, 1.0], 3e7, [[0, 0], [0, 1], [3e7, 1], [3e7, 0]]),
        ([100.0, 100.0], 1e-8, [[0, 0], [0, 1e-8], [1e-8, 0]]),
        ([1e-9, 1e9], 2e9, [[0, 0], [0, 1e9], [1e-9, 0], [1e-9, 1e9]]),
        ([5.0, 5.0], 0.0, [[0, 0]]),
    ],
)
def test_channels_in_very_different_units(high, total, expected):
    """To a ten-millionth of each channel's range."""
    found = actions.budget(0.0, high, total).vertices
    scale = np.maximum(np.minimum(high, total), 1e-300)
    assert len(found) == len(expected)
    apart = np.abs(found[:, None] - np.array(expected, float)[None]) / scale
    assert np.all(apart.max(axis=2).min(axis=0) < 1e-7)


def test_numbers_whose_squares_overflow_have_a_radius():
    assert actions.finite([[3e200, 4e200]]).radius == pytest.approx(5e200)
    assert actions.finite([[3e-200, 4e-200]]).radius == pytest.approx(5e-200)


def test_rows_whose_squares_overflow_still_limit():
    square = actions.polytope([[1e200, 0], [-1e200, 0], [0, 1e-200], [0, -1e-200]],
                                  [1e200, 0, 1e-200, 0])  # fmt: skip
    np.testing.assert_allclose(square.vertices, [[0, 0], [0, 1], [1, 0], [1, 1]])
    with pytest.raises(ValueError, match="row 0 of G is too small beside its right side"):
        actions.polytope([[1e-200], [-1.0]], [1e200, 1.0])


@pytest.mark.parametrize("d", [17, 18, 500])
def test_a_budget_with_too_many_vertices_is_rejected_without_finding_them(d, monkeypatch):
    monkeypatch.setattr(actions, "HalfspaceIntersection", None)
    monkeypatch.setattr(actions, "linprog", None)
    with pytest.raises(ValueError, match="vertices, more than"):
        actions.budget(0.0, np.ones(d), total=d / 2)


@pytest.mark.parametrize("total", [0.5, 1.3, 3.0, 10.0])
def test_vertices_of_a_budget_are_counted_without_finding_them(total):
    high = np.array([0.4, 0.9, 0.7, 0.3, 0.6])
    found = actions.budget(0.0, high, total)
    assert actions._budget_vertices(np.minimum(high, total) / total) == len(found)


def test_a_total_far_beyond_the_limits_has_no_effect():
    assert len(actions.budget(0.0, [1e-300, 1e-300], total=1e300)) == 4


def test_a_huge_dimension_is_rejected():
    with pytest.raises(ValueError, match="d must be a whole number from 1 to"):
        actions.simplex(10**400)


@pytest.mark.parametrize("far", [1e9, 1e12, 1e100, 2e171])
def test_a_limit_that_is_far_away_changes_nothing(far):
    box = np.concatenate([np.eye(2), -np.eye(2)])
    limits = np.array([0.1, 0.2, 0.1, 0.0])
    plain = actions.polytope(box, limits)
    also = actions.polytope(np.r_[box, [[1.0, 1.0]]], np.r_[limits, far])
    np.testing.assert_array_equal(also.vertices, plain.vertices)
    line = actions.polytope([[1.0], [-1.0], [1 / far]], [0.1, 0.1, 1.0])
    np.testing.assert_allclose(line.vertices, [[-0.1], [0.1]], rtol=1e-12)


def test_repr_lists_few_vertices_and_summarises_many():
    assert repr(actions.simplex(2)) == "ActionSet(vertices=[[0, 1], [1, 0]], convex=True)"
    assert repr(actions.hypercube(5)) == (
        "ActionSet(vertices=<(32, 5) array from 0 to 1>, convex=True)"
    )


def test_a_tiny_row_is_a_limit_far_away():
    G = [[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0], [0.0, -1.0], [0.0, 1e-9]]
    found = actions.polytope(G, [0.1, 1.1, 0.1, 0.0, 1.0]).vertices
    np.testing.assert_allclose(found, [[-0.1, 0], [-0.1, 1.1], [0.1, 0], [0.1, 1.1]], atol=1e-9)
