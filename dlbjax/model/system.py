"""The hidden linear system of a Dynamical Linear Bandit, and the quantities the paper derives from it.

x_{t+1} = A x_t + B u_t + ε_t,      y_t = ⟨ω, x_t⟩ + ⟨θ, u_t⟩ + η_t,      ρ(A) < 1
"""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from dlbjax.common.arrays import (
    Array,
    Number,
    describe,
    is_traced,
    namespace,
    real_array,
    real_number,
    whole_number,
)
from dlbjax.model.powers import power_bound, spectral_radius


@dataclass(frozen=True, init=False, eq=False, repr=False)
class System:
    """A stable linear system with a scalar reward and Gaussian noise.

    Args:
      A: (n, n) dynamics, spectral radius below one.
      B: (n, d) effect of the action on the state.
      omega: (n,) effect of the state on the reward.
      theta: (d,) immediate effect of the action on the reward.
      sigma: standard deviation of every noise coordinate not given separately.
      state_noise: noise of the state: a standard deviation, one per coordinate, or an (n, n)
        covariance. Defaults to `sigma`.
      reward_noise: standard deviation of the reward noise. Defaults to `sigma`.
      x1: (n,) initial state, zero by default.

    Attributes:
      A, B, omega, theta, x1: the arguments as read-only float64 NumPy arrays.
      state_noise: (n, n) covariance of the state noise.
      reward_noise: standard deviation of the reward noise.

    Under a JAX transformation the fields may be tracers, and every method can be differentiated.

    >>> import dlbjax as dlb
    >>> system = dlb.System(A=[[0.5]], B=[[1.0, 0.0]], omega=[1.0], theta=[0.0, 3.0], sigma=0.1)
    >>> system.h
    array([2., 3.])
    """

    A: Array
    B: Array
    omega: Array
    theta: Array
    state_noise: Array
    reward_noise: Number
    x1: Array

    def __init__(
        self,
        A: ArrayLike,
        B: ArrayLike,
        omega: ArrayLike,
        theta: ArrayLike,
        sigma: Number = 0.0,
        *,
        state_noise: ArrayLike | None = None,
        reward_noise: Number | None = None,
        x1: ArrayLike | None = None,
    ):
        A = real_array("A", A, (None, None))
        n = A.shape[0]
        if n == 0 or A.shape[1] != n:
            raise ValueError(f"A must be square and not empty; got shape {tuple(A.shape)}")
        B = real_array("B", B, (n, None))
        d = B.shape[1]
        if d == 0:
            raise ValueError(
                "B must have at least one column (one per action coordinate); got none"
            )
        sigma = real_number("sigma", sigma, at_least=0.0)
        values = {
            "A": A,
            "B": B,
            "omega": real_array("omega", omega, (n,)),
            "theta": real_array("theta", theta, (d,)),
            "state_noise": _covariance(sigma if state_noise is None else state_noise, n),
            "reward_noise": real_number(
                "reward_noise", sigma if reward_noise is None else reward_noise, at_least=0.0
            ),
            "x1": real_array("x1", np.zeros(n) if x1 is None else x1, (n,)),
        }
        if not is_traced(A) and (radius := spectral_radius(A)) >= 1.0:
            raise ValueError(
                f"A must be stable, spectral radius below 1; got {radius:.6g}. Rescale A, or shorten "
                "the round so that less of the state is carried over"
            )
        for name, value in values.items():
            object.__setattr__(self, name, value)

    def __repr__(self) -> str:
        return describe(
            "System", **{name: getattr(self, name) for name in self.__dataclass_fields__}
        )

    @property
    def n(self) -> int:
        """Dimension of the hidden state."""
        return self.A.shape[0]

    @property
    def d(self) -> int:
        """Dimension of the action."""
        return self.B.shape[1]

    def markov(self, lag: int) -> Array:
        """Markov parameter h^{s}: θ at lag 0, Bᵀ(A^{s−1})ᵀω after that."""
        if whole_number("lag", lag, at_least=0) == 0:
            return self.theta
        xp = namespace(self.A, self.B, self.omega)
        return self.B.T @ xp.linalg.matrix_power(self.A, lag - 1).T @ self.omega

    def cumulative_markov(self, first: int = 0, last: int | None = None) -> Array:
        """h^{[first, last]} = Σ h^{s} for first ≤ s ≤ last; `last=None` is the limit.

        >>> import dlbjax as dlb
        >>> dlb.problems.synthetic().system.cumulative_markov(0, 1)
        array([0.45, 0.5 , 0.11])
        """
        whole_number("first", first, at_least=0)
        if last is not None and whole_number("last", last, at_least=-1) < first:
            return 0.0 * self.theta
        if first == 0:
            immediate = self.theta
            first = 1
        else:
            immediate = 0.0 * self.theta
        xp = namespace(self.A, self.B, self.omega, self.theta)
        power = xp.linalg.matrix_power
        # Σ_{s=first}^{last} A^{s−1} = (A^{first−1} − A^{last}) (I − A)⁻¹
        head = power(self.A, first - 1)
        tail = 0.0 * self.A if last is None else power(self.A, last)
        return immediate + self.B.T @ settled(self.A.T, (head - tail).T @ self.omega)

    @property
    def h(self) -> Array:
        """Cumulative Markov parameter h = θ + Bᵀ(I − A)⁻ᵀω: the steady-state reward per action."""
        return self.cumulative_markov()

    def value(self, action: Array) -> Array:
        """J(u) = ⟨h, u⟩, the long-run average reward of playing u forever."""
        return real_array("action", action, None) @ self.h

    def steady_state(self, action: Array) -> Array:
        """x̄(u) = (I − A)⁻¹ B u, where the noise-free state settles under a constant action."""
        action = real_array("action", action, (self.d,))
        return settled(self.A, self.B @ action)

    @property
    def rho(self) -> Number:
        """Spectral radius ρ(A)."""
        return spectral_radius(self.A)

    @property
    def phi(self) -> Number:
        """Φ(A) = sup_τ ‖A^τ‖₂ / ρ(A)^τ.

        Infinite for a nilpotent A ≠ 0 (a pure delay) and for an A that is defective at an eigenvalue
        of largest modulus: no multiple of ρ(A)^τ bounds its powers. Use `phi_at` with any ρ̄ > ρ(A).
        Where a complex pair of eigenvalues dominates, the supremum is approached over infinitely many
        powers: its value is right, but its derivative is unreliable.
        """
        return power_bound(self.A, self.rho)

    def phi_at(self, rho_bar: Number) -> Number:
        """Φ̄(ρ̄) = sup_τ ‖A^τ‖₂ ρ̄^{−τ}: finite for ρ̄ > ρ(A), Φ(A) at ρ(A), infinite below it."""
        return power_bound(self.A, real_number("rho_bar", rho_bar, at_least=0.0))


