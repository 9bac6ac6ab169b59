"""Exp3 (Auer, Cesa-Bianchi, Freund and Schapire, 1995): bandits without assumptions on the rewards.

G ← 0
for decisions 1, 2, …:
    p ← (1−γ)·softmax(γG/K) + γ/K; draw an arm i from p, play it and observe r
    G_i ← G_i + r̄/p_i, with r̄ = (r + 2ξ)/(4ξ) the reward mapped to [0, 1]
"""

import math
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from dlbjax.common.arrays import Array, Number, is_traced, real_number
from dlbjax.model.bounds import Bounds, check
from dlbjax.policies.base import Epoch, Feedback, Policy, PolicyGrid, Schedule, over_grid
from dlbjax.policies.small import Sum, draw, entry, one_hot, total


class Params(NamedTuple):
    """Hyper-parameters of one run."""

    gamma: Number  # γ, share of the decisions that explore uniformly
    xi: Number  # ξ, rewards lie between −2ξ and 2ξ with high probability


def init(params: Params, vertices: Array, key: Array) -> Sum:
    """G ← 0. The state is γG/K, (K,)."""
    return Sum.of(jnp.zeros(vertices.shape[0], vertices.dtype))


def probabilities(params: Params, state: Sum) -> Array:
    """p = (1−γ)·softmax(γG/K) + γ/K, (K,)."""
    # Not `largest`: written out, the maximum is taken anew for every weight.
    weights = jnp.exp(state.value - jnp.max(state.value))
    share = params.gamma / weights.shape[0]
    return (1 - params.gamma) * (weights / total(weights)) + share


def act(params: Params, vertices: Array, state: Sum, epoch: Epoch) -> Array:
    """An arm drawn from p."""
    return draw(probabilities(params, state), epoch.uniforms[0])


def update(params: Params, state: Sum, feedback: Feedback) -> Sum:
    """G_i ← G_i + r̄/p_i for the arm i that was played; r is the mean reward of the epoch."""
    p = probabilities(params, state)
    mean = feedback.total / feedback.length.astype(feedback.total.dtype)
    rescaled = (mean + 2 * params.xi) / (4 * params.xi)
    played = one_hot(feedback.action, p.shape[0])
    gain = params.gamma / p.shape[0] * rescaled / entry(p, feedback.action)
    return state.add(jnp.where(played, gain, 0))


def exp3(bounds: Bounds, gamma: Number | None = None) -> Policy | PolicyGrid:
    """Exp3 over the vertices, deciding every round.

    It knows nothing of the state, against which it has no guarantee: here the rewards depend on the
    actions that it played before. Rewards are mapped to [0, 1] with ξ = (Θ + ΩB/(1−ρ̄))U as the paper
    on Dynamical Linear Bandits does.

    Args:
      bounds: bounds on the problem; see `Bounds.of`.
      gamma: share of uniform exploration, 0 < γ ≤ 1; √(K ln K/((e−1)T)), or 1, by default.

    Returns:
      A policy; or, where an argument or a field of the bounds is a list, a grid of them.

    References:
      Auer, Cesa-Bianchi, Freund, Schapire, `Gambling in a Rigged Casino
      <https://doi.org/10.1109/SFCS.1995.492488>`_, 1995.

    >>> import dlbjax as dlb
    >>> problem = dlb.problems.synthetic()
    >>> result = dlb.simulate(problem, dlb.exp3(dlb.Bounds.of(problem)), horizon=500, seeds=2)
    >>> result.name, result.expected_regret.shape[0]
    ('Exp3', 2)
    """

    def make(bounds: Bounds, gamma: Number | None) -> Policy:
        check_exp3(bounds, gamma)

        def prepare(horizon: int, vertices: np.ndarray) -> Schedule:
            return exp3_schedule(bounds, gamma, batch=1, horizon=horizon, K=len(vertices))

        return Policy(
            init, act, update, feedback=("total",), uniforms=1, name="Exp3", prepare=prepare
        )

    return over_grid(make, bounds, gamma=gamma)


def check_exp3(bounds: Bounds, gamma: Number | None) -> None:
    """Reject bounds and γ that cannot be used."""
    check(bounds)
    if gamma is not None:
        real_number("gamma", gamma, above=0.0, at_most=1.0)
    if not is_traced(bounds) and bounds.reward_bound == 0:
        raise ValueError(
            "bounds must leave room for rewards, which are divided by ξ; got U = 0, or Theta = 0 with "
            "Omega = 0 or B = 0"
        )


def exp3_schedule(
    bounds: Bounds, gamma: Number | None, batch: int, horizon: int, K: int
) -> Schedule:
    """Exp3 that holds every arm for `batch` rounds; γ = √(K ln K/((e−1)T/batch)), or 1, by default."""
    best = min(1.0, np.sqrt(K * np.log(K) / ((math.e - 1) * horizon / batch)))
    γ = float(best if gamma is None else gamma)
    return Schedule(
        batch,
        Params(γ, bounds.reward_bound),
        config={"bounds": bounds.as_dict(), "gamma": γ, "batch": batch},
    )
