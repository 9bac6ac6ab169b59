"""How far a single entry of A, B, ω or θ can move before u* is no longer the best vertex.

J(u*) − J(v) is linear in an entry of B, ω or θ. In an entry of A it is, by Sherman and Morrison's formula
with R = (I−A)⁻¹, gap + δ·g/(1 − δ·R_ji) after a move of A_ij by δ, where g is its derivative. Either way
it reaches zero at δ = gap/(gap·r − g) and nowhere else, with r = R_ji for A and r = 0 for the others.
Beyond the pole at δ = 1/R_ji the formula does not hold, but there A has an eigenvalue above one.
"""

import numpy as np

from dlbjax.model.powers import spectral_radius
from dlbjax.model.problem import Problem
from dlbjax.sensitivity.exact import Parameters, state_worth


def moves(problem: Problem, gaps: np.ndarray) -> tuple[Parameters, Parameters]:
    """By how much each entry can fall, and rise, before a vertex overtakes u*.

    Args:
      problem: the bandit.
      gaps: (K,) J* − J(v) of every vertex, exactly zero at ties.

    >>> import dlbjax as dlb
    >>> problem = dlb.problems.synthetic()
    >>> falls, rises = moves(problem, problem.gaps)
    >>> falls.theta.round(4), rises.theta.round(4)
    (array([0.0625, 0.3889,    inf]), array([   inf, 0.0625, 0.3889]))
    """
    system, vertices, best = problem.system, problem.actions.vertices, int(problem.optimal_index)
    dynamics = np.asarray(system.A)
    resolvent = np.linalg.inv(np.eye(system.n) - dynamics)
    worth, states = np.asarray(state_worth(system)), vertices @ (resolvent @ system.B).T
    one, none = np.ones(1), np.zeros((1, system.n))
    # All derivatives of J(v) are products of a weight and an entry of the state or of the action.
    A = _moves(gaps, best, worth, states, resolvent.T)
    B = _moves(gaps, best, worth, vertices, np.zeros(system.B.shape))
    omega = _moves(gaps, best, one, states, none)
    theta = _moves(gaps, best, one, vertices, np.zeros((1, system.d)))
    falls, rises = (
        Parameters(_while_stable(dynamics, sign, a), b, o[0], t[0])
        for sign, a, b, o, t in zip((-1.0, 1.0), A, B, omega, theta, strict=True)
    )
    return falls, rises


def _moves(
    gaps: np.ndarray, best: int, weights: np.ndarray, factors: np.ndarray, feedback: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Falls and rises (p, q) where ∂J(v)/∂x_ij = weights_i·factors_vj and r is `feedback`."""
    falls, rises = np.full((2, *feedback.shape), np.inf)
    apart = factors[best] - factors
    # Equal entries of two vertices must not differ by rounding, or a tie seems to end at once.
    apart[np.abs(apart) <= 1e-12 * np.abs(factors).max(axis=0)] = 0.0
    for i, weight in enumerate(weights):  # by rows: all at once may not fit into memory
        slopes = weight * apart
        down = gaps[:, None] * feedback[i] - slopes
        with np.errstate(divide="ignore", invalid="ignore"):
            roots = gaps[:, None] / np.abs(down)
        falls[i] = np.where(down < 0, roots, np.inf).min(axis=0)
        rises[i] = np.where(down > 0, roots, np.inf).min(axis=0)
    return falls, rises


def _while_stable(A: np.ndarray, sign: float, distances: np.ndarray) -> np.ndarray:
    """The distances, infinite where A would no longer be stable there."""
    kept = distances.copy()
    for place in zip(*np.nonzero(np.isfinite(distances)), strict=True):
        moved = A.copy()
        moved[place] += sign * distances[place]
        if spectral_radius(moved) >= 1:
            kept[place] = np.inf
    return kept