def settled(A: Array, vector: Array) -> Array:
    """(I − A)⁻¹ v, where x' = A x + v settles: every entry to as many digits as the numbers determine.

    Elimination with pivots compares rows, so that states in units far apart cost the smaller ones their
    digits. The rows are therefore first divided by the size of their terms at the solution, and the
    residual is solved for once more, after which the result is exact for an A and a v whose entries
    are changed by rounding only (Skeel, Iterative refinement implies numerical stability for Gaussian
    elimination, 1980). Traced arrays are solved for plainly.

    >>> settled(np.array([[0.5, 0.0], [0.8, 0.5]]), np.array([1.0, 1e75]))
    array([2.e+00, 2.e+75])
    """
    xp = namespace(A, vector)
    M = xp.eye(len(A)) - A
    x = xp.linalg.solve(M, vector)
    if is_traced(x):
        return x
    with np.errstate(over="ignore", invalid="ignore"):  # who asked finds infinite numbers
        size = np.abs(M) @ np.abs(x) + np.abs(vector)
        _, exponent = np.frexp(np.where(np.isfinite(size), size, 1.0))
        _, largest = np.frexp(np.abs(M).max(axis=1))
        exponent = np.maximum(exponent, largest - 1000)  # no entry overflows
        scale = np.ldexp(1.0, np.clip(-exponent, -1000, 1000))  # which rounds nothing
        rows = M * scale[:, None]
        x = np.linalg.solve(rows, vector * scale)
        return x + np.linalg.solve(rows, (vector - M @ x) * scale)


def check_system(system: Any) -> System:
    """Return the system, or raise a ValueError if it is not a `System`."""
    if not isinstance(system, System):
        raise ValueError(f"system must be a dlbjax.System; got {type(system).__name__}")
    return system


def _covariance(noise: ArrayLike, n: int) -> Array:
    given = real_array("state_noise", noise, None)
    if is_traced(given):
        return given if given.ndim == 2 else jnp.diag(jnp.broadcast_to(given, (n,)) ** 2)
    if given.ndim == 2:
        covariance = real_array("state_noise", given, (n, n))
        scale = max(float(np.abs(covariance).max()), np.finfo(float).tiny)
        if np.abs(covariance - covariance.T).max() > 1e-10 * scale:
            raise ValueError(
                "state_noise must be a symmetric covariance; it differs from its transpose"
            )
        smallest = float(np.linalg.eigvalsh(covariance).min())
        if smallest < -1e-10 * scale:
            raise ValueError(
                "state_noise must be positive semi-definite (a covariance, not standard deviations); "
                f"its smallest eigenvalue is {smallest:.6g}"
            )
        return covariance
    std = real_array("state_noise", given, () if given.ndim == 0 else (n,))
    if np.any(std < 0):
        raise ValueError(f"state_noise must be >= 0; got {float(np.min(std)):g}")
    return real_array("state_noise", np.diag(np.broadcast_to(std, (n,)) ** 2), (n, n))


def _flatten(system: System) -> tuple[tuple[Any, ...], None]:
    return tuple(getattr(system, name) for name in System.__dataclass_fields__), None


def _unflatten(_: None, leaves: tuple[Any, ...]) -> System:
    # Without __init__, whose checks would reject the placeholders that JAX also passes.
    system = object.__new__(System)
    for name, leaf in zip(System.__dataclass_fields__, leaves, strict=True):
        object.__setattr__(system, name, leaf)
    return system


jax.tree_util.register_pytree_node(System, _flatten, _unflatten)
