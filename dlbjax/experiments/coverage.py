"""Whether confidence sets hold what they promise: the largest error of every run against its radius."""

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from dlbjax.common.arrays import Array
from dlbjax.engine.simulate import simulate
from dlbjax.model.bounds import Bounds
from dlbjax.model.problem import Problem
from dlbjax.policies.base import Epoch, Feedback, Policy, Schedule
from dlbjax.policies.dynlin_ucb_tight import radius as tight_radius
from dlbjax.policies.ridge import Gram
from dlbjax.policies.small import dot, inverse, matvec
from dlbjax.theory.confidence import radius

# of (params, given, state, sums, vertices, rounds)
Ratio = Callable[[Any, Any, Any, Gram, Array, Array], Array]


class Watched(NamedTuple):
    """A policy's state, V and b of its regression, and the largest ratio seen after any of its epochs."""

    inner: Any
    sums: Gram
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
      bounds: those it was made with.
      delta: δ.
      horizon: rounds.
      seeds: runs.
      printed: with the radius as printed, see `dlbjax.theory.confidence_radius`.
    """
    ratio = _printed_ratio if printed else _corrected_ratio
    return _largest(problem, policy, ratio, (problem.h, bounds, delta), horizon, seeds)


def _tight_ratio(
    params: Any, h: Array, state: Any, sums: Gram, vertices: Array, rounds: Array
) -> Array:
    return _error(sums, h) / tight_radius(params, state, state.ridge.predict(vertices).width)


def _printed_ratio(
    params: Any, given: Any, state: Any, sums: Gram, vertices: Array, rounds: Array
) -> Array:
    return _paper_ratio(params.lam, given, sums, rounds, printed=True)


def _corrected_ratio(
    params: Any, given: Any, state: Any, sums: Gram, vertices: Array, rounds: Array
) -> Array:
    return _paper_ratio(params.lam, given, sums, rounds, printed=False)


def _paper_ratio(lam: Array, given: Any, sums: Gram, rounds: Array, printed: bool) -> Array:
    h, bounds, delta = given
    growth = jnp.linalg.slogdet(sums.V.value).logabsdet - len(h) * jnp.log(lam)
    return _error(sums, h) / radius(bounds, lam, delta, rounds, growth, printed)


def _error(sums: Gram, h: Array) -> Array:
    """‖ĥ−h‖_V."""
    off = matvec(inverse(sums.V.value), sums.b.value) - h
    return jnp.sqrt(dot(off, matvec(sums.V.value, off)))


def _largest(
    problem: Problem, policy: Policy, ratio: Ratio, given: Any, horizon: int, seeds: int
) -> np.ndarray:
    """Run a policy that also keeps the largest ratio it has seen."""
    prepare = policy.prepare
    assert prepare is not None  # both factories make one

    def watched_prepare(horizon: int, vertices: np.ndarray) -> Schedule:
        own = prepare(horizon, vertices)
        plan = own.plan
        assert plan is not None
        return own._replace(
            params=(own.params, given),
            plan=lambda epoch: (plan(epoch), (epoch.start + epoch.length).astype(float)),
        )

    init, act, update = _watching(policy.init, policy.act, policy.update, ratio)
    watched = policy._replace(init=init, act=act, update=update, prepare=watched_prepare)
    result = simulate(problem, watched, horizon, seeds, rounds=[horizon], record=("policy",))
    return result.policy_state.largest


@cache  # so that the same functions compile once
def _watching(init: Any, act: Any, update: Any, ratio: Ratio) -> tuple[Any, Any, Any]:
    def watched_init(params: Any, vertices: Array, key: Array) -> Watched:
        own = params[0]
        sums = Gram.start(own.lam, vertices)
        return Watched(init(own, vertices, key), sums, jnp.zeros((), vertices.dtype))

    def watched_act(params: Any, vertices: Array, state: Watched, epoch: Epoch) -> Array:
        return act(params[0], vertices, state.inner, epoch._replace(plan=epoch.plan[0]))

    def watched_update(params: Any, state: Watched, feedback: Feedback) -> Watched:
        (own, given), (plan, rounds) = params, feedback.plan
        inner = update(own, state.inner, feedback._replace(plan=plan))
        sums = state.sums.observe(feedback)
        now = ratio(own, given, inner, sums, feedback.vertices, rounds)
        return Watched(inner, sums, jnp.maximum(state.largest, now))

    return watched_init, watched_act, watched_update
