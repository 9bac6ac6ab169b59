"""Figure 2 of the paper: how DynLin-UCB's regret depends on the ρ̄ it is told."""

from typing import Any

from dlbjax.bounds import Bounds
from dlbjax.engine.simulate import simulate
from dlbjax.policies import dynlin_ucb
from dlbjax.problems import synthetic
from dlbjax.result import Result

RHO_BAR = (0.0, 0.05, 0.1, 0.2, 0.4)


def sensitivity(horizon: int = 1_000_000, seeds: int = 50, **options: Any) -> Result:
    """DynLin-UCB with λ = log T on the synthetic problem, ρ(A) = 0.2, told each of five ρ̄.

    Args:
      horizon: rounds; the paper has 10⁶.
      seeds: runs; the paper has 50.
      **options: passed to `simulate`.
    """
    problem = synthetic(sigma=0.01)
    policy = dynlin_ucb(Bounds.of(problem, rho_bar=RHO_BAR))
    return simulate(problem, policy, horizon, seeds, **options)
