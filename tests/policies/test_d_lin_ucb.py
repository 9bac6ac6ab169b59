"""D-Lin-UCB round by round against a plain NumPy loop, and where it meets Lin-UCB."""

import numpy as np
import pytest

import dlbjax as dlb
from tests import baseline_oracles as loops
from tests.oracles import model_of, radius
from tests.policies.replay import PROBLEMS, assert_agrees, decisions_along, fields_of, noise_for

T = 6000


@pytest.mark.parametrize("make", PROBLEMS.values(), ids=PROBLEMS)
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"gamma": 0.9},
        {"gamma": 0.999},
        {"gamma": 1 - 1e-9},
        {"gamma": 1.0},
        {"gamma": 0.99, "lam": 0.3, "delta": 0.05},
    ],
    ids=str,
)
def test_d_lin_ucb_plays_as_the_loop_does(make, options):
    problem = make()
    bounds = dlb.Bounds.of(problem)
    values = {"lam": np.log(T), "delta": 1 / T, "gamma": 1 - 1 / T} | options
    lam, delta, gamma = values["lam"], values["delta"], values["gamma"]

    def loop(seed, eps, eta):
        def beta(s):
            return radius(fields_of(bounds), lam, delta, 3, s, bias=False)

        return loops.d_lin_ucb(model_of(problem), beta, lam, gamma, eps, eta)

    policy = dlb.d_lin_ucb(bounds, **options)
    actions = assert_agrees(problem, policy, noise_for(problem, 2, T), loop)
    assert len(np.unique(actions)) > 2, "nothing was decided"


@pytest.mark.parametrize("make", PROBLEMS.values(), ids=PROBLEMS)
def test_without_discounting_it_is_lin_ucb(make):
    problem = make()
    bounds, noise = dlb.Bounds.of(problem), noise_for(problem, 2, 5000)
    policies = {"near 1": dlb.d_lin_ucb(bounds, gamma=1 - 1e-12), "Lin-UCB": dlb.lin_ucb(bounds)}
    found = dlb.simulate(problem, policies, 5000, noise=noise, record="actions", rounds=[5000])
    np.testing.assert_array_equal(found["near 1"].actions, found["Lin-UCB"].actions)


@pytest.mark.parametrize("make", PROBLEMS.values(), ids=PROBLEMS)
@pytest.mark.parametrize("gamma", [0.999, 1 - 1e-9])
def test_float32_decides_as_float64_does(make, gamma):
    """After the same history: left alone, one decision the other way changes all that follow."""
    problem = make()
    policy = dlb.d_lin_ucb(dlb.Bounds.of(problem), gamma=gamma)
    run = dlb.simulate(
        problem, policy, 5000, noise=noise_for(problem, 1, 5000), record=("actions", "rewards")
    )
    actions, rewards = run.actions[0], run.rewards[0]
    exact, rounded = (
        decisions_along(problem, policy, actions, rewards, dtype) == actions
        for dtype in (np.float64, np.float32)
    )
    assert exact.mean() >= 0.9999
    assert rounded.mean() >= 0.99


@pytest.mark.parametrize("make", PROBLEMS.values(), ids=PROBLEMS)
def test_float32_loses_as_much_as_float64_does(make):
    """Paths part after the first near tie; means are within 5 standard errors, 6·10⁻⁷ false alarms."""
    problem = make()
    policy = dlb.d_lin_ucb(dlb.Bounds.of(problem), gamma=1 - 1e-9)
    lost = [
        dlb.simulate(problem, policy, T, seeds, rounds=[T], dtype=dtype).offline_regret[:, -1]
        for dtype, seeds in ((np.float32, range(128)), (np.float64, range(128, 256)))
    ]
    error = np.hypot(*(x.std() / np.sqrt(len(x)) for x in lost))
    assert abs(lost[0].mean() - lost[1].mean()) < 5 * error


def test_it_forgets():
    """Both arms are played in turn, and for the last 300 of 2300 rounds the better one pays −0.6."""
    system = dlb.System(A=[[0.0]], B=[[0.0, 0.0]], omega=[1.0], theta=[0.6, 0.4], sigma=0.01)
    problem = dlb.Problem(system, dlb.actions.finite(np.eye(2)))
    bounds = dlb.Bounds.of(problem, rho_bar=0.1)
    actions = np.arange(2301) % 2
    rewards = np.where(actions == 1, 0.4, np.where(np.arange(2301) < 2000, 0.6, -0.6))
    for policy, chosen in [
        (dlb.d_lin_ucb(bounds, 0.1, gamma=0.98), 1),
        (dlb.lin_ucb(bounds, 0.1), 0),
    ]:
        assert decisions_along(problem, policy, actions, rewards, np.float64)[-1] == chosen


WRONG = [
    ({"gamma": 0.0}, "gamma"),
    ({"gamma": -0.5}, "gamma"),
    ({"gamma": 1.5}, "gamma"),
    ({"gamma": np.nan}, "gamma"),
    ({"lam": 0.0}, "lam"),
    ({"delta": 1.0}, "delta"),
]


@pytest.mark.parametrize(("options", "named"), WRONG, ids=str)
def test_wrong_hyper_parameters_are_refused(options, named):
    with pytest.raises(ValueError, match=f"^{named} must be"):
        dlb.d_lin_ucb(dlb.Bounds.of(dlb.problems.synthetic()), **options)
