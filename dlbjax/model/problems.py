"""Problems of Mussi, Metelli and Restelli (ICML 2023), and other kinds of feedback as such problems."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from dlbjax.common.arrays import Number, real_array, real_number, whole_number
from dlbjax.model.actions import ActionSet, budget, finite, hypercube
from dlbjax.model.finite_horizon import lower_bound_horizon
from dlbjax.model.problem import Problem
from dlbjax.model.system import System


def synthetic(sigma: Number = 0.01) -> Problem:
    """The paper's synthetic problem: three platforms, diagonal dynamics, a budget of 1.5.

    Note:
      The paper prints B₁₁ = 0.25. Only B₁₁ = 0.45 gives the h = (0.56, 0.5, 0.11), u* = (1, 0.5, 0)
      and J* = 0.81 that it states, and is used here. See notebooks/errata.md.

    >>> import dlbjax as dlb
    >>> dlb.problems.synthetic().h.round(4)
    array([0.5625, 0.5   , 0.1111])
    """
    system = System(
        A=np.diag([0.2, 0.0, 0.1]),
        B=np.diag([0.45, 0.0, 0.1]),
        omega=[1.0, 0.0, 0.1],
        theta=[0.0, 0.5, 0.1],
        sigma=sigma,
    )
    return Problem(system, budget(0.0, np.ones(3), total=1.5))


def real_world(sigma: Number = 0.01) -> Problem:
    """The system the paper identified from two years of advertising on three platforms.

    The platforms are Facebook, Google and Bing; the action set is that of the synthetic problem.

    >>> import dlbjax as dlb
    >>> problem = dlb.problems.real_world()
    >>> round(problem.system.rho, 3), round(problem.system.phi, 2)
    (0.667, 2.78)
    """
    system = System(
        A=[[0.38, 0.33, 0.6], [0.07, 0.76, -0.54], [0.18, 0.34, 0.05]],
        B=[[0.14, 0.34, -0.05], [-0.17, 0.03, -0.01], [0.04, -0.09, 0.17]],
        omega=[-0.61, -0.04, -0.13],
        theta=[0.13, 0.41, 0.02],
        sigma=sigma,
    )
    return Problem(system, budget(0.0, np.ones(3), total=1.5))


def delayed(
    rewards: ArrayLike, delay: int, sigma: Number = 0.01, actions: ActionSet | None = None
) -> Problem:
    """Rewards that arrive after a fixed delay: y_t = ⟨μ,u_{t−τ}⟩ + ε_{t−τ}, and 0 before.

    Args:
      rewards: (d,) μ, expected reward of each arm, or of one unit of each coordinate of an action.
      delay: τ rounds, from 1 to 500: the state has τ coordinates.
      sigma: standard deviation of the noise of a reward.
      actions: by default d arms, one for each coordinate.

    Note:
      A is nilpotent: ρ(A) = 0 and Φ(A) is infinite. Pass a rho_bar > 0 to `Bounds.of`.

    >>> import dlbjax as dlb
    >>> problem = dlb.problems.delayed([0.2, 0.5], delay=3)
    >>> problem.system.n, problem.h
    (3, array([0.2, 0.5]))
    """
    delay = whole_number("delay", delay, at_least=1, at_most=500)
    return composite(rewards, np.eye(delay)[-1], sigma, actions)


def composite(
    rewards: ArrayLike, weights: ArrayLike, sigma: Number = 0.01, actions: ActionSet | None = None
) -> Problem:
    """Rewards spread over the following rounds: y_t = Σ_l w_l R_{t−l} with R_t = ⟨μ,u_t⟩ + ε_t.

    The state holds R of the last τ rounds (Appendix A of the paper).

    Args:
      rewards: (d,) μ; see `delayed`, and the note there.
      weights: (τ,) w_1, …, w_τ, the share that arrives 1, …, τ rounds later.
      sigma: standard deviation of ε.
      actions: by default d arms, one for each coordinate.

    >>> import dlbjax as dlb
    >>> dlb.problems.composite([1.0, 2.0], weights=[0.5, 0.3, 0.2]).h
    array([1., 2.])
    """
    weights = real_array("weights", weights, (None,))
    if len(weights) == 0:
        raise ValueError("weights must hold at least one number; got none")
    return _spread(rewards, np.eye(len(weights), k=-1), weights, sigma, actions)


def autoregressive(
    rewards: ArrayLike,
    coefficients: ArrayLike,
    sigma: Number = 0.01,
    actions: ActionSet | None = None,
) -> Problem:
    """Rewards that spread as an autoregression: y_{t+1} = Σ_j a_j y_{t+1−j} + ⟨μ,u_t⟩ + ε_t, y_1 = 0.

    Args:
      rewards: (d,) μ; see `delayed`.
      coefficients: (m,) a_1, …, a_m, or one number for m = 1.
      sigma: standard deviation of ε.
      actions: by default d arms, one for each coordinate.

    >>> import dlbjax as dlb
    >>> dlb.problems.autoregressive([1.0, 2.0], 0.5).h
    array([2., 4.])
    """
    coefficients = np.atleast_1d(real_array("coefficients", coefficients, None))
    if coefficients.ndim != 1 or len(coefficients) == 0:
        raise ValueError(
            f"coefficients must be a number or a list of them; got shape {coefficients.shape}"
        )
    A = np.eye(len(coefficients), k=-1)
    A[0] = coefficients
    return _spread(rewards, A, np.eye(len(coefficients))[0], sigma, actions)


def adstock(
    decay: ArrayLike, effect: ArrayLike, sigma: Number = 0.01, actions: ActionSet | None = None
) -> Problem:
    """Geometric adstock: y_t = Σ_i β_i s_{i,t} + η_t with s_{i,t} = u_{i,t} + λ_i s_{i,t−1}, s_0 = 0.

    Spend on channel i has an immediate effect that decays by the factor λ_i per round, so A is
    diagonal and h_i = β_i/(1−λ_i).

    Args:
      decay: (d,) λ, 0 ≤ λ < 1.
      effect: (d,) β, immediate effect of one unit.
      sigma: standard deviation of η.
      actions: by default d arms, one for each channel.

    >>> import dlbjax as dlb
    >>> budget = dlb.actions.budget(0.0, [1.0, 1.0], total=1.5)
    >>> dlb.problems.adstock([0.5, 0.0], effect=[0.2, 0.3], actions=budget).optimal_action
    array([1. , 0.5])
    """
    decay = real_array("decay", decay, (None,))
    effect = real_array("effect", effect, decay.shape)
    if np.any((decay < 0) | (decay >= 1)):
        raise ValueError(f"decay must satisfy 0 <= decay < 1; got {decay.tolist()}")
    system = System(
        A=np.diag(decay), B=np.diag(decay), omega=effect, theta=effect,
        state_noise=0.0, reward_noise=sigma,
    )  # fmt: skip
    return Problem(system, actions or finite(np.eye(len(decay))))


def hard_instance(d: int, rho: float, horizon: int, signs: Sequence[int] | None = None) -> Problem:
    """An instance from the proof of the paper's lower bound, where σ = 1 and U = {−1, 1}^d.

    a_i is ρ or ρ − ε, which makes h_i = ±ε̃/2 and J* = dε̃/2, with ε̃ = 1/√(8T(1−ρ)) and
    ε = (1−ρ)ε̃/(1−ε̃). Averaged over all 2^d choices, every policy has an offline regret of at least
    d√T/√(512e(1−ρ)) after T rounds.

    Args:
      d: dimension of an action, and of the state.
      rho: ρ, 0 < ρ < 1.
      horizon: T; the bound needs T ≥ 1.46/(1−ρ), 1/(8ρ²(1−ρ)) and d²/(32(1−ρ)).
      signs: (d,) +1 where a_i = ρ, −1 where it is ρ − ε; all +1 by default.

    >>> import dlbjax as dlb
    >>> problem = dlb.problems.hard_instance(2, 0.5, 10_000, signs=[1, -1])
    >>> problem.h.round(6), problem.optimal_action
    (array([ 0.0025, -0.0025]), array([ 1., -1.]))
    """
    horizon = whole_number("horizon", horizon, at_least=1)
    least = lower_bound_horizon(d, rho)
    if horizon < least:
        raise ValueError(f"horizon must be >= {least:.6g} for this d and rho; got {horizon}")
    chosen = np.ones(d) if signs is None else real_array("signs", signs, (d,))
    if np.any(np.abs(chosen) != 1):
        raise ValueError(f"signs must be +1 or -1; got {chosen.tolist()}")
    tilde = 1 / np.sqrt(8 * horizon * (1 - rho))
    epsilon = (1 - rho) * tilde / (1 - tilde)
    theta = -(2 * (1 - rho) + epsilon) / (2 * (1 - rho + epsilon))
    system = System(
        A=np.diag(np.where(chosen > 0, rho, rho - epsilon)), B=(1 - rho) * np.eye(d),
        omega=np.ones(d), theta=np.full(d, theta), sigma=1.0,
    )  # fmt: skip
    return Problem(system, hypercube(d, -1.0, 1.0))


def _spread(
    rewards: ArrayLike, A: np.ndarray, omega: ArrayLike, sigma: Number, actions: ActionSet | None
) -> Problem:
    """Rewards enter the first coordinate of the state with their noise, and `A` and `omega` spread them."""
    rewards = real_array("rewards", rewards, (None,))
    first = np.eye(len(A))[0]
    system = System(
        A=A, B=np.outer(first, rewards), omega=omega, theta=np.zeros(len(rewards)),
        state_noise=real_number("sigma", sigma, at_least=0.0) * first, reward_noise=0.0,
    )  # fmt: skip
    return Problem(system, actions or finite(np.eye(len(rewards))))
