"""The scan behind `relaxed_regret`: one step per epoch, all runs side by side in the trailing axis.

Every run has its own copy of the parameters, (…, lanes), so that the derivative of the summed regret is
the derivative of each run's, and runs on several systems can share a scan.
"""

import math
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from dlbjax._arrays import Array
from dlbjax._small import identity, inverse, outer
from dlbjax.bounds import Bounds
from dlbjax.engine import random
from dlbjax.epochs import Epochs
from dlbjax.system import System
from dlbjax.theory.confidence import largest_growth, radius

_DRAWN = 4096  # normals per run and call, so that one compiled program serves every horizon


class Parameters(NamedTuple):
    """What the regret is a smooth function of.

    The noise enters through the system's `state_noise`, a covariance, and `reward_noise`; build the system
    from σ inside the function to differentiate in σ.
    """

    system: System
    lam: Array  # λ
    scale: Array = 1.0  # factor on the printed β


class Stretch(NamedTuple):
    """Consecutive epochs of one length; in a table, one row each."""

    length: Array  # rounds of an epoch
    count: Array  # epochs
    first: Array  # number of the first, from 0
    start: Array  # rounds completed before it


class Carry(NamedTuple):
    """All runs between two epochs."""

    V: Array  # (d, d, lanes) λI + Σ p_k v_k v_kᵀ
    b: Array  # (d, lanes) Σ p_k v_k y_k
    shadow: Array  # (n, lanes) z
    disturbance: Array  # (n, lanes) ŵ, what is known of the noise's part of the state
    P: Array  # (n, n, lanes) covariance of what is not known of it
    offline: Array  # (lanes,) Σ (J* − J(u))


