"""Gaussian smoothing on a known gradient, against central differences, and its standard error."""

import numpy as np
import pytest

import dlbjax as dlb
from dlbjax.sensitivity.differences import regret_slope
from dlbjax.sensitivity.smoothed import smoothed_gradient

PROBLEM = dlb.problems.synthetic(sigma=0.1)
BOUNDS = dlb.Bounds.of(PROBLEM)
T = 1000


def nobody_learns(theta):
    system = PROBLEM.system
    changed = dlb.System(system.A, system.B, system.omega, theta, sigma=0.1)
    return dlb.Problem(changed, PROBLEM.actions), dlb.constant([0.2, 0.8, 0.3])


def learner(logs):
    return PROBLEM, dlb.dynlin_ucb(BOUNDS, lam=np.exp(logs[0]), scale=np.exp(logs[1]))


def test_a_linear_regret_has_its_gradient_without_error():
    """R = T⟨h, u* − u⟩ + transient: in θ the gradient is T(u* − u), with any directions."""
    found = smoothed_gradient(
        nobody_learns, [0.0, 0.5, 0.1], [0.01, 0.02, 0.01], horizon=500, directions=5, seeds=2
    )
    np.testing.assert_allclose(found.gradient, 500 * np.array([0.8, -0.3, -0.3]), rtol=1e-8)
    assert np.all(found.standard_error < 1e-6)


def test_agrees_with_central_differences():
    """False alarm below 1 in 1000 for correct code: 4 standard errors in two parameters, fixed seeds."""
    here = np.array([np.log(np.log(T)), 0.0])
    smoothed = smoothed_gradient(learner, here, 0.1, T, directions=40, seeds=40)
    for i in range(2):

        def at(x, i=i):
            return learner(np.where(np.arange(2) == i, x, here))

        reference = regret_slope(at, here[i], 0.1, T, seeds=1000)
        apart = smoothed.gradient[i] - reference.slope
        assert abs(apart) < 4 * np.hypot(smoothed.standard_error[i], reference.standard_error)
        assert abs(reference.slope) > 4 * reference.standard_error, "nothing to see"


def seeds_decide(x):
    """Realised regret is linear in σ with a slope that is the seed's own."""
    system = PROBLEM.system
    changed = dlb.System(system.A, system.B, system.omega, system.theta, sigma=x[0])
    return dlb.Problem(changed, PROBLEM.actions), dlb.constant([0.2, 0.8, 0.3])


def directions_decide(x):
    """Without noise, where J* has a kink in θ₂ at 0.5625: the same for all seeds."""
    system = PROBLEM.system
    changed = dlb.System(system.A, system.B, system.omega, [0.0, x[0], 0.1])
    return dlb.Problem(changed, PROBLEM.actions), dlb.constant([0.2, 0.8, 0.3])


def both_decide(x):
    return PROBLEM, dlb.dynlin_ucb(BOUNDS, lam=np.exp(x[0]), scale=0.3)


@pytest.mark.parametrize(
    ("at", "value", "width"),
    [(seeds_decide, 0.5, 0.1), (directions_decide, 0.55, 0.02), (both_decide, 1.0, 0.3)],
)
def test_the_standard_error_is_that_of_repetitions(at, value, width):
    """Spread of 40 repetitions against the standard errors they state.

    A sample deviation of 40 is within 45 % of the truth but for 1 in 10 000; the standard error may be up to
    √2 too large, never systematically too small.
    """
    found = [
        smoothed_gradient(
            at, [value], width, 50, directions=4, seeds=range(8 * i, 8 * i + 8), random_seed=i,
            kind="realised",
        )
        for i in range(40)
    ]  # fmt: skip
    spread = np.std([each.gradient for each in found], ddof=1)
    stated = np.sqrt(np.mean([each.standard_error**2 for each in found]))
    assert 0.55 * spread < stated < 1.45 * np.sqrt(2) * spread


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"width": 0.0}, "width must be a number above 0"),
        ({"width": [0.1, 0.1, 0.1]}, "one for each of 2 parameters"),
        ({"directions": 2}, "directions must be a whole number from 3"),
        ({"seeds": 1}, "seeds must be a whole number >= 2"),
        ({"seeds": [7]}, "seeds must hold at least two"),
        ({"at": lambda x: (PROBLEM, dlb.dynlin_ucb(dlb.Bounds.of(PROBLEM, abs(x[1]) / 9)))},
         "changes the policy's epochs"),
    ],
)  # fmt: skip
def test_invalid_arguments_are_rejected(change, message):
    given = {"at": learner, "values": [1.0, 0.0], "width": 0.1, "horizon": T} | change
    with pytest.raises(ValueError, match=message):
        smoothed_gradient(**given)
