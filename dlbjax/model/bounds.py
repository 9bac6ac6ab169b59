"""Bounds given to a learner: on norms, decay and noise."""

import dataclasses
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from numpy.typing import ArrayLike

from dlbjax.common.arrays import Number, describe, is_traced, namespace, real_array
from dlbjax.model.problem import Problem, check_problem
from dlbjax.model.system import System


@jax.tree_util.register_dataclass
@dataclass(frozen=True, eq=False, repr=False)
class Bounds:
    """Upper bounds under which the paper's guarantees hold (its Assumptions 1 and 2).

    Attributes:
      Theta, Omega, B, U: bounds on ‖θ‖₂, ‖ω‖₂, ‖B‖₂ and ‖u‖₂.
      X: bound on the norm of the state without its noise.
      Phi, rho: ‖A^τ‖₂ ≤ Phi·rho^τ for every τ.
      sigma: sub-Gaussian parameter of state and reward noise.

    Any field may be replaced with `bounds.replace(X=2.0)`. A field that holds several values makes a
    policy built from these bounds a grid, whose results have one more axis.

    >>> import dlbjax as dlb
    >>> bounds = dlb.Bounds.of(dlb.problems.synthetic(), rho_bar=0.2)
    >>> [round(float(c), 4) for c in (bounds.c1, bounds.c2, bounds.X)]
    [1.4133, 1.0752, 0.6289]
    """

    Theta: Number
    Omega: Number
    B: Number
    U: Number
    X: Number
    Phi: Number
    rho: Number
    sigma: Number

    def __repr__(self) -> str:
        fields = dataclasses.fields(self)
        return describe("Bounds", **{field.name: getattr(self, field.name) for field in fields})

    @classmethod
    def of(cls, problem: Problem, rho_bar: ArrayLike | None = None) -> "Bounds":
        """The tightest bounds that hold for a problem, with ρ̄ as the decay rate.

        Φ̄ is sup_τ ‖A^τ‖₂ρ̄^{−τ}, the constant the proofs need for this ρ̄; where ρ̄ < ρ(A) no such
        constant exists and Φ(A) is used instead. X is Φ̄(‖x₁‖ + BU/(1−ρ̄)); the paper has x₁ = 0.

        They are differentiable where norms are. At x₁ = 0, and without noise, the derivatives in x₁
        and in the noise are NaN; where ρ̄ = ρ(A) or the largest norm is attained twice, there are
        kinks.

        Args:
          problem: the bandit.
          rho_bar: upper bound on ρ(A), one or several; ρ(A) by default.
        """
        system = check_problem(problem).system
        rho = system.rho if rho_bar is None else _rates(rho_bar)
        Phi = _power_constants(problem, rho)
        xp = namespace(rho, *jax.tree.leaves(system))
        norm = xp.linalg.norm
        with np.errstate(all="ignore"):  # an overflow is rejected by name below
            B, U = norm(system.B, 2), problem.actions.radius
            bounds = cls(
                Theta=norm(system.theta),
                Omega=norm(system.omega),
                B=B,
                U=U,
                X=Phi * (norm(system.x1) + B * U / (1 - rho)),
                Phi=Phi,
                rho=rho,
                sigma=xp.maximum(system.reward_noise, xp.sqrt(norm(system.state_noise, 2))),
            )
        for name in cls.__dataclass_fields__:
            real_array(f"{name} of the tightest bounds", getattr(bounds, name), None)
        return bounds

    def as_dict(self) -> dict[str, float]:
        """The fields by name, as plain numbers."""
        return {f.name: float(getattr(self, f.name)) for f in dataclasses.fields(self)}

    def replace(self, **changes: Number) -> "Bounds":
        """Copy the bounds with some fields changed."""
        names = [field.name for field in dataclasses.fields(self)]
        for name in changes:
            if name not in names:
                raise ValueError(f"Bounds has no field {name!r}; its fields are {', '.join(names)}")
        return dataclasses.replace(self, **changes)

    @property
    def c1(self) -> Number:
        """c̄₁ = UΩΦ̄(UB/(1−ρ̄) + X), the weight of the bias from unfinished transients."""
        return self.U * self.transient

    @property
    def transient(self) -> Number:
        """ΩΦ̄(UB/(1−ρ̄) + X), by how much the first reward of an epoch may differ from a settled one."""
        return self.Omega * self.Phi * (self.U * self.B / (1 - self.rho) + self.X)

    @property
    def c2(self) -> Number:
        """c̄₂ = Θ + ΩBΦ̄/(1−ρ̄), a bound on ‖h‖₂."""
        return self.Theta + self.Omega * self.B * self.Phi / (1 - self.rho)

    @property
    def noise_variance(self) -> Number:
        """σ̄² = σ²(1 + Ω²Φ̄²/(1−ρ̄²)), variance proxy of a reward, state noise included."""
        return self.sigma**2 * self.noise_ratio

    @property
    def noise_ratio(self) -> Number:
        """σ̄²/σ² = 1 + Ω²Φ̄²/(1−ρ̄²), the factor by which state noise increases it."""
        return 1 + self.Omega**2 * self.Phi**2 / (1 - self.rho**2)

    @property
    def reward_bound(self) -> Number:
        """ξ = (Θ + ΩB/(1−ρ̄))U, by which the paper rescales rewards for Exp3."""
        return (self.Theta + self.Omega * self.B / (1 - self.rho)) * self.U


