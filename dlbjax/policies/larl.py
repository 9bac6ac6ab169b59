"""LARL, Latent AR LinUCB (Trella et al., 2025): rewards that an unseen autoregression moves.

    for every arm a: V(a) ← λI, b(a) ← 0
    s rounds: play an arm at random
    every round after, with z = (y·e(a), e(a) of each of the last s rounds, and 1):
        a ← argmax of ⟨V(a)⁻¹b(a), z⟩ + α·‖z‖_{V(a)⁻¹};  y ← its reward
        V(a) ← V(a) + z zᵀ, b(a) ← b(a) + y z

e(a) is the unit vector of arm a among K. With enough rounds s, ⟨V(a)⁻¹b(a), z⟩ comes near to what a Kalman
filter in its steady state predicts.
"""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from dlbjax.common.arrays import Array, Number, real_number, whole_number
from dlbjax.policies.base import Epoch, Feedback, Policy, Schedule
from dlbjax.policies.per_arm import PerArm
from dlbjax.policies.small import first_best, one_hot

LARGEST = 250_000  # numbers in the regressions of a run


class Params(NamedTuple):
    """What is fixed for a run."""

    lam: Number  # λ
    alpha: Number  # α
    start: Array  # (1 + 2sK,) the first context, (1, 0, …, 0)


class State(NamedTuple):
    """A regression for every arm, and the rounds it looks back on."""

    arms: PerArm
    context: Array  # (1 + 2sK,) 1, then (y·e(a), e(a)) of the last s rounds, the newest first


def init(params: Params, vertices: Array, key: Array) -> State:
    """V(a) ← λI; nothing played yet."""
    z = params.start.astype(vertices.dtype)
    return State(PerArm.start(params.lam, len(vertices), z), z)


def act(params: Params, vertices: Array, state: State, epoch: Epoch) -> Array:
    """A random arm in the first s rounds; then the one with the largest index."""
    K = len(vertices)
    random = jnp.minimum((epoch.uniforms[0] * K).astype(jnp.int32), K - 1)
    estimate, square = state.arms.predict(state.context)
    best = first_best(estimate + params.alpha * jnp.sqrt(square))
    return jnp.where(epoch.plan > 0, best, random)


def update(params: Params, state: State, feedback: Feedback) -> State:
    """Learn the reward where s rounds are behind it, and shift the context by a round."""
    z, y, K = state.context, feedback.last, len(feedback.vertices)
    played = one_hot(feedback.action, K).astype(y.dtype)
    learnt = jnp.where(feedback.plan > 0, feedback.action, -1)
    return State(
        arms=state.arms.observe(z, y, learnt),
        context=jnp.concatenate([z[:1], y * played, played, z[1 : -2 * K]]),
    )


def larl(lags: int, alpha: Number = 1.0, lam: Number = 1.0) -> Policy:
    """LARL, which predicts the next reward of every vertex from the last rewards and actions.

    Its setting: arm a pays μ_a + β_a·z_t + noise, where z is an autoregression that nobody sees and that no
    action moves. A Dynamical Linear Bandit is of that form where B = 0 and all β_a are one. Where actions
    move the state it still learns to predict the next reward, and plays for that one only: it is myopic.

    Note:
      After the authors' program and an account of the paper; of the paper's own text only the abstract was
      read. In their experiments s is the one with the best BIC after T/5 rounds of exploration; here it is
      given. float32 is rejected beyond 10 000 rounds: V⁻¹ loses its last digits.

    Args:
      lags: s, how many rounds to look back on. An arm's regression has 2sK + 1 coefficients; K(2sK + 1)² may
        be at most 250 000.
      alpha: α ≥ 0, the weight of the width; 1 in the authors' program.
      lam: ridge parameter λ > 0; 1 in the authors' program.

    References:
      Trella, Dempsey, Gazi, Xu, Doshi-Velez, Murphy, `Non-Stationary Latent Auto-Regressive Bandits
      <https://arxiv.org/abs/2402.03110>`_, 2025.

    >>> import dlbjax as dlb, numpy as np
    >>> system = dlb.System([[0.6]], [[0, 0]], [1], theta=[0.5, 0.3], state_noise=0.1, reward_noise=0.1)
    >>> problem = dlb.Problem(system, dlb.actions.finite(np.eye(2)))
    >>> bool(dlb.simulate(problem, dlb.larl(1), 2000, seeds=3).expected_regret[:, -1].mean() < 40)
    True
    """
    s = whole_number("lags", lags, at_least=1, at_most=100)
    α = real_number("alpha", alpha, at_least=0.0)
    λ = real_number("lam", lam, above=0.0)

    def prepare(horizon: int, vertices: np.ndarray) -> Schedule:
        K, m = len(vertices), 1 + 2 * s * len(vertices)
        if K * m**2 > LARGEST:
            raise ValueError(
                f"larl has {K} regressions of {m} coefficients for {K} vertices and lags={s}, "
                f"{K * m**2} numbers a run; at most {LARGEST}: use fewer lags, or fewer vertices"
            )
        return Schedule(
            params=Params(λ, α, np.eye(1, m)[0]),
            plan=lambda epoch: (epoch.index > s).astype(float),
            float32=10_000,
            config={"lags": s, "alpha": float(α), "lam": float(λ)},
        )

    return Policy(init, act, update, feedback=("last",), uniforms=1, name="LARL", prepare=prepare)
