"""Ridge regression on played actions, and the optimistic choice among vertices."""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from dlbjax._arrays import Array


class Ridge(NamedTuple):
    """Sufficient statistics of a ridge regression of rewards on actions."""

    V: Array  # (d, d) Gram matrix λI + Σ u uᵀ
    b: Array  # (d,) Σ y u


def ridge(lam: Array, d: int) -> Ridge:
    """V = λI, b = 0."""
    return Ridge(V=lam * jnp.eye(d), b=jnp.zeros(d))


def observe(state: Ridge, action: Array, reward: Array) -> Ridge:
    """V ← V + u uᵀ, b ← b + y u."""
    return Ridge(V=state.V + jnp.outer(action, action), b=state.b + reward * action)


def optimistic(state: Ridge, beta: Array, vertices: Array) -> Array:
    """Index of argmax_u ⟨ĥ, u⟩ + β‖u‖_{V⁻¹} with ĥ = V⁻¹b, over the vertices."""
    inverse = inverse_of_positive(state.V)
    estimate = jnp.sum(inverse * state.b[None, :], axis=1)
    width = jnp.sqrt(jnp.sum((vertices @ inverse) * vertices, axis=1))
    return first_best(vertices @ estimate + beta * width)


def first_best(values: Array) -> Array:
    """The first index whose value is within 1e-12 of the largest, so that rounding decides nothing."""
    return jax.lax.argmax(values >= jnp.max(values) - 1e-12, 0, jnp.int32)


def inverse_of_positive(matrix: Array) -> Array:
    """Inverse of a small symmetric positive definite matrix by Gauss-Jordan elimination.

    Written out entry by entry: over many lanes each operation is a vector one, where a call to
    LAPACK per lane would take most of a round's time. No pivoting is needed for such a matrix.
    """
    d = matrix.shape[0]
    rows = [[matrix[i, j] for j in range(d)] for i in range(d)]
    for k in range(d):
        pivot = 1 / rows[k][k]
        rows[k] = [pivot if j == k else rows[k][j] * pivot for j in range(d)]
        for i in range(d):
            if i != k:
                factor = rows[i][k]
                rows[i] = [
                    -factor * pivot if j == k else rows[i][j] - factor * rows[k][j]
                    for j in range(d)
                ]
    return jnp.stack([jnp.stack(row) for row in rows])
