"""The knowledge gradient (Ryzhov, Powell and Frazier, 2012) with carry-over, started from a fit.

    (c, h, w) ~ N(μ, Σ), s ← 0, g ← what earlier spend still brings
    for rounds t = 1, 2, …, T, with r = T − t + 1 of them left and m = min(⌈1/(1−ρ)⌉, r):
        u ← argmax over the vertices of m·⟨μ_h,u⟩ + (r−m)·(E max_v ⟨μ'_h,v⟩ − max_v ⟨μ_h,v⟩),
            μ' what μ becomes after the mean reward of m rounds of u
        play u, observe y = c + ⟨h,e⟩ + ⟨w,z_t⟩ + g + noise, with the exposure e = α∘u + (1−α)∘s
        condition (c, h, w) on y;  s ← ρs + (1−ρ)u,  g ← ρg

Not in the paper: it assumes that the shape of the carry-over, α and ρ, is known, and learns its size.
"""

from collections.abc import Sequence
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from numpy.polynomial.hermite_e import hermegauss

from dlbjax.common.arrays import Array, real_array, real_number
from dlbjax.policies.base import Epoch, Feedback, Policy, Schedule
from dlbjax.policies.small import first_best, outer

NODES = 16  # of the Gauss-Hermite rule for E max
MOST_VERTICES = 2000  # a decision compares all pairs


class Prior(NamedTuple):
    """What is known of a campaign before it begins, as a fit to logged data knows it.

    Attributes:
      mean: (1 + d + q,) baseline c, effects h, and effects w of controls such as trend, season and prices.
      covariance: (1 + d + q, 1 + d + q) of their estimates.
      sigma: standard deviation of a round's reward; where noise is carried over, that of the mean of many
        rounds times the root of their number.
      immediate: (d,) share α of each effect that comes in the round of the spend.
      memory: ρ, by which the rest decays from round to round.
      carried: g, what spend before the first round brings in the first round.
      controls: (k, q) z, controls in each of k rounds, no fewer than the campaign has, less what they are at
        the baseline; None without controls.
    """

    mean: np.ndarray
    covariance: np.ndarray
    sigma: float
    immediate: np.ndarray
    memory: float
    carried: float = 0.0
    controls: np.ndarray | Sequence[Sequence[float]] | None = None


class Plan(NamedTuple):
    """What depends on the round only."""

    rounds: Array  # m, over which an allocation is tried
    old: Array  # weight of s in the mean over these rounds of what s will be, (1−ρ^m)/(m(1−ρ))
    later: Array  # (r − m)/m
    controls: Array  # (q,) z
    ahead: Array  # (q,) mean of z over the m rounds


class State(NamedTuple):
    """What is known after some rounds."""

    mean: Array  # (1 + d + q,) μ
    covariance: Array  # (1 + d + q, 1 + d + q) Σ
    exposure: Array  # (d,) s
    carried: Array  # g


def init(params: Prior, vertices: Array, key: Array) -> State:
    """The prior, and nothing spent."""
    mean, covariance = params.mean, params.covariance
    carried = jnp.asarray(params.carried, vertices.dtype)
    return State(jnp.asarray(mean), jnp.asarray(covariance), jnp.zeros_like(vertices[0]), carried)


def act(params: Prior, vertices: Array, state: State, epoch: Epoch) -> Array:
    """The vertex with the best rewards of the next rounds and, through what they teach, of all later ones."""
    plan, (K, d) = epoch.plan, vertices.shape
    value = vertices @ state.mean[1 : 1 + d]
    exposure = vertices + (1 - params.immediate) * plan.old * (state.exposure - vertices)
    ahead = jnp.broadcast_to(plan.ahead, (K, *plan.ahead.shape))
    tried = jnp.concatenate([jnp.ones_like(exposure[:, :1]), exposure, ahead], axis=1)
    seen = tried @ state.covariance
    variance = jnp.sum(seen * tried, axis=1) + params.sigma**2 / plan.rounds
    # Row k: by how many standard deviations of what is seen of k the estimates of all vertices move.
    shift = seen[:, 1 : 1 + d] @ vertices.T / jnp.sqrt(variance)[:, None]
    nodes, weights = hermegauss(NODES)
    best = sum(
        float(weight / weights.sum()) * jnp.max(value + shift * float(node), axis=1)
        for node, weight in zip(nodes, weights, strict=True)
    )
    return first_best(value + plan.later * (best - jnp.max(value)))


def update(params: Prior, state: State, feedback: Feedback) -> State:
    """Condition on the reward, if there is one; exposure and what is carried move on anyway."""
    u, s, y = feedback.vector, state.exposure, feedback.last
    e = params.immediate * u + (1 - params.immediate) * s
    row = jnp.concatenate([jnp.ones_like(e[:1]), e, feedback.plan.controls])
    direction = state.covariance @ row
    gain = jnp.where(jnp.isnan(y), 0, 1 / (row @ direction + params.sigma**2))
    error = jnp.where(jnp.isnan(y), 0, y - state.carried - row @ state.mean)
    return State(
        mean=state.mean + gain * error * direction,
        covariance=state.covariance - gain * outer(direction, direction),
        exposure=params.memory * s + (1 - params.memory) * u,
        carried=params.memory * state.carried,
    )


