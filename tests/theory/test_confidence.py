"""The concentration theorem: its formula, what is wrong with it, and how often its sets fail."""

import jax
import numpy as np
import pytest
from scipy import stats

import dlbjax as dlb
from dlbjax.experiments.coverage import paper_ratios
from tests.oracles import random_stable

BOUNDS = dlb.Bounds(Theta=0.3, Omega=1.5, B=0.7, U=1.2, X=2.0, Phi=1.4, rho=0.6, sigma=0.2)


def by_hand(t, log_determinant_ratio, lam, delta, divide):
    c1 = 1.2 * 1.5 * 1.4 * (1.2 * 0.7 / 0.4 + 2.0) / divide
    c2 = 0.3 + 1.5 * 0.7 * 1.4 / 0.4
    variance = 0.04 * (1 + 2.25 * 1.96 / (1 - 0.36))
    noise = np.sqrt(2 * variance * (np.log(1 / delta) + log_determinant_ratio / 2))
    return c1 / np.sqrt(lam) * np.log(np.e * (t + 1)) + c2 * np.sqrt(lam) + noise


@pytest.mark.parametrize(("printed", "divide"), [(True, 1.0), (False, 0.6)])
def test_radius_and_beta_are_the_theorem(printed, divide):
    actions = np.random.default_rng(0).normal(size=(20, 3))
    V = 0.5 * np.eye(3) + actions.T @ actions
    ratio = np.log(np.linalg.det(V) / 0.5**3)
    found = dlb.theory.confidence_radius(BOUNDS, 0.5, 0.1, 40, V, printed=printed)
    np.testing.assert_allclose(found, by_hand(40, ratio, 0.5, 0.1, divide), rtol=1e-12)
    ratio = 3 * np.log(1 + 40 * 1.44 / (3 * 0.5))
    found = dlb.theory.beta(BOUNDS, 0.5, 0.1, 3, 40, printed=printed)
    np.testing.assert_allclose(found, by_hand(40, ratio, 0.5, 0.1, divide), rtol=1e-12)


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
