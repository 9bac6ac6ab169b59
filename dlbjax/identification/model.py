"""The linear-Gaussian model that is fitted: a system with any number of outputs and a baseline."""

from typing import NamedTuple

import numpy as np

from dlbjax.common.arrays import Array, Number, namespace
from dlbjax.model.system import System


class StateSpace(NamedTuple):
    """x_{t+1} = A x_t + B u_t + ε_t, y_t = c + C x_t + D u_t + η_t, ε ~ N(0, Q), η ~ N(0, R).

    With one output, C = ωᵀ, D = θᵀ and c = 0 this is a `System`.

    Attributes:
      A: (n, n).
      B: (n, d).
      C: (m, n).
      D: (m, d).
      c: (m,) baseline.
      Q: (n, n) covariance of the state noise.
      R: (m, m) covariance of the reward noise.

    >>> import dlbjax as dlb
    >>> StateSpace.of(dlb.problems.synthetic().system).h.round(4)
    array([[0.5625, 0.5   , 0.1111]])
    """

    A: Array
    B: Array
    C: Array
    D: Array
    c: Array
    Q: Array
    R: Array

    @classmethod
    def of(cls, system: System, baseline: Number = 0.0) -> "StateSpace":
        """A system as a model of one output."""
        xp = namespace(system.omega, system.theta, system.reward_noise, baseline)
        return cls(
            A=system.A,
            B=system.B,
            C=xp.reshape(system.omega, (1, -1)),
            D=xp.reshape(system.theta, (1, -1)),
            c=xp.reshape(baseline, (1,)),
            Q=system.state_noise,
            R=xp.reshape(system.reward_noise, (1, 1)) ** 2,
        )

    @property
    def h(self) -> Array:
        """(m, d) D + C (I − A)⁻¹ B, the steady-state effect of a constant action on each output."""
        xp = namespace(*self)
        return self.D + self.C @ xp.linalg.solve(xp.eye(len(self.A)) - self.A, self.B)

    def cut(self, order: int) -> "StateSpace":
        """The model of the first states, where none of the others reaches them."""
        A, B, C, D, c, Q, R = self
        return StateSpace(A[:order, :order], B[:order], C[:, :order], D, c, Q[:order, :order], R)

    def scaled(self, factor: float) -> "StateSpace":
        """The same model with the state factor·x."""
        return self._replace(B=factor * self.B, C=self.C / factor, Q=factor**2 * self.Q)

    def system(self, value: np.ndarray, x1: np.ndarray) -> System:
        """The system whose reward is ⟨value, y − c⟩, started from x1."""
        return System(
            self.A, self.B, self.C.T @ value, self.D.T @ value,
            state_noise=self.Q, reward_noise=np.sqrt(value @ self.R @ value), x1=x1,
        )  # fmt: skip
