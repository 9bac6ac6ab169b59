"""Ridge regression of rewards on actions: V = λI + Σ u uᵀ, b = Σ y u, ĥ = V⁻¹b."""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from dlbjax.common.arrays import Array, Number, namespace, real_number
from dlbjax.model.bounds import Bounds
from dlbjax.model.bounds import check as check_bounds
from dlbjax.policies.small import (
    Sum,
    inverse,
    inverse_and_log_determinant,
    matvec,
    outer,
    quadratic_forms,
)  # fmt: skip


class Ridge(NamedTuple):
    """Sufficient statistics of one run's regression.

    Attributes:
      V: (d, d) λI + Σ u uᵀ.
      b: (d,) Σ y u.
    """

    V: Sum
    b: Sum


class Prediction(NamedTuple):
    """What a regression says about every vertex.

    Attributes:
      estimate: (K,) ⟨ĥ,u⟩.
      width: (K,) ‖u‖_{V⁻¹}.
      log_determinant: log det V.
    """

    estimate: Array
    width: Array
    log_determinant: Array


def start(lam: Number, vertices: Array) -> Ridge:
    """V = λI, b = 0."""
    V = lam * jnp.eye(vertices.shape[1], dtype=vertices.dtype)
    return Ridge(V=Sum.of(V), b=Sum.of(jnp.zeros_like(V[0])))


def observe(state: Ridge, u: Array, y: Array) -> Ridge:
    """V ← V + u uᵀ, b ← b + y u."""
    return Ridge(V=state.V.add(outer(u, u)), b=state.b.add(y * u))


def estimate(state: Ridge) -> Array:
    """ĥ = V⁻¹b, (d,)."""
    return matvec(inverse(state.V.value), state.b.value)


def predict(state: Ridge, vertices: Array) -> Prediction:
    """⟨ĥ,u⟩ and ‖u‖_{V⁻¹} of every vertex u."""
    V_inverse, log_determinant = inverse_and_log_determinant(state.V.value)
    estimate = matvec(vertices, matvec(V_inverse, state.b.value))
    width = jnp.sqrt(quadratic_forms(vertices, V_inverse))
    return Prediction(estimate, width, log_determinant)


def settled_radius(bounds: Bounds, lam: Number, delta: Number, growth: Number) -> Number:
    """c̄₂√λ + √(2σ̄²(log(1/δ) + ½·growth)): the radius for ĥ where every reward has settled.

    `growth` is log(det V/λ^d), or a bound on it.
    """
    xp = namespace(bounds, lam, delta, growth)
    # σ outside of the root: at σ = 0 the root has no derivative, the product has.
    noise = bounds.sigma * xp.sqrt(2 * bounds.noise_ratio * (xp.log(1 / delta) + growth / 2))
    return bounds.c2 * xp.sqrt(lam) + noise


def largest_growth(bounds: Bounds, lam: Number, d: int, t: Number) -> Number:
    """d·log(1 + tU²/(dλ)), which log(det V/λ^d) cannot exceed after t observations."""
    xp = namespace(bounds, lam, t)
    return d * xp.log(1 + t * bounds.U**2 / (d * lam))


def check(bounds: Bounds, lam: Number | None, delta: Number | None) -> None:
    """Reject bounds, λ and δ that cannot be used."""
    check_bounds(bounds)
    if lam is not None:
        real_number("lam", lam, above=0.0)
    if delta is not None:
        real_number("delta", delta, above=0.0, below=1.0)


def defaults(lam: Number | None, delta: Number | None, horizon: int) -> tuple[float, float]:
    """λ = log T and δ = 1/T where they are not given; T = 1 counts as 2."""
    T = max(horizon, 2)
    return float(np.log(T) if lam is None else lam), float(1 / T if delta is None else delta)
