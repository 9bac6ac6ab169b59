"""The best allocation with its uncertainty, and the best plan for the next rounds."""

from typing import Any, NamedTuple

import numpy as np

from dlbjax.campaign.model import Model
from dlbjax.common.arrays import instance_of, whole_number
from dlbjax.engine.simulate import simulate
from dlbjax.model.bounds import Bounds
from dlbjax.model.problem import Problem
from dlbjax.policies import clairvoyant, dynlin_ucb, dynlin_ucb_tight, lin_ucb
from dlbjax.results.result import Results
from dlbjax.theory import average_reward, optimal_plan

CONSTANT = "best constant allocation"  # its name in the results of `rehearse`
_DRAWS = 100_000


class Option(NamedTuple):
    """A constant allocation and its expected reward.

    Attributes:
      allocation: (d,) spend on each channel.
      reward: expected reward per round in the steady state, baseline included.
      std: standard error of `reward`.
      probability: that it is the best vertex.
    """

    allocation: np.ndarray
    reward: float
    std: float
    probability: float


class Choice(NamedTuple):
    """What to do with a budget.

    Attributes:
      problem: the fitted system with the budget's action set.
      options: the vertices of the action set, best first.
      plan: (H, d) best allocation of each of the next H rounds, if rewards after them do not count.
      plan_reward: expected reward of the plan over the H rounds.
      constant_reward: that of the best constant allocation.
      baseline_reward: that of spending nothing.
    """

    problem: Problem
    options: list[Option]
    plan: np.ndarray
    plan_reward: float
    constant_reward: float
    baseline_reward: float


def choose(model: Model, horizon: int, total: float | None = None, seed: int = 0) -> Choice:
    """The best constant allocation with its uncertainty, and the best plan from the current state.

    The probability that an allocation is the best vertex is its share of draws of h from the normal
    distribution of the estimate. Rewards over the horizon start from the predicted state of the next
    round, so that they include delayed effects of past spend.

    Args:
      model: the fitted model.
      horizon: H, number of rounds to plan.
      total: budget per round; the model's by default.
      seed: of the draws.
    """
    horizon = whole_number("horizon", horizon, at_least=1)
    seed = whole_number("seed", seed, at_least=0)
    instance_of("model", model, Model, "a dlbjax.campaign.Model")
    problem = model.problem(total)
    vertices = problem.actions.vertices
    draws = np.random.default_rng(seed).multivariate_normal(
        problem.h, model.covariance[1:, 1:], _DRAWS, method="eigh"
    )
    best = np.argmax(draws @ vertices.T, axis=1)
    shares = np.bincount(best, minlength=len(vertices)) / _DRAWS
    row = np.insert(vertices, 0, 1.0, axis=1)  # the baseline counts once
    spread = np.sqrt(np.einsum("ki,ij,kj->k", row, model.covariance, row))
    options = [
        Option(
            vertices[i],
            reward=model.baseline + float(problem.values[i]),
            std=float(spread[i]),
            probability=float(shares[i]),
        )
        for i in np.argsort(-problem.values, kind="stable")
    ]
    plan = vertices[optimal_plan(problem, horizon)]

    def over_horizon(actions: np.ndarray) -> float:
        return horizon * (model.baseline + float(average_reward(problem, actions)))

    return Choice(
        problem, options, plan,
        plan_reward=over_horizon(plan),
        constant_reward=over_horizon(np.tile(problem.optimal_action, (horizon, 1))),
        baseline_reward=over_horizon(np.zeros_like(plan)),
    )  # fmt: skip


def rehearse(problem: Problem, horizon: int, seeds: int = 20, **options: Any) -> Results:
    """Simulated regret of learning from scratch on the fitted system."""
    bounds = Bounds.of(problem)
    policies = {
        "DynLin-UCB tight": dynlin_ucb_tight(bounds),
        "DynLin-UCB": dynlin_ucb(bounds),
        "Lin-UCB": lin_ucb(bounds),
        CONSTANT: clairvoyant(problem),
    }
    return simulate(problem, policies, horizon, seeds, **options)
