"""The best allocation with its uncertainty, and the best plan for the next rounds."""

from typing import Any, NamedTuple

import numpy as np
import scipy.stats
from scipy.optimize import linprog

from dlbjax.campaign.model import Model
from dlbjax.campaign.region import region
from dlbjax.common.arrays import Number, instance_of, real_array, whole_number
from dlbjax.engine.simulate import simulate
from dlbjax.model.bounds import Bounds
from dlbjax.model.problem import Problem
from dlbjax.policies import clairvoyant, dynlin_ucb, dynlin_ucb_tight, lin_ucb
from dlbjax.results.result import Results
from dlbjax.theory import optimal_plan, predicted_rewards

CONSTANT = "best constant allocation"  # its name in the results of `rehearse`
_DRAWS = 100_000
_NEAR = 0.01  # share of the current allocation's effect by which two allocations count as equal


class Option(NamedTuple):
    """A constant allocation and its expected reward.

    Attributes:
      allocation: (d,) spend on each channel.
      reward: expected reward per round in the steady state, baseline included.
      std: standard error of `reward`.
      gain: `reward` less that of the current allocation.
      gain_std: standard error of `gain`.
      better: probability that it is better than the current allocation.
      probability: that it is the best corner, or less than 1 % of the current effect below it.
    """

    allocation: np.ndarray
    reward: float
    std: float
    gain: float
    gain_std: float
    better: float
    probability: float


class Choice(NamedTuple):
    """What to do with a budget.

    Attributes:
      problem: the fitted system with the allocations to choose from.
      current: the current allocation.
      options: the corners of the region to choose from, best first.
      plan: (H, d) best allocation of each of the next H rounds, if rewards after them do not count.
      level: (H,) baseline of the next rounds, with trend and season.
      plan_reward: expected reward of the plan over the H rounds.
      constant_reward: that of the best constant allocation.
      current_reward: that of the current allocation.
      baseline_reward: that of spending nothing.
      warnings: what is doubtful about the region.
    """

    problem: Problem
    current: Option
    options: list[Option]
    plan: np.ndarray
    level: np.ndarray
    plan_reward: float
    constant_reward: float
    current_reward: float
    baseline_reward: float
    warnings: tuple[str, ...]


def choose(
    model: Model, horizon: int, total: float | None = None, *, low: Number | None = None,
    high: Number | None = None, change: Number | None = None, current: Number | None = None,
    nearby: float | None = 0.3, seed: int = 0,
) -> Choice:  # fmt: skip
    """The best constant allocation with its uncertainty, and the best plan from the current state.

    Probabilities are those of the normal distribution of the estimate of h. Rewards over the horizon start
    from the predicted state of the next round, so that they include delayed effects of past spend, and
    from a baseline with trend and season.

    Args:
      model: the fitted model.
      horizon: H, number of rounds to plan.
      total: most spend in a round; the model's by default.
      low: least spend on each channel; the model's by default.
      high: most spend on each channel; the model's by default.
      change: most by which the spend on each channel, or on every channel, may change from one round of
        the plan to the next, counted from the current allocation; no limit by default.
      current: (d,) the current allocation; by default the log's mean.
      nearby: share by which a channel may differ from its current spend, jointly inside the data; None for
        all corners within the limits.
      seed: of the draws.
    """
    horizon = whole_number("horizon", horizon, at_least=1)
    seed = whole_number("seed", seed, at_least=0)
    instance_of("model", model, Model, "a dlbjax.campaign.Model")
    allowed = region(model, total=total, low=low, high=high, current=current, nearby=nearby)
    problem = Problem(model.system, allowed.actions)
    vertices, now = allowed.actions.vertices, allowed.current
    draws = np.random.default_rng(seed).multivariate_normal(
        model.h, model.h_covariance, _DRAWS, method="eigh"
    )
    values = draws @ vertices.T
    near = values >= values.max(axis=1, keepdims=True) - _NEAR * abs(float(model.h @ now))
    options = [
        _option(model, vertices[i], now, float(near[:, i].mean()))
        for i in np.argsort(-problem.values, kind="stable")
    ]
    plan = _plan(problem, horizon, now, change)
    level = model.baseline + model.controls.ahead(horizon)

    def over_horizon(actions: np.ndarray) -> float:
        return float(level.sum() + predicted_rewards(problem, actions).sum())

    return Choice(
        problem, _option(model, now, now, float("nan")), options, plan, level,
        plan_reward=over_horizon(plan),
        constant_reward=over_horizon(np.tile(options[0].allocation, (horizon, 1))),
        current_reward=over_horizon(np.tile(now, (horizon, 1))),
        baseline_reward=over_horizon(np.zeros_like(plan)),
        warnings=allowed.warnings,
    )  # fmt: skip


