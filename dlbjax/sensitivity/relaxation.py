"""Algorithm 1 with a soft choice: one scan step per epoch, all runs side by side.

V ← λI, b ← 0
for epochs m = 1, 2, …:
    p ← softmax over the vertices v of (⟨V⁻¹b, v⟩ + β_t ‖v‖_{V⁻¹})/τ_m
    play u = Σ p_k v_k for 1 + H_m rounds; y_k ← the last reward, had v_k been held
    V ← V + Σ p_k v_k v_kᵀ, b ← b + Σ p_k y_k v_k

Arrays have a trailing axis of runs. Every run has its own copy of the parameters, so that the derivative of
the summed regret is the derivative of each run's, and runs on several systems can share a scan.

A function of one run under `jax.vmap` takes longer, because vmap moves the mapped axis to the front for
broadcasts, transposes and products. Times of regret and gradient over those of this module (T = 10⁴, 64 runs,
2 cores): 2.7 and 2.1 with the whole run mapped; with an epoch mapped inside the scan, as the simulator does,
2.7 and 2.1, or 2.2 and 1.5 with `@`, or 1.4 and 3.0 with the products of policies/small.py. Only with a
batching rule for every operation (`custom_vmap`) is it as fast, and then one run has no gradient.
"""

import math
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from dlbjax.common.arrays import Array, Number
from dlbjax.engine import prng
from dlbjax.model.bounds import Bounds
from dlbjax.model.system import System, settled
from dlbjax.policies.dynlin_ucb import exploration
from dlbjax.policies.epochs import Epochs
from dlbjax.policies.small import inverse

_DRAWN = 4096  # normals per run and call, so that one compiled program serves every horizon


class Parameters(NamedTuple):
    """What the regret is a smooth function of.

    The noise enters through the system's `state_noise`, a covariance, and `reward_noise`; build the system
    from σ inside the function to differentiate in σ.

    Attributes:
      system: the hidden linear system.
      lam: ridge parameter λ.
      scale: factor on the printed β.
    """

    system: System
    lam: Number
    scale: Number = 1.0


class Setting(NamedTuple):
    """What all runs share."""

    vertices: Array  # (K, d)
    bounds: Bounds  # given to the learner
    temperature: Number  # of the soft choice
    delta: Number  # confidence δ
    stretches: "Stretch"  # table of all epochs


class Stretch(NamedTuple):
    """Consecutive epochs of one length; in a table, one row each."""

    length: Array  # rounds of an epoch
    epochs: Array  # how many
    first: Array  # number of the first, from 0
    start: Array  # rounds completed before it


class Maps(NamedTuple):
    """What l rounds under one action do to the state."""

    F: Array  # (n, n, runs) A^l
    R: Array  # (n, d, runs) Σ_{k<l} A^k B
    Q: Array  # (n, n, runs) Σ_{k<l} A^k Q (A^k)ᵀ, covariance of the noise


class State(NamedTuple):
    """All runs between two epochs."""

    V: Array  # (d, d, runs) λI + Σ p_k v_k v_kᵀ
    b: Array  # (d, runs) Σ p_k y_k v_k
    shadow: Array  # (n, runs) z, the state without noise
    disturbance: Array  # (n, runs) ŵ, what is known of the noise's part of the state
    P: Array  # (n, n, runs) covariance of what is not known of it
    offline: Array  # (runs,) Σ (J* − J(u))


