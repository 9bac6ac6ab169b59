"""The filter in its steady state, in parallel over blocks of rounds.

Started from its steady-state covariance P, the filter's gain K and the covariance S of the
innovations are constant, and x̂_{t+1} = (A − KC) x̂_t + (B − KD) u_t + K(y_t − c) is a linear recursion.
It is computed over about √N blocks of √N rounds in parallel, each from zero; then from block to block
with (A − KC)^L; last, the effect of the states at the starts of the blocks on the innovations is added.
"""

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from dlbjax.common.arrays import Array
from dlbjax.identification.data import Samples
from dlbjax.identification.kalman import Innovations, padded
from dlbjax.identification.model import StateSpace

_DOUBLINGS = 16  # 2^16 steps of the Riccati recursion, at most
_VANISHED = 1e-12  # of the size of its square, 1e-24, is what is left out
_PADDED = (
    4  # L and K are multiples of this, so that data of similar length share a compiled program
)


class Blocks(NamedTuple):
    """Samples without missing rewards, cut into K blocks of L rounds; no block holds two episodes.

    Attributes:
      u: (L, K, d) actions, padded with 0 at the end of an episode and after the last one.
      y: (L, K, m) rewards, padded likewise.
      known: (L, K, 1) 1.0, or 0.0 where padded.
      starts: (K,) bool, whether a block is the first of its episode.
      episode: (K,) int32, index of the episode.
    """

    u: Array
    y: Array
    known: Array
    starts: Array
    episode: Array

    @classmethod
    def of(cls, samples: Samples) -> "Blocks":
        """The blocks of all samples, in float64 inside `jax.enable_x64(True)`."""
        L = padded(math.isqrt(max(samples.lengths) - 1) + 1, _PADDED)
        counts = [-(-length // L) for length in samples.lengths]
        K = padded(sum(counts), _PADDED)
        slot = np.concatenate([np.arange(length) for length in samples.lengths])
        slot += L * np.repeat(np.cumsum([0, *counts[:-1]]), samples.lengths)

        def cut(values: np.ndarray) -> Array:
            blocks = np.zeros((K * L, values.shape[1]))
            blocks[slot] = values
            return jnp.asarray(blocks.reshape(K, L, -1).swapaxes(0, 1))

        starts = np.zeros(K, dtype=bool)
        starts[np.cumsum([0, *counts[:-1]])] = True
        return cls(
            cut(samples.inputs), cut(samples.rewards), cut(np.ones((len(slot), 1))),
            jnp.asarray(starts), jnp.asarray(starts.cumsum() - 1, dtype=jnp.int32),
        )  # fmt: skip

    @property
    def episodes(self) -> Array:
        """(LK,) index of the episode of every row of the innovations."""
        return jnp.tile(self.episode, self.u.shape[0])


@jax.custom_jvp
def steady_covariance(model: StateSpace) -> Array:
    """P = APAᵀ − APCᵀ(CPCᵀ + R)⁻¹CPAᵀ + Q, by the structure-preserving doubling algorithm.

    k doublings equal 2^k steps of the recursion from P = 0.
    """
    n = model.A.shape[0]

    def double(carry: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        F, G, P = carry
        inner = jnp.linalg.solve(jnp.eye(n) + G @ P, jnp.concatenate([F, G], axis=1))
        G = G + F @ inner[:, n:] @ F.T
        P = P + F.T @ P @ inner[:, :n]
        return F @ inner[:, :n], (G + G.T) / 2, (P + P.T) / 2

    G = model.C.T @ jnp.linalg.solve(model.R, model.C)
    return _doubled(double, (model.A.T, G, model.Q))[2]


def _doubled(double: Any, start: tuple[Array, ...]) -> tuple[Array, ...]:
    """Doublings until the first of the carried arrays, a power of a matrix, has vanished."""

    def goes_on(state: tuple[Any, tuple[Array, ...]]) -> Array:
        k, carry = state
        return (k < _DOUBLINGS) & (jnp.max(jnp.abs(carry[0])) > _VANISHED)

    return jax.lax.while_loop(goes_on, lambda s: (s[0] + 1, double(s[1])), (0, start))[1]


@steady_covariance.defjvp
def _steady_slope(primals: tuple[StateSpace], tangents: tuple[StateSpace]) -> tuple[Array, Array]:
    """∂P = Σ_k Ā^k W (Ā^k)ᵀ with Ā = A − KC, where W is the derivative of one step at a fixed P.

    Only W differs between the parameters, so that their derivatives take products but solve nothing.
    """
    P = steady_covariance(primals[0])

    def step(model: StateSpace) -> tuple[Array, Array]:
        PC = P @ model.C.T
        K = jnp.linalg.solve(model.C @ PC + model.R, PC.T @ model.A.T).T
        return model.A @ P @ model.A.T - K @ PC.T @ model.A.T + model.Q, model.A - K @ model.C

    (_, A_bar), (W, _) = jax.jvp(step, primals, tangents)

    def double(carry: tuple[Array, Array]) -> tuple[Array, Array]:
        power, total = carry
        return power @ power, total + power @ total @ power.T

    return P, _doubled(double, (A_bar, W))[1]


def steady_innovations(model: StateSpace, blocks: Blocks, x1: Array) -> Innovations:
    """`innovations` from x1 (E, n) and P1 = P, in another order and with zeros where padded."""
    P = steady_covariance(model)
    S = model.C @ P @ model.C.T + model.R
    K = jnp.linalg.solve(S, model.C @ P @ model.A.T).T
    A = model.A - K @ model.C
    observed = blocks.y - model.c - blocks.u @ model.D.T
    driven = blocks.u @ model.B.T + observed @ K.T

    def within(x: jax.Array, v: jax.Array) -> tuple[jax.Array, jax.Array]:
        return x @ A.T + v, x

    def power(AL: jax.Array, _: None) -> tuple[jax.Array, jax.Array]:
        return AL @ A, AL

    def across(x: Array, at: tuple[Array, ...]) -> tuple[Array, Array]:
        starts, x_start, end = at
        x = jnp.where(starts, x_start, x)
        return AL @ x + end, x

    ends, from_zero = jax.lax.scan(within, jnp.zeros_like(driven[0]), driven)
    AL, powers = jax.lax.scan(power, jnp.eye(len(A)), None, length=len(driven))
    first = jax.lax.scan(across, x1[0], (blocks.starts, x1[blocks.episode], ends))[1]
    states = from_zero + jnp.einsum("lij,kj->lki", powers, first)
    e = observed - states @ model.C.T
    rounds = jnp.sum(blocks.known)
    m = e.shape[-1]
    return Innovations((blocks.known * e).reshape(-1, m), S[None], rounds, m * rounds)
