"""Maximum likelihood, started from Ho and Kalman's estimate.

Fisher scoring takes about ten steps where a quasi-Newton method takes hundreds, and its information
matrix gives the covariance of the estimate.
"""

from collections.abc import Sequence
from typing import NamedTuple

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
from dlbjax.identification.parameters import Parameters, model_of, places, start
from dlbjax.identification.score import covariance, damped_steps, innovations_at, score_at
from dlbjax.identification.steady import Blocks

_ENOUGH = 0.05  # the search ends when a step gains less log-likelihood than this
_STEPS = 60  # or after this many


class Refined(NamedTuple):
    """The maximum-likelihood estimate.

    Attributes:
      model: the model.
      x1: (E, n) states from which the episodes start.
      covariance: (m + md, m + md) of c and of the (m, d) array h, row by row.
    """

    model: StateSpace
    x1: np.ndarray
    covariance: np.ndarray


def maximise(
    realisations: Sequence[Realisation],
    samples: Samples,
    *,
    intercept: bool,
    progress: bool | None = None,
) -> Refined:
    """Maximise the likelihood from several starts, and keep the best.

    Each episode starts from N(x1, P) with its own x1, which is fitted, and the filter's steady-state
    covariance P, so that the gain is constant unless rewards are missing.
    """
    found = []
    with (
        jax.enable_x64(True),
        tqdm(
            desc="maximum likelihood", unit=" steps", delay=0 if progress else 2,
            disable=None if progress is None else not progress,
        ) as bar,
    ):  # fmt: skip
        data = Rounds.of(samples) if samples.missing else Blocks.of(samples)
        for realisation in realisations:
            at, x1 = jax.tree.map(jnp.asarray, start(realisation, samples))
            found.append(_climb(at, x1, data, intercept, bar))
        parameters, x1, value, spread = max(found, key=lambda climbed: climbed[2])
        if not np.isfinite(value):
            raise ValueError(
                "the likelihood is not finite at any starting point; pass refine=False, a smaller "
                "order, or scale=True"
            )
        slope = np.asarray(_slope_of_effects(parameters))
        model = jax.tree.map(np.asarray, model_of(parameters))
    return Refined(model, np.asarray(x1), slope @ spread @ slope.T)


def _climb(
    at: Parameters, x1: Array, data: Rounds | Blocks, intercept: bool, bar: tqdm
) -> tuple[Parameters, Array, float, np.ndarray]:
    """Fisher scoring from one start: parameters, x1, log-likelihood, covariance of the parameters."""
    fixed, logs = places(at, "c") & (not intercept), places(at, "R_root")
    value = -np.inf
    for _ in range(_STEPS):
        score = jax.tree.map(np.asarray, score_at(at, x1, data))
        tried = [_moved(at, x1, step, data) for step in damped_steps(score, fixed, logs)]
        values = np.array([float(there[2]) for there in tried])
        values = np.where(np.isfinite(values), values, -np.inf)
        best = int(values.argmax())
        at, x1, _ = tried[best]
        enough = values[best] <= value + _ENOUGH
        value = float(values[best])
        bar.set_postfix(log_likelihood=f"{value:.1f}")
        bar.update()
        if enough:
            break
    return at, x1, value, covariance(score, fixed)


@jax.jit
def _moved(
    at: Parameters, x1: Array, step: Array, data: Rounds | Blocks
) -> tuple[Parameters, Array, Array]:
    """Parameters and x1 after a step, and their log-likelihood."""
    flat, unravel = ravel_pytree(at)
    at = unravel(flat + step[: len(flat)])
    x1 = x1 + step[len(flat) :].reshape(x1.shape)
    return at, x1, log_density(innovations_at(at, x1, data))


@jax.jit
def _slope_of_effects(parameters: Parameters) -> Array:
    """(m + md, p) Jacobian of c and h."""
    flat, unravel = ravel_pytree(parameters)

    def effects(flat: jax.Array) -> jax.Array:
        model = unravel(flat).model()
        return jnp.concatenate([model.c, model.h.ravel()])

    return jax.jacfwd(effects)(flat)
