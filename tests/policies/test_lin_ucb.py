"""Lin-UCB round by round against a plain NumPy loop, on both of the paper's problems."""

import numpy as np
import pytest

import dlbjax as dlb
from tests.oracles import algorithm1, model_of, radius, regrets

T = 5000


@pytest.mark.parametrize("problem", [dlb.problems.synthetic(0.1), dlb.problems.real_world(0.1)])
def test_lin_ucb_plays_as_the_loop_does(problem):
    rng = np.random.default_rng(0)
    noise = dlb.Noise(0.1 * rng.normal(size=(1, T, 3)), 0.1 * rng.normal(size=(1, T)))
    bounds = dlb.Bounds.of(problem)
    fields = {name: float(getattr(bounds, name)) for name in type(bounds).__dataclass_fields__}
    lam, delta = np.log(T), 1 / T
    run = algorithm1(
        model_of(problem), [1] * T, lambda s: radius(fields, lam, delta, 3, s, bias=False), lam,
        noise.state[0], noise.reward[0],
    )  # fmt: skip
    result = dlb.simulate(
        problem, dlb.lin_ucb(bounds), T, noise=noise, record=("actions", "rewards")
    )
    np.testing.assert_array_equal(result.actions[0], run.actions)
    np.testing.assert_allclose(result.rewards[0], run.rewards, atol=1e-9)
    for mine, theirs in zip(
        (result.realised_regret, result.expected_regret, result.offline_regret),
        regrets(model_of(problem), run), strict=True,
    ):  # fmt: skip
        np.testing.assert_allclose(mine[0], theirs[result.rounds - 1], rtol=1e-9, atol=1e-9)


def test_lists_of_hyper_parameters_make_a_grid():
    problem = dlb.problems.synthetic()
    grid = dlb.lin_ucb(dlb.Bounds.of(problem, rho_bar=[0.2, 0.3]), lam=[1.0, 2.0, 3.0])
    assert list(grid.axes) == ["rho_bar", "lam"]
    assert len(grid.policies) == 6


@pytest.mark.parametrize(("options", "named"), [({"lam": 0.0}, "lam"), ({"delta": 1.0}, "delta")])
def test_wrong_hyper_parameters_are_refused(options, named):
    with pytest.raises(ValueError, match=f"^{named} must be"):
        dlb.lin_ucb(dlb.Bounds.of(dlb.problems.synthetic()), **options)
