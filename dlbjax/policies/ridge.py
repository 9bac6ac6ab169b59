"""Ridge regression on played actions, and the optimistic choice among vertices."""

from collections.abc import Callable
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from dlbjax._arrays import Array, real_number
from dlbjax._small import Sum, first_best, identity, inverse, matvec, outer, quadratic_forms
from dlbjax.bounds import Bounds, check


class Ridge(NamedTuple):
    """Sufficient statistics of a ridge regression of rewards on actions."""

    V: Sum  # (d, d[, lanes]) λI + Σ u uᵀ
    b: Sum  # (d[, lanes]) Σ y u


def ridge(lam: Array, d: int) -> Ridge:
    """V = λI, b = 0."""
    V = lam * identity(d, jnp.ndim(lam))
    return Ridge(V=Sum.of(V), b=Sum.of(jnp.zeros(V.shape[1:])))


def observe(state: Ridge, action: Array, reward: Array) -> Ridge:
    """V ← V + u uᵀ, b ← b + y u."""
    return Ridge(V=state.V.add(outer(action, action)), b=state.b.add(reward * action))


def optimistic(state: Ridge, beta: Array, vertices: Array) -> Array:
    """Index of argmax_u ⟨ĥ,u⟩ + β‖u‖_{V⁻¹} over the vertices, with ĥ = V⁻¹ b."""
    V_inverse = inverse(state.V.value)
    estimate = matvec(V_inverse, state.b.value)
    width = jnp.sqrt(quadratic_forms(vertices, V_inverse))
    return first_best(matvec(vertices, estimate) + beta * width)


def check_ridge(bounds: Bounds, lam: Array, delta: Array) -> Callable[[int], tuple[Array, Array]]:
    """T ↦ (λ, δ), log T and 1/T where they are not given; refuses what cannot be used."""
    check(bounds)
    if lam is not None:
        lam = real_number("lam", lam, above=0.0)
    if delta is not None:
        delta = real_number("delta", delta, above=0.0, below=1.0)

    def told(horizon: int) -> tuple[Array, Array]:
        return (
            np.log(max(horizon, 2)) if lam is None else lam,  # log 1 = 0 would not do
            1 / max(horizon, 2) if delta is None else delta,  # nor would 1/1
        )

    return told
