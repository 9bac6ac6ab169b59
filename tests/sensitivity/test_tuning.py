"""Tuning by gradient, and what its validation says when there is a gain and when there is none."""

import numpy as np
import pytest

import dlbjax as dlb
from dlbjax.policies.dynlin_ucb import epoch_lengths
from dlbjax.sensitivity.tuning import Tuned, random_problems, tune, validate

T = 300


def paper_as_tuned(**changes):
    same = Tuned(lam=np.log(T), scale=1.0, extra=0, rho_bar=0.5, horizon=T, curves={})
    return same._replace(**changes)


def test_random_problems_are_stable_of_one_shape_and_size():
    problems = random_problems(20, n=4, d=2, rho=0.7, sigma=0.3, seed=5)
    assert max(problem.system.rho for problem in problems) <= 0.7
    assert min(problem.system.rho for problem in problems) < 0.3
    np.testing.assert_allclose([np.linalg.norm(problem.h) for problem in problems], 1.0)
    assert {problem.system.A.shape for problem in problems} == {(4, 4)}
    again = random_problems(20, n=4, d=2, rho=0.7, sigma=0.3, seed=5)
    np.testing.assert_array_equal(again[7].system.A, problems[7].system.A)
    assert not np.array_equal(random_problems(1, n=4, seed=6)[0].system.A, problems[0].system.A)
    with pytest.raises(ValueError, match=r"count must be .* from 1 to 10000"):
        random_problems(10_001)


@pytest.mark.slow
def test_tuning_lowers_the_relaxed_regret_and_the_true_one():
    """Both numbers of extra rounds start from the paper's constants; held-out systems confirm the gain."""
    tuned = tune(random_problems(4, n=1, d=2), T, 0.5, extra=(0, 1), steps=15)
    assert tuned.curves[0][0] == pytest.approx(1.0, rel=1e-12)
    assert all(len(curve) == 16 for curve in tuned.curves.values())
    assert min(map(min, tuned.curves.values())) < 0.5
    assert tuned.scale < 1
    assert tuned.extra == min(tuned.curves, key=lambda q: tuned.curves[q].min())
    found = validate(tuned, random_problems(6, n=1, d=2, seed=1), seeds=20)
    assert found.ratio_interval[1] < 1
    assert "mean regret falls to" in found.verdict


def test_validation_plays_the_tuned_constants_and_the_papers():
    tuned, problems = paper_as_tuned(lam=2.0, scale=0.4, extra=3), random_problems(2, seed=2)
    found = validate(tuned, problems, seeds=3)
    bounds = dlb.Bounds.of(problems[1], 0.5)
    lengths = np.repeat(*epoch_lengths(0.5, T, extra=3))
    done = np.cumsum(lengths) - lengths
    beta = 0.4 * dlb.theory.beta(bounds, 2.0, 1 / T, 3, done, printed=True)
    policies = {
        "tuned": dlb.dynlin_ucb(bounds, 2.0, epochs=lengths, beta=beta),
        "paper": dlb.dynlin_ucb(bounds),
    }
    for name, result in dlb.simulate(problems[1], policies, T, 3, rounds=[T]).items():
        np.testing.assert_array_equal(getattr(found, name)[1], result.expected_regret[:, -1])


def test_validation_of_the_same_constants_finds_no_difference():
    found = validate(paper_as_tuned(), random_problems(3, seed=2), seeds=5)
    np.testing.assert_array_equal(found.paper, found.tuned)
    assert found.ratio == 1.0
    assert len(found.worse) == 0
    assert "no significant gain" in found.verdict


def test_validation_says_when_the_gain_does_not_carry_over():
    found = validate(paper_as_tuned(scale=5.0), random_problems(5, seed=2), seeds=10)
    assert found.ratio_interval[0] > 1
    assert len(found.worse) >= 4
    assert "does not carry over" in found.verdict
    means = found.tuned.mean(axis=1) / found.paper.mean(axis=1)
    assert found.ratio == pytest.approx(means.mean())
    assert found.worst == pytest.approx(means.max())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"problems": random_problems(1)}, "at least two"),
        ({"problems": [dlb.problems.synthetic(), *random_problems(1, n=2)]}, "must share"),
        ({"rho_bar": 0.0}, "rho_bar must not be below a spectral radius"),
        ({"rho_bar": 1.0}, "rho_bar must be >= 0.0 and < 1.0"),
        ({"extra": ()}, "extra must hold at least one"),
        ({"steps": 0}, "steps must be a whole number from 1"),
        ({"learning_rate": 0.0}, "learning_rate must be > 0.0"),
    ],
)
def test_invalid_arguments_are_rejected(change, message):
    given = {"problems": random_problems(2), "horizon": T, "rho_bar": 0.5} | change
    with pytest.raises(ValueError, match=message):
        tune(**given)
