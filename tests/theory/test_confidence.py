"""The concentration theorem: its formula, what is wrong with it, and how often its sets fail."""

import jax
import numpy as np
import pytest
from scipy import special, stats

import dlbjax as dlb
from dlbjax.experiments.coverage import paper_ratios
from tests.oracles import random_stable

BOUNDS = dlb.Bounds(Theta=0.3, Omega=1.5, B=0.7, U=1.2, X=2.0, Phi=1.4, rho=0.6, sigma=0.2)


def by_hand(t, log_determinant_ratio, lam, delta, printed):
    transient = 1.5 * 1.4 * (1.2 * 0.7 / 0.4 + 2.0)
    c2 = 0.3 + 1.5 * 0.7 * 1.4 / 0.4
    variance = 0.04 * (1 + 2.25 * 1.96 / (1 - 0.36))
    one_by_one, together = 1.2 / np.sqrt(lam) * np.log(np.e * (t + 1)), np.pi / np.sqrt(6)
    if printed:
        bias, share = transient * one_by_one, delta
    else:
        a = special.zeta(2) - 1
        m, end = np.arange(2.0, 10**6), 10**6 - 0.5  # and the rest of the sum as an integral
        b = 2 * np.sum(np.log(m) / m**2) + 2 * (np.log(end) + 1) / end
        carried = 1.5 * 1.4 * 0.2 * np.sqrt(2 / 0.64 * (a * np.log(4 * a / delta) + b))
        bias, share = transient / 0.6 * min(one_by_one, together) + carried, delta / 2
    noise = np.sqrt(2 * variance * (np.log(1 / share) + log_determinant_ratio / 2))
    return bias + c2 * np.sqrt(lam) + noise


@pytest.mark.parametrize("printed", [True, False])
@pytest.mark.parametrize("lam", [0.5, 400.0])
def test_radius_and_beta_are_the_theorem(printed, lam):
    actions = np.random.default_rng(0).normal(size=(20, 3))
    V = lam * np.eye(3) + actions.T @ actions
    ratio = np.log(np.linalg.det(V) / lam**3)
    found = dlb.theory.confidence_radius(BOUNDS, lam, 0.1, 40, V, printed=printed)
    np.testing.assert_allclose(found, by_hand(40, ratio, lam, 0.1, printed), rtol=1e-11)
    ratio = 3 * np.log(1 + 40 * 1.44 / (3 * lam))
    found = dlb.theory.beta(BOUNDS, lam, 0.1, 3, 40, printed=printed)
    np.testing.assert_allclose(found, by_hand(40, ratio, lam, 0.1, printed), rtol=1e-11)


def test_dynlin_ucb_plays_the_beta_it_is_given():
    problem = dlb.problems.synthetic()
    bounds = dlb.Bounds.of(problem)
    T, lam, delta = 300, np.log(300), 1 / 300
    lengths = [1] * 4 + [2] * 20 + [3] * 100  # 1 + ⌊log m / log 5⌋
    done = np.r_[0, np.cumsum(lengths)[:-1]]
    values = dlb.theory.beta(bounds, lam, delta, 3, done)
    by_rule, by_list = (
        dlb.simulate(problem, dlb.dynlin_ucb(bounds, beta=beta), T, 3, record=["actions"]).actions
        for beta in (dlb.theory.beta, values)
    )
    np.testing.assert_array_equal(by_rule, by_list)
    printed = dlb.simulate(problem, dlb.dynlin_ucb(bounds), T, 3, record=["actions"]).actions
    assert np.any(printed != by_rule)


def test_beta_exceeds_the_determinant_form():
    rng = np.random.default_rng(1)
    for _ in range(20):
        actions = rng.normal(size=(15, 3))
        actions /= np.linalg.norm(actions, axis=1, keepdims=True) / 1.2  # ‖u‖ = U
        V = 0.3 * np.eye(3) + actions.T @ actions
        assert dlb.theory.confidence_radius(BOUNDS, 0.3, 0.1, 15, V) <= dlb.theory.beta(
            BOUNDS, 0.3, 0.1, 3, 15
        )


def test_radius_can_be_differentiated():
    def at(rho):
        return dlb.theory.beta(BOUNDS.replace(rho=rho), 0.5, 0.1, 3, 40)

    with jax.enable_x64(True):
        slope = jax.grad(at)(0.6)
    np.testing.assert_allclose(slope, (at(0.6 + 1e-6) - at(0.6 - 1e-6)) / 2e-6, rtol=1e-7)


def test_at_rate_zero_the_corrected_radius_is_infinite():
    """At ρ̄ = 0 epochs are one round long, and their bias never decays."""
    assert dlb.theory.beta(BOUNDS.replace(rho=0.0), 0.5, 0.1, 3, 40) == np.inf
    assert np.isfinite(dlb.theory.beta(BOUNDS.replace(rho=0.0), 0.5, 0.1, 3, 40, printed=True))


