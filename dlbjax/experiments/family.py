"""A family of random problems, wide enough to show where a policy fails.

Of a few fixed shapes, since each compiles once. Spectral radii are uniform up to 0.97; eigenvalues are
positive, negative and complex; a change of coordinates of condition up to 100 makes Φ large; σ spans three
decades; in a quarter of the systems the two best vertices nearly tie; half start away from x₁ = 0.
"""

from typing import NamedTuple

import numpy as np

from dlbjax.common.arrays import whole_number
from dlbjax.model.actions import ActionSet, budget, finite
from dlbjax.model.problem import Problem
from dlbjax.model.random_systems import random_gains
from dlbjax.model.system import System, settled

SHAPES = ((2, 3), (4, 4), (6, 5), (8, 8))  # dimensions of state and action, in turn
RAISED_SHAPES = ((4, 4),)  # of problems with a baseline, before its coordinate
RHO, CONDITION, SIGMA, TIE = 0.97, 100.0, (1e-3, 1.0), (1e-3, 10**-1.5)


class Traits(NamedTuple):
    """What makes a problem hard.

    Attributes:
      rho: spectral radius ρ(A).
      phi: Φ(A).
      noise: standard deviation of the mean of many rewards, times the root of their number.
      gap: J* − J of the second-best vertex.
      transient: most that the state left by one vertex adds to the reward of another after some rounds.
    """

    rho: float
    phi: float
    noise: float
    gap: float
    transient: float


def family(count: int, seed: int = 0, baseline: float | None = None) -> list[Problem]:
    """Random problems of the family, their shapes in turn.

    Args:
      count: how many.
      seed: of the draw.
      baseline: what to add to every reward, by a further coordinate that is 1 in every action; such
        problems are all of one shape.

    >>> [len(problem.actions) for problem in family(5)]
    [10, 17, 26, 65, 10]
    """
    rng = np.random.default_rng(seed)
    shapes = SHAPES if baseline is None else RAISED_SHAPES
    sets = {d: budget(0.0, np.ones(d), total=1.5) for _, d in shapes}
    problems = []
    for i in range(whole_number("count", count, at_least=1)):
        n, d = shapes[i % len(shapes)]
        problem = Problem(_system(rng, n, d, sets[d]), sets[d])
        problems.append(problem if baseline is None else _raised(problem, baseline))
    return problems


def traits(problem: Problem, rounds: int) -> Traits:
    """What makes a problem hard; `rounds` is how long a vertex is held before its reward is looked at.

    >>> import dlbjax as dlb
    >>> found = traits(dlb.problems.synthetic(), rounds=5)
    >>> round(found.gap, 5), found.transient < 1e-3
    (0.03125, True)
    """
    system = problem.system
    weights = settled(system.A.T, system.omega)
    noise = np.sqrt(weights @ system.state_noise @ weights + system.reward_noise**2)
    left = system.omega @ np.linalg.matrix_power(system.A, rounds)
    held = left @ np.stack([system.steady_state(v) for v in problem.actions.vertices], axis=1)
    gaps = np.asarray(problem.gaps)
    return Traits(
        rho=float(system.rho), phi=float(system.phi), noise=float(noise),
        gap=float(gaps[gaps > 1e-9 * np.abs(problem.values).max()].min()),
        transient=float(held.max() - held.min()),
    )  # fmt: skip


def _system(rng: np.random.Generator, n: int, d: int, actions: ActionSet) -> System:
    A = _dynamics(rng, n)
    B, omega, theta = random_gains(rng, A, d)
    if rng.random() < 0.25:
        h = System(A, B, omega, theta).h
        best, second = actions.vertices[np.argsort(-(actions.vertices @ h))[:2]]
        apart, gap = best - second, np.exp(rng.uniform(*np.log(TIE)))
        theta = theta + (gap - h @ apart) * apart / (apart @ apart)
    sigma = np.exp(rng.uniform(*np.log(SIGMA)))
    x1 = rng.normal(size=n) * (rng.random() < 0.5)
    return System(A, B, omega, theta, sigma, x1=x1)


def _dynamics(rng: np.random.Generator, n: int) -> np.ndarray:
    """M Λ M⁻¹ with real and complex eigenvalues in Λ and singular values of M up to CONDITION apart."""
    spectrum, size, i = np.zeros((n, n)), rng.uniform(0, RHO), 0
    while i < n:
        radius = size if i == 0 else size * rng.random()
        if i + 1 < n and rng.random() < 0.4:
            angle = rng.uniform(0, np.pi)
            c, s = np.cos(angle), np.sin(angle)
            spectrum[i : i + 2, i : i + 2] = radius * np.array([[c, -s], [s, c]])
            i += 2
        else:
            spectrum[i, i] = radius if rng.random() < 0.6 else -radius
            i += 1
    left, right = (np.linalg.qr(rng.normal(size=(n, n)))[0] for _ in range(2))
    M = left * CONDITION ** (rng.random() * np.linspace(-0.5, 0.5, n)) @ right
    return M @ spectrum @ np.linalg.inv(M)


def _raised(problem: Problem, level: float) -> Problem:
    system, vertices = problem.system, problem.actions.vertices
    raised = System(
        system.A, np.column_stack([system.B, np.zeros(system.n)]), system.omega,
        np.append(system.theta, level), state_noise=system.state_noise,
        reward_noise=system.reward_noise, x1=system.x1,
    )  # fmt: skip
    return Problem(raised, finite(np.column_stack([vertices, np.ones(len(vertices))])))
