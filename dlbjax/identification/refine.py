"""Maximum likelihood, started from Ho and Kalman's estimate.

Fisher scoring takes about ten steps where a quasi-Newton method takes hundreds, and its information
matrix gives the covariance of the estimate.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from tqdm.auto import tqdm

from dlbjax.common.arrays import Array
from dlbjax.identification.data import Samples
from dlbjax.identification.ho_kalman import Realisation
from dlbjax.identification.kalman import Rounds, log_density
from dlbjax.identification.model import StateSpace
from dlbjax.identification.parameters import (
    Parameters,
    free_entries,
    log_prior,
    model_of,
    start,
)
from dlbjax.identification.score import Score, covariance, damped_steps, innovations_at, score_at
from dlbjax.identification.steady import Blocks

_TRIAL = 4  # steps from every start, before the best go on
_STEPS = 80  # from the best
_SHOWN = 10  # of them between two updates of the progress bar
_ENOUGH = 0.01  # log-likelihood left to gain, to second order, at which the search ends,
_STALLED = 1e-4  # as it does where a step gains less than this


class Refined(NamedTuple):
    """The maximum-likelihood estimate of an order.

    Attributes:
      model: the model.
      x1: (E, n) states from which the episodes start.
      covariance: (m + m(d + q),) ² of c and of the (m, d + q) array h, row by row.
      log_likelihood: at the maximum.
      parameters: of the model.
    """

    model: StateSpace
    x1: np.ndarray
    covariance: np.ndarray
    log_likelihood: float
    parameters: Parameters


class _Point(NamedTuple):
    """A point of a climb, with the score where the last step was taken."""

    at: Parameters
    x1: Array
    value: Array
    score: Score
    done: Array  # whether nothing is left to gain


class Search:
    """Maximum likelihood on some samples, for orders up to a size.

    Each episode starts from N(x1, P) with its own x1, which is fitted, and the filter's steady-state
    covariance P, so that the gain is constant unless rewards are missing. Models of a smaller order are
    padded with states that nothing reaches, and data with rounds that do not count, so that all orders and
    data of similar length share one compiled program.
    """

    def __init__(self, samples: Samples, size: int, intercept: bool, progress: bool | None) -> None:
        self.samples, self.size, self.intercept = samples, size, intercept
        with jax.enable_x64(True):
            self._data = Rounds.of(samples) if samples.missing else Blocks.of(samples)
        self._bar = tqdm(
            desc="maximum likelihood", unit=" steps", delay=0 if progress else 2,
            disable=None if progress is None else not progress,
        )  # fmt: skip

    def maximise(
        self, realisations: Sequence[Realisation], restarts: int, smaller: Refined | None = None
    ) -> Refined:
        """The best of the climbs from the best starts.

        Args:
          realisations: starts, all of the same order.
          restarts: number of starts from which to climb to the end, those best after a few steps.
          smaller: the estimate of a smaller order, which is a start too, so that the likelihood does not
            fall with the order.
        """
        order = len(realisations[0].A)
        starts = [start(found, self.samples) for found in realisations]
        if smaller is not None:
            starts.append(_enlarged(smaller, order))
        with jax.enable_x64(True):
            points = [self._placed(at, x1) for at, x1 in starts]
            free = free_entries(points[0].at, order, self.intercept)
            points = [self._climb(point, free, _TRIAL) for point in points]
            points.sort(key=lambda point: -point.value)
            best = max(
                (self._climb(point, free, _STEPS) for point in points[:restarts]),
                key=lambda point: float(point.value),
            )
            if not np.isfinite(best.value):
                raise ValueError(
                    "the likelihood is not finite at any starting point; pass refine=False, a smaller "
                    "order, or scale=True"
                )
            spread = np.asarray(covariance(best.score, free))
            slope = np.asarray(_slope_of_effects(best.at))
            model = jax.tree.map(np.asarray, model_of(best.at)).cut(order)
        return Refined(
            model,
            np.asarray(best.x1)[:, :order],
            slope @ spread @ slope.T,
            float(best.value),
            best.at.cut(order),
        )

    def _placed(self, at: Parameters, x1: np.ndarray) -> _Point:
        at = at.padded(self.size)
        p, (E, n) = sum(np.size(leaf) for leaf in at), (len(x1), self.size)
        none = [np.zeros(shape) for shape in ((p,), (E, n), (p, p), (E, n, p), (E, n, n))]
        x1 = np.pad(x1, ((0, 0), (0, n - x1.shape[1])))
        return _Point(at, x1, np.array(-np.inf), Score(*none), np.array(False))

    def _climb(self, point: _Point, free: np.ndarray, steps: int) -> _Point:
        """At most so many steps from a point, a few between two updates of the progress bar."""
        for first in range(0, steps, _SHOWN):
            some = min(_SHOWN, steps - first)
            point = jax.tree.map(np.asarray, _climbed(point, free, self._data, some))
            self._bar.set_postfix(log_likelihood=f"{point.value:.1f}")
            self._bar.update(some)
            if point.done:
                break
        return point


@jax.jit
def _climbed(point: _Point, free: Array, data: Rounds | Blocks, steps: Array) -> _Point:
    """Fisher scoring: at most so many steps from a point."""

    def step(carry: tuple[Any, _Point]) -> tuple[Any, _Point]:
        k, (at, x1, value, _, _) = carry
        score = score_at(at, x1, data)
        tried, left = damped_steps(score, free, at)
        values = jax.vmap(lambda step: _value(*_moved(at, x1, step), data))(tried)
        values = jnp.where(jnp.isfinite(values), values, -jnp.inf)
        best = values.argmax()
        done = (values[best] <= value + _STALLED) | (left < _ENOUGH)
        at, x1 = _moved(at, x1, tried[best])
        return k + 1, _Point(at, x1, values[best], score, done)

    return jax.lax.while_loop(lambda c: (c[0] < steps) & ~c[1].done, step, (0, point))[1]


def _value(at: Parameters, x1: Array, data: Rounds | Blocks) -> Array:
    return log_density(innovations_at(at, x1, data)) + log_prior(at)


def _moved(at: Parameters, x1: Array, step: Array) -> tuple[Parameters, Array]:
    """Parameters and x1 after a step."""
    flat, unravel = ravel_pytree(at)
    return unravel(flat + step[: len(flat)]), x1 + step[len(flat) :].reshape(x1.shape)


def _enlarged(found: Refined, order: int) -> tuple[Parameters, np.ndarray]:
    """An estimate with more states that hardly matter yet."""
    at, n = found.parameters.padded(order), len(found.parameters.M)
    M, B, C, Q_root = (np.array(part) for part in (at.M, at.B, at.C, at.Q_root))
    more = range(n, order)
    M[more, more] = 0.5
    B[n:] = 0.01 * np.sqrt(np.mean(at.D**2))
    C[:, n:] = 0.01
    Q_root[more, more] = 0.01 * np.exp(np.diag(at.R_root).mean())
    return at._replace(M=M, B=B, C=C, Q_root=Q_root), np.pad(found.x1, ((0, 0), (0, order - n)))


@jax.jit
def _slope_of_effects(parameters: Parameters) -> Array:
    """(m + m(d + q), p) Jacobian of c and h."""
    flat, unravel = ravel_pytree(parameters)

    def effects(flat: jax.Array) -> jax.Array:
        model = unravel(flat).model()
        return jnp.concatenate([model.c, model.h.ravel()])

    return jax.jacfwd(effects)(flat)
