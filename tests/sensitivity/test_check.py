"""The check of the relaxed gradient: which two slopes it compares, and what it says of them."""

import numpy as np
import pytest

import dlbjax as dlb
from dlbjax.sensitivity import GradientCheck, RelaxedParameters, check_gradient, relaxed_gradient
from tests.sensitivity.test_relaxed import BOUNDS, HERE, PROBLEM, VERTICES, T

STEPS = np.array([0.02, 0.05, 0.1, 0.2])


def test_slopes_count_as_confirmed_or_contradicted_only_beyond_the_noise():
    none, some = np.zeros(5), np.array([0.0, 0.0, 0.0, 5.0, 5.0])
    relaxed, true = np.array([110.0, 130.0, -100.0, 110.0, 135.0]), np.full(5, 100.0)
    check = GradientCheck(tuple("abcde"), relaxed, none, true, some)
    assert check.confirmed.tolist() == [True, False, False, True, False]
    assert check.contradicted.tolist() == [False, True, True, False, False]
    words = [line.split()[-1] for line in str(check).splitlines()[1:]]
    assert words == ["confirmed", "contradicted", "contradicted", "confirmed", "undecided"]


def test_it_compares_the_relaxed_slope_with_differences_of_the_true_policy():
    check = check_gradient(
        HERE, VERTICES, BOUNDS, horizon=T, entries=("lam", "A[1,0]"), seeds=16, relaxed_seeds=8
    )
    gradient = relaxed_gradient(HERE, VERTICES, BOUNDS, horizon=T, seeds=8)
    np.testing.assert_allclose(check.relaxed, [gradient.slope.lam, gradient.slope.system.A[1, 0]])
    errors = gradient.standard_error
    np.testing.assert_allclose(check.relaxed_error, [errors.lam, errors.system.A[1, 0]])

    def mean_regret(lam=2.0, entry=None):
        s = PROBLEM.system
        A = np.array(s.A)
        A[1, 0] = A[1, 0] if entry is None else entry
        moved = dlb.System(A, s.B, s.omega, s.theta, state_noise=s.state_noise,
                           reward_noise=s.reward_noise, x1=s.x1)  # fmt: skip
        policy = dlb.dynlin_ucb(BOUNDS, lam, scale=0.3)
        result = dlb.simulate(dlb.Problem(moved, PROBLEM.actions), policy, T, 16, rounds=[T])
        return result.expected_regret[:, -1].mean()

    value = PROBLEM.system.A[1, 0]
    steps = STEPS * max(abs(value), 0.1 * np.abs(PROBLEM.system.A).max())
    in_lam = [(mean_regret(2 + 2 * s) - mean_regret(2 - 2 * s)) / (4 * s) for s in STEPS]
    in_A = [(mean_regret(entry=value + s) - mean_regret(entry=value - s)) / (2 * s) for s in steps]
    for found, possible in zip(check.true, (in_lam, in_A), strict=True):
        assert np.isclose(
            found, possible, rtol=1e-9
        ).any()  # which one is `regret_slope`'s to choose


@pytest.mark.evidence
def test_a_random_system_on_which_the_relaxation_is_far_off_is_noticed():
    """The figures at 400 seeds: 187 relaxed, 96 ± 44 true. A false alarm takes three standard errors."""
    problem = dlb.sensitivity.random_problems(1, n=3, d=2, seed=0)[0]
    here = RelaxedParameters(problem.system, lam=np.log(2000))
    bounds, entries = dlb.Bounds.of(problem, 0.6), ["A[1,1]", "A[2,0]", "theta[0]"]
    check = check_gradient(
        here, problem.actions.vertices, bounds, horizon=2000, entries=entries, seeds=400
    )
    assert check.contradicted.tolist() == [True, True, False]
    assert check.confirmed.tolist() == [False, False, True]


def test_entries_that_are_none_are_rejected():
    for wrong, said in [(["A[9,9]"], "no entry 'A.9,9.'"), ("lam", "list of texts"), (3, "texts")]:
        with pytest.raises(ValueError, match=said):
            check_gradient(HERE, VERTICES, BOUNDS, horizon=T, entries=wrong, relaxed_seeds=8)
