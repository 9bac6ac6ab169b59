"""Thompson sampling on the last reward of every epoch.

    V ← λI, b ← 0
    for epochs m = 1, 2, …:
        h̃ ~ N(V⁻¹b, σ̄²V⁻¹)
        u ← argmax over the vertices of ⟨h̃, u⟩
        play u for 1 + H_m rounds, H_m = ⌊log m / log(1/ρ̄)⌋ + q; y ← the reward of the last of them
        V ← V + u uᵀ, b ← b + y u

Linear Thompson sampling (Agrawal and Goyal, 2013) without the factor √(9d·log(t/δ)) that their proof puts on
σ̄, and with the epochs of `dynlin_ucb_tight` instead of single rounds.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import solve_triangular

from dlbjax.common.arrays import Array, Number
from dlbjax.model.bounds import Bounds
from dlbjax.policies import ridge
from dlbjax.policies.base import Epoch, Feedback, Policy, PolicyGrid, Schedule, over_grid
from dlbjax.policies.dynlin_ucb import epoch_lengths
from dlbjax.policies.epochs import settling_rounds
from dlbjax.policies.small import first_best, matvec, outer


class Params(NamedTuple):
    """What is fixed for a run."""

    lam: Number  # λ
    deviation: Number  # σ̄


class State(NamedTuple):
    """Sufficient statistics of the regression, and the next random numbers."""

    V: Array  # (d, d)
    b: Array  # (d,)
    key: Array  # typed


def init(params: Params, vertices: Array, key: Array) -> State:
    """V ← λI, b ← 0."""
    V = params.lam * jnp.eye(vertices.shape[1], dtype=vertices.dtype)
    return State(V, jnp.zeros_like(V[0]), key)


def act(params: Params, vertices: Array, state: State, epoch: Epoch) -> Array:
    """argmax ⟨h̃, u⟩ with h̃ = C⁻ᵀ(C⁻¹b + σ̄z), where V = C Cᵀ and z is standard normal."""
    C = jnp.linalg.cholesky(state.V)
    z = jax.random.normal(state.key, state.b.shape, state.b.dtype)
    half = solve_triangular(C, state.b, lower=True) + params.deviation * z
    return first_best(matvec(vertices, solve_triangular(C, half, lower=True, trans=1)))


def update(params: Params, state: State, feedback: Feedback) -> State:
    """V ← V + u uᵀ, b ← b + y u, and a fresh key."""
    u = feedback.vector
    key = jax.random.split(state.key, 1)[0]
    return State(state.V + outer(u, u), state.b + feedback.last * u, key)


def thompson_sampling(bounds: Bounds, lam: Number = 0.01) -> Policy | PolicyGrid:
    """Thompson sampling on epoch-end rewards: play the best vertex of a draw from the posterior.

    The posterior is that of settled rewards with noise of variance σ̄² = σ²(1 + Ω²Φ̄²/(1−ρ̄²)) and the prior
    N(0, σ̄²/λ). It has no account of transients, which the epochs are to outlast; there is no guarantee.

    Note:
      float32 is rejected beyond 10 000 epochs: sums of squares are not compensated here.

    Args:
      bounds: bounds on the problem; see `Bounds.of`.
      lam: ridge parameter λ > 0.

    Returns:
      A policy; or, where an argument or a field of the bounds is a list, a grid of them.

    References:
      Agrawal, Goyal, `Thompson Sampling for Contextual Bandits with Linear Payoffs
      <https://arxiv.org/abs/1209.3352>`_, 2013.

    >>> import dlbjax as dlb
    >>> problem = dlb.problems.synthetic()
    >>> policy = dlb.thompson_sampling(dlb.Bounds.of(problem))
    >>> bool(dlb.simulate(problem, policy, 5000, seeds=3).expected_regret[:, -1].mean() < 100)
    True
    """

    def make(bounds: Bounds, lam: Number) -> Policy:
        ridge.check(bounds, lam, None)
        q = max(1, settling_rounds(float(bounds.rho), 20))

        def prepare(horizon: int, vertices: np.ndarray) -> Schedule:
            λ, _ = ridge.defaults(lam, None, horizon, vertices)
            return Schedule(
                epochs=epoch_lengths(bounds.rho, horizon, q),
                params=Params(λ, np.sqrt(bounds.noise_variance)),
                float32=10_000,
                config={"bounds": bounds.as_dict(), "lam": λ},
            )

        return Policy(
            init,
            act,
            update,
            feedback=("last",),
            name="Thompson sampling",
            prepare=prepare,
            vectors=True,
        )

    return over_grid(make, bounds, lam=lam)