def check(bounds: Any) -> Bounds:
    """Return the bounds, or raise a ValueError that names the field that is not a valid number."""
    if not isinstance(bounds, Bounds):
        raise ValueError(f"bounds must be a dlbjax.Bounds; got {type(bounds).__name__}")
    for field in dataclasses.fields(bounds):
        value = getattr(bounds, field.name)
        if is_traced(value):
            continue
        number = real_array(field.name, value, ())
        if number < 0:
            raise ValueError(f"{field.name} must be >= 0; got {float(number):g}")
    if not is_traced(bounds.rho) and bounds.rho >= 1:
        raise ValueError(f"rho (ρ̄) must be below 1; got {float(bounds.rho):g}")
    return bounds


def _rates(rho_bar: ArrayLike) -> Number:
    rates = real_array("rho_bar", rho_bar, None)
    if is_traced(rates):
        return rates
    if rates.size == 0:
        raise ValueError(f"rho_bar must hold at least one rate; got shape {rates.shape}")
    if np.any((rates < 0) | (rates >= 1)):
        wrong = rates[(rates < 0) | (rates >= 1)][0]
        raise ValueError(f"rho_bar must satisfy 0 <= rho_bar < 1; got {wrong:g}")
    return rates if rates.ndim else float(rates)


def _power_constants(problem: Problem, rho_bar: Number) -> Number:
    """Φ̄ for every ρ̄."""
    system = problem.system
    if is_traced(rho_bar, system.A):
        return system.phi_at(namespace(rho_bar, system.A).maximum(rho_bar, system.rho))
    constants = np.vectorize(lambda rate: _power_constant(system, float(rate)), otypes=[float])
    return constants(rho_bar) if np.ndim(rho_bar) else float(constants(rho_bar))


def _power_constant(system: System, rho_bar: float) -> float:
    radius = float(system.rho)
    # ρ(A) comes from an eigenvalue routine: a ρ̄ meant to equal it may be smaller by rounding.
    reachable = rho_bar >= radius * (1 - 1e-9)
    Phi = float(system.phi_at(max(rho_bar, radius)) if reachable else system.phi)
    if not np.isfinite(Phi):
        raise ValueError(
            f"the powers of A outgrow every multiple of {max(rho_bar, radius):g}^τ (Φ is infinite: "
            f"A is nilpotent or defective at its spectral radius); pass a rho_bar above {radius:g} to "
            "Bounds.of"
        )
    return Phi