@pytest.mark.parametrize(("rho", "ratio"), [(0.005, 1.677), (0.01, 1.368)])
def test_the_printed_theorem_is_false(rho, ratio):
    """No noise, two actions that undo each other, one eigenvalue near zero."""
    system = dlb.System([[rho]], [[-0.3, 0.3]], [1.0], [0.0, 0.0])
    problem = dlb.Problem(system, dlb.actions.finite(np.eye(2)))
    bounds = dlb.Bounds.of(problem, rho)
    policy = dlb.dynlin_ucb(bounds, 14.0)
    printed, corrected = (
        paper_ratios(problem, policy, bounds, 1e-6, 400, 1, printed=printed)[0]
        for printed in (True, False)
    )
    np.testing.assert_allclose(printed, ratio, atol=2e-3)
    assert corrected < 0.1
    # So does the printed radius with one more round of persistence.
    longer = dlb.dynlin_ucb(bounds, 14.0, epochs=[2] * 99 + [3] * 200)
    assert paper_ratios(problem, longer, bounds, 1e-6, 400, 1, printed=True)[0] < 1


def random_problem(seed):
    rng = np.random.default_rng(seed)
    system = dlb.System(
        A=random_stable(rng, 3, 0.7), B=rng.normal(size=(3, 3)), omega=rng.normal(size=3),
        theta=rng.normal(size=3), sigma=1.0, x1=rng.normal(size=3),
    )  # fmt: skip
    return dlb.Problem(system, dlb.actions.finite(rng.normal(size=(10, 3))))


LOUD = {
    "synthetic": dlb.problems.synthetic(1.0),
    "real world": dlb.problems.real_world(1.0),
    "random 0": random_problem(0),
    "random 1": random_problem(1),
}


def assert_covers(ratios, delta):
    """Violations ≤ δ: rejected if a rate of δ would give as many with probability below 1e-6."""
    violations = int(np.sum(ratios > 1))
    assert stats.binom.sf(violations - 1, len(ratios), delta) > 1e-6, f"{violations} violations"


@pytest.mark.slow
@pytest.mark.parametrize("problem", LOUD.values(), ids=LOUD)
def test_the_corrected_radius_covers(problem):
    bounds = dlb.Bounds.of(problem)
    policy = dlb.dynlin_ucb(bounds, 1.0, 0.05)
    assert_covers(paper_ratios(problem, policy, bounds, 0.05, 500, 10_000), 0.05)


def carried_over(delta, runs, horizon=300_000):
    """Shares of runs that leave the radius, and the radius without N, where noise is carried over.

    A = ρ̄ = 0.99, ω = 20, B = θ = 0, σ = 1, U = {±1}: every reward is noise, h = 0, and the policy plays
    the sign of S·y, where S = Σ u y, so that what is carried over moves S further from zero.
    """
    system = dlb.System([[0.99]], [[0.0]], [20.0], [0.0], sigma=1.0)
    bounds = dlb.Bounds.of(dlb.Problem(system, dlb.actions.finite([[1.0], [-1.0]])))
    rng, lam = np.random.default_rng(0), 2.0
    x, S, y, left, without = np.zeros((5, runs))
    t, m = 0, 0
    while t < horizon:
        m += 1
        held = int(np.log(m) / np.log(1 / 0.99) + 1e-9)
        spread = np.sqrt((1 - 0.99 ** (2 * held)) / (1 - 0.99**2))
        x = 0.99**held * x + spread * rng.normal(size=runs)
        u = np.where(S * y >= 0, 1.0, -1.0)
        y = 20 * x + rng.normal(size=runs)
        x = 0.99 * x + rng.normal(size=runs)
        t, S = t + held + 1, S + u * y
        error = np.abs(S) / np.sqrt(lam + m)  # ‖ĥ − h‖_V
        left = np.maximum(
            left, error > dlb.theory.confidence_radius(bounds, lam, delta, t, [[lam + m]])
        )
        variance = 1 + 400 / (1 - 0.99**2)
        bare = np.sqrt(2 * variance * (np.log(1 / delta) + 0.5 * np.log((lam + m) / lam)))
        without = np.maximum(without, error > bare)
    return left, without


def test_the_corrected_radius_covers_where_noise_is_carried_over():
    """Without N it fails in more than δ = 1 % of the runs; a false alarm has probability 1e-6."""
    left, without = carried_over(0.01, 40_000)
    assert_covers(left + 0.5, 0.01)
    assert stats.binom.sf(without.sum() - 1, len(without), 0.01) < 1e-6


@pytest.mark.evidence
@pytest.mark.parametrize("delta", [0.05, 0.01, 1e-3, 1e-4])
def test_the_corrected_radius_covers_in_many_runs(delta):
    left, without = carried_over(delta, 400_000)
    print(f"δ = {delta}: {left.mean():.4%} with N, {without.mean():.4%} without")
    assert_covers(left + 0.5, delta)
    assert without.mean() > delta
