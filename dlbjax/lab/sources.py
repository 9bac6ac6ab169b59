"""The problems of the lab: a source, and what the sliders and the table make of it."""

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from dlbjax.common.arrays import Array
from dlbjax.lab.settings import GIVEN, MOST_STATES, MOST_VERTICES, InputError, Settings, sigma_of
from dlbjax.model import problems
from dlbjax.model.actions import ActionSet, budget
from dlbjax.model.problem import Problem
from dlbjax.model.random_systems import random_gains
from dlbjax.model.system import System


class Limits(NamedTuple):
    """The limits of a budget set: low ≤ u ≤ high, Σu ≤ total."""

    low: tuple[float, ...]
    high: tuple[float, ...]
    total: float


@lru_cache(maxsize=64)
def source_of(name: str, delay: int, seed: int) -> Problem:
    """A built-in source as it is, with σ = 0.01."""
    if name == "synthetic":
        return problems.synthetic()
    if name == "real_world":
        return problems.real_world()
    if name == "adstock":
        actions = budget(0.0, np.ones(3), total=1.5)
        return problems.adstock([0.8, 0.5, 0.0], [0.1, 0.2, 0.45], actions=actions)
    actions = budget(0.0, np.ones(2), total=1.5)
    if name == "delayed":
        return problems.delayed([0.5, 0.4], delay, actions=actions)
    if name == "autoregressive":
        return problems.autoregressive([0.5, 0.4], [0.5, 0.2], actions=actions)
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(3, 3))
    A *= rng.uniform(0.2, 0.9) / np.abs(np.linalg.eigvals(A)).max()
    B, omega, theta = random_gains(rng, A, d=3)
    return Problem(System(A, B, omega, theta, sigma=0.01), budget(0.0, np.ones(3), total=1.5))


def base_of(settings: Settings, given: Problem | None) -> Problem:
    """The source that the settings name."""
    if settings.source == GIVEN:
        if given is None:
            raise InputError("source", "no problem was given to this page; choose another")
        return given
    return source_of(settings.source, settings.delay, settings.seed)


@lru_cache(maxsize=256)
def budget_set(limits: Limits) -> ActionSet:
    """The budget set with these limits; finding its vertices takes some 30 ms."""
    return budget(np.array(limits.low), np.array(limits.high), limits.total)


def limits_of(actions: ActionSet) -> Limits | None:
    """The limits of a budget set, None for any other set.

    >>> limits_of(problems.synthetic().actions)
    Limits(low=(0.0, 0.0, 0.0), high=(1.0, 1.0, 1.0), total=1.5)
    """
    vertices = actions.vertices
    low, high = vertices.min(axis=0), vertices.max(axis=0)
    limits = Limits(tuple(low.tolist()), tuple(high.tolist()), float(vertices.sum(axis=1).max()))
    if not actions.convex or len(vertices) > MOST_VERTICES:
        return None
    found = budget_set(limits).vertices
    return limits if found.shape == vertices.shape and np.allclose(found, vertices) else None


def table_of(system: System) -> np.ndarray:
    """(n+1, n+d) the system as one matrix, [[A, B], [ωᵀ, θᵀ]]: from state and action to state and reward."""
    return np.block([[system.A, system.B], [system.omega[None], system.theta[None]]])


def problem_of(settings: Settings, given: Problem | None = None) -> Problem:
    """The problem that the settings describe, or a `InputError` that names the field at fault.

    >>> problem_of(Settings(memory=2.0)).system.rho
    0.4
    """
    base = base_of(settings, given)
    system, n = base.system, base.system.n
    _check_size(n, len(base.actions))
    table = table_of(system)
    if settings.table is not None:
        if np.shape(settings.table) != table.shape:
            raise InputError(
                "table", f"the system must be a table of {table.shape[0]} × {table.shape[1]}"
            )
        table = np.array(settings.table)
    actions = base.actions
    if settings.budget is not None:
        limits = limits_of(actions)
        if limits is None:
            raise InputError("budget", "the action set of this problem has no budget")
        try:
            actions = budget_set(limits._replace(total=settings.budget))
        except ValueError as error:
            raise InputError("budget", str(error)) from None
        _check_size(n, len(actions))
    state_noise, reward_noise = system.state_noise, system.reward_noise
    if settings.sigma is not None:
        state_noise, reward_noise = _noise(system, settings.sigma)
    try:
        with np.errstate(all="ignore"):  # what overflows is rejected by name
            return Problem(
                System(
                    A=settings.memory * table[:n, :n], B=table[:n, n:], omega=table[n, :n],
                    theta=table[n, n:], state_noise=state_noise, reward_noise=reward_noise,
                    x1=system.x1 + settings.x1,
                ),
                actions,
            )  # fmt: skip
    except ValueError as error:
        at = "memory" if settings.memory != 1 and "stable" in str(error) else "table"
        raise InputError(at, str(error)) from None


def _noise(system: System, sigma: float) -> tuple[Array, float]:
    """Covariance of the state's and deviation of the reward's noise, in the system's proportions."""
    whole = sigma_of(system)
    if whole == 0:
        return np.eye(system.n) * sigma**2, sigma
    return system.state_noise * (sigma / whole) ** 2, float(system.reward_noise * (sigma / whole))


def _check_size(n: int, vertices: int) -> None:
    if n > MOST_STATES:
        raise InputError(
            "source", f"the lab shows states of up to {MOST_STATES} coordinates; got {n}"
        )
    if vertices > MOST_VERTICES:
        raise InputError("budget", f"the lab shows up to {MOST_VERTICES} vertices; got {vertices}")
