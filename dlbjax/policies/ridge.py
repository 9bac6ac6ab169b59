"""Ridge regression on played actions, and the optimistic choice among vertices."""

from typing import NamedTuple

import jax.numpy as jnp

from dlbjax._arrays import Array
from dlbjax._small import first_best, identity, inverse, matvec, outer, quadratic_forms


class Ridge(NamedTuple):
    """Sufficient statistics of a ridge regression of rewards on actions."""

    V: Array  # (d, d[, lanes]) λI + Σ u uᵀ
    b: Array  # (d[, lanes]) Σ y u


def ridge(lam: Array, d: int) -> Ridge:
    """V = λI, b = 0."""
    return Ridge(V=lam * identity(d, jnp.ndim(lam)), b=jnp.zeros((d, *jnp.shape(lam))))


def observe(state: Ridge, action: Array, reward: Array) -> Ridge:
    """V ← V + u uᵀ, b ← b + y u."""
    return Ridge(V=state.V + outer(action, action), b=state.b + reward * action)


def optimistic(state: Ridge, beta: Array, vertices: Array) -> Array:
    """Index of argmax_u ⟨ĥ,u⟩ + β‖u‖_{V⁻¹} over the vertices, with ĥ = V⁻¹ b."""
    V_inverse = inverse(state.V)
    estimate = matvec(V_inverse, state.b)
    width = jnp.sqrt(quadratic_forms(vertices, V_inverse))
    return first_best(matvec(vertices, estimate) + beta * width)
