"""DynLin-UCB: Algorithm 1 of Mussi, Metelli and Restelli (ICML 2023)."""

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from dlbjax._arrays import Array, real_array, whole_number
from dlbjax.bounds import Bounds
from dlbjax.epochs import growing_epochs
from dlbjax.policies.policy import Epoch, Feedback, Policy, PolicyGrid, over_grid
from dlbjax.policies.ridge import Ridge, check_ridge, observe, optimistic, ridge
from dlbjax.theory.confidence import beta as exploration


class Params(NamedTuple):
    """Hyper-parameters of one run."""

    lam: Array  # λ
    first: Array  # vertex of the first epoch, −1 to let the argmax decide


def init(params: Params, vertices: Array, key: Array) -> Ridge:
    """V₀ = λI, b₀ = 0 (line 1)."""
    return ridge(params.lam, vertices.shape[1])


def act(params: Params, vertices: Array, state: Ridge, epoch: Epoch) -> Array:
    """U = argmax UCB(u), UCB(u) = ⟨ĥ,u⟩ + β‖u‖_{V⁻¹} (line 4); held for 1 + H_m rounds."""
    chosen = optimistic(state, epoch.plan, vertices)
    return jnp.where((epoch.index == 1) & (params.first >= 0), params.first, chosen)


def update(params: Params, state: Ridge, feedback: Feedback) -> Ridge:
    """V ← V + u uᵀ, b ← b + u y with the last reward of the epoch (line 11)."""
    return observe(state, feedback.vector, feedback.last)


def dynlin_ucb(
    bounds: Bounds,
    lam: Array = None,
    delta: Array = None,
    *,
    epochs: Sequence[int] | np.ndarray | None = None,
    beta: Sequence[float] | np.ndarray | None = None,
    first: Array = None,
) -> Policy | PolicyGrid:
    """DynLin-UCB: hold the optimistic action until the state has settled, learn from the last reward.

    In epoch m the vertex that maximises ⟨ĥ,u⟩ + β‖u‖_{V⁻¹} is played for 1 + ⌊log m / log(1/ρ̄)⌋
    rounds, with ĥ the ridge estimate of the cumulative Markov parameter h from the epochs' last
    rewards and β as printed in the paper's Equation (5); see `dlbjax.theory.beta`. Among vertices
    within 1e-12 of the maximum the first is played.

    Warning:
      The printed β is one power of ρ̄ too small for the theorem it rests on (see dlbjax/ERRATA.md). It is
      kept: dividing c̄₁ by ρ̄, which suffices, triples the regret on the synthetic problem.
      `dynlin_ucb_tight` has a radius that is valid, and far smaller.

    Args:
      bounds: what the learner is told; see `Bounds.of`.
      lam: ridge parameter λ > 0, log T by default.
      delta: confidence δ, 1/T by default.
      epochs: rounds of each epoch, instead of those above.
      beta: β of each epoch, instead of the printed one.
      first: index of the vertex of the first epoch, where many vertices tie.

    Returns:
      A policy; or, where `lam`, `delta`, `first` or fields of the bounds are lists, a grid of them.

    References:
      Mussi, Metelli, Restelli, `Dynamical Linear Bandits <https://arxiv.org/abs/2211.08997>`_, 2023.

    >>> import dlbjax as dlb
    >>> problem = dlb.problems.synthetic()
    >>> policy = dlb.dynlin_ucb(dlb.Bounds.of(problem, rho_bar=0.2))
    >>> result = dlb.simulate(problem, policy, horizon=2000, seeds=3)
    >>> result.expected_regret.shape == (3, len(result.rounds))
    True
    """
    radius = None if beta is None else real_array("beta", beta, (None,))

    def make(bounds: Bounds, lam: Array, delta: Array, first: Array) -> Policy:
        return _dynlin_ucb(bounds, lam, delta, epochs, radius, first)

    return over_grid(make, bounds, lam=lam, delta=delta, first=first)


def _dynlin_ucb(
    bounds: Bounds, lam: Array, delta: Array, epochs: Any, radius: Array, first: Array
) -> Policy:
    told = check_ridge(bounds, lam, delta)
    if first is not None:
        first = whole_number("first", first, at_least=0)
    if epochs is None:
        epochs = partial(growing_epochs, bounds.rho)

    def params(horizon: int, vertices: np.ndarray) -> Params:
        return Params(lam=told(horizon)[0], first=-1 if first is None else first)

    def plan(horizon: int, vertices: np.ndarray, epoch: Epoch) -> Array:
        if first is not None and first >= len(vertices):
            raise ValueError(
                f"first must be the index of one of {len(vertices)} vertices; got {first}"
            )
        if radius is not None:
            if epoch.index.max(initial=0) > len(radius):
                raise ValueError(
                    f"beta must hold a value for every epoch; got {len(radius)}, and more epochs start"
                )
            return radius[epoch.index - 1]
        lam, delta = told(horizon)
        return exploration(bounds, lam, delta, vertices.shape[1], epoch.start, printed=True)

    return Policy(
        init, act, update, epochs, params, plan, feedback=("last",), lanes=True, name="DynLin-UCB"
    )