def stretches(epochs: Epochs, horizon: int) -> tuple[Stretch, int]:
    """The epochs up to the horizon in stretches of at most √epochs, and that number."""
    most = math.isqrt(max(int(epochs.counts.sum()) - 1, 0)) + 1
    rows, first, start = [], 0, 0
    for length, left in zip(epochs.lengths.tolist(), epochs.counts.tolist(), strict=True):
        while left and start < horizon:
            whole = min(left, most, (horizon - start) // length)
            rounds, count = (length, whole) if whole else (horizon - start, 1)
            rows.append((rounds, count, first, start))
            first, start, left = first + count, start + rounds * count, left - count
    return Stretch(*np.array(rows, dtype=np.int32).T), most


def draw(runs: int, count: int) -> Array:
    """(at least count, runs) standard normals: those `simulate` uses for seeds 0, 1, … ."""
    with jax.ensure_compile_time_eval():  # known numbers, also where the caller is being traced
        keys = jax.vmap(partial(jax.random.key, impl="threefry2x32"))(np.arange(runs))
        noise = jax.random.key_data(jax.vmap(lambda key: jax.random.fold_in(key, 0))(keys)).T
        return jnp.concatenate([_draw(noise, jnp.int32(i)) for i in range(0, count, _DRAWN)])


@jax.jit
def _draw(key: jax.Array, first: jax.Array) -> jax.Array:
    return prng.normals(key, first, _DRAWN, 1, np.dtype(np.float64))[:, 0]


def for_each_run(runs: int, leaf: Number) -> Array:
    """A copy for every run, (…, runs)."""
    array = jnp.asarray(leaf, jnp.float64)
    return jnp.broadcast_to(array[..., None], (*array.shape, runs))


@partial(jax.jit, static_argnums=(3, 4))
def regrets(
    parameters: Parameters, normals: Array, setting: Setting, most: int, longest: int
) -> Array:
    """Expected regret of every run, (runs,).

    Args:
      parameters: leaves (…, runs).
      normals: (epochs + most, runs).
      setting: what all runs share.
      most: epochs in a stretch, at most.
      longest: rounds in an epoch, at most.
    """
    system = parameters.system
    lam, scale = jnp.asarray(parameters.lam), jnp.asarray(parameters.scale)
    vertices, bounds, temperature, delta, table = setting
    n, d, runs = system.B.shape
    worth = jax.vmap(settled, in_axes=-1, out_axes=-1)(_transposed(system.A), system.omega)
    h = system.theta + matvec(_transposed(system.B), worth)
    arms = vertices[..., None]
    best = matvec(arms, h).max(axis=0)
    squares = arms[:, :, None] * arms[:, None, :]
    maps = _maps(system, longest)

    # Recomputed in the backward sweep: only the state at the start of every stretch is kept.
    @partial(jax.checkpoint, prevent_cse=False)
    def play(state: State, now: Stretch) -> tuple[State, None]:
        until_last = jax.tree.map(lambda table: table[now.length - 1], maps)
        last_state = matvec(_transposed(until_last.F), system.omega)
        last_action = system.theta + matvec(_transposed(until_last.R), system.omega)
        power, response = matmul(system.A, until_last.F), matmul(system.A, until_last.R) + system.B
        number = jnp.arange(most, dtype=now.first.dtype)
        m, t = (
            count.astype(lam.dtype)[:, None]
            for count in (now.first + number, now.start + number * now.length)
        )
        beta = scale * exploration(bounds, lam, delta, d, t)
        width = bounds.U / jnp.sqrt(lam + m * bounds.U**2 / d)
        heat = temperature * beta * (width - width / jnp.sqrt(1 + width**2))
        length = now.length.astype(lam.dtype)

        def epoch(state: State, inputs: tuple[Array, Array, Array, Array]) -> tuple[State, None]:
            played, beta, heat, e = inputs
            p = decide(arms, state, beta, heat)
            u = matvec(_transposed(arms), p)
            moment = (p[:, None, None] * squares).sum(axis=0)  # Σ p_k v_k v_kᵀ
            g, K, P = _filter(system, until_last, state.P)
            z, w = state.shadow, state.disturbance
            rest = dot(last_state, z + w) + g * e  # y_k = rest + ⟨last_action, v_k⟩
            after = State(
                V=state.V + moment,
                b=state.b + rest * u + matvec(moment, last_action),
                shadow=matvec(power, z) + matvec(response, u),
                disturbance=matvec(power, w) + K * e,
                P=P,
                offline=state.offline + length * (best - dot(h, u)),
            )
            return jax.tree.map(partial(jnp.where, played), after, state), None

        noise = jax.lax.dynamic_slice_in_dim(normals, now.first, most)
        return jax.lax.scan(epoch, state, (number < now.epochs, beta, heat, noise))

    start = State(
        V=lam * jnp.eye(d)[..., None],
        b=jnp.zeros((d, runs)),
        shadow=system.x1,
        disturbance=jnp.zeros((n, runs)),
        P=jnp.zeros((n, n, runs)),
        offline=jnp.zeros(runs),
    )
    end, _ = jax.lax.scan(play, start, table)
    return end.offline + dot(worth, end.shadow - system.x1)


@partial(jax.jit, static_argnums=(3, 4))
def gradients(
    parameters: Parameters, normals: Array, setting: Setting, most: int, longest: int
) -> tuple[Parameters, Array]:
    """Derivative of every run's regret in its own parameters, (…, runs), and the regrets."""

    def summed(parameters: Parameters) -> tuple[Array, Array]:
        regret = regrets(parameters, normals, setting, most, longest)
        return regret.sum(), regret

    return jax.grad(summed, has_aux=True)(parameters)


def decide(arms: Array, state: State, beta: Array, heat: Array) -> Array:
    """p = softmax((⟨V⁻¹b, v⟩ + β_t ‖v‖_{V⁻¹})/τ_m), (K, runs)."""
    V_inverse = _inverse(state.V)
    width = _root((matmul(arms, V_inverse) * arms).sum(axis=1))
    ucb = matvec(arms, matvec(V_inverse, state.b)) + beta * width
    return jax.nn.softmax(ucb / heat, axis=0)


def _filter(system: System, until_last: Maps, P: Array) -> tuple[Array, Array, Array]:
    """Deviation of an epoch's last reward, the gain of its innovation, and P after the epoch."""
    before = matmul(matmul(until_last.F, P), _transposed(until_last.F)) + until_last.Q
    seen = matvec(before, system.omega)
    g = _root(dot(system.omega, seen) + system.reward_noise**2)
    K = matvec(system.A, seen) / jnp.where(g > 0, g, 1.0)
    moved = matmul(matmul(system.A, before), _transposed(system.A)) + system.state_noise
    return g, K, moved - K[:, None] * K[None]


def _maps(system: System, longest: int) -> Maps:
    """For l = 0, …, longest − 1 rounds, stacked."""
    A = system.A
    none = Maps(jnp.broadcast_to(jnp.eye(len(A))[..., None], A.shape), 0 * system.B, 0 * A)

    def longer(maps: Maps, _: None) -> tuple[Maps, Maps]:
        after = Maps(
            F=matmul(A, maps.F),
            R=matmul(A, maps.R) + system.B,
            Q=matmul(matmul(A, maps.Q), _transposed(A)) + system.state_noise,
        )
        return after, maps

    return jax.lax.scan(longer, none, length=longest)[1]


@jax.custom_jvp
def _inverse(V: Array) -> Array:
    return jax.vmap(inverse, in_axes=-1, out_axes=-1)(V)


@_inverse.defjvp
def _inverse_jvp(primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
    V_inverse = _inverse(*primals)
    return V_inverse, -matmul(matmul(V_inverse, tangents[0]), V_inverse)


def _root(square: Array) -> Array:
    """√x, with derivative 0 at 0: the zero action, or a system without noise."""
    positive = square > 0
    return jnp.where(positive, jnp.sqrt(jnp.where(positive, square, 1.0)), 0.0)


def matvec(matrix: Array, vector: Array) -> Array:
    """M x, for matrix (a, b, runs) and vector (b, runs)."""
    return (matrix * vector[None]).sum(axis=1)


def matmul(one: Array, other: Array) -> Array:
    """M N, for matrices (a, b, runs) and (b, c, runs)."""
    return (one[:, :, None] * other[None]).sum(axis=1)


def dot(one: Array, other: Array) -> Array:
    """⟨x, y⟩, for vectors (a, runs)."""
    return (one * other).sum(axis=0)


def _transposed(matrix: Array) -> Array:
    return jnp.swapaxes(matrix, 0, 1)
