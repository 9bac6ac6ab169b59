"""AR2 (Chen, Golrezaei and Bouneffouf, 2021): bandits whose rewards follow autoregressions.

restart every Δ rounds:
    pull every arm once, in a random order
    then alternate: the superior arm, the better one of the last two that were pulled;
                    the arm that was triggered earliest, if any (otherwise the superior arm)
    r̂ of the arm that was pulled ← its reward, and it is no longer triggered
    every r̂ ← α r̂; arm i triggers when r̂_sup − r̂_i ≤ c₁σ√((α²−α^{2(t−τ_i+1)})/(1−α²))
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from dlbjax.common.arrays import Array, Number, real_number, whole_number
from dlbjax.model.bounds import Bounds, check
from dlbjax.policies.base import Epoch, Feedback, Policy, PolicyGrid, Schedule, over_grid
from dlbjax.policies.small import entry, first_of, largest, one_hot

NEVER = 2**31 - 1  # the round at which an arm that is not triggered was triggered


class Params(NamedTuple):
    """Hyper-parameters of one run."""

    alpha: Number  # α
    width: Number  # c₁σα/√(1−α²), what triggers an arm not pulled for long
    epoch: Number  # Δ, rounds after which everything is forgotten


class State(NamedTuple):
    """What is known of every arm, and where in the epoch the run is."""

    estimates: Array  # (K,) r̂, which decay by α a round
    freshness: Array  # (K,) α^{2(t−τ)} with τ the round of the last pull
    triggered: Array  # (K,) round at which it was triggered
    turn: Array  # (K,) its place in the order of the first pulls
    last: Array  # the arm pulled last
    before: Array  # the arm pulled before that
    clock: Array  # rounds of this epoch completed


def init(params: Params, vertices: Array, key: Array) -> State:
    """A random order of the arms for the start of every epoch."""
    K = vertices.shape[0]
    zeros, nothing = jnp.zeros(K, vertices.dtype), jnp.zeros((), jnp.int32)
    return State(
        estimates=zeros,
        freshness=zeros,
        triggered=jnp.full(K, NEVER, jnp.int32),
        turn=jnp.argsort(jax.random.permutation(key, K)).astype(jnp.int32),
        last=nothing,
        before=nothing,
        clock=nothing,
    )


def decide(params: Params, state: State) -> tuple[Array, Array]:
    """The arm to pull and, for every arm, the round at which it was triggered.

    The first K rounds pull every arm once. Then rounds alternate between the superior arm, the better
    of the last two that were pulled, and the arm that was triggered earliest. An arm triggers when
    r̂_sup − r̂_i ≤ c₁σ√((α²−α^{2(t−τ_i+1)})/(1−α²)): it may have become the better one by now.
    """
    K = state.estimates.shape[0]
    last, before = (entry(state.estimates, arm) for arm in (state.last, state.before))
    superior = jnp.where(last >= before, state.last, state.before)
    behind = jnp.maximum(last, before) - state.estimates
    triggers = behind <= params.width * jnp.sqrt(1 - state.freshness)
    triggers &= (state.triggered == NEVER) & ~one_hot(superior, K)
    triggered = jnp.where(triggers, state.clock, state.triggered)
    earliest = -largest(-triggered)
    explores = ((state.clock - K) % 2 == 1) & (earliest < NEVER)
    chosen = jnp.where(explores, first_of(triggered == earliest), superior)
    starting = state.clock < K
    return (
        jnp.where(starting, first_of(state.turn == state.clock), chosen),
        jnp.where(starting, NEVER, triggered),
    )


def act(params: Params, vertices: Array, state: State, epoch: Epoch) -> Array:
    """See `decide`."""
    return decide(params, state)[0]


def update(params: Params, state: State, feedback: Feedback) -> State:
    """r̂ of the arm pulled is its reward, every r̂ decays by α; after Δ rounds all starts afresh."""
    pulled = one_hot(feedback.action, state.estimates.shape[0])
    return State(
        estimates=params.alpha * jnp.where(pulled, feedback.last, state.estimates),
        freshness=params.alpha**2 * jnp.where(pulled, 1, state.freshness),
        triggered=jnp.where(pulled, NEVER, decide(params, state)[1]),
        turn=state.turn,
        last=feedback.action,
        before=state.last,
        clock=jnp.where(state.clock + 1 == params.epoch, 0, state.clock + 1),
    )


def ar2(
    bounds: Bounds,
    alpha: Number | None = None,
    sigma: Number | None = None,
    epoch: Number | None = None,
) -> Policy | PolicyGrid:
    """AR2: alternate between the superior arm and the one triggered earliest, and restart.

    Made for arms each of which pays an AR(1) process of its own; here the arms are the vertices and
    share one state. Δ = ⌈Kα⁻³σ⁻³⌉ is longer than 10⁶ rounds on the paper's problems, so that it never
    restarts there. c₁ = 24c₀, c₀ = √(4log(1/(ασ)) + 4logΔ + 2log 4K).

    Note:
      Which of the two turns comes first, and what happens if none is triggered, is taken to be: the
      superior arm at odd rounds after the first K, and at even ones where no arm is triggered.

    Args:
      bounds: bounds on the problem; see `Bounds.of`.
      alpha: correlation of rewards from one round to the next, 0 < α < 1; ρ̄ by default.
      sigma: size σ > 0 of the noise, that of the bounds by default.
      epoch: rounds Δ after which everything is forgotten, instead of the above.

    Returns:
      A policy; or, where an argument or a field of the bounds is a list, a grid of them.

    References:
      Chen, Golrezaei, Bouneffouf, `Non-Stationary Bandits with Auto-Regressive Temporal Dependency
      <https://arxiv.org/abs/2210.16386>`_, first as `Dynamic Bandits with Temporal Structure`, 2021.

    >>> import dlbjax as dlb
    >>> problem = dlb.problems.synthetic()
    >>> result = dlb.simulate(problem, dlb.ar2(dlb.Bounds.of(problem)), 10, record="actions")
    >>> sorted(result.actions[0].tolist())                     # every arm once, in a random order
    [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]
    """

    def make(
        bounds: Bounds, alpha: Number | None, sigma: Number | None, epoch: Number | None
    ) -> Policy:
        check(bounds)
        α = real_number("alpha", bounds.rho if alpha is None else alpha, above=0.0, below=1.0)
        σ = real_number("sigma", bounds.sigma if sigma is None else sigma, above=0.0)
        Δ = None if epoch is None else min(whole_number("epoch", epoch, at_least=1), 2**53)

        def prepare(horizon: int, vertices: np.ndarray) -> Schedule:
            K = len(vertices)
            rounds = np.ceil(K * α**-3 * σ**-3) if Δ is None else Δ
            c0 = np.sqrt(4 * np.log(1 / (α * σ)) + 4 * np.log(rounds) + 2 * np.log(4 * K))
            width = 24 * c0 * σ * α / np.sqrt(1 - α**2)
            return Schedule(
                params=Params(α, width, epoch=int(np.nanmin([rounds, NEVER]))),
                config={"bounds": bounds.as_dict(), "alpha": α, "sigma": σ},
            )

        return Policy(init, act, update, feedback=("last",), name="AR2", prepare=prepare)

    return over_grid(make, bounds, alpha=alpha, sigma=sigma, epoch=epoch)