def stretch(epochs: Epochs, horizon: int) -> tuple[Stretch, int]:
    """The epochs up to the horizon in stretches of at most √epochs, and that number."""
    most = math.isqrt(max(int(epochs.counts.sum()) - 1, 0)) + 1
    rows, first, start = [], 0, 0
    for length, left in zip(epochs.lengths.tolist(), epochs.counts.tolist(), strict=True):
        while left and start < horizon:
            whole = min(left, most, (horizon - start) // length)
            rows.append(
                (length, whole, first, start) if whole else (horizon - start, 1, first, start)
            )
            first, start, left = (
                first + rows[-1][1],
                start + rows[-1][0] * rows[-1][1],
                left - whole,
            )
    return Stretch(*np.array(rows, dtype=np.int32).T), most


def draw(runs: int, count: int) -> Array:
    """(at least count, runs) standard normals: those `simulate` uses for seeds 0, 1, … ."""
    with jax.ensure_compile_time_eval():  # known numbers, also where the caller is being traced
        keys = jax.vmap(partial(jax.random.key, impl="threefry2x32"))(np.arange(runs))
        noise = jax.random.key_data(jax.vmap(lambda key: jax.random.fold_in(key, 0))(keys)).T
        return jnp.concatenate([_draw(noise, jnp.int32(i)) for i in range(0, count, _DRAWN)])


@jax.jit
def _draw(key: Array, first: Array) -> Array:
    return random.normals(key, first, _DRAWN, 1, np.dtype(np.float64))[:, 0]


def along_lanes(runs: int, leaf: Array) -> Array:
    """A copy for every run, (…, runs)."""
    leaf = jnp.asarray(leaf, jnp.float64)
    return jnp.broadcast_to(leaf[..., None], (*leaf.shape, runs))


@partial(jax.jit, static_argnums=(7, 8))
def regrets(
    parameters: Parameters, vertices: Array, bounds: Bounds, temperature: Array, delta: Array,
    stretches: Stretch, normals: Array, most: int, longest: int,
) -> Array:  # fmt: skip
    """Expected regret of every run, (lanes,).

    Args:
      parameters: leaves (…, lanes).
      vertices: (K, d).
      bounds: what the learner is told.
      temperature: of the soft choice.
      delta: confidence δ.
      stretches: table of epochs.
      normals: (epochs + most, lanes).
      most: epochs in a stretch, at most.
      longest: rounds in an epoch, at most.
    """
    system, lam, scale = parameters
    n, d, runs = system.B.shape
    transient = jax.vmap(System._resolvent_transposed, in_axes=-1, out_axes=-1)(
        system, system.omega
    )
    h = system.theta + matvec(_transposed(system.B), transient)
    arms = vertices[..., None]
    best = matvec(arms, h).max(axis=0)
    squares = arms[:, :, None] * arms[:, None, :]
    maps = _maps(system, longest)

    # Recomputed in the backward sweep: only the carry at the start of every stretch is kept.
    @partial(jax.checkpoint, prevent_cse=False)
    def play(carry: Carry, now: Stretch) -> tuple[Carry, None]:
        F, R, Q = jax.tree.map(lambda table: table[now.length - 1], maps)  # up to the last round
        last_state = matvec(_transposed(F), system.omega)
        last_action = system.theta + matvec(_transposed(R), system.omega)
        power, response = matmul(system.A, F), matmul(system.A, R) + system.B
        number = jnp.arange(most, dtype=now.first.dtype)
        done = (now.start + number * now.length).astype(lam.dtype)[:, None]
        growth = largest_growth(bounds, lam, d, done)
        beta = scale * radius(bounds, lam, delta, done, growth, printed=True)
        spread = bounds.U / jnp.sqrt(
            lam + (now.first + number).astype(lam.dtype)[:, None] * bounds.U**2 / d
        )
        heat = temperature * beta * (spread - spread / jnp.sqrt(1 + spread**2))
        length = now.length.astype(lam.dtype)

        def epoch(carry: Carry, inputs: tuple[Array, ...]) -> tuple[Carry, None]:
            played, beta, heat, e = inputs
            V_inverse = _inverse(carry.V)
            width = _root((matmul(arms, V_inverse) * arms).sum(axis=1))
            ucb = matvec(arms, matvec(V_inverse, carry.b)) + beta * width
            p = jax.nn.softmax(ucb / heat, axis=0)
            u = matvec(_transposed(arms), p)
            moment = (p[:, None, None] * squares).sum(axis=0)  # Σ p_k v_k v_kᵀ

            before = matmul(matmul(F, carry.P), _transposed(F)) + Q
            seen = matvec(before, system.omega)
            g = _root(dot(system.omega, seen) + system.reward_noise**2)
            K = matvec(system.A, seen) / jnp.where(g > 0, g, 1.0)
            z, w = carry.shadow, carry.disturbance
            rest = dot(last_state, z + w) + g * e  # the last reward but for what the action adds
            after = Carry(
                V=carry.V + moment,
                b=carry.b + rest * u + matvec(moment, last_action),
                shadow=matvec(power, z) + matvec(response, u),
                disturbance=matvec(power, w) + K * e,
                P=matmul(matmul(system.A, before), _transposed(system.A)) + system.state_noise - outer(K, K),
                offline=carry.offline + length * (best - dot(h, u)),
            )  # fmt: skip
            return jax.tree.map(partial(jnp.where, played), after, carry), None

        noise = jax.lax.dynamic_slice_in_dim(normals, now.first, most)
        return jax.lax.scan(epoch, carry, (number < now.count, beta, heat, noise))

    start = Carry(
        V=lam * identity(d, 1),
        b=jnp.zeros((d, runs)),
        shadow=system.x1,
        disturbance=jnp.zeros((n, runs)),
        P=jnp.zeros((n, n, runs)),
        offline=jnp.zeros(runs),
    )
    end, _ = jax.lax.scan(play, start, stretches)
    return end.offline + dot(transient, end.shadow - system.x1)


@partial(jax.jit, static_argnums=(7, 8))
def gradients(parameters: Parameters, *rest: object) -> tuple[Parameters, Array]:
    """Derivative of every run's regret in its own parameters, (…, lanes), and the regrets."""

    def summed(parameters: Parameters) -> tuple[Array, Array]:
        regret = regrets(parameters, *rest)
        return regret.sum(), regret

    return jax.grad(summed, has_aux=True)(parameters)


def _maps(system: System, longest: int) -> tuple[Array, Array, Array]:
    """A^l, Σ_{k<l} A^k B and Σ_{k<l} A^k Q (A^k)ᵀ for l = 0, …, longest − 1, stacked."""
    A, Q = system.A, system.state_noise
    none = (jnp.broadcast_to(identity(len(A), 1), A.shape), 0 * system.B, 0 * Q)

    def longer(maps: tuple[Array, ...], _: None) -> tuple[tuple[Array, ...], tuple[Array, ...]]:
        F, R, spread = maps
        after = (
            matmul(A, F),
            matmul(A, R) + system.B,
            matmul(matmul(A, spread), _transposed(A)) + Q,
        )
        return after, maps

    return jax.lax.scan(longer, none, length=longest)[1]


@jax.custom_jvp
def _inverse(V: Array) -> Array:
    return inverse(V)


@_inverse.defjvp
def _inverse_jvp(primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
    V_inverse = _inverse(*primals)
    return V_inverse, -matmul(matmul(V_inverse, tangents[0]), V_inverse)


def _root(square: Array) -> Array:
    """√x, with derivative 0 at 0: the zero action, or a system without noise."""
    positive = square > 0
    return jnp.where(positive, jnp.sqrt(jnp.where(positive, square, 1.0)), 0.0)


# Multiply and sum: the products of _small.py, written out term by term, and their transposes take twice
# as long to compile, and here no less time to run.


def matvec(matrix: Array, vector: Array) -> Array:
    """M x, for matrix (a, b, lanes) and vector (b, lanes)."""
    return (matrix * vector[None]).sum(axis=1)


def matmul(one: Array, other: Array) -> Array:
    """M N, for matrices (a, b, lanes) and (b, c, lanes)."""
    return (one[:, :, None] * other[None]).sum(axis=1)


def dot(one: Array, other: Array) -> Array:
    """⟨x, y⟩, for vectors (a, lanes)."""
    return (one * other).sum(axis=0)


def _transposed(matrix: Array) -> Array:
    return jnp.swapaxes(matrix, 0, 1)