def _option(model: Model, allocation: np.ndarray, now: np.ndarray, probability: float) -> Option:
    row = np.insert(allocation, 0, 1.0)  # the baseline counts once
    moved = allocation - now
    gain = float(model.h @ moved)
    gain_std = float(np.sqrt(max(moved @ model.h_covariance @ moved, 0.0)))
    return Option(
        allocation,
        reward=model.baseline + float(model.h @ allocation),
        std=float(np.sqrt(max(row @ model.covariance @ row, 0.0))),
        gain=gain,
        gain_std=gain_std,
        better=float(scipy.stats.norm.cdf(gain / gain_std)) if gain_std > 0 else float(gain > 0),
        probability=probability,
    )


def _plan(problem: Problem, horizon: int, now: np.ndarray, change: Number | None) -> np.ndarray:
    """(H, d) the best allocations of the next rounds, with at most a change from one to the next.

    With a limit on change it is a linear program in the weights of the corners in every round: an
    action at round t adds ⟨h^{[0,H−t]}, u_t⟩ to the rewards of the horizon.
    """
    vertices = problem.actions.vertices
    if change is None:
        return vertices[optimal_plan(problem, horizon)]
    K, d = vertices.shape
    most = np.broadcast_to(real_array("change", change, () if np.ndim(change) == 0 else (d,)), d)
    if (most < 0).any():
        raise ValueError(f"change must be >= 0 for every channel; got {most.min():g}")
    worth = np.array([problem.system.cumulative_markov(0, horizon - 1 - t) for t in range(horizon)])
    unit = np.maximum(np.abs(vertices).max(axis=0), np.abs(now)) + 1e-300
    step = np.kron(np.eye(horizon) - np.eye(horizon, k=-1), (vertices / unit).T)
    before = np.concatenate([now / unit, np.zeros((horizon - 1) * d)])
    limit = np.tile(most / unit, horizon)
    found = linprog(
        -(worth @ vertices.T).ravel() / max(np.abs(worth @ vertices.T).max(), 1e-300),
        A_ub=np.vstack([step, -step]), b_ub=np.concatenate([limit + before, limit - before]),
        A_eq=np.kron(np.eye(horizon), np.ones(K)), b_eq=np.ones(horizon),
    )  # fmt: skip
    if found.status != 0:
        raise ValueError(
            "no plan keeps both the limits and the limit on change: the current allocation is too far from "
            "what is allowed; allow a larger change, or wider limits"
        )
    return found.x.reshape(horizon, K) @ vertices


def rehearse(problem: Problem, horizon: int, seeds: int = 20, **options: Any) -> Results:
    """Simulated regret of learning from scratch on the fitted system.

    A baseline changes no regret and is left out, as policies here do not expect one.
    """
    bounds = Bounds.of(problem)
    policies = {
        "DynLin-UCB tight": dynlin_ucb_tight(bounds),
        "DynLin-UCB": dynlin_ucb(bounds),
        "Lin-UCB": lin_ucb(bounds),
        CONSTANT: clairvoyant(problem),
    }
    return simulate(problem, policies, horizon, seeds, **options)
