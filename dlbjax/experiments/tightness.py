"""Beyond the paper: what `dynlin_ucb_tight` makes of λ, of its extra rounds q and of what it is told."""

from dataclasses import asdict
from typing import Any

import numpy as np

from dlbjax.bounds import Bounds
from dlbjax.engine.simulate import simulate
from dlbjax.policies import dynlin_ucb, dynlin_ucb_tight
from dlbjax.policies.policy import PolicyGrid
from dlbjax.problem import Problem
from dlbjax.result import Results

LAM = (1e-4, 1e-3, 1e-2, 0.1, 1.0)
LOOSENESS = (1.0, 1.5, 2.0)
REFERENCE = "over λ, λ=0.01"


def tightness(
    problem: Problem, extra: list[int], rho_bar: list[float], horizon: int = 1_000_000,
    seeds: int = 50, **options: Any,
) -> Results:  # fmt: skip
    """The policy's defaults, with one thing changed at a time.

    Args:
      problem: the bandit.
      extra: values of q.
      rho_bar: values of ρ̄, at which the paper's policy is run as well.
      horizon: rounds.
      seeds: runs.
      **options: passed to `simulate`.

    Returns:
      Results "over λ", "over q", "over ρ̄", "over ρ̄, paper's", and "over looseness", where every bound but
      ρ̄ is larger than it need be by a factor.
    """
    bounds, told = Bounds.of(problem), Bounds.of(problem, rho_bar)
    loose: list[Any] = [dynlin_ucb_tight(_enlarged(bounds, factor)) for factor in LOOSENESS]
    policies = {
        "over λ": dynlin_ucb_tight(bounds, lam=LAM),
        "over q": dynlin_ucb_tight(bounds, extra=extra),
        "over ρ̄": dynlin_ucb_tight(told),
        "over ρ̄, paper's": dynlin_ucb(told),
        "over looseness": PolicyGrid({"looseness": np.array(LOOSENESS)}, loose),
    }
    return simulate(problem, policies, horizon, seeds, **options)


def _enlarged(bounds: Bounds, factor: float) -> Bounds:
    fields = {name: factor * value for name, value in asdict(bounds).items() if name != "rho"}
    return bounds.replace(**fields)
