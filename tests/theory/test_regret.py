"""Regret bounds: their formulas by hand, and measured regret on the right side of them."""

import itertools

import jax
import numpy as np
import pytest

import dlbjax as dlb
from tests.theory.test_confidence import BOUNDS, by_hand, random_problem

PROBLEMS = {
    "synthetic": dlb.problems.synthetic(0.1),
    "real world": dlb.problems.real_world(0.1),
    "random": random_problem(2),
}


@pytest.mark.parametrize("printed", [True, False])
def test_formulas(printed):
    lam, delta, T = 0.5, 0.1, 1000
    ratio = 3 * np.log(1 + (T - 1) * 1.44 / (3 * lam))
    width = by_hand(T - 1, ratio, lam, delta, printed)
    held = 1 + np.log(T) / np.log(1 / 0.6)
    potential = 8 * 3 * width**2 * np.log(1 + T * 1.44 / (3 * lam))
    args = (BOUNDS, lam, delta, 3, T)
    offline = dlb.theory.offline_regret_bound(*args, printed=printed)
    np.testing.assert_allclose(offline, np.sqrt(T * held * potential), rtol=1e-11)
    gap = dlb.theory.gap_regret_bound(*args, 0.25, printed=printed)
    np.testing.assert_allclose(gap, held * potential / 0.25, rtol=1e-11)
    c2 = 0.3 + 1.5 * 0.7 * 1.4 / 0.4
    apart = 1.5 * 1.4 * (0.7 * 1.2 / 0.16 + 2.0 / 0.4)
    np.testing.assert_allclose(dlb.theory.regret_difference(BOUNDS), apart, rtol=1e-12)
    expected = dlb.theory.expected_regret_bound(*args, printed=printed)
    np.testing.assert_allclose(expected, offline + 0.1 * T * 2 * c2 * 1.2 + apart, rtol=1e-12)


def test_a_small_width_is_replaced_by_the_largest_value():
    """The printed bound is broken by the first round where β < |J|: here they differ by 2."""
    problem = dlb.Problem(
        dlb.System([[0.0]], [[0.0]], [0.0], [1.0]), dlb.actions.finite([[-1.0], [1.0]])
    )
    bounds, lam = dlb.Bounds.of(problem), 1e-12
    policy = dlb.dynlin_ucb(bounds, lam, 0.1)
    regret = dlb.simulate(problem, policy, 1).offline_regret[0, 0]
    args = (bounds, lam, 0.1, 1, 1)
    assert dlb.theory.offline_regret_bound(*args, printed=True) < 1e-4 < regret == 2
    assert regret <= dlb.theory.offline_regret_bound(*args)


def printed_beta(*given):
    return dlb.theory.beta(*given, printed=True)


@pytest.mark.parametrize("name", PROBLEMS)
@pytest.mark.parametrize("lam", [1.0, None])
def test_measured_regret_is_below_the_upper_bounds(name, lam):
    problem, T = PROBLEMS[name], 3000
    bounds, delta = dlb.Bounds.of(problem), 1 / T
    for printed, beta in ((True, printed_beta), (False, dlb.theory.beta)):
        result = dlb.simulate(problem, dlb.dynlin_ucb(bounds, lam, beta=beta), T, 64)
        args = (bounds, np.log(T) if lam is None else lam, delta, 3, result.rounds)
        assert np.all(
            result.offline_regret <= dlb.theory.offline_regret_bound(*args, printed=printed)
        )
        gap = dlb.theory.smallest_gap(problem)
        bound = dlb.theory.gap_regret_bound(*args, gap, printed=printed)
        assert np.all(result.offline_regret <= bound)
        expected = dlb.theory.expected_regret_bound(*args, printed=printed)
        assert np.all(result.summary().mean <= expected)


@pytest.mark.parametrize("name", PROBLEMS)
def test_expected_and_offline_regret_are_as_close_as_the_lemma_says(name):
    problem = PROBLEMS[name]
    bounds = dlb.Bounds.of(problem)
    policies = {
        "dynlin": dlb.dynlin_ucb(bounds),
        "lin": dlb.lin_ucb(bounds),
        "worst": dlb.constant(problem.actions.vertices[np.argmax(problem.gaps)]),
    }
    most = dlb.theory.regret_difference(bounds, np.linalg.norm(problem.system.x1))
    for result in dlb.simulate(problem, policies, 3000, 64).values():
        assert np.all(np.abs(result.expected_regret - result.offline_regret) <= most)
    assert most <= dlb.theory.regret_difference(bounds)


def test_the_lemma_is_attained():
    """One channel whose whole effect comes later: ΩΦBU/(1−ρ)² is the difference in the limit."""
    problem = dlb.Problem(
        dlb.System([[0.9]], [[1.0]], [1.0], [0.0]), dlb.actions.finite([[1.0], [0.0]])
    )
    result = dlb.simulate(problem, dlb.constant([1.0]), 2000)
    apart = (result.expected_regret - result.offline_regret)[0, -1]
    np.testing.assert_allclose(apart, dlb.theory.regret_difference(dlb.Bounds.of(problem), 0.0))


