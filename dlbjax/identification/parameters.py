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

_SMALL_NOISE = 1e-6  # least standard deviation of the initial noise, in units of the fit


class Parameters(NamedTuple):
    """Free parameters: all their values are stable systems with positive noise.

    A = M L⁻ᵀ with L Lᵀ = I + MᵀM has ‖A‖₂ < 1. No stable system is left out, as each has a realisation
    with ‖A‖₂ < 1: the coordinates in which the solution of P = APAᵀ + I becomes the identity.

    Attributes:
      M: (n, n) determines A.
      B: (n, d).
      C: (m, n).
      D: (m, d).
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
    def of(cls, found: Realisation) -> "Parameters":
        """Parameters of a realisation with ‖A‖₂ < 1, with a guess at how S splits into Q and R."""
        n, m = len(found.A), len(found.C)
        L_inverse = np.linalg.cholesky(np.eye(n) - found.A.T @ found.A)  # of M = ALᵀ
        S = found.S + _SMALL_NOISE**2 * np.eye(m)
        Q = found.F @ S @ found.F.T + 0.01 * np.trace(S) / m * np.eye(n)
        R_root = np.linalg.cholesky(S / 2)
        np.fill_diagonal(R_root, np.log(np.diag(R_root)))
        return cls(
            M=np.linalg.solve(L_inverse, found.A.T).T,
            B=found.B,
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
        return StateSpace(A, self.B, self.C, self.D, self.c, Q_root @ Q_root.T, R_root @ R_root.T)


model_of = jax.jit(Parameters.model)


def places(parameters: Parameters, name: str) -> np.ndarray:
    """Mask of the entries of the flat parameters that belong to a field."""
    return np.concatenate(
        [np.full(np.size(leaf), field == name) for field, leaf in parameters._asdict().items()]
    )


def start(found: Realisation, samples: Samples) -> tuple[Parameters, np.ndarray]:
    """Parameters and x1 (E, n) of a realisation, with the noise of its one-step errors."""
    x1, errors = starting_states(found, samples)
    errors = errors[~np.isnan(errors).any(axis=1)]
    T = np.linalg.cholesky(scipy.linalg.solve_discrete_lyapunov(found.A, np.eye(len(found.A))))
    A, B, F = (np.linalg.solve(T, part) for part in (found.A @ T, found.B, found.F))
    S = errors.T @ errors / len(errors)
    contractive = found._replace(A=A, B=B, C=found.C @ T, F=F, S=S)
    return Parameters.of(contractive), np.linalg.solve(T, x1.T).T


def rough(found: Realisation, samples: Samples) -> tuple[StateSpace, np.ndarray]:
    """The model and x1 (E, n) from which the maximisation would start."""
    parameters, x1 = start(found, samples)
    with jax.enable_x64(True):
        return jax.tree.map(np.asarray, model_of(parameters)), x1
