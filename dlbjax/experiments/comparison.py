"""Figures 1 and 3 of the paper and its appendix: DynLin-UCB compared with other algorithms."""

from typing import Any

import numpy as np

from dlbjax.engine.simulate import simulate
from dlbjax.model.actions import finite
from dlbjax.model.bounds import Bounds
from dlbjax.model.problem import Problem
from dlbjax.model.problems import synthetic
from dlbjax.policies import (
    ar2,
    batch_exp3,
    d_lin_ucb,
    dynlin_ucb,
    dynlin_ucb_tight,
    exp3,
    lin_ucb,
)
from dlbjax.policies.base import Policy, PolicyGrid
from dlbjax.results.result import Result, Results

OURS = "DynLin-UCB tight (ours)"  # label of the one policy that is not in the paper
FORGETTING = (1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-9)  # 1 − γ


def comparison(
    problem: Problem,
    horizon: int = 1_000_000,
    seeds: int = 50,
    further: dict[str, Policy | PolicyGrid] | None = None,
    **options: Any,
) -> Results:
    """Run the paper's algorithms on one problem, with ρ̄ = ρ(A) and the tightest bounds.

    Algorithms that regularise run with λ = log T and with λ = 1, as one axis of their result.
    `dynlin_ucb_tight`, which is not in the paper, runs as well.

    Args:
      problem: the bandit.
      horizon: number of rounds; 10⁶ in the paper.
      seeds: number of runs; 50 in the paper.
      further: further policies by name.
      **options: passed to `simulate`.

    >>> from dlbjax.model.problems import synthetic
    >>> list(comparison(synthetic(), horizon=100, seeds=2))
    ['DynLin-UCB', 'Lin-UCB', 'D-Lin-UCB', 'AR2', 'Exp3', 'Batch-Exp3', 'DynLin-UCB tight (ours)']
    """
    bounds, lam = Bounds.of(problem), np.array([np.log(horizon), 1.0])
    policies: dict[str, Policy | PolicyGrid] = {
        "DynLin-UCB": dynlin_ucb(bounds, lam),
        "Lin-UCB": lin_ucb(bounds, lam),
        "D-Lin-UCB": d_lin_ucb(bounds, lam),
        "AR2": ar2(bounds),
        "Exp3": exp3(bounds),
        "Batch-Exp3": batch_exp3(bounds),
        OURS: dynlin_ucb_tight(bounds),
    }
    return simulate(problem, policies | (further or {}), horizon, seeds, **options)


def whole_budget(problem: Problem) -> Problem:
    """The problem with only those vertices that spend the most, as in the authors' released program.

    >>> from dlbjax.model.problems import synthetic
    >>> len(synthetic().actions), len(whole_budget(synthetic()).actions)
    (10, 6)
    """
    spent = problem.actions.vertices.sum(axis=1)
    return Problem(problem.system, finite(problem.actions.vertices[np.isclose(spent, spent.max())]))


def discounting(horizon: int = 1_000_000, seeds: int = 50, **options: Any) -> Result:
    """Run D-Lin-UCB with several discount factors γ and λ = log T on the synthetic problem."""
    problem = synthetic(sigma=0.01)
    policy = d_lin_ucb(Bounds.of(problem), gamma=1 - np.array(FORGETTING))
    return simulate(problem, policy, horizon, seeds, **options)
