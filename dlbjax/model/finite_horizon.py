"""Finite horizons: the best plan, its value, and the loss of a constant action.

Over H rounds the expected average reward of actions u_1, …, u_H from the state x₁ is

    J_H = (1/H) Σ_t ⟨h^{[0,H−t]}, u_t⟩ + (1/H) Σ_t ⟨ω, A^{t−1} x₁⟩,

so each round has its own best action, which tends to u* far from the end. The initial state adds a
constant: the best plan does not depend on it.

The system may hold tracers: J_H is differentiable, and so is J*_H, with the best plan held fixed.
"""

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from dlbjax.common.arrays import (
    Array,
    Number,
    count_of_rounds,
    is_traced,
    namespace,
    real_array,
    real_number,
    whole_number,
)
from dlbjax.model.bounds import Bounds, check
from dlbjax.model.problem import Problem, best_index, check_problem, ties
from dlbjax.model.system import System

_LONGEST = 10**7  # rounds of a plan, which is kept whole


def optimal_plan(problem: Problem, horizon: int) -> Array:
    """Vertices u*_{H,t} = argmax ⟨h^{[0,H−t]}, u⟩ of the best plan over H rounds, as indices (H,).

    >>> import dlbjax as dlb
    >>> problem = dlb.problems.synthetic()
    >>> problem.actions.vertices[optimal_plan(problem, 4)]
    array([[1. , 0.5, 0. ],
           [1. , 0.5, 0. ],
           [0.5, 1. , 0. ],
           [0. , 1. , 0.5]])
    """
    horizon = whole_number("horizon", horizon, at_least=1, at_most=_LONGEST)
    vertices = check_problem(problem).actions.vertices
    if is_traced(problem.system, vertices):
        from_the_end = _traced_cumulative_markov(problem.system, horizon)
        return jax.vmap(lambda h: jnp.argmax(ties(vertices @ h)))(from_the_end)[::-1]
    backwards = [best_index(vertices @ h) for h in _cumulative_markov(problem.system, horizon)]
    far = [backwards[-1]] * (horizon - len(backwards))
    return np.array(far + backwards[::-1])


def average_reward(problem: Problem, actions: ArrayLike, x1: ArrayLike | None = None) -> Number:
    """J_H, the expected average reward of actions (H, d) or vertex indices (H,).

    Args:
      problem: the bandit.
      actions: one row, or one vertex index, per round.
      x1: (n,) initial state, that of the system by default.

    >>> import dlbjax as dlb
    >>> problem = dlb.problems.synthetic()
    >>> round(average_reward(problem, [[1.0, 0.5, 0.0]] * 2), 4)     # 0.25, then 0.45 more
    0.475
    """
    average = predicted_rewards(problem, actions, x1).mean()
    return average if is_traced(average) else float(average)


def predicted_rewards(problem: Problem, actions: ArrayLike, x1: ArrayLike | None = None) -> Array:
    """(H,) expected reward of every round; see `average_reward` for the arguments.

    >>> import dlbjax as dlb
    >>> predicted_rewards(dlb.problems.synthetic(), [[1.0, 0.5, 0.0]] * 3).round(4)
    array([0.25, 0.7 , 0.79])
    """
    system = check_problem(problem).system
    try:
        played = namespace(actions).asarray(actions)
    except (TypeError, ValueError):  # a ragged list, or no numbers
        played = np.zeros(0)
    if played.ndim == 0 or len(played) == 0:
        raise ValueError("actions must hold at least one round; got none")
    if played.ndim == 1 and played.dtype.kind in "iu":
        if not is_traced(played) and not 0 <= played.min() <= played.max() < len(problem.actions):
            raise ValueError(
                f"actions must be rows of {system.d} numbers, or indices of {len(problem.actions)} vertices; "
                f"got indices from {played.min()} to {played.max()}"
            )
        played = namespace(played).asarray(problem.actions.vertices)[played]
    played = real_array("actions", played, (None, system.d))
    x = system.x1 if x1 is None else real_array("x1", x1, (system.n,))

    def step(x: Array, u: Array) -> tuple[Array, Array]:
        return system.A @ x + system.B @ u, system.omega @ x + system.theta @ u

    if is_traced(system, played, x):
        return jax.lax.scan(step, x, jnp.asarray(played))[1]
    rewards = np.empty(len(played))
    for t, u in enumerate(played):
        x, rewards[t] = step(x, u)
    return rewards


