"""Explore, then commit, by least squares on the last L actions.

    for N rounds: play a vertex at random; fit y_t = Σ_{s<L} ⟨h^{s}, u_{t−s}⟩ by least squares
    then play argmax ⟨Σ_s ĥ^{s}, u⟩ to the end

After `Explore-then-Commit for Nonstationary Linear Bandits with Latent Dynamics
<https://arxiv.org/abs/2510.16208>`_ (Choi et al., 2025), Algorithm 1: H rounds of random signs, least squares
on the last L actions, then the sequence that would be best if the estimates were right. Departures, because
there rewards are bilinear in state and action and here they are linear: the regressors are the actions
themselves, lag 0 among them, in place of products of two; random vertices take the place of random signs; and
the best sequence, there a quadratic program, is one vertex played to the end.
"""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from dlbjax.common.arrays import Array, whole_number
from dlbjax.policies.base import Epoch, Feedback, Policy, Schedule
from dlbjax.policies.epochs import LONGEST, Epochs
from dlbjax.policies.small import first_best, matvec, outer

PRECISION = 1e-6  # of the prior on every coefficient, in units of one observation


class State(NamedTuple):
    """Least squares by recursion, and the actions it looks back on."""

    actions: Array  # (L·d,) the last L − 1 actions, the newest first, and room for one
    covariance: Array  # (L·d, L·d)
    coefficients: Array  # (L·d,) ĥ^{0}, ĥ^{1}, …


def init(params: Array, vertices: Array, key: Array) -> State:
    """Nothing played; `params` is (L·d,) zeros, which fixes L."""
    zeros = jnp.zeros(params.shape, vertices.dtype)
    return State(zeros, jnp.eye(len(zeros), dtype=vertices.dtype) / PRECISION, zeros)


def act(params: Array, vertices: Array, state: State, epoch: Epoch) -> Array:
    """A random vertex while exploring; then the best one by the sum of the estimates over lags."""
    K, d = vertices.shape
    random = jnp.minimum((epoch.uniforms[0] * K).astype(jnp.int32), K - 1)
    h = state.coefficients.reshape(-1, d).sum(axis=0)
    return jnp.where(epoch.plan > 0, random, first_best(matvec(vertices, h)))


def update(params: Array, state: State, feedback: Feedback) -> State:
    """Shift the actions by one, and fit the reward."""
    d = feedback.vector.shape[0]
    x = jnp.concatenate([feedback.vector, state.actions[:-d]])
    direction = state.covariance @ x
    gain = direction / (1 + x @ direction)
    error = feedback.last - x @ state.coefficients
    return State(x, state.covariance - outer(gain, direction), state.coefficients + gain * error)


def explore_then_commit(explore: int | None = None, lags: int = 13) -> Policy:
    """Random vertices, least squares on the last `lags` actions, then the best vertex to the end.

    Nothing need be known but how long to explore and how far back to look. A baseline is not fitted.

    Note:
      float32 is rejected beyond 2000 rounds of exploration; the recursion over the covariance drifts there.

    Args:
      explore: N, rounds of exploration; ⌈T^{2/3}⌉ by default, the order for which the paper has its rate.
      lags: L, how many actions a reward is taken to depend on; of the order of log T in the paper, which
        gives no constant.

    References:
      Choi, Sattar, Jedra, Fazel, Dean, `Explore-then-Commit for Nonstationary Linear Bandits with Latent
      Dynamics <https://arxiv.org/abs/2510.16208>`_, 2025.

    >>> import dlbjax as dlb
    >>> problem = dlb.problems.synthetic()
    >>> result = dlb.simulate(problem, dlb.explore_then_commit(200), 1000, seeds=2, record="actions")
    >>> bool((result.actions[:, 200:] == problem.optimal_index).all())
    True
    """
    L = whole_number("lags", lags, at_least=1, at_most=1000)
    N = None if explore is None else whole_number("explore", explore, at_least=1)

    def prepare(horizon: int, vertices: np.ndarray) -> Schedule:
        rounds = min(int(np.ceil(horizon ** (2 / 3))) if N is None else N, LONGEST // 2)
        lengths, counts = [1, max(horizon - rounds, 1)], [rounds, 1]
        return Schedule(
            epochs=Epochs(np.array(lengths), np.array(counts)),
            params=np.zeros(L * vertices.shape[1]),
            plan=lambda epoch: (epoch.index <= rounds).astype(float),
            float32=2000,
            config={"explore": rounds, "lags": L},
        )

    return Policy(
        init, act, update, feedback=("last",), uniforms=1, name="Explore then commit",
        prepare=prepare, vectors=True,
    )  # fmt: skip
