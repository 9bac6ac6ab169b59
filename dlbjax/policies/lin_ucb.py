"""Lin-UCB, or OFUL (Abbasi-Yadkori, Pál and Szepesvári, 2011), which takes every reward as settled.

V ← λI, b ← 0
for rounds t = 1, 2, …:
    u ← argmax over the vertices of ⟨V⁻¹b, u⟩ + β_{t−1} ‖u‖_{V⁻¹}; play it and observe y
    V ← V + u uᵀ, b ← b + y u
"""

import numpy as np

from dlbjax.common.arrays import Array, Number
from dlbjax.model.bounds import Bounds
from dlbjax.policies import ridge
from dlbjax.policies.base import Epoch, Feedback, Policy, PolicyGrid, Schedule, over_grid
from dlbjax.policies.ridge import Ridge
from dlbjax.policies.small import first_best


def exploration(bounds: Bounds, lam: Number, delta: Number, d: int, t: Number) -> Number:
    """β_t = c̄₂√λ + √(2σ̄²(log(1/δ) + (d/2)·log(1 + tU²/(dλ))))."""
    return ridge.settled_radius(bounds, lam, delta, ridge.largest_growth(bounds, lam, d, t))


def init(params: Array, vertices: Array, key: Array) -> Ridge:
    """V ← λI, b ← 0; the only parameter is λ."""
    return ridge.start(params, vertices)


def act(params: Array, vertices: Array, state: Ridge, epoch: Epoch) -> Array:
    """u ← argmax ⟨V⁻¹b, u⟩ + β_{t−1} ‖u‖_{V⁻¹}, every round."""
    estimate, width = state.predict(vertices)
    return first_best(estimate + epoch.plan * width)


def update(params: Array, state: Ridge, feedback: Feedback) -> Ridge:
    """V ← V + u uᵀ, b ← b + y u, every round."""
    return state.observe(feedback)


def lin_ucb(
    bounds: Bounds, lam: Number | None = None, delta: Number | None = None
) -> Policy | PolicyGrid:
    """Lin-UCB with the width the paper gives it so that it can compete on Dynamical Linear Bandits.

    Its β is DynLin-UCB's without the term for transients, with c̄₂ for ‖h‖ and σ̄ for the noise that the
    state carries over.

    Note:
      In float32 its mean regret on the synthetic problem is 3 % too large after 10⁶ rounds; after 10⁵
      32 768 runs leave a difference of −1.1 ± 0.5 %. float32 is rejected beyond those.

    Args:
      bounds: bounds on the problem; see `Bounds.of`.
      lam: ridge parameter λ > 0, log T by default.
      delta: confidence δ, 1/T by default.

    Returns:
      A policy; or, where an argument or a field of the bounds is a list, a grid of them.

    References:
      Abbasi-Yadkori, Pál, Szepesvári, `Improved Algorithms for Linear Stochastic Bandits
      <https://papers.nips.cc/paper/4417>`_, 2011.

    >>> import dlbjax as dlb
    >>> problem = dlb.problems.synthetic()
    >>> result = dlb.simulate(problem, dlb.lin_ucb(dlb.Bounds.of(problem)), horizon=500, seeds=2)
    >>> result.name, result.expected_regret.shape[0]
    ('Lin-UCB', 2)
    """

    def make(bounds: Bounds, lam: Number | None, delta: Number | None) -> Policy:
        ridge.check(bounds, lam, delta)

        def prepare(horizon: int, vertices: np.ndarray) -> Schedule:
            λ, δ = ridge.defaults(lam, delta, horizon, vertices)
            d = vertices.shape[1]
            return Schedule(
                params=λ,
                plan=lambda epoch: exploration(bounds, λ, δ, d, epoch.start),
                float32=100_000,
                config={"bounds": bounds.as_dict(), "lam": λ, "delta": δ},
            )

        return Policy(
            init, act, update, feedback=("last",), name="Lin-UCB", prepare=prepare, vectors=True
        )

    return over_grid(make, bounds, lam=lam, delta=delta)
