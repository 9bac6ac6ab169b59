"""Central differences where the derivative is known, and the choice among steps."""

import numpy as np
import pytest

import dlbjax as dlb
from dlbjax.sensitivity.differences import _largest_agreeing, regret_slope

PROBLEM = dlb.problems.synthetic(sigma=0.1)


def with_theta(value):
    system = PROBLEM.system
    changed = dlb.System(system.A, system.B, system.omega, [0.0, value, 0.1], sigma=0.1)
    return dlb.Problem(changed, PROBLEM.actions)


def nobody_learns(value):
    return with_theta(value), dlb.constant([0.2, 0.8, 0.3])


@pytest.mark.parametrize("kind", ["expected", "realised", "offline"])
def test_without_decisions_the_slope_is_exact(kind):
    """R = T(J* − J(u)) + transient with J* = ⟨h, (1, ½, 0)⟩: dR/dθ₂ = T(½ − 0.8), and noise cancels."""
    found = regret_slope(nobody_learns, 0.5, 0.01, horizon=700, seeds=5, kind=kind)
    np.testing.assert_allclose(found.slope, 700 * (0.5 - 0.8), rtol=1e-9)
    assert found.standard_error < 1e-7
    assert found.step == 0.01


def test_slope_and_error_are_those_of_the_seeds():
    bounds = dlb.Bounds.of(PROBLEM)

    def at(x):
        return PROBLEM, dlb.dynlin_ucb(bounds, scale=np.exp(x))

    found = regret_slope(at, 0.1, [0.2, 0.05], horizon=1000, seeds=20)
    assert found.steps.tolist() == [0.05, 0.2]
    for step, slope, error in zip(found.steps, found.slopes, found.standard_errors, strict=True):
        up, down = (
            dlb.simulate(*at(0.1 + end), 1000, 20, rounds=[1000]).expected_regret[:, -1]
            for end in (step, -step)
        )
        each = (up - down) / (2 * step)
        np.testing.assert_allclose([slope, error], [each.mean(), each.std(ddof=1) / np.sqrt(20)])
    assert found.slope in found.slopes


def test_the_largest_step_is_taken_that_no_smaller_one_contradicts():
    errors = np.array([4.0, 2.0, 1.0, 0.5])
    assert _largest_agreeing(np.array([10.0, 9.0, 11.0, 10.5]), errors) == 3
    assert _largest_agreeing(np.array([10.0, 9.0, 11.0, 30.0]), errors) == 2
    assert _largest_agreeing(np.array([10.0, 99.0, 11.0, 10.5]), errors) == 0
    assert _largest_agreeing(np.array([7.0]), errors[:1]) == 0


def test_a_parameter_that_changes_the_epochs_is_rejected():
    def at(rho_bar):
        return PROBLEM, dlb.dynlin_ucb(dlb.Bounds.of(PROBLEM, rho_bar))

    with pytest.raises(ValueError, match="changes the policy's epochs"):
        regret_slope(at, 0.4, 0.1, horizon=1000)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"step": 0.0}, "step must be a number above 0"),
        ({"step": []}, "step must be a number above 0"),
        ({"seeds": 1}, "seeds must be a whole number >= 2"),
        ({"horizon": 0}, "horizon must be a whole number >= 1"),
        ({"at": lambda x: PROBLEM}, r"at\(x\) must return a \(Problem, Policy\)"),
    ],
)
def test_invalid_arguments_are_rejected(change, message):
    given = {"at": nobody_learns, "value": 0.5, "step": 0.01, "horizon": 100} | change
    with pytest.raises(ValueError, match=message):
        regret_slope(**given)
