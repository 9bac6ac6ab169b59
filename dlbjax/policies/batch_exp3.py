"""Batch-Exp3 (Dekel, Tewari and Arora, 2012): Exp3 where rewards remember a few rounds.

Exp3, whose decisions are batches: hold the arm for k = ⌈log M / log(1/ρ̄)⌉ rounds, and learn from
the mean of exactly their rewards.
"""

import numpy as np

from dlbjax.common.arrays import Number, whole_number
from dlbjax.model.bounds import Bounds
from dlbjax.policies.base import Policy, PolicyGrid, Schedule, over_grid
from dlbjax.policies.dynlin_ucb import epoch_lengths
from dlbjax.policies.epochs import settling_rounds
from dlbjax.policies.exp3 import act, check_exp3, exp3_schedule, init, update


def batch_length(rho_bar: Number, horizon: int) -> int:
    """k = ⌈log M / log(1/ρ̄)⌉, at least 1, with M the epochs that DynLin-UCB completes in the horizon.

    >>> batch_length(0.2, 1_000_000), batch_length(2 / 3, 1_000_000)
    (8, 27)
    """
    epochs = epoch_lengths(rho_bar, horizon)
    M = int(epochs.counts.sum()) - (epochs.rounds > horizon)
    return max(1, settling_rounds(float(rho_bar), M))


def batch_exp3(
    bounds: Bounds, gamma: Number | None = None, batch: Number | None = None
) -> Policy | PolicyGrid:
    """Exp3 that holds every arm for k rounds and is fed the mean of exactly their rewards.

    By default k = ⌈log M / log(1/ρ̄)⌉, at least 1, with M the number of DynLin-UCB's epochs within the
    horizon: what was played before a batch has then decayed to 1/M at its end. A batch that the
    horizon cuts is played but not learned from.

    Args:
      bounds: bounds on the problem; see `Bounds.of`.
      gamma: share of uniform exploration, 0 < γ ≤ 1; Exp3's for T/k decisions by default.
      batch: k, instead of the above.

    Returns:
      A policy; or, where an argument or a field of the bounds is a list, a grid of them.

    References:
      Dekel, Tewari, Arora, `Online Bandit Learning against an Adaptive Adversary
      <https://arxiv.org/abs/1206.6400>`_, 2012.

    >>> import dlbjax as dlb
    >>> problem = dlb.problems.synthetic()
    >>> policy = dlb.batch_exp3(dlb.Bounds.of(problem), batch=[1, 4])
    >>> dlb.simulate(problem, policy, horizon=500, seeds=3).expected_regret.shape[:2]
    (2, 3)
    """

    def make(bounds: Bounds, gamma: Number | None, batch: Number | None) -> Policy:
        check_exp3(bounds, gamma)
        k = None if batch is None else whole_number("batch", batch, at_least=1)

        def prepare(horizon: int, vertices: np.ndarray) -> Schedule:
            length = batch_length(bounds.rho, horizon) if k is None else k
            return exp3_schedule(bounds, gamma, length, horizon, K=len(vertices))

        return Policy(
            init, act, update, feedback=("total",), uniforms=1, name="Batch-Exp3", prepare=prepare
        )

    return over_grid(make, bounds, gamma=gamma, batch=batch)
