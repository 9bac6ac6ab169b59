"""AR-UCB (Bacchiocchi et al., 2024): rewards that follow an autoregression the action chooses.

    for every arm a: V(a) ← λI, b(a) ← 0
    every round, with z = (1, the last k rewards):
        a ← argmax of ⟨V(a)⁻¹b(a), z⟩ + β(a)·‖z‖_{V(a)⁻¹}
        V(a) ← V(a) + z zᵀ, b(a) ← b(a) + z·(the reward that a leads to)

β(a) = √(λ(m²+1)) + σ√(2·log(K/δ) + log(det V(a)/λ^{k+1})). After the abstract of `Autoregressive Bandits
<https://arxiv.org/abs/2212.06251>`_ and the authors' program. The program pulls every arm once at first and
renews the bound of the pulled arm only; here all bounds are those of the present z, and the first pulls
come from the bounds.
"""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from dlbjax.common.arrays import Array, Number, real_number, whole_number
from dlbjax.policies.base import Epoch, Feedback, Policy, Schedule
from dlbjax.policies.per_arm import PerArm
from dlbjax.policies.small import first_best, one_hot


class Params(NamedTuple):
    """What is fixed for a run."""

    lam: Number  # λ
    offset: Number  # √(λ(m²+1))
    sigma: Number  # σ
    log_odds: Number  # 2·log(K/δ)
    start: Array  # (k+1,) the first context, (1, 0, …, 0)


class State(NamedTuple):
    """A regression for every arm, and the rewards it is on."""

    arms: PerArm
    growth: Array  # (K,) log(det V(a)/λ^{k+1})
    context: Array  # (k+1,) z = (1, and the last k rewards)
    action: Array  # the arm of the last round, whose reward is yet to come; −1 before the first


def init(params: Params, vertices: Array, key: Array) -> State:
    """V(a) ← λI; no rewards yet."""
    K, z = len(vertices), params.start.astype(vertices.dtype)
    arms = PerArm.start(params.lam, K, z)
    return State(arms, jnp.zeros(K, z.dtype), z, jnp.full((), -1, jnp.int32))


def act(params: Params, vertices: Array, state: State, epoch: Epoch) -> Array:
    """argmax ⟨γ̂(a), z⟩ + β(a)‖z‖_{V(a)⁻¹}."""
    beta = params.offset + params.sigma * jnp.sqrt(params.log_odds + state.growth)
    estimate, square = state.arms.predict(state.context)
    return first_best(estimate + beta * jnp.sqrt(square))


def update(params: Params, state: State, feedback: Feedback) -> State:
    """Credit the reward to the arm before: in `problems.autoregressive` that is the one it shows."""
    z, y = state.context, feedback.last
    credited = one_hot(state.action, len(state.growth)).astype(y.dtype)
    _, square = state.arms.predict(z)
    return State(
        arms=state.arms.observe(z, y, state.action),
        growth=state.growth + credited * jnp.log1p(square),
        context=jnp.concatenate([z[:1], y[None], z[1:-1]]),
        action=feedback.action,
    )


def ar_ucb(
    order: int, m: Number, sigma: Number, lam: Number = 1.0, delta: Number | None = None
) -> Policy:
    """AR-UCB for `problems.autoregressive`, over the vertices.

    Its setting lets the action choose all coefficients of the autoregression of the *observed* rewards; a
    Dynamical Linear Bandit has that form only where the state is the last rewards, with one set of
    coefficients. A reward shows the action of the round before there and is credited to it; when that action
    is chosen, the newest reward of its context is yet to come, and the one before stands in.

    Note:
      float32 is rejected beyond 10 000 rounds: V⁻¹ loses its last digits.

    Args:
      order: k, order of the autoregression.
      m: bound on the constant |γ₀(a)|, here |⟨μ,u⟩|.
      sigma: σ, standard deviation of the noise.
      lam: ridge parameter λ > 0.
      delta: confidence δ, 1/T by default.

    References:
      Bacchiocchi, Genalti, Maran, Mussi, Restelli, Gatti, Metelli, `Autoregressive Bandits
      <https://arxiv.org/abs/2212.06251>`_, 2024.

    >>> import dlbjax as dlb
    >>> problem = dlb.problems.autoregressive([0.2, 0.5, 0.4], 0.5, sigma=0.1)
    >>> policy = dlb.ar_ucb(order=1, m=0.5, sigma=0.1)
    >>> bool(dlb.simulate(problem, policy, 2000, seeds=3).expected_regret[:, -1].mean() < 100)
    True
    """
    k = whole_number("order", order, at_least=1, at_most=100)
    bound = real_number("m", m, at_least=0.0)
    noise = real_number("sigma", sigma, at_least=0.0)
    λ = real_number("lam", lam, above=0.0)
    if delta is not None:
        real_number("delta", delta, above=0.0, below=1.0)

    def prepare(horizon: int, vertices: np.ndarray) -> Schedule:
        δ = float(1 / max(horizon, 2) if delta is None else delta)
        params = Params(
            lam=λ, offset=np.sqrt(λ * (bound**2 + 1)), sigma=noise,
            log_odds=2 * np.log(len(vertices) / δ), start=np.eye(k + 1)[0],
        )  # fmt: skip
        config = {"order": k, "m": float(bound), "sigma": float(noise), "delta": δ}
        return Schedule(params=params, float32=10_000, config=config)

    return Policy(init, act, update, feedback=("last",), name="AR-UCB", prepare=prepare)
