"""Exp3 (Auer, Cesa-Bianchi, Freund and Schapire, 1995): bandits without assumptions on the rewards."""

from collections.abc import Callable
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from dlbjax._arrays import Array, is_traced, real_number
from dlbjax._small import Sum, draw, largest, one_hot, total
from dlbjax.bounds import Bounds, check
from dlbjax.policies.policy import Epoch, Feedback, Policy, PolicyGrid, over_grid


class Params(NamedTuple):
    """Hyper-parameters of one run."""

    gamma: Array  # γ, share of the decisions that explore uniformly
    xi: Array  # ξ, rewards lie between −2ξ and 2ξ with high probability


def init(params: Params, vertices: Array, key: Array) -> Sum:
    """The state is ηG, (K[, lanes]): the estimated gains of every arm, times η = γ/K."""
    return Sum.of(jnp.zeros((vertices.shape[0], *jnp.shape(params.gamma)), vertices.dtype))


def probabilities(params: Params, state: Sum) -> Array:
    """P = (1−γ)·softmax(ηG) + γ/K."""
    weights = jnp.exp(state.value - largest(state.value))
    share = params.gamma / weights.shape[0]
    return (1 - params.gamma) * (weights / total(weights)) + share


def act(params: Params, vertices: Array, state: Sum, epoch: Epoch) -> Array:
    """An arm drawn from p."""
    return draw(probabilities(params, state), epoch.uniforms[0])


def update(params: Params, state: Sum, feedback: Feedback) -> Sum:
    """G_i ← G_i + r̄/p_i for the arm that was played, r̄ = (r + 2ξ)/(4ξ) with r the mean reward."""
    p = probabilities(params, state)
    mean = feedback.total / feedback.length.astype(feedback.total.dtype)
    rescaled = (mean + 2 * params.xi) / (4 * params.xi)
    played = one_hot(feedback.action, p.shape[0])
    return state.add(jnp.where(played, params.gamma / p.shape[0] * rescaled / p, 0))


def exp3(bounds: Bounds, gamma: Array = None) -> Policy | PolicyGrid:
    """Exp3 over the vertices, deciding every round.

    It knows nothing of the state, against which it has no guarantee: here the rewards depend on the
    actions that it played before. Rewards are mapped to [0, 1] with ξ = (Θ + ΩB/(1−ρ̄))U as the paper
    on Dynamical Linear Bandits does.

    Args:
      bounds: what the learner is told; see `Bounds.of`.
      gamma: share of uniform exploration, 0 < γ ≤ 1; √(K ln K/((e−1)T)), or 1, by default.

    Returns:
      A policy; or, where an argument or fields of the bounds are lists, a grid of them.

    References:
      Auer, Cesa-Bianchi, Freund, Schapire, `Gambling in a Rigged Casino
      <https://doi.org/10.1109/SFCS.1995.492488>`_, 1995.

    >>> import dlbjax as dlb
    >>> problem = dlb.problems.synthetic()
    >>> result = dlb.simulate(problem, dlb.exp3(dlb.Bounds.of(problem)), horizon=500, seeds=2)
    >>> result.name, result.expected_regret.shape[0]
    ('Exp3', 2)
    """

    def make(bounds: Bounds, gamma: Array) -> Policy:
        return exp3_in_batches(bounds, gamma, lambda horizon: 1, "Exp3")

    return over_grid(make, bounds, gamma=gamma)


def exp3_in_batches(bounds: Bounds, gamma: Array, batch: Callable[[int], int], name: str) -> Policy:
    """Exp3 that holds every arm for batch(T) rounds and learns from the mean of their rewards."""
    check(bounds)
    if gamma is not None:
        gamma = real_number("gamma", gamma, above=0.0, at_most=1.0)
    if not is_traced(bounds) and bounds.reward_bound == 0:
        raise ValueError(
            "bounds must leave room for rewards, which are divided by ξ; got U = 0, or Theta = 0 with "
            "Omega = 0 or B = 0"
        )

    def params(horizon: int, vertices: np.ndarray) -> Params:
        K, decisions = len(vertices), horizon / batch(horizon)
        best = min(1.0, np.sqrt(K * np.log(K) / ((np.e - 1) * decisions)))
        return Params(gamma=best if gamma is None else gamma, xi=bounds.reward_bound)

    return Policy(
        init, act, update, epochs=batch, params=params, feedback=("total",), uniforms=1,
        lanes=True, name=name,
    )  # fmt: skip
