"""From logged data through a fit to a campaign of a year, beside the fitted constant and the status quo."""

import warnings
from typing import NamedTuple

import numpy as np
import pytest

import dlbjax as dlb

WEEKS = 52
LOGGED = (104, 156, 208)
R2 = 0.7  # share of the logged rewards' variance that spend explains


class Truth(NamedTuple):
    """A campaign's world: y = c + x + ⟨θ,u⟩ + noise, x' = ρx + ⟨b,u⟩."""

    c: float
    rho: float
    b: np.ndarray
    theta: np.ndarray
    sigma: float
    spend: np.ndarray  # (N, d) logged
    rewards: np.ndarray  # (N,) logged
    x: float  # carried over into the first week of the campaign

    def expected(self, spend):
        """Expected rewards of weeks after the log, and what they carry over."""
        x, rewards = self.x, []
        for u in spend:
            rewards.append(self.c + x + self.theta @ u)
            x = self.rho * x + self.b @ u
        return np.array(rewards)


def draw(seed):
    """Three channels, about 5, 3 and 2 a week; half of their effects within .7 and 1.4, memory .3 to .8."""
    rng = np.random.default_rng(seed)
    N = LOGGED[seed % len(LOGGED)]
    usual = np.array([5.0, 3.0, 2.0]) * rng.uniform(0.7, 1.3, 3)
    h, rho, late = (
        np.exp(0.5 * rng.standard_normal(3)),
        rng.uniform(0.3, 0.8),
        rng.uniform(0.2, 0.8, 3),
    )
    spend = usual * np.exp(0.35 * rng.standard_normal((N, 3)))
    world = Truth(
        h @ usual * rng.uniform(0.5, 1.5), rho, (1 - rho) * late * h, (1 - late) * h, 0.0, spend,
        np.zeros(N), (late * h) @ usual,
    )  # fmt: skip
    clean = world.expected(np.r_[spend, spend[:1]])
    sigma = np.sqrt(clean[:-1].var() * (1 - R2) / R2)
    rewards = clean[:-1] + sigma * rng.standard_normal(N)
    return world._replace(
        sigma=sigma, rewards=rewards, x=clean[-1] - world.c - world.theta @ spend[0]
    )


def campaign(seed):
    """Expected rewards of a year: status quo, fitted constant, agent, and the best constant."""
    world, rng = draw(seed), np.random.default_rng([seed, 1])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        fit = dlb.identify(world.spend, world.rewards, order=1, restarts=1)
    usual = world.spend.mean(axis=0)
    actions = dlb.actions.budget(0.7 * usual, 1.3 * usual, usual.sum())
    best, fitted = (
        actions.vertices[np.argmax(actions.vertices @ h)]
        for h in (world.theta + world.b / (1 - world.rho), fit.system.h)
    )
    agent = dlb.Agent(dlb.knowledge_gradient(fit.prior()), actions, WEEKS)
    noise, played = world.sigma * rng.standard_normal(WEEKS), []
    for week in range(WEEKS):
        played.append(agent.ask())
        agent.tell(world.expected(played)[-1] + noise[week])
    return [
        world.expected(spend).sum()
        for spend in (*(np.tile(u, (WEEKS, 1)) for u in (usual, fitted)), played)
    ] + [world.expected(np.tile(best, (WEEKS, 1))).sum()]


def study(truths):
    quo, fitted, agent, best = np.array([campaign(seed) for seed in range(truths)]).T
    gain = 100 * (agent - fitted) / quo
    wrong = fitted < best - 1e-9 * best
    print(f"\n{truths} truths, in % of the status quo's reward")
    print(f"  agent − fitted constant  {gain.mean():.3f} ± {gain.std(ddof=1) / truths**0.5:.3f}")
    print(f"  where the fit was wrong  {gain[wrong].mean():.3f} ({wrong.sum()} truths)")
    for name, values in {"fitted": fitted, "agent": agent, "best": best}.items():
        print(
            f"  {name:<8} − status quo {(100 * (values - quo) / quo).mean():.3f}, "
            f"at least as good in {(values >= quo).mean():.1%}"
        )
    return gain, wrong, agent >= quo


@pytest.mark.evidence
def test_an_agent_from_a_fit_does_not_lose_to_the_fitted_constant():
    """It gains on average, most where the fit was wrong, and hardly ever falls behind the status quo."""
    gain, wrong, not_worse = study(300)
    assert gain.mean() > 0
    assert gain[wrong].mean() > 3 * gain[wrong].std(ddof=1) / wrong.sum() ** 0.5
    assert not_worse.mean() >= 0.9
