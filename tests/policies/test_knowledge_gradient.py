"""The knowledge gradient against its formulas in NumPy: the posterior in one go, E max on a fine grid."""

import dataclasses

import numpy as np
import pytest

import dlbjax as dlb
from dlbjax.identification import Calendar, Controls, Fit

T = 40
ACTIONS = dlb.actions.budget([0.2, 0, 0.5], [2.0, 1.0, 1.5], 2.5)
SPREAD = np.diag([0.15, 0.05, 0.1, 0.075, 0.01, 0.05])
SPREAD[[0, 1, 2, 1], [1, 2, 3, 5]] = [-0.05, 0.04, -0.02, 0.06]
CONTROLS = np.stack([np.arange(T + 5) / 5, np.sin(np.arange(T + 5))], axis=1)
PRIOR = dlb.Prior(
    mean=[3.0, 1.0, 1.3, 0.9, -0.2, 1.0],
    covariance=SPREAD + SPREAD.T,
    sigma=0.5,
    immediate=[0.3, 1.0, 0.0],
    memory=0.7,
    carried=1.1,
    controls=CONTROLS,
)
GRID = np.linspace(-8, 8, 4001)
WEIGHTS = np.exp(-(GRID**2) / 2) / np.exp(-(GRID**2) / 2).sum()


def exposures(spend):
    """(t + 1, d) of every round so far, and s for the next."""
    share, s, found = np.array(PRIOR.immediate), np.zeros(3), []
    for u in spend:
        found.append(share * u + (1 - share) * s)
        s = PRIOR.memory * s + (1 - PRIOR.memory) * u
    return found, s


def posterior(spend, rewards):
    precision = np.linalg.inv(PRIOR.covariance)
    b = precision @ PRIOR.mean
    for t, (e, y) in enumerate(zip(exposures(spend)[0], rewards, strict=True)):
        if y is not None:
            f = np.r_[1, e, CONTROLS[t]]
            precision = precision + np.outer(f, f) / PRIOR.sigma**2
            b = b + f * (y - PRIOR.carried * PRIOR.memory**t) / PRIOR.sigma**2
    covariance = np.linalg.inv(precision)
    return covariance @ b, covariance


def scores(spend, rewards):
    """m·⟨μ,u⟩ + (r−m)·(E max − max) of every vertex u, up to a factor."""
    mean, covariance = posterior(spend, rewards)
    left = T - len(spend)
    m = min(4, left)  # ⌈1/(1 − 0.7)⌉
    values, found = ACTIONS.vertices @ mean[1:4], []
    level = CONTROLS[len(spend) : len(spend) + m].mean(axis=0)
    for u in ACTIONS.vertices:
        ahead = np.mean(exposures([*spend, *[u] * m])[0][len(spend) :], axis=0)
        f = np.r_[1, ahead, level]
        spread = np.sqrt(f @ covariance @ f + PRIOR.sigma**2 / m)
        shift = ACTIONS.vertices @ (covariance @ f)[1:4] / spread
        best = np.max(values[:, None] + shift[:, None] * GRID, axis=0) @ WEIGHTS
        found.append(m * (u @ mean[1:4]) + (left - m) * (best - values.max()))
    return np.array(found)


@pytest.mark.parametrize("seed", range(3))
def test_decides_by_its_formulas(seed):
    """Within the error of 16 nodes; with missing rewards and spend that differs."""
    rng, agent = np.random.default_rng(seed), dlb.Agent(dlb.knowledge_gradient(PRIOR), ACTIONS, T)
    effects = rng.normal(PRIOR.mean, 0.4)
    spend, rewards, played = [], [], []
    for t in range(T):
        expected, allocation = scores(spend, rewards), agent.ask()
        played.append(ACTIONS.index(allocation))
        assert expected[played[-1]] > expected.max() - 0.01 * np.ptp(expected)
        actual = allocation * rng.uniform(0.9, 1.1, 3) if rng.random() < 0.5 else None
        spend.append(allocation if actual is None else actual)
        e = exposures(spend)[0][-1]
        y = effects @ np.r_[1, e, CONTROLS[t]] + 0.5 * rng.normal()
        rewards.append(None if rng.random() < 0.2 else float(y))
        agent.tell(rewards[-1], actual)
    assert len(set(played)) > 1


def test_what_it_knows_is_the_posterior():
    """Told its own expectations, a certain policy plays the best vertex throughout."""
    certain = PRIOR._replace(covariance=1e-12 * np.eye(6))
    agent = dlb.Agent(dlb.knowledge_gradient(certain), ACTIONS, T)
    best = ACTIONS.vertices[np.argmax(ACTIONS.vertices @ PRIOR.mean[1:4])]
    for _ in range(T):
        np.testing.assert_array_equal(agent.ask(), best)
        agent.tell(7.0)


