"""Ridge regression on played actions, and the optimistic choice among vertices."""

from typing import NamedTuple

import jax.numpy as jnp

from dlbjax._arrays import Array
from dlbjax._small import dot, first_best, matvec, outer, quadratic_forms


class Ridge(NamedTuple):
    """Ridge regression of rewards on actions, kept up to date by recursive least squares."""

    estimate: Array  # (d,) ĥ = V⁻¹ b
    inverse: Array  # (d, d) V⁻¹ with V = λI + Σ u uᵀ


def ridge(lam: Array, d: int) -> Ridge:
    """V = λI, b = 0."""
    lanes = jnp.shape(lam)
    eye = jnp.eye(d).reshape(d, d, *[1] * len(lanes))
    return Ridge(estimate=jnp.zeros((d, *lanes)), inverse=eye / lam)


def observe(state: Ridge, action: Array, reward: Array) -> Ridge:
    """V ← V + u uᵀ, b ← b + y u."""
    direction = matvec(state.inverse, action)
    gain = direction / (1 + dot(action, direction))
    surprise = reward - dot(action, state.estimate)
    return Ridge(
        estimate=state.estimate + gain * surprise,
        inverse=state.inverse - outer(direction, gain),
    )


def optimistic(state: Ridge, beta: Array, vertices: Array) -> Array:
    """Index of argmax_u ⟨ĥ, u⟩ + β‖u‖_{V⁻¹} with ĥ = V⁻¹b, over the vertices."""
    width = jnp.sqrt(quadratic_forms(vertices, state.inverse))
    return first_best(matvec(vertices, state.estimate) + beta * width)
