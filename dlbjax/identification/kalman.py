"""The Kalman filter in innovations form, and the likelihood of a model.

e_t = y_t − c − C x̂_t − D u_t,    S_t = C P_t Cᵀ + R,    K_t = A P_t Cᵀ S_t⁻¹,
x̂_{t+1} = A x̂_t + B u_t + K_t e_t,    P_{t+1} = A P_t Aᵀ − K_t S_t K_tᵀ + Q.

The innovations e_t are independent N(0, S_t), so that the log density of the rewards is the sum of
their log densities. An output that is missing at a round has a row of zeros in C there.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from dlbjax.common.arrays import Array, Number, is_traced, real_array, real_number
from dlbjax.common.processes import check_not_forked
from dlbjax.identification.data import Episodes, Samples, read_samples
from dlbjax.identification.model import StateSpace
from dlbjax.model.system import System
from dlbjax.policies.small import inverse, matmul, matvec

_PADDED = 64  # N is a multiple of this, so that data of similar length share a compiled program


class Rounds(NamedTuple):
    """Input of the filter: the rounds of all episodes, one episode after another.

    Before the first come rounds without rewards that fill N up; where an episode starts, they are forgotten.

    Attributes:
      u: (N, d) actions.
      y: (N, m) rewards, 0 where missing.
      known: (N, m) 1.0, or 0.0 where a reward is missing.
      starts: (N,) bool, whether a round is the first of its episode.
      episodes: (N,) int32, index of the episode.
    """

    u: Array
    y: Array
    known: Array
    starts: Array
    episodes: Array

    @classmethod
    def of(cls, samples: Samples) -> "Rounds":
        """The rounds of all samples, in float64 inside `jax.enable_x64(True)`."""
        N = len(samples.actions)
        first = padded(N, _PADDED) - N
        starts = np.zeros(first + N, dtype=bool)
        starts[first + samples.starts] = True
        known = ~np.isnan(samples.rewards)

        def filled(values: np.ndarray) -> Array:
            return jnp.asarray(np.pad(values, ((first, 0), (0, 0))))

        return cls(
            u=filled(samples.inputs),
            y=filled(np.where(known, samples.rewards, 0.0)),
            known=filled(known.astype(float)),
            starts=jnp.asarray(starts),
            episodes=jnp.asarray(np.maximum(starts.cumsum() - 1, 0), dtype=jnp.int32),
        )


class Innovations(NamedTuple):
    """Innovations and their covariances; where an output is missing, e = 0 and S = 1.

    Attributes:
      e: (N, m) innovations.
      S: (N, m, m) covariances, or (1, m, m) where all rounds share one.
      rounds: number of rounds that share each S.
      known: number of outputs that are not missing.
    """

    e: Array
    S: Array
    rounds: Array
    known: Array


def log_likelihood(
    system: System | StateSpace,
    actions: Episodes,
    rewards: Episodes,
    *,
    baseline: Number = 0.0,
    x1: Array | None = None,
    P1: Array | None = None,
) -> Number:
    """Exact log density of the rewards of a system, given the actions.

    Under a JAX transformation, such as `jax.grad` with respect to any field of the system, it computes
    in JAX's current precision and returns an array; called with plain numbers it computes in float64 and
    returns a float.

    Args:
      system: the system, or a `StateSpace` with several outputs.
      actions: (T, d), or a list with one such array for each episode.
      rewards: (T,) or (T, m), NaN where missing; or a list of them.
      baseline: level c that is added to the rewards of a `System`; a `StateSpace` has its own.
      x1: (n,) mean of the state at the start of each episode; by default the system's, or 0.
      P1: (n, n) covariance of that state; 0 by default, as a system's x₁ is known.

    >>> import dlbjax as dlb
    >>> system = dlb.System(A=[[0.5]], B=[[1.0]], omega=[1.0], theta=[0.0], sigma=1.0)
    >>> round(dlb.log_likelihood(system, [[1.0], [1.0]], [0.0, 1.0]), 4)      # e = (0, 0), S = (1, 2)
    -2.1845
    """
    check_not_forked()
    if isinstance(system, System):
        model = StateSpace.of(system, real_number("baseline", baseline))
        x1 = system.x1 if x1 is None else x1
    elif isinstance(system, StateSpace):
        model = system
    else:
        raise ValueError(
            f"system must be a dlbjax.System or a StateSpace; got {type(system).__name__}"
        )
    n, d, m = model.A.shape[0], model.B.shape[1], model.C.shape[0]
    samples = read_samples(actions, rewards)
    if (samples.d, samples.m) != (d, m):
        raise ValueError(
            f"actions have {samples.d} columns and rewards {samples.m}, but the system has "
            f"{d} action coordinates and {m} outputs; they must agree"
        )
    x1 = real_array("x1", np.zeros(n) if x1 is None else x1, (n,))
    P1 = real_array("P1", np.zeros((n, n)) if P1 is None else P1, (n, n))
    starts = (len(samples.lengths), n)
    if is_traced(*jax.tree.leaves((model, x1, P1))):
        rounds = Rounds.of(samples)
        like = rounds.u.dtype
        model, x1, P1 = jax.tree.map(lambda leaf: jnp.asarray(leaf, like), (model, x1, P1))
        found, _ = innovations(model, rounds, jnp.broadcast_to(x1, starts), P1)
        return log_density(found)
    if np.linalg.eigvalsh(model.R)[0] <= 0:
        raise ValueError(
            "the reward noise must be > 0, or the rewards have no density; give the system a small "
            "reward_noise"
        )
    with jax.enable_x64(True):
        rounds = Rounds.of(samples)
        model, x1, P1 = jax.tree.map(jnp.asarray, (model, x1, P1))
        found, _ = filtered(model, rounds, jnp.broadcast_to(x1, starts), P1)
        return float(log_density(found))


def padded(count: int, unit: int) -> int:
    """The least multiple of a unit that is not smaller."""
    return -(-count // unit) * unit


def log_density(found: Innovations) -> Array:
    """Σ_t log N(e_t; 0, S_t) over the outputs that are known."""
    e = found.e.reshape(len(found.S), -1, found.e.shape[1])  # (S, rounds that share it, m)
    squares = jnp.sum(jax.vmap(inverse)(found.S) * (e.swapaxes(1, 2) @ e))
    log_dets = found.rounds * jnp.sum(jnp.linalg.slogdet(found.S)[1])
    return -0.5 * (squares + log_dets + found.known * jnp.log(2 * jnp.pi))


def innovations(
    model: StateSpace, rounds: Rounds, x1: Array, P1: Array
) -> tuple[Innovations, Array]:
    """Filter every episode from its own x1 (E, n) and from P1; also the last predicted state (n,)."""
    known = rounds.known
    m = known.shape[1]
    C = known[:, :, None] * model.C
    R = known[:, :, None] * known[:, None, :] * model.R + (1 - known)[:, :, None] * jnp.eye(m)
    Bu = rounds.u @ model.B.T
    observed = known * (rounds.y - model.c - rounds.u @ model.D.T)

    def step(carry: tuple[Array, Array], at: tuple[Array, ...]) -> tuple[Any, Any]:
        starts, x_start, C, R, Bu, observed = at
        x = jnp.where(starts, x_start, carry[0])
        P = jnp.where(starts, P1, carry[1])
        AP, CP = matmul(model.A, P), matmul(C, P)
        S = matmul(CP, C.T) + R
        e = observed - matvec(C, x)
        APC = matmul(AP, C.T)
        K = matmul(APC, inverse(S))
        x_next = matvec(model.A, x) + Bu + matvec(K, e)
        P_next = matmul(AP, model.A.T) - matmul(K, APC.T) + model.Q
        return (x_next, (P_next + P_next.T) / 2), (e, S)

    (state, _), (e, S) = jax.lax.scan(
        step, (x1[0], P1), (rounds.starts, x1[rounds.episodes], C, R, Bu, observed)
    )
    return Innovations(e, S, jnp.ones(()), jnp.sum(known)), state


filtered = jax.jit(innovations)
