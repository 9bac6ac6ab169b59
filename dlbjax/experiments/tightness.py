"""Beyond the paper: regret of `dynlin_ucb_tight` over λ, its extra rounds q, ρ̄ and looser bounds."""

from dataclasses import asdict
from typing import Any

import numpy as np

from dlbjax.engine.simulate import simulate
from dlbjax.model.bounds import Bounds
from dlbjax.model.problem import Problem
from dlbjax.policies import dynlin_ucb, dynlin_ucb_tight
from dlbjax.policies.base import Policy, PolicyGrid
from dlbjax.results.result import Results

LAM = (1e-4, 1e-3, 1e-2, 0.1, 1.0)
LOOSENESS = (1.0, 1.5, 2.0)
REFERENCE = "over λ, λ=0.01"


def tightness(
    problem: Problem, extra: list[int], rho_bar: list[float], horizon: int = 1_000_000,
    seeds: int = 50, **options: Any,
) -> Results:  # fmt: skip
    """Run the policy with its defaults, changing one setting at a time.

    Args:
      problem: the bandit.
      extra: values of q.
      rho_bar: values of ρ̄; the paper's policy runs with them as well.
      horizon: number of rounds.
      seeds: number of runs.
      **options: passed to `simulate`.

    Returns:
      Results "over λ", "over q", "over ρ̄", "over ρ̄, paper's", and "over looseness", where every bound but
      ρ̄ is the tightest one times a factor.
    """
    bounds, over_rho = Bounds.of(problem), Bounds.of(problem, np.array(rho_bar))
    loose: list[Any] = [dynlin_ucb_tight(enlarged(bounds, factor)) for factor in LOOSENESS]
    policies: dict[str, Policy | PolicyGrid] = {
        "over λ": dynlin_ucb_tight(bounds, lam=np.array(LAM)),
        "over q": dynlin_ucb_tight(bounds, extra=np.array(extra)),
        "over ρ̄": dynlin_ucb_tight(over_rho),
        "over ρ̄, paper's": dynlin_ucb(over_rho),
        "over looseness": PolicyGrid({"looseness": np.array(LOOSENESS)}, loose),
    }
    return simulate(problem, policies, horizon, seeds, **options)


def enlarged(bounds: Bounds, factor: float) -> Bounds:
    """Every bound but ρ̄ times a factor."""
    fields = {name: factor * value for name, value in asdict(bounds).items() if name != "rho"}
    return bounds.replace(**fields)
