"""Batch-Exp3 (Dekel, Tewari and Arora, 2012): Exp3 against a world that remembers a few rounds."""

from dlbjax._arrays import Array, whole_number
from dlbjax.bounds import Bounds
from dlbjax.epochs import growing_epochs, settling_rounds
from dlbjax.policies.exp3 import exp3_in_batches
from dlbjax.policies.policy import Policy, PolicyGrid, over_grid


def batch_exp3(bounds: Bounds, gamma: Array = None, batch: Array = None) -> Policy | PolicyGrid:
    """Exp3 that holds every arm for k rounds and is fed the mean of exactly their rewards.

    By default k = ⌈log M / log(1/ρ̄)⌉, at least 1, with M the number of DynLin-UCB's epochs within the
    horizon: what was played before a batch has then decayed to 1/M at its end. A batch that the
    horizon cuts is played but not learned from.

    Args:
      bounds: what the learner is told; see `Bounds.of`.
      gamma: share of uniform exploration, 0 < γ ≤ 1; Exp3's for T/k decisions by default.
      batch: k, instead of the above.

    Returns:
      A policy; or, where an argument or fields of the bounds are lists, a grid of them.

    References:
      Dekel, Tewari, Arora, `Online Bandit Learning against an Adaptive Adversary
      <https://arxiv.org/abs/1206.6400>`_, 2012.

    >>> import dlbjax as dlb
    >>> policy = dlb.batch_exp3(dlb.Bounds.of(dlb.problems.synthetic()))
    >>> policy.epochs(1_000_000)                        # rounds for which an arm is held
    8
    """
    return over_grid(_batch_exp3, bounds, gamma=gamma, batch=batch)


def _batch_exp3(bounds: Bounds, gamma: Array, batch: Array) -> Policy:
    if batch is not None:
        batch = whole_number("batch", batch, at_least=1)

    def rounds(horizon: int) -> int:
        if batch is not None:
            return batch
        epochs = growing_epochs(bounds.rho, horizon)
        whole = int(epochs.counts.sum()) - (epochs.rounds > horizon)
        return max(1, settling_rounds(bounds.rho, whole))

    return exp3_in_batches(bounds, gamma, rounds, "Batch-Exp3")
