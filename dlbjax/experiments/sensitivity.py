"""Figure 2 of the paper: the regret of DynLin-UCB for several ρ̄."""

from typing import Any

import numpy as np

from dlbjax.engine.simulate import simulate
from dlbjax.experiments.comparison import OURS
from dlbjax.model.bounds import Bounds
from dlbjax.model.problems import synthetic
from dlbjax.policies import dynlin_ucb, dynlin_ucb_tight, lin_ucb
from dlbjax.results.result import Results

RHO_BAR = (0.0, 0.05, 0.1, 0.2, 0.4)


def sensitivity(horizon: int = 1_000_000, seeds: int = 50, **options: Any) -> Results:
    """Run DynLin-UCB with five ρ̄, and Lin-UCB, on the synthetic problem, ρ(A) = 0.2, with λ = log T.

    `dynlin_ucb_tight`, which is not in the paper, runs with the two ρ̄ that are valid.

    Args:
      horizon: number of rounds; 10⁶ in the paper.
      seeds: number of runs; 50 in the paper.
      **options: passed to `simulate`.
    """
    problem = synthetic(sigma=0.01)
    policies = {
        "DynLin-UCB": dynlin_ucb(Bounds.of(problem, rho_bar=np.array(RHO_BAR))),
        "Lin-UCB": lin_ucb(Bounds.of(problem)),
        OURS: dynlin_ucb_tight(Bounds.of(problem, rho_bar=np.array([0.2, 0.4]))),
    }
    return simulate(problem, policies, horizon, seeds, **options)
