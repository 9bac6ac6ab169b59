"""Figure 2 of the paper: how DynLin-UCB's regret depends on the ρ̄ it is told."""

from typing import Any

from dlbjax.bounds import Bounds
from dlbjax.engine.simulate import simulate
from dlbjax.experiments.comparison import OURS
from dlbjax.policies import dynlin_ucb, dynlin_ucb_tight, lin_ucb
from dlbjax.problems import synthetic
from dlbjax.result import Results

RHO_BAR = (0.0, 0.05, 0.1, 0.2, 0.4)


def sensitivity(horizon: int = 1_000_000, seeds: int = 50, **options: Any) -> Results:
    """DynLin-UCB told each of five ρ̄ on the synthetic problem, ρ(A) = 0.2, and Lin-UCB; λ = log T.

    Beside them goes `dynlin_ucb_tight`, which the paper does not have, told the two ρ̄ that are right.

    Args:
      horizon: rounds; the paper has 10⁶.
      seeds: runs; the paper has 50.
      **options: passed to `simulate`.
    """
    problem = synthetic(sigma=0.01)
    policies = {
        "DynLin-UCB": dynlin_ucb(Bounds.of(problem, rho_bar=RHO_BAR)),
        "Lin-UCB": lin_ucb(Bounds.of(problem)),
        OURS: dynlin_ucb_tight(Bounds.of(problem, rho_bar=[0.2, 0.4])),
    }
    return simulate(problem, policies, horizon, seeds, **options)
