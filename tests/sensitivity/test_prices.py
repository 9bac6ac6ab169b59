"""Shadow prices against linear programs with changed limits."""

import numpy as np
import pytest
from scipy.optimize import linprog

import dlbjax as dlb
from dlbjax import sensitivity
from tests.sensitivity.oracles import best_value, steady_reward, world

STEP = 1e-5  # J* is linear between kinks, so that differences are exact


def sides(value_at, limits, place):
    """One-sided differences of J* by one limit, from below and from above."""
    found = []
    for sign in (-1, 1):
        moved = {name: np.array(limit, float) for name, limit in limits.items()}
        moved[place[0]][place[1:]] += sign * STEP
        found.append((value_at(**moved) - value_at(**limits)) / (sign * STEP))
    return found


def same(found, expected, what):
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-8, err_msg=str(what))


def budget_value(h):
    def value(low, high, total):
        if np.any(low > high):
            return -np.inf
        return best_value(
            h, np.r_[np.eye(3), -np.eye(3), np.ones((1, 3))], np.r_[high, -low, total]
        )

    return value


BUDGETS = {
    "generic": ([0.0, 0.1, 0.05], [1.0, 0.9, 1.1], 1.7),
    "not binding": ([0.0, 0.1, 0.05], [1.0, 0.9, 1.1], 9.0),
    "degenerate": ([0.0, 0.0, 0.0], [1.0, 1.0, 1.0], 2.0),
    "degenerate at one": ([0.0, 0.0, 0.0], [1.0, 1.0, 1.0], 1.0),
    "frozen": ([0.0, 0.5, 0.0], [1.0, 0.5, 1.0], 1.2),
    "nothing to spend": ([0.0, 0.1, 0.2], [1.0, 1.0, 1.0], 0.3),
    "as good as no limit": ([0.0, 100.0, 0.0], [1000.0, 900.0, 1e13], 1500.0),
}


@pytest.mark.parametrize("name", BUDGETS)
@pytest.mark.parametrize("seed", range(4))
def test_budget_prices_equal_differences(name, seed):
    w, _ = world(seed)
    low, high, total = BUDGETS[name]
    prices = sensitivity.budget_prices(dlb.System(**w), low, high, total)
    limits = {"low": np.array(low), "high": np.array(high), "total": np.array(total)}
    value_at = budget_value(steady_reward(w))
    np.testing.assert_allclose(prices.value, value_at(**limits), rtol=1e-9)
    for field in ("low", "high"):
        below, above = getattr(prices, field)
        for i in range(3):
            same([below[i], above[i]], sides(value_at, limits, (field, i)), (field, i))
    same(prices.total, sides(value_at, limits, ("total",)), "total")


@pytest.mark.parametrize("equality", [False, True])
@pytest.mark.parametrize("seed", range(10))
def test_polytope_prices_equal_differences_and_the_solver(seed, equality):
    w, _ = world(seed)
    h, rng = steady_reward(w), np.random.default_rng(seed)
    G = np.r_[rng.normal(size=(5, 3)), np.eye(3), -np.eye(3)]
    g = np.r_[rng.uniform(0.3, 1, size=5), np.ones(6)]
    equal = {"A_eq": rng.normal(size=(1, 3)), "b_eq": np.array([0.1])} if equality else {}
    prices = sensitivity.polytope_prices(dlb.System(**w), G, g, **equal)
    answer = linprog(-h, G, g, *equal.values(), bounds=(None, None))
    assert not np.any(prices.g.kink)
    same(prices.g.below, -answer.ineqlin.marginals, "marginals")
    same(prices.b_eq.below, -answer.eqlin.marginals, "marginals")
    limits = {"g": g} | ({"b_eq": equal["b_eq"]} if equality else {})

    def value_at(g, b_eq=None):
        return best_value(h, G, g, equal.get("A_eq"), b_eq)

    for i in range(len(g)):
        same([side[i] for side in prices.g], sides(value_at, limits, ("g", i)), i)
    for i in range(len(prices.b_eq.below)):
        same([side[i] for side in prices.b_eq], sides(value_at, limits, ("b_eq", i)), i)


def test_a_limit_given_twice_is_worth_something_only_to_those_who_lower_it():
    system = dlb.System([[0.0]], [[0.0, 0.0]], [0.0], [1.0, 2.0])
    G = [[1, 0], [0, 1], [0, 2], [-1, 0], [0, -1]]
    prices = sensitivity.polytope_prices(system, G, [1, 1, 2, 0, 0])
    same(prices.g.below, [1, 2, 1, 0, 0], "below")
    same(prices.g.above, [1, 0, 0, 0, 0], "above")
    assert prices.g.kink.tolist() == [False, True, True, False, False]
    assert [line.endswith("kink") for line in str(prices).splitlines()[2:]] == list(prices.g.kink)


def test_repeated_equalities_cannot_be_moved_alone():
    system = dlb.System([[0.0]], [[0.0, 0.0]], [0.0], [1.0, 2.0])
    prices = sensitivity.polytope_prices(
        system, -np.eye(2), np.zeros(2), [[1, 1], [2, 2]], [1.0, 2.0]
    )
    assert prices.b_eq.below.tolist() == [np.inf, np.inf]
    assert prices.b_eq.above.tolist() == [-np.inf, -np.inf]


def test_ties_between_actions_do_not_make_prices_ambiguous():
    """All mixtures of two channels are optimal; the budget has one price all the same."""
    system = dlb.System([[0.0]], [[0.0, 0.0]], [0.0], [1.0, 1.0])
    prices = sensitivity.budget_prices(system, 0.0, [1.0, 1.0], 1.3)
    same(prices.total, [1, 1], "total")
    same(np.concatenate([*prices.low, *prices.high]), np.zeros(8), "limits")


def test_the_table_names_every_limit():
    system = dlb.problems.synthetic().system
    lines = str(sensitivity.budget_prices(system, 0.0, np.ones(3), 2.0)).splitlines()
    assert lines[0] == "J* = 1.0625 at u* = (1, 1, 0)"
    assert lines[2].split() == ["total", "0.5", "0.1111", "kink"]
    assert [line.split()[0] for line in lines[3:]] == [
        f"{name}[{i}]" for name in ("low", "high") for i in range(3)
    ]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda s: sensitivity.budget_prices(s, 0.0, [1, 1], 1), "on 2 coordinates but B has 3"),
        (lambda s: sensitivity.budget_prices(s, 2.0, [1, 1, 1], 9), "low must not exceed high"),
        (lambda s: sensitivity.budget_prices(s, 1.0, [2, 2, 2], 1), "total must cover"),
        (lambda s: sensitivity.budget_prices(None, 0.0, [1, 1, 1], 1), "must be a dlbjax.System"),
        (lambda s: sensitivity.polytope_prices(s, np.eye(3), [1, 1]), "g must have shape"),
        (lambda s: sensitivity.polytope_prices(s, np.eye(3), np.ones(3), np.eye(3)), "go together"),
        (lambda s: sensitivity.polytope_prices(s, -np.eye(3), np.ones(3)), "must be bounded"),
        (
            lambda s: sensitivity.polytope_prices(s, np.r_[np.eye(3), -np.eye(3)], -np.ones(6)),
            "set is empty",
        ),
    ],
)
def test_wrong_arguments(call, message):
    with pytest.raises(ValueError, match=message):
        call(dlb.problems.synthetic().system)
