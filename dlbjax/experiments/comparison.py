"""Figures 1 and 3 of the paper, and its appendix: DynLin-UCB beside the other algorithms."""

from typing import Any

import numpy as np

from dlbjax.bounds import Bounds
from dlbjax.engine.simulate import simulate
from dlbjax.policies import (
    ar2,
    batch_exp3,
    d_lin_ucb,
    dynlin_ucb,
    dynlin_ucb_tight,
    exp3,
    lin_ucb,
)
from dlbjax.policies.policy import Policy, PolicyGrid
from dlbjax.problem import Problem
from dlbjax.problems import synthetic
from dlbjax.result import Result, Results

OURS = "DynLin-UCB tight (ours)"  # as figures name the one policy that is not the paper's
FORGETTING = (1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-9)  # 1 − γ


def comparison(
    problem: Problem,
    horizon: int = 1_000_000,
    seeds: int = 50,
    further: dict[str, Policy | PolicyGrid] | None = None,
    **options: Any,
) -> Results:
    """The algorithms of the paper on one problem, all told ρ̄ = ρ(A).

    Those that regularise are run with λ = log T and with λ = 1, as one axis of their result. Beside
    them goes `dynlin_ucb_tight`, which the paper does not have.

    Args:
      problem: the bandit.
      horizon: rounds; the paper has 10⁶.
      seeds: runs; the paper has 50.
      further: other policies to run beside them.
      **options: passed to `simulate`.

    >>> from dlbjax.problems import synthetic
    >>> list(comparison(synthetic(), horizon=100, seeds=2))
    ['DynLin-UCB', 'Lin-UCB', 'D-Lin-UCB', 'AR2', 'Exp3', 'Batch-Exp3', 'DynLin-UCB tight (ours)']
    """
    bounds, lam = Bounds.of(problem), [np.log(horizon), 1.0]
    policies = {
        "DynLin-UCB": dynlin_ucb(bounds, lam),
        "Lin-UCB": lin_ucb(bounds, lam),
        "D-Lin-UCB": d_lin_ucb(bounds, lam),
        "AR2": ar2(bounds),
        "Exp3": exp3(bounds),
        "Batch-Exp3": batch_exp3(bounds),
        OURS: dynlin_ucb_tight(bounds),
    }
    return simulate(problem, policies | (further or {}), horizon, seeds, **options)


def discounting(horizon: int = 1_000_000, seeds: int = 50, **options: Any) -> Result:
    """D-Lin-UCB on the synthetic problem with several discount factors γ, and λ = log T."""
    problem = synthetic(sigma=0.01)
    policy = d_lin_ucb(Bounds.of(problem), gamma=[1 - f for f in FORGETTING])
    return simulate(problem, policy, horizon, seeds, **options)
