"""Lin-UCB (Abbasi-Yadkori, Pál and Szepesvári, 2011), which takes every reward at face value."""

import numpy as np

from dlbjax._arrays import Array
from dlbjax.bounds import Bounds
from dlbjax.policies.policy import Epoch, Feedback, Policy, PolicyGrid, over_grid
from dlbjax.policies.ridge import Ridge, check_ridge, observe, optimistic, ridge
from dlbjax.theory.confidence import largest_growth, ridge_radius


def init(params: Array, vertices: Array, key: Array) -> Ridge:
    """V₀ = λI, b₀ = 0; the only parameter is λ."""
    return ridge(params, vertices.shape[1])


def act(params: Array, vertices: Array, state: Ridge, epoch: Epoch) -> Array:
    """u_t = argmax ⟨ĥ,u⟩ + β_{t−1}‖u‖_{V⁻¹}, every round."""
    return optimistic(state, epoch.plan, vertices)


def update(params: Array, state: Ridge, feedback: Feedback) -> Ridge:
    """V ← V + u uᵀ, b ← b + u y, every round."""
    return observe(state, feedback.vector, feedback.last)


def lin_ucb(bounds: Bounds, lam: Array = None, delta: Array = None) -> Policy | PolicyGrid:
    """Lin-UCB with the width the paper gives it so that it can compete on Dynamical Linear Bandits.

    β_t = c̄₂√λ + √(2σ̄²(log(1/δ) + (d/2)·log(1 + tU²/(dλ)))): DynLin-UCB's without the term for
    transients, with c̄₂ for ‖h‖ and σ̄ for the noise that the state carries over.

    Note:
      In float32 its mean regret on the synthetic problem is 3 % too large after 10⁶ rounds; after 10⁵
      32 768 runs leave a difference of −1.1 ± 0.5 %. Beyond those it is refused there.

    Args:
      bounds: what the learner is told; see `Bounds.of`.
      lam: ridge parameter λ > 0, log T by default.
      delta: confidence δ, 1/T by default.

    Returns:
      A policy; or, where an argument or fields of the bounds are lists, a grid of them.

    References:
      Abbasi-Yadkori, Pál, Szepesvári, `Improved Algorithms for Linear Stochastic Bandits
      <https://papers.nips.cc/paper/4417>`_, 2011.

    >>> import dlbjax as dlb
    >>> problem = dlb.problems.synthetic()
    >>> result = dlb.simulate(problem, dlb.lin_ucb(dlb.Bounds.of(problem)), horizon=500, seeds=2)
    >>> result.name, result.expected_regret.shape[0]
    ('Lin-UCB', 2)
    """
    return over_grid(_lin_ucb, bounds, lam=lam, delta=delta)


def _lin_ucb(bounds: Bounds, lam: Array, delta: Array) -> Policy:
    told = check_ridge(bounds, lam, delta)

    def plan(horizon: int, vertices: np.ndarray, epoch: Epoch) -> Array:
        lam, delta = told(horizon)
        growth = largest_growth(bounds, lam, vertices.shape[1], epoch.start)
        return ridge_radius(bounds, lam, delta, growth)

    return Policy(
        init, act, update, params=lambda horizon, vertices: told(horizon)[0], plan=plan,
        feedback=("last",), lanes=True, float32=100_000, name="Lin-UCB",
    )  # fmt: skip
