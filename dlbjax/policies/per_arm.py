"""A ridge regression for every arm, on a context that all arms share: V(a) = λI + Σ z zᵀ, b(a) = Σ y z.

The sums run over the rounds whose reward y counts for arm a.
"""

from typing import NamedTuple

import jax.numpy as jnp

from dlbjax.common.arrays import Array, Number
from dlbjax.policies.small import one_hot


class PerArm(NamedTuple):
    """One run's regressions, of K arms on contexts of m numbers."""

    covariance: Array  # (K, m, m) V(a)⁻¹
    coefficients: Array  # (K, m) V(a)⁻¹b(a)

    @classmethod
    def start(cls, lam: Number, K: int, z: Array) -> "PerArm":
        """V(a) = λI, b(a) = 0, for contexts like z."""
        identity = jnp.eye(len(z), dtype=z.dtype)
        return cls(jnp.tile(identity / lam, (K, 1, 1)), jnp.zeros((K, len(z)), z.dtype))

    def directions(self, z: Array) -> Array:
        """(K, m) V(a)⁻¹z of every arm."""
        # Reductions here and below, because XLA computes anything else anew for everything that uses it.
        return jnp.sum(self.covariance * z[:, None], axis=1)

    def predict(self, z: Array) -> tuple[Array, Array]:
        """(K,) ⟨V(a)⁻¹b(a), z⟩ and ‖z‖²_{V(a)⁻¹} of every arm."""
        square = jnp.sum(self.directions(z) * z, axis=1)
        return jnp.sum(self.coefficients * z, axis=1), jnp.maximum(square, 0)

    def observe(self, z: Array, y: Array, arm: Array) -> "PerArm":
        """V(a) ← V(a) + z zᵀ, b(a) ← b(a) + y z for one arm; for none where its index is −1."""
        credited = one_hot(arm, self.coefficients.shape[0]).astype(y.dtype)
        across, (estimate, square) = self.directions(z), self.predict(z)
        gain = (credited / (1 + square))[:, None] * across
        return PerArm(
            covariance=self.covariance - gain[:, :, None] * across[:, None, :],
            coefficients=self.coefficients + gain * (y - estimate)[:, None],
        )
