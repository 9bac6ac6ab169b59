"""Gradient and information of the likelihood, and steps of Fisher scoring.

With J_t = ∂e_t/∂φ, W_t = S_t⁻¹ and v_t = W_t e_t, the gradient of the log-likelihood and Fisher's
information are

    g = −Σ J_tᵀ v_t + ½ Σ ⟨v_t v_tᵀ − W_t, ∂S_t⟩,      I = Σ J_tᵀ W_t J_t + ½ Σ tr(W_t ∂S_t W_t ∂S_t),

and a step of Fisher scoring is (I + λ diag I)⁻¹ g. A change of the state's coordinates does not change
the likelihood, so that I is singular; λ > 0 keeps steps out of those directions.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from dlbjax.common.arrays import Array
from dlbjax.identification.kalman import Innovations, Rounds, innovations
from dlbjax.identification.parameters import (
    Parameters,
    log_prior,
    longest_units,
    prior_curvature,
)
from dlbjax.identification.steady import Blocks, steady_covariance, steady_innovations
from dlbjax.policies.small import inverse

_DAMPING = np.array([1e-8, 1e-6, 1e-4, 1e-3, 1e-2, 0.1, 1.0, 100.0])  # λ
_LEAST = 2  # index of the least λ that counts for what is left to gain
_NO_INFORMATION = 1e-9  # eigenvalues of I, scaled to a diagonal of ones, that count as zero


class Score(NamedTuple):
    """Gradient and information of the parameters φ (p,) and of x1 (E, n), in blocks.

    Attributes:
      g: (p,) gradient in φ.
      g_x: (E, n) gradient in x1.
      info: (p, p) information of φ.
      info_xp: (E, n, p) information of x1 and φ.
      info_xx: (E, n, n) information of x1; that of two episodes is zero.
    """

    g: Array
    g_x: Array
    info: Array
    info_xp: Array
    info_xx: Array


def innovations_at(parameters: Parameters, x1: Array, data: Rounds | Blocks) -> Innovations:
    """Innovations of a model, each episode started from N(x1, P) with the steady-state covariance P."""
    model = parameters.model()
    if isinstance(data, Blocks):
        return steady_innovations(model, data, x1)
    return innovations(model, data, x1, steady_covariance(model))[0]


def score_at(parameters: Parameters, x1: Array, data: Rounds | Blocks) -> Score:
    """Gradient and information at a point."""
    flat, unravel = ravel_pytree(parameters)
    p, (E, n) = len(flat), x1.shape

    def moved(step: Array) -> tuple[Array, Array]:
        # Each reward depends on the start of one episode, so all starts can be moved at once.
        found = innovations_at(unravel(flat + step[:p]), x1 + step[p:], data)
        return found.e, found.S

    found = innovations_at(parameters, x1, data)
    J, dS = jax.jacfwd(moved)(jnp.zeros(p + n))  # (N, m, p + n) and (N or 1, m, m, p + n)
    m = J.shape[1]
    W = jax.vmap(inverse)(found.S)
    WJ = jnp.einsum("tij,tjp->tip", jnp.broadcast_to(W, (len(J), m, m)), J)
    v = jnp.einsum("tij,tj->ti", jnp.broadcast_to(W, (len(J), m, m)), found.e)
    vv = (v[:, :, None] * v[:, None, :]).reshape(len(W), -1, m, m).sum(axis=1)
    WdS = jnp.einsum("sij,sjkp->sikp", W, dS[..., :p])
    g = jnp.einsum("sij,sijp->p", vv - found.rounds * W, dS[..., :p]) / 2
    info = found.rounds * jnp.einsum("sijp,sjiq->pq", WdS, WdS) / 2

    def by_episode(terms: Array) -> Array:
        return jax.ops.segment_sum(terms, data.episodes, num_segments=E)

    return Score(
        g=g - jnp.einsum("tip,ti->p", J[..., :p], v),
        g_x=-by_episode(jnp.einsum("tix,ti->tx", J[..., p:], v)),
        info=info + jnp.einsum("tip,tiq->pq", J[..., :p], WJ[..., :p]),
        info_xp=by_episode(jnp.einsum("tix,tip->txp", J[..., p:], WJ[..., :p])),
        info_xx=by_episode(jnp.einsum("tix,tiz->txz", J[..., p:], WJ[..., p:])),
    )


def damped_steps(score: Score, free: Array, at: Parameters) -> tuple[Array, Array]:
    """One step (p + En,) for each λ and a last one of zeros, and the log-likelihood left to gain.

    No parameter moves by more than 1. That includes the logarithm of the reward noise: where errors are
    much larger than the model allows, the linear step overshoots by far. What is left to gain is
    ½gᵀ(I + λ diag I)⁻¹g with the least λ that counts.
    """
    flat, unravel = ravel_pytree(at)
    slope = jax.grad(lambda flat: log_prior(unravel(flat)))(flat)
    score = score._replace(g=score.g + slope, info=score.info + prior_curvature(at))
    scale, whole = _information(score, free, longest_units(at))
    g = jnp.nan_to_num(jnp.concatenate([score.g, score.g_x.ravel()]))

    def step(damping: Array) -> Array:
        root = jax.scipy.linalg.cho_factor(whole + damping * jnp.eye(len(g)), lower=True)
        return scale * jax.scipy.linalg.cho_solve(root, scale * g)

    steps = jax.vmap(step)(_DAMPING)
    left = 0.5 * g @ steps[_LEAST]
    largest = jnp.abs(steps[:, : len(free)]).max(axis=1, keepdims=True)
    steps = jnp.concatenate([steps / jnp.maximum(1, largest), jnp.zeros((1, len(g)))])
    return steps, left


@jax.jit
def covariance(score: Score, free: Array) -> Array:
    """Covariance (p, p) of the parameters, without the directions that have no information.

    Those are changes of the state's coordinates, on which h does not depend.
    """
    scale, whole = _information(score, free, jnp.full(len(score.g), jnp.inf))
    values, vectors = jnp.linalg.eigh(whole)
    inverse_root = jnp.where(values > _NO_INFORMATION, 1 / jnp.sqrt(values), 0.0)
    root = (scale[:, None] * vectors * inverse_root[None, :])[: len(score.g)]
    return root @ root.T


def _information(score: Score, free: Array, longest: Array) -> tuple[Array, Array]:
    """Scales, at most the longest, and the information of parameters and x1 in these scales."""
    p, (E, n) = len(score.g), score.g_x.shape
    across = score.info_xp.reshape(E * n, p)
    starts = jax.scipy.linalg.block_diag(*score.info_xx)
    whole = jnp.nan_to_num(jnp.block([[score.info, across.T], [across, starts]]))
    diagonal = jnp.diag(whole)
    free = jnp.concatenate([free, jnp.ones(E * n, dtype=bool)]) & (diagonal > 0)
    longest = jnp.concatenate([longest, jnp.full(E * n, jnp.inf)])
    scale = jnp.minimum(1 / jnp.sqrt(jnp.maximum(diagonal, 1e-300)), longest)
    scale = jnp.where(free, scale, 0.0)
    return scale, scale[:, None] * whole * scale[None, :]