def knowledge_gradient(prior: Prior) -> Policy:
    """Start from a fit, and explore where what is learnt pays within the rounds that are left.

    The online knowledge gradient adds to the estimate of a vertex what trying it is expected to improve the
    best estimate by, in the rounds that are left. Here a trial lasts as long as spend is remembered, and
    shows what the carry-over lets through. With a good fit or few rounds it plays the fit's best vertex and
    watches; with a vague one it tries others first. It has no parameters. It assumes that the shape of the
    carry-over is that of the fit, and has no guarantee.

    Note:
      In float32 it is rejected beyond 1000 rounds. A decision compares all pairs of vertices: more than 2000
      vertices are rejected.

    Args:
      prior: what is known beforehand, from `Fit.prior` or by hand. It must not stem from the rounds that the
        policy will see. If controls turn out otherwise than it says, `Agent.change` takes the policy
        of a prior with the right ones, which learns from all rounds so far anew.

    References:
      Ryzhov, Powell, Frazier, `The Knowledge Gradient Algorithm for a General Class of Online Learning
      Problems <https://doi.org/10.1287/opre.1110.0999>`_, 2012.

    >>> import dlbjax as dlb, numpy as np
    >>> prior = dlb.Prior(
    ...     mean=[10.0, 2.0, 1.9], covariance=np.diag([0.01, 0.1, 0.1]), sigma=1.0, immediate=[0.5, 0.5],
    ...     memory=0.6,
    ... )
    >>> agent = dlb.Agent(dlb.knowledge_gradient(prior), dlb.actions.simplex(2), horizon=52)
    >>> agent.ask()
    array([1., 0.])
    """
    if not isinstance(prior, Prior):
        raise ValueError(
            f"prior must be a dlbjax.Prior, such as that of a fit (fit.prior()); got {type(prior).__name__}"
        )
    immediate = np.asarray(real_array("immediate", prior.immediate, (None,)))
    d = len(immediate)
    if d < 1:
        raise ValueError("immediate must hold a share for at least one channel")
    given = np.zeros((0, 0)) if prior.controls is None else prior.controls
    controls = np.asarray(real_array("controls", given, (None, None)))
    mean = np.asarray(real_array("mean", prior.mean, (1 + d + controls.shape[1],)))
    if np.any((immediate < 0) | (immediate > 1)):
        raise ValueError(f"immediate must hold shares from 0 to 1; got {immediate.tolist()}")
    params = Prior(
        mean, _check_covariance(prior.covariance, len(mean)), real_number("sigma", prior.sigma, above=0.0),
        immediate, real_number("memory", prior.memory, at_least=0.0, below=1.0),
        real_number("carried", prior.carried),
    )  # fmt: skip

    def prepare(horizon: int, vertices: np.ndarray) -> Schedule:
        if vertices.shape[1] != d:
            raise ValueError(
                f"prior is of {d} channels, but the actions have {vertices.shape[1]} coordinates"
            )
        if controls.size and len(controls) < horizon:
            raise ValueError(
                f"prior has controls of {len(controls)} rounds, but there are {horizon}; make one of more, "
                f"such as fit.prior({horizon})"
            )
        if len(vertices) > MOST_VERTICES:
            raise ValueError(
                f"knowledge_gradient takes at most {MOST_VERTICES} vertices; got {len(vertices)}"
            )

        def plan(epoch: Epoch) -> Plan:
            left = np.maximum(horizon - epoch.start, 1)
            m = np.minimum(np.ceil(1 / (1 - params.memory) - 1e-9), left)
            old = (1 - params.memory**m) / (m * (1 - params.memory))
            last = epoch.start + m.astype(int)
            ahead = (summed[last] - summed[epoch.start]) / m[:, None]
            return Plan(m, old, (left - m) / m, known[epoch.start], ahead)

        known = controls[:horizon] if controls.size else np.zeros((horizon, 0))
        summed = np.concatenate([np.zeros_like(known[:1]), np.cumsum(known, axis=0)])
        values = params._replace(controls=controls)._asdict()
        config = {name: np.asarray(value).tolist() for name, value in values.items()}
        return Schedule(
            params=params,
            plan=plan,
            float32=1000,
            config=config,
        )

    return Policy(
        init, act, update, feedback=("last",), name="Knowledge gradient", prepare=prepare,
        vectors=True, gaps=True,
    )  # fmt: skip


def _check_covariance(value: Array, size: int) -> np.ndarray:
    covariance = np.asarray(real_array("covariance", value, (size, size)))
    scale = np.sqrt(np.maximum(np.diag(covariance), 0))
    unit = covariance / np.where(scale > 0, np.outer(scale, scale), 1.0)
    if not np.allclose(unit, unit.T, atol=1e-9) or np.linalg.eigvalsh(unit)[0] < -1e-9:
        raise ValueError("covariance must be symmetric and positive semi-definite")
    return covariance
