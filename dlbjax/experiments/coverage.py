"""Whether confidence sets hold what they promise: the largest error of every run against its radius."""

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from dlbjax._arrays import Array
from dlbjax._small import inverse_and_log_determinant, matvec, quadratic_forms
from dlbjax.bounds import Bounds
from dlbjax.engine.simulate import simulate
from dlbjax.policies.dynlin_ucb_tight import radius as tight_radius
from dlbjax.policies.policy import Epoch, Feedback, Policy, params_of
from dlbjax.policies.ridge import Ridge
from dlbjax.problem import Problem
from dlbjax.theory.confidence import radius

Ratio = Callable[[Any, Any, Any, Array, Array], Array]  # of (params, told, state, vertices, rounds)


class Watched(NamedTuple):
    """A policy's state, and the largest ratio seen after any of its epochs."""

    inner: Any
    largest: Array


def tight_ratios(problem: Problem, policy: Policy, horizon: int, seeds: int) -> np.ndarray:
    """(seeds,) The largest ‖ĥ−h‖_V of every run after any epoch, over `dynlin_ucb_tight`'s radius.

    The confidence set failed in the runs where it exceeds 1; they should be at most a share δ.

    Args:
      problem: the bandit.
      policy: made by `dynlin_ucb_tight`.
      horizon: rounds.
      seeds: runs.

    >>> import dlbjax as dlb
    >>> problem = dlb.problems.synthetic()
    >>> policy = dlb.dynlin_ucb_tight(dlb.Bounds.of(problem), delta=0.05)
    >>> bool(tight_ratios(problem, policy, horizon=500, seeds=100).max() < 1)
    True
    """
    return _largest(problem, policy, _tight_ratio, problem.h, horizon, seeds)


def paper_ratios(
    problem: Problem, policy: Policy, bounds: Bounds, delta: float, horizon: int, seeds: int,
    *, printed: bool = False,
) -> np.ndarray:  # fmt: skip
    """The same for a policy made by `dynlin_ucb` and the radius of the paper's theorem.

    Args:
      problem: the bandit.
      policy: made by `dynlin_ucb`.
      bounds: what it was told.
      delta: δ.
      horizon: rounds.
      seeds: runs.
      printed: with the radius as printed, see `dlbjax.theory.confidence_radius`.
    """
    ratio = _printed_ratio if printed else _mended_ratio
    return _largest(problem, policy, ratio, (problem.h, bounds, delta), horizon, seeds)


def _tight_ratio(params: Any, h: Array, state: Any, vertices: Array, rounds: Array) -> Array:
    error, V_inverse, log_determinant = _error(state.ridge, h)
    width = jnp.sqrt(quadratic_forms(vertices, V_inverse))
    return error / tight_radius(params, state, width, log_determinant)


def _printed_ratio(params: Any, told: Any, state: Any, vertices: Array, rounds: Array) -> Array:
    return _paper_ratio(params.lam, told, state, rounds, printed=True)


def _mended_ratio(params: Any, told: Any, state: Any, vertices: Array, rounds: Array) -> Array:
    return _paper_ratio(params.lam, told, state, rounds, printed=False)


def _paper_ratio(lam: Array, told: Any, state: Ridge, rounds: Array, printed: bool) -> Array:
    h, bounds, delta = told
    error, _, log_determinant = _error(state, h)
    growth = log_determinant - len(h) * jnp.log(lam)
    return error / radius(bounds, lam, delta, rounds, growth, printed)


def _error(ridge: Ridge, h: Array) -> tuple[Array, Array, Array]:
    """‖ĥ−h‖_V, V⁻¹ and log det V."""
    V_inverse, log_determinant = inverse_and_log_determinant(ridge.V.value)
    off = matvec(V_inverse, ridge.b.value) - h
    return jnp.sqrt(quadratic_forms(off[None], ridge.V.value)[0]), V_inverse, log_determinant


def _largest(
    problem: Problem, policy: Policy, ratio: Ratio, told: Any, horizon: int, seeds: int
) -> np.ndarray:
    """Run a policy that also keeps the largest ratio it has seen."""

    def params(horizon: int, vertices: np.ndarray) -> tuple[Any, Any]:
        return params_of(policy, horizon, vertices), told

    def plan(horizon: int, vertices: np.ndarray, epoch: Epoch) -> tuple[Any, np.ndarray]:
        inner = None if policy.plan is None else policy.plan(horizon, vertices, epoch)
        return inner, (epoch.start + epoch.length).astype(float)

    init, act, update = _watching(policy.init, policy.act, policy.update, ratio)
    watched = policy._replace(init=init, act=act, update=update, params=params, plan=plan)
    result = simulate(problem, watched, horizon, seeds, rounds=[horizon], record=("policy",))
    return result.policy_state.largest


@cache  # so that the same functions compile once
def _watching(init: Any, act: Any, update: Any, ratio: Ratio) -> tuple[Any, Any, Any]:
    def watched_init(params: Any, vertices: Array, key: Array) -> Watched:
        inner = init(params[0], vertices, key)
        one = jax.tree.leaves(params[1])[-1]  # as many lanes as every number has
        return Watched(inner, jnp.zeros(one.shape[one.ndim - 1 :], one.dtype))

    def watched_act(params: Any, vertices: Array, state: Watched, epoch: Epoch) -> Array:
        return act(params[0], vertices, state.inner, epoch._replace(plan=epoch.plan[0]))

    def watched_update(params: Any, state: Watched, feedback: Feedback) -> Watched:
        (own, told), (plan, rounds) = params, feedback.plan
        inner = update(own, state.inner, feedback._replace(plan=plan))
        now = ratio(own, told, inner, feedback.vertices, rounds)
        return Watched(inner, jnp.maximum(state.largest, now))

    return watched_init, watched_act, watched_update