WRONG = {
    "prior must be a dlbjax.Prior": lambda: dlb.knowledge_gradient((1, 2)),
    "sigma must be > 0": lambda: dlb.knowledge_gradient(PRIOR._replace(sigma=0.0)),
    "memory must be >= 0.0 and < 1": lambda: dlb.knowledge_gradient(PRIOR._replace(memory=1.0)),
    "immediate must hold shares": lambda: dlb.knowledge_gradient(
        PRIOR._replace(immediate=[2, 0, 0])
    ),
    "covariance must be symmetric and positive": lambda: dlb.knowledge_gradient(
        PRIOR._replace(covariance=-np.eye(6))
    ),
    "controls must be finite": lambda: dlb.knowledge_gradient(
        PRIOR._replace(controls=[[0, np.nan]])
    ),
    r"mean must have shape \(6,\)": lambda: dlb.knowledge_gradient(PRIOR._replace(mean=[1.0])),
    r"mean must have shape \(4,\)": lambda: dlb.knowledge_gradient(PRIOR._replace(controls=None)),
    "immediate must hold a share for": lambda: dlb.knowledge_gradient(PRIOR._replace(immediate=[])),
    "prior is of 3 channels, but the actions have 2": lambda: dlb.Agent(
        dlb.knowledge_gradient(PRIOR), dlb.actions.simplex(2), 5
    ),
    "controls of 45 rounds, but there are 46": lambda: dlb.Agent(
        dlb.knowledge_gradient(PRIOR), ACTIONS, T + 6
    ),
    "at most 2000 vertices; got 2001": lambda: dlb.Agent(
        dlb.knowledge_gradient(PRIOR),
        dlb.actions.finite(np.random.default_rng(0).random((2001, 3))),
        5,
    ),
}


@pytest.mark.parametrize("message", WRONG)
def test_what_cannot_be_used_is_rejected(message):
    with pytest.raises(ValueError, match=message):
        WRONG[message]()


def test_the_prior_of_a_fit():
    """Of a system with one state, whose noise is carried over: the variance of a mean of many rewards."""
    system = dlb.System(
        [[0.6]], [[0.4, 0.2]], [2.0], [1.0, -3.0], state_noise=0.3, reward_noise=0.5
    )
    unused = dict.fromkeys(field.name for field in dataclasses.fields(Fit))
    controls = Controls((), *np.zeros((3, 0)), Calendar(), 10)
    known = {
        "system": system, "baseline": 4.0, "covariance": np.eye(3), "state": np.array([0.7]),
        "controls": controls, "sigma": 1.2,
    }  # fmt: skip
    prior = Fit(**unused | known).prior()
    np.testing.assert_allclose(prior.mean, [4.0, 1 + 2 * 0.4 / 0.4, -3 + 2 * 0.2 / 0.4])
    np.testing.assert_allclose(prior.immediate, [1 / 3, 1.0])  # −3/−2 is no share
    np.testing.assert_allclose(prior.sigma**2, 0.5**2 + (2 / 0.4 * 0.3) ** 2)
    assert Fit(**unused | known | {"sigma": 9.0}).prior().sigma == 9.0  # errors one round ahead
    np.testing.assert_allclose([prior.memory, prior.carried], [0.6, 1.4])
    assert dlb.Agent(dlb.knowledge_gradient(prior), dlb.actions.simplex(2), 52).ask().sum() == 1
    with pytest.raises(ValueError, match="the fit has no covariance; pass refine=True"):
        Fit(**unused | known | {"covariance": None}).prior()


def test_the_prior_of_a_fit_knows_the_controls_of_the_coming_rounds():
    unused = dict.fromkeys(field.name for field in dataclasses.fields(Fit))
    controls = Controls(
        ("trend", "price", "holiday"), np.array([0.5, -2.0, 3.0]), np.ones(3), np.array([9.5, 1.0, 0.1]),
        Calendar(trend=True), 20,
    )  # fmt: skip
    system = dlb.System([[0.6]], [[0.4, 0.2]], [2.0], [1.0, 3.0], sigma=0.1)
    spread = np.diag(np.arange(1.0, 7.0))
    known = {
        "system": system,
        "baseline": 4.0,
        "covariance": spread,
        "state": np.zeros(1),
        "sigma": 1,
    }
    fit = Fit(**unused | known | {"controls": controls})
    trend, nothing = np.array([20, 21, 22]) - 9.5, np.zeros(3)
    prior = fit.prior(3)
    np.testing.assert_allclose(prior.mean, [4.0, *system.h, 0.5, -2.0, 3.0])
    np.testing.assert_array_equal(prior.covariance, spread)
    np.testing.assert_array_equal(fit.h_covariance, np.diag([2.0, 3.0]))
    np.testing.assert_allclose(prior.controls, np.c_[trend, nothing, nothing])
    with pytest.raises(
        ValueError, match="rounds must be a whole number from 0 to 1000000; got 1000000000"
    ):
        fit.prior(10**9)
    price, holiday = np.array([1.0, 1.5, 1.0]), np.array([0.0, 0.0, 1.0])
    np.testing.assert_allclose(fit.prior(3, price).controls, np.c_[trend, price - 1, nothing])
    both = np.c_[trend, price - 1, holiday - 0.1]
    np.testing.assert_allclose(fit.prior(3, np.c_[price, holiday]).controls, both)
    np.testing.assert_allclose(fit.controls.ahead(3, price), 0.5 * trend - 2 * (price - 1))
    with pytest.raises(ValueError, match=r"the fit has controls \(trend, price, holiday\), whose"):
        fit.prior()
    with pytest.raises(ValueError, match=r"column for each of \['price', 'holiday'\]; got 3"):
        fit.prior(3, np.zeros((3, 3)))
