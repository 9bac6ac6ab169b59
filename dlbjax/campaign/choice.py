"""Which allocation to choose, how sure one can be, and what to do over the rounds to come."""

from typing import Any, NamedTuple

import numpy as np

from dlbjax._arrays import whole_number
from dlbjax.bounds import Bounds
from dlbjax.campaign.model import Model
from dlbjax.engine.simulate import simulate
from dlbjax.policies import clairvoyant, dynlin_ucb, dynlin_ucb_tight, lin_ucb
from dlbjax.problem import Problem
from dlbjax.result import Results
from dlbjax.theory import average_reward, optimal_plan

CONSTANT = "best constant allocation"  # as `rehearse` names it
_DRAWS = 100_000


class Option(NamedTuple):
    """A constant allocation, and what is known of it."""

    allocation: np.ndarray  # (d,)
    reward: float  # expected reward per round once settled, baseline included
    std: float  # standard error of that
    probability: float  # that it is the best vertex


class Choice(NamedTuple):
    """What to do with a budget.

    Attributes:
      problem: the fitted system with the budget's action set.
      options: the vertices of the action set, best first.
      plan: (H, d) the best allocation of every round from today's state, if the horizon ends there.
      plan_reward: expected reward of the plan over the H rounds.
      constant_reward: the same of the best constant allocation.
      baseline_reward: the same of doing nothing.
    """

    problem: Problem
    options: list[Option]
    plan: np.ndarray
    plan_reward: float
    constant_reward: float
    baseline_reward: float


def choose(model: Model, horizon: int, total: float | None = None, seed: int = 0) -> Choice:
    """The best constant allocation with its uncertainty, and the best plan from today's state.

    An allocation is the best vertex with the probability that a draw of h from the normal distribution
    of its estimate makes it so. Rewards over the horizon start from the state predicted for the round
    to come: what was spent before still works.

    Args:
      model: the fitted model.
      horizon: H, rounds to plan.
      total: budget per round, the model's own by default.
      seed: of the draws.
    """
    horizon = whole_number("horizon", horizon, at_least=1)
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
        Option(vertices[i], model.baseline + problem.values[i], spread[i], shares[i])
        for i in np.argsort(-problem.values, kind="stable")
    ]
    plan = vertices[optimal_plan(problem, horizon)]

    def over_horizon(actions: np.ndarray) -> float:
        return horizon * (model.baseline + average_reward(problem, actions))

    return Choice(
        problem, options, plan,
        plan_reward=over_horizon(plan),
        constant_reward=over_horizon(np.tile(problem.optimal_action, (horizon, 1))),
        baseline_reward=over_horizon(np.zeros_like(plan)),
    )  # fmt: skip


def rehearse(problem: Problem, horizon: int, seeds: int = 20, **options: Any) -> Results:
    """What learning from scratch would cost on the fitted system: simulated regret of the policies."""
    bounds = Bounds.of(problem)
    policies = {
        "DynLin-UCB tight": dynlin_ucb_tight(bounds),
        "DynLin-UCB": dynlin_ucb(bounds),
        "Lin-UCB": lin_ucb(bounds),
        CONSTANT: clairvoyant(problem),
    }
    return simulate(problem, policies, horizon, seeds, **options)
