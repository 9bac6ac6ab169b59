"""The linear-Gaussian model that is fitted: a system with any number of outputs and a baseline."""

from typing import NamedTuple

import numpy as np

from dlbjax._arrays import Array, namespace
from dlbjax.system import System


class StateSpace(NamedTuple):
    """x_{t+1} = A x_t + B u_t + ε_t, y_t = c + C x_t + D u_t + η_t, ε ~ N(0, Q), η ~ N(0, R).

    With one output, C = ωᵀ, D = θᵀ and c = 0 this is a `System`.

    >>> import dlbjax as dlb
    >>> StateSpace.of(dlb.problems.synthetic().system).h.round(4)
    array([[0.5625, 0.5   , 0.1111]])
    """

    A: Array  # (n, n)
    B: Array  # (n, d)
    C: Array  # (m, n)
    D: Array  # (m, d)
    c: Array  # (m,)
    Q: Array  # (n, n)
    R: Array  # (m, m)

    @classmethod
    def of(cls, system: System, baseline: Array = 0.0) -> "StateSpace":
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
        """(m, d) D + C (I − A)⁻¹ B, what each output settles at per unit of a constant action."""
        xp = namespace(*self)
        return self.D + self.C @ xp.linalg.solve(xp.eye(len(self.A)) - self.A, self.B)

    def scaled(self, factor: float) -> "StateSpace":
        """The same model with its state in other units, factor·x."""
        return self._replace(B=factor * self.B, C=self.C / factor, Q=factor**2 * self.Q)

    def system(self, value: np.ndarray, x1: np.ndarray) -> System:
        """The system whose reward is ⟨value, y − c⟩, from a given state."""
        return System(
            self.A, self.B, self.C.T @ value, self.D.T @ value,
            state_noise=self.Q, reward_noise=np.sqrt(value @ self.R @ value), x1=x1,
        )  # fmt: skip
