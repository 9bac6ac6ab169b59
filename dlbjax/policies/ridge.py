"""Ridge regression of rewards on actions: V = λI + Σ u uᵀ, b = Σ y u, ĥ = V⁻¹b.

A policy asks one thing of it: ⟨ĥ,u⟩ and ‖u‖_{V⁻¹} of every vertex u. These can be carried along
(`ByVertex`), or solved for at every decision (`Gram`). The first takes fewer operations, but in float32
stops moving after some 10⁴ observations; the second is faster where the vertices are few.
"""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from dlbjax.common.arrays import Array, Number, namespace, real_number
from dlbjax.model.bounds import Bounds
from dlbjax.model.bounds import check as check_bounds
from dlbjax.policies.base import Feedback
from dlbjax.policies.small import (
    Sum,
    dot,
    inverse,
    matvec,
    outer,
    products,
    quadratic_forms,
)  # fmt: skip

_LEAST = 1e-14  # λ, relative to ‖u‖²; from 1e-17 on rounding makes V singular


class Prediction(NamedTuple):
    """What a regression says about every vertex.

    Attributes:
      estimate: (K,) ⟨ĥ,u⟩.
      width: (K,) ‖u‖_{V⁻¹}.
    """

    estimate: Array
    width: Array


class ByVertex(NamedTuple):
    """One run's regression as V⁻¹ and what it says about every vertex.

    By the formula of Sherman and Morrison an observation (u, y) changes, with w = V⁻¹u and
    c = 1/(1 + ⟨u,w⟩),

        V⁻¹ ← V⁻¹ − c w wᵀ,   ⟨ĥ,v⟩ ← ⟨ĥ,v⟩ + c (y − ⟨ĥ,u⟩) ⟨v,w⟩,   ‖v‖²_{V⁻¹} ← ‖v‖²_{V⁻¹} − c ⟨v,w⟩²,

    which takes K·d + d² operations, and a decision K.

    Attributes:
      V_inverse: (d, d) V⁻¹.
      h: (d,) ĥ.
      estimate: (K,) ⟨ĥ,v⟩ of every vertex v.
      square: (K,) ‖v‖²_{V⁻¹}, to about 10⁻¹⁶ times its value before the first observation.
    """

    V_inverse: Array
    h: Array
    estimate: Array
    square: Array

    @classmethod
    def start(cls, lam: Number, vertices: Array) -> "ByVertex":
        """V = λI, b = 0."""
        V_inverse = jnp.eye(vertices.shape[1], dtype=vertices.dtype) / lam
        square = jnp.sum(vertices**2, axis=1) / lam
        return cls(V_inverse, 0 * V_inverse[0], 0 * square, square)

    def observe(self, feedback: Feedback) -> "ByVertex":
        """V ← V + u uᵀ, b ← b + y u, with the last reward of the epoch for y."""
        u = feedback.vector
        w = matvec(self.V_inverse, u, reused=True)
        norm = 1 + jnp.maximum(dot(u, w), 0)
        c, error = 1 / norm, (feedback.last - dot(self.h, u)) / norm
        s = products(feedback.vertices, w)
        return ByVertex(
            V_inverse=self.V_inverse - outer(w, c * w),
            h=self.h + error * w,
            estimate=self.estimate + error * s,
            # By the inequality of Cauchy and Schwarz no square shrinks by more than the factor c, which
            # rounding forgets where λ is tiny beside the actions.
            square=jnp.maximum(self.square - c * s * s, c * self.square),
        )

    def square_of(self, u: Array) -> Array:
        """‖u‖²_{V⁻¹}."""
        return jnp.maximum(dot(u, matvec(self.V_inverse, u)), 0)

    def predict(self, vertices: Array) -> Prediction:
        """⟨ĥ,u⟩ and ‖u‖_{V⁻¹} of every vertex u."""
        return Prediction(self.estimate, jnp.sqrt(self.square))


class Gram(NamedTuple):
    """One run's regression as the sums it is made of, from which every decision solves for ĥ.

    Attributes:
      V: (d, d) λI + Σ u uᵀ.
      b: (d,) Σ y u.
    """

    V: Sum
    b: Sum

    @classmethod
    def start(cls, lam: Number, vertices: Array) -> "Gram":
        """V = λI, b = 0."""
        V = lam * jnp.eye(vertices.shape[1], dtype=vertices.dtype)
        return cls(Sum.of(V), Sum.of(jnp.zeros_like(V[0])))

    def observe(self, feedback: Feedback) -> "Gram":
        """V ← V + u uᵀ, b ← b + y u, with the last reward of the epoch for y."""
        u = feedback.vector
        return Gram(V=self.V.add(outer(u, u)), b=self.b.add(feedback.last * u))

    def square_of(self, u: Array) -> Array:
        """‖u‖²_{V⁻¹}."""
        return dot(u, matvec(inverse(self.V.value), u))

    def predict(self, vertices: Array) -> Prediction:
        """⟨ĥ,u⟩ and ‖u‖_{V⁻¹} of every vertex u."""
        V_inverse = inverse(self.V.value)
        estimate = products(vertices, matvec(V_inverse, self.b.value, reused=True))
        return Prediction(estimate, jnp.sqrt(quadratic_forms(vertices, V_inverse)))


Ridge = ByVertex | Gram

_FEW = 48  # coordinates of all vertices, up to which solving is faster: 45 against 60 ns at 10 × 3


def start(lam: Number, vertices: Array) -> Ridge:
    """V = λI, b = 0, in the form that suits the precision and the number of vertices."""
    form = Gram if vertices.dtype == jnp.float32 or vertices.size <= _FEW else ByVertex
    return form.start(lam, vertices)


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


def defaults(
    lam: Number | None, delta: Number | None, horizon: int, vertices: np.ndarray
) -> tuple[float, float]:
    """λ = log T and δ = 1/T where they are not given; T = 1 counts as 2.

    Raises:
      ValueError: λ is so small that V = λI + uuᵀ is singular in float64.
    """
    T = max(horizon, 2)
    λ, least = (
        float(np.log(T) if lam is None else lam),
        _LEAST * np.max(np.sum(vertices**2, axis=1)),
    )
    if λ < least:
        raise ValueError(
            f"lam must be at least {least:.2g} for these actions, 1e-14 of the largest squared; with "
            f"{λ:g} rounding would decide everything"
        )
    return λ, float(1 / T if delta is None else delta)