def optimal_average(problem: Problem, horizon: int, x1: ArrayLike | None = None) -> Number:
    """J*_H, the expected average reward of the best plan over H rounds.

    >>> import dlbjax as dlb
    >>> problem = dlb.problems.synthetic()
    >>> round(optimal_average(problem, 10), 4), problem.optimal_value      # lower by the start-up
    (0.7747, 0.8125)
    """
    return average_reward(problem, optimal_plan(problem, horizon), x1)


def constant_gap(bounds: Bounds, horizon: ArrayLike, x1: Number = 0.0) -> Number:
    """A bound on |J_H(u) − J(u)| for every constant action u, and on |J*_H − J*|.

    ΩΦ̄BU(1−ρ̄^H)/(H(1−ρ̄)²) + ΩΦ̄‖x₁‖(1−ρ̄^H)/(H(1−ρ̄))

    Warning:
      The paper's proposition claims it for every policy, and with one power of 1/(1−ρ) less. Both are
      false; see notebooks/errata.md.

    Args:
      bounds: bounds that hold for the problem; see `Bounds.of`.
      horizon: H ≥ 1.
      x1: ‖x₁‖, norm of the initial state.

    >>> import dlbjax as dlb
    >>> problem = dlb.problems.synthetic()
    >>> gap = problem.optimal_value - optimal_average(problem, 100)
    >>> bool(0 < gap < constant_gap(dlb.Bounds.of(problem), 100))
    True
    """
    check(bounds)
    horizon = count_of_rounds("horizon", horizon, at_least=1)
    x1 = real_number("x1", x1, at_least=0.0)
    xp = namespace(bounds, horizon)
    settled = 1 - xp.power(bounds.rho, horizon)
    rate = bounds.Omega * bounds.Phi * settled / (horizon * (1 - bounds.rho))
    return rate * (bounds.B * bounds.U / (1 - bounds.rho) + x1)


def _cumulative_markov(system: System, count: int) -> list[Array]:
    """h^{[0,k]} for k = 0, 1, …, at most `count` of them, until it no longer changes."""
    found, row = [system.theta], system.omega
    while len(found) < count:
        more = found[-1] + row @ system.B
        row = row @ system.A
        # The rest is below rounding: a long horizon costs no more.
        if np.all(more == found[-1]) and not np.any(
            np.abs(row) > 1e-18 * np.abs(system.omega).max()
        ):
            break
        found.append(more)
    return found


def _traced_cumulative_markov(system: System, count: int) -> Array:
    """(count, d) h^{[0,k]} for k = 0, 1, …, count − 1."""

    def step(carry: tuple[Array, Array], _: None) -> tuple[tuple[Array, Array], Array]:
        h, row = carry
        return (h + row @ system.B, row @ system.A), h

    return jax.lax.scan(step, (system.theta, system.omega), length=count)[1]


def lower_bound_horizon(d: int, rho: Number) -> Number:
    """The least T of the lower bound, which needs T ≥ max(1.46, 1/(8ρ²), d²/32)/(1−ρ).

    >>> float(lower_bound_horizon(d=2, rho=0.5))
    2.92
    """
    whole_number("d", d, at_least=1)
    rho = real_number("rho", rho, at_least=1e-100, below=1.0)
    xp = namespace(rho)
    return xp.maximum(xp.maximum(1.46, 1 / (8 * rho**2)), d**2 / 32) / (1 - rho)
