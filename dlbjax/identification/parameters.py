"""The free parameters over which the likelihood is maximised, and where to start."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import scipy.linalg

from dlbjax.common.arrays import Array
from dlbjax.identification.data import Samples
from dlbjax.identification.ho_kalman import Realisation
from dlbjax.identification.model import StateSpace
from dlbjax.identification.predict import starting_states

_UNIT, _NOISE_UNIT = 0.3, 0.05  # of `longest_units`; smaller ones take more steps
_SMALL_NOISE = 1e-6  # least standard deviation of the initial noise, in units of the fit


class Parameters(NamedTuple):
    """Free parameters: all their values are stable systems with positive noise.

    A = M L⁻ᵀ with L Lᵀ = I + MᵀM has ‖A‖₂ < 1. No stable system is left out, as each has a realisation
    with ‖A‖₂ < 1: the coordinates in which the solution of P = APAᵀ + I becomes the identity.

    Attributes:
      M: (n, n) determines A.
      B: (n, d), of the actions; controls have no delayed effect.
      C: (m, n).
      D: (m, d + q), of actions and controls.
      c: (m,) baseline.
      Q_root: (n, n) root of Q, of which only the lower triangle is used.
      R_root: (m, m) root of R, of which only the lower triangle is used, with logarithms on the diagonal.
    """

    M: Array
    B: Array
    C: Array
    D: Array
    c: Array
    Q_root: Array
    R_root: Array

    @classmethod
    def of(cls, found: Realisation, d: int) -> "Parameters":
        """Parameters of a realisation with ‖A‖₂ < 1, with a guess at how S splits into Q and R."""
        n, m = len(found.A), len(found.C)
        # Of M = ALᵀ; rounding may leave ‖A‖₂ at 1.
        L_inverse = _root(np.eye(n) - found.A.T @ found.A, least=1e-8)
        S = found.S + _SMALL_NOISE**2 * np.eye(m)
        Q = found.F @ S @ found.F.T + 0.01 * np.trace(S) / m * np.eye(n)
        R_root = np.linalg.cholesky(S / 2)
        np.fill_diagonal(R_root, np.log(np.diag(R_root)))
        return cls(
            M=np.linalg.solve(L_inverse, found.A.T).T,
            B=found.B[:, :d],
            C=found.C,
            D=found.D,
            c=found.c,
            Q_root=np.linalg.cholesky(Q),
            R_root=R_root,
        )

    def model(self) -> StateSpace:
        """The model with these parameters."""
        n, m = self.M.shape[0], self.C.shape[0]
        L = jnp.linalg.cholesky(jnp.eye(n) + self.M.T @ self.M)
        A = jax.scipy.linalg.solve_triangular(L, self.M.T, lower=True).T
        Q_root = jnp.tril(self.Q_root)
        R_root = jnp.where(jnp.eye(m) > 0, jnp.exp(self.R_root), jnp.tril(self.R_root))
        B = jnp.pad(self.B, ((0, 0), (0, self.D.shape[1] - self.B.shape[1])))
        return StateSpace(A, B, self.C, self.D, self.c, Q_root @ Q_root.T, R_root @ R_root.T)

    def padded(self, size: int) -> "Parameters":
        """The same model with more states, which nothing reaches."""
        more = size - len(self.M)
        return self._replace(
            M=np.pad(self.M, (0, more)),
            B=np.pad(self.B, ((0, more), (0, 0))),
            C=np.pad(self.C, ((0, 0), (0, more))),
            Q_root=np.pad(self.Q_root, (0, more)),
        )

    def cut(self, order: int) -> "Parameters":
        """The model of the first states."""
        return self._replace(
            M=self.M[:order, :order],
            B=self.B[:order],
            C=self.C[:, :order],
            Q_root=self.Q_root[:order, :order],
        )


model_of = jax.jit(Parameters.model)


def free_entries(like: Parameters, order: int, intercept: bool) -> np.ndarray:
    """Mask of the entries of the flat parameters that a model of an order may change."""
    ones = jax.tree.map(np.ones_like, like)
    kept = ones.cut(order).padded(len(like.M))
    kept = kept._replace(Q_root=np.tril(kept.Q_root), c=kept.c * intercept)
    return np.concatenate([np.ravel(leaf) for leaf in kept]) > 0


def log_prior(at: Parameters) -> Array:
    """log det(I − AᵀA) − log det(I + R⁻¹CQCᵀ): away from oscillations, and from rewards without noise.

    In the best coordinates the first is Σ log(1 − |λ|²) over the eigenvalues λ of A. Without it the
    likelihood of few rounds is highest with |λ| near 1, as an oscillation that hardly decays gains what the
    largest of all frequencies of the noise has, far more than its parameters count for; without the second,
    where noise of the states that the data cannot tell from that of the rewards takes its place.
    """
    n, m = at.M.shape[0], at.C.shape[0]
    model = at.model()
    states = model.C @ model.Q @ model.C.T
    noise = jnp.linalg.slogdet(jnp.eye(m) + jnp.linalg.solve(model.R, states))[1]
    return -jnp.linalg.slogdet(jnp.eye(n) + at.M.T @ at.M)[1] - noise


def prior_curvature(at: Parameters) -> Array:
    """(p, p) matrix that −∂²log_prior in M does not exceed; zero in the other parameters."""
    n = len(at.M)
    rows = jnp.kron(jnp.eye(n), 2 * jnp.linalg.inv(jnp.eye(n) + at.M.T @ at.M))
    more = sum(leaf.size for leaf in at) - n * n
    return jnp.pad(rows, (0, more))


def longest_units(at: Parameters) -> Array:
    """The longest units (p,) in which a step of Fisher scoring should measure the flat parameters.

    Where an entry of Q_root is near zero, or a state near to unused, the likelihood hardly depends on the
    parameter, and steps of the size that the information suggests leave the region where it holds. A root
    of the state noise is of the size of the reward noise, seen through C.
    """
    noise = jnp.exp(jnp.diag(at.R_root)).mean() / jnp.maximum(jnp.abs(at.C).max(), 1e-3)
    unit = {"Q_root": _NOISE_UNIT * noise}
    return jnp.concatenate(
        [jnp.full(leaf.size, unit.get(name, _UNIT)) for name, leaf in at._asdict().items()]
    )


def start(found: Realisation, samples: Samples) -> tuple[Parameters, np.ndarray]:
    """Parameters and x1 (E, n) of a realisation, with the noise of its one-step errors."""
    x1, errors = starting_states(found, samples)
    errors = errors[~np.isnan(errors).any(axis=1)]
    T = _root(scipy.linalg.solve_discrete_lyapunov(found.A, np.eye(len(found.A))), least=1.0)
    A, B, F = (np.linalg.solve(T, part) for part in (found.A @ T, found.B, found.F))
    S = errors.T @ errors / len(errors)
    contractive = found._replace(A=A, B=B, C=found.C @ T, F=F, S=S)
    return Parameters.of(contractive, samples.d), np.linalg.solve(T, x1.T).T


def rough(found: Realisation, samples: Samples) -> tuple[StateSpace, np.ndarray]:
    """The model and x1 (E, n) from which the maximisation would start."""
    parameters, x1 = start(found, samples)
    with jax.enable_x64(True):
        return jax.tree.map(np.asarray, model_of(parameters)), x1


def _root(square: np.ndarray, least: float) -> np.ndarray:
    """Lower triangular root of a symmetric matrix whose eigenvalues are raised to `least`."""
    values, vectors = np.linalg.eigh((square + square.T) / 2)
    return np.linalg.cholesky((vectors * np.maximum(values, least)) @ vectors.T)
