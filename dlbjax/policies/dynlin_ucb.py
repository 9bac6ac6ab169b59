"""Algorithm 1 of `Dynamical Linear Bandits <https://arxiv.org/abs/2211.08997>`_ (Mussi et al., 2023).

V ← λI, b ← 0
for epochs m = 1, 2, …:
    u ← argmax over the vertices of ⟨V⁻¹b, u⟩ + β_t ‖u‖_{V⁻¹}, where t rounds are completed
    play u for 1 + H_m rounds, H_m = ⌊log m / log(1/ρ̄)⌋; y ← the reward of the last of them
    V ← V + u uᵀ, b ← b + y u
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from dlbjax.common.arrays import Array, Number, namespace, real_number, whole_number
from dlbjax.model.bounds import Bounds
from dlbjax.policies import ridge
from dlbjax.policies.base import Epoch, Feedback, Policy, PolicyGrid, Schedule, listed, over_grid
from dlbjax.policies.epochs import LONGEST, Epochs, first_epoch, persistence
from dlbjax.policies.small import first_best


def epoch_lengths(rho_bar: Number, horizon: int, extra: int = 0) -> Epochs:
    """1 + H_m rounds for the epochs m = 1, 2, … of a horizon, and `extra` more in each.

    >>> epoch_lengths(0.1, horizon=20)                  # H_m = 0 for m < 10, then 1
    Epochs(lengths=array([1, 2]), counts=array([9, 6]))
    """
    lengths, counts, m, t, rho_bar = [], [], 1, 0, float(rho_bar)
    while t < horizon:
        H = persistence(m, rho_bar)  # ⌊log m / log(1/ρ̄)⌋, until epoch ⌈ρ̄^−(H+1)⌉ begins
        lengths.append(1 + H + extra)
        counts.append(min(first_epoch(H + 1, rho_bar) - m, -(-(horizon - t) // lengths[-1])))
        m, t = m + counts[-1], t + lengths[-1] * counts[-1]
    return Epochs(np.array(lengths), np.array(counts))


def exploration(bounds: Bounds, lam: Number, delta: Number, d: int, t: Number) -> Number:
    """β_t = c̄₁/√λ·log(e(t+1)) + c̄₂√λ + √(2σ̄²(log(1/δ) + (d/2)·log(1 + tU²/(dλ)))), Equation (5)."""
    xp = namespace(bounds, lam, t)
    transients = bounds.c1 / xp.sqrt(lam) * xp.log(xp.e * (t + 1))
    return transients + ridge.settled_radius(
        bounds, lam, delta, ridge.largest_growth(bounds, lam, d, t)
    )


class Params(NamedTuple):
    """What is fixed for a run."""

    lam: Number  # λ
    first: Number  # vertex of the first epoch, −1 to let the argmax decide


def init(params: Params, vertices: Array, key: Array) -> ridge.Ridge:
    """V ← λI, b ← 0."""
    return ridge.start(params.lam, vertices)


def act(params: Params, vertices: Array, state: ridge.Ridge, epoch: Epoch) -> Array:
    """u ← argmax ⟨V⁻¹b, u⟩ + β_t ‖u‖_{V⁻¹}; the schedule plans β_t and holds u for 1 + H_m rounds."""
    estimate, width = state.predict(vertices)
    chosen = first_best(estimate + epoch.plan * width)
    return jnp.where((epoch.index == 1) & (params.first >= 0), params.first, chosen)


def update(params: Params, state: ridge.Ridge, feedback: Feedback) -> ridge.Ridge:
    """V ← V + u uᵀ, b ← b + y u with the last reward of the epoch."""
    return state.observe(feedback)


def dynlin_ucb(
    bounds: Bounds, lam: Number | None = None, delta: Number | None = None, *,
    scale: Number = 1.0, extra: Number = 0, first: Number | None = None,
    epochs: Sequence[int] | np.ndarray | None = None, beta: ArrayLike | Callable[..., Number] = exploration,
) -> Policy | PolicyGrid:  # fmt: skip
    """DynLin-UCB: hold the optimistic vertex until the state has settled, learn from the last reward.

    Warning:
      The printed β is too small for its theorem (notebooks/errata.md) and no regret bound is proven for it.
      `beta=dlbjax.theory.beta` plays the corrected one; `dynlin_ucb_tight` has a far smaller valid radius.

    Args:
      bounds: bounds on the problem; see `Bounds.of`.
      lam: ridge parameter λ > 0, log T by default. A list, here as for the other numbers, makes a grid.
      delta: confidence δ, 1/T by default.
      scale: factor on β.
      extra: rounds added to every epoch.
      first: index of the vertex of the first epoch, where many vertices tie.
      epochs: rounds of each epoch, instead of 1 + H_m.
      beta: β of each epoch, instead of the printed one, or a function of (bounds, λ, δ, d, t) like it.

    >>> import dlbjax as dlb
    >>> problem = dlb.problems.synthetic()
    >>> policy = dlb.dynlin_ucb(dlb.Bounds.of(problem, rho_bar=0.2))
    >>> dlb.simulate(problem, policy, horizon=2000, seeds=3).expected_regret.shape[0]
    3
    """
    given: Any = beta if callable(beta) else listed("beta", beta)

    def make(bounds: Bounds, lam: Any, delta: Any, scale: Any, extra: Any, first: Any) -> Policy:
        ridge.check(bounds, lam, delta)
        scale = real_number("scale", scale, at_least=0.0)
        q = min(whole_number("extra", extra, at_least=0), LONGEST // 2)
        start = -1 if first is None else whole_number("first", first, at_least=0)

        def prepare(horizon: int, vertices: np.ndarray) -> Schedule:
            K, d = vertices.shape
            whole_number("first", max(start, 0), at_least=0, at_most=K - 1)
            λ, δ = ridge.defaults(lam, delta, horizon, vertices)
            lengths = epoch_lengths(bounds.rho, horizon, q) if epochs is None else epochs
            β = (lambda m: given(bounds, λ, δ, d, m.start)) if callable(beta) else given
            config = {"bounds": bounds.as_dict(), "lam": λ, "delta": δ, "scale": scale, "extra": q}
            return Schedule(lengths, Params(λ, start), lambda m: scale * β(m), config=config)

        return Policy(
            init, act, update, feedback=("last",), name="DynLin-UCB", prepare=prepare, vectors=True
        )

    return over_grid(make, bounds, lam=lam, delta=delta, scale=scale, extra=extra, first=first)