@pytest.mark.slow
@pytest.mark.parametrize(("d", "rho"), [(1, 0.9), (2, 0.5)])
def test_no_policy_beats_the_lower_bound_on_average_over_the_hard_instances(d, rho):
    """Five standard errors below the bound: a false alarm has probability 3e-7 a policy."""
    T, runs = 2000, 256
    makers = {
        "dynlin": dlb.dynlin_ucb, "tight": dlb.dynlin_ucb_tight, "lin": dlb.lin_ucb,
        "exp3": dlb.exp3, "ucb1": dlb.ucb1,
    }  # fmt: skip
    regrets = {name: [] for name in makers}
    for signs in itertools.product([1, -1], repeat=d):
        problem = dlb.problems.hard_instance(d, rho, T, signs)
        policies = {name: make(dlb.Bounds.of(problem)) for name, make in makers.items()}
        for name, result in dlb.simulate(problem, policies, T, runs, rounds=[T]).items():
            regrets[name].append(result.offline_regret[:, -1])
    bound = dlb.theory.lower_bound(d, rho, T)
    for name, values in regrets.items():
        mean = np.mean(values)
        error = np.sqrt(np.mean(np.var(values, axis=1, ddof=1)) / (runs * 2**d))
        assert mean > bound - 5 * error, name


def test_lower_bound_and_its_conditions():
    np.testing.assert_allclose(
        dlb.theory.lower_bound(3, 0.8, 10_000), 3 * 100 / np.sqrt(512 * np.e * 0.2), rtol=1e-12
    )
    for d, rho, least in [(1, 0.9, 14.6), (1, 0.01, 1250 / 0.99), (100, 0.5, 625.0)]:
        np.testing.assert_allclose(dlb.theory.lower_bound_horizon(d, rho), least, rtol=1e-12)
        around = np.array([np.floor(least - 0.1), np.ceil(least) + 1])
        np.testing.assert_array_equal(
            np.isnan(dlb.theory.lower_bound(d, rho, around)), [True, False]
        )
        with pytest.raises(ValueError, match="horizon must be >="):
            dlb.problems.hard_instance(min(d, 5), 0.01, 100)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: dlb.theory.offline_regret_bound(BOUNDS, 0.0, 0.1, 3, 10), "lam must be > 0"),
        (lambda: dlb.theory.offline_regret_bound(BOUNDS, 1.0, 1.0, 3, 10), "delta must be"),
        (
            lambda: dlb.theory.offline_regret_bound(BOUNDS, 1.0, 0.1, 3, np.array([0, 5])),
            "rounds must be",
        ),
        (lambda: dlb.theory.gap_regret_bound(BOUNDS, 1.0, 0.1, 3, 10, 0.0), "gap must be > 0"),
        (lambda: dlb.theory.beta(BOUNDS, 0.0, 0.1, 3, 10), "lam must be > 0"),
        (lambda: dlb.theory.beta(BOUNDS, 1.0, 2.0, 3, 10), "delta must be"),
        (lambda: dlb.theory.beta(BOUNDS, 1.0, 0.1, 0, 10), "d must be"),
        (lambda: dlb.theory.beta(BOUNDS, 1.0, 0.1, 3, -5), "rounds must be >= 0; got -5"),
        (lambda: dlb.theory.beta(None, 1.0, 0.1, 3, 10), "bounds must be"),
        (
            lambda: dlb.theory.confidence_radius(BOUNDS, 1.0, 0.1, 3, -np.eye(2)),
            "positive definite",
        ),
        (
            lambda: dlb.theory.confidence_radius(BOUNDS, 1.0, 0.1, 3, [1.0]),
            "V must be a .d, d. matrix",
        ),
        (lambda: dlb.theory.regret_difference(None), "bounds must be"),
        (lambda: dlb.theory.constant_gap(BOUNDS, 0), "horizon must be >= 1"),
        (lambda: dlb.theory.lower_bound(0, 0.5, 10), "d must be"),
        (lambda: dlb.theory.lower_bound(2, 0.0, 10), "rho must be >= 1e-100"),
        (lambda: dlb.theory.offline_regret_bound(None, 1.0, 0.1, 3, 10), "bounds must be"),
    ],
)
def test_invalid_arguments_are_rejected(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_bounds_can_be_differentiated():
    def at(bounds, lam):
        return dlb.theory.expected_regret_bound(bounds, lam, 0.1, 3, 1000)

    with jax.enable_x64(True):
        slopes, in_lam = jax.grad(at, argnums=(0, 1))(BOUNDS, 0.5)
    np.testing.assert_allclose(
        in_lam, (at(BOUNDS, 0.5 + 1e-6) - at(BOUNDS, 0.5 - 1e-6)) / 2e-6, rtol=1e-6
    )
    for name in type(BOUNDS).__dataclass_fields__:
        value = getattr(BOUNDS, name)
        up, down = (at(BOUNDS.replace(**{name: value + e}), 0.5) for e in (1e-6, -1e-6))
        np.testing.assert_allclose(getattr(slopes, name), (up - down) / 2e-6, rtol=1e-6)


def test_gap_of_ties():
    problem = dlb.Problem(
        dlb.System([[0.0]], [[0.0]], [0.0], [1.0]), dlb.actions.finite([[1.0], [1.0 - 1e-15]])
    )
    with pytest.raises(ValueError, match="no gap"):
        dlb.theory.smallest_gap(problem)


def test_lists_of_rounds():
    for bound in (
        lambda t: dlb.theory.offline_regret_bound(BOUNDS, 1.0, 0.1, 3, t),
        lambda t: dlb.theory.beta(BOUNDS, 1.0, 0.1, 3, t),
        lambda t: dlb.theory.constant_gap(BOUNDS, t),
        lambda t: dlb.theory.lower_bound(3, 0.5, t),
    ):
        np.testing.assert_array_equal(bound([10, 100]), [bound(10), bound(100)])
