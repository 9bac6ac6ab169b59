"""How far the ridge estimate ĥ may be from the cumulative Markov parameter h.

The paper's concentration theorem: with probability at least 1 − δ, after every round t,

    ‖ĥ_t − h‖_{V_t} ≤ c₁/√λ·log(e(t+1)) + c₂√λ + √(2σ̄²(log(1/δ) + ½·log(det V_t/λ^d))).

Its proof loses a power of ρ: the state at the end of an epoch is off by ρ^{H}, not by ρ^{H+1}, and the
theorem as printed is false (see notebooks/errata.md). Dividing c₁ by ρ̄ corrects it.
"""

import numpy as np

from dlbjax.common.arrays import (
    Array,
    Number,
    count_of_rounds,
    is_traced,
    namespace,
    real_array,
    real_number,
    whole_number,
)
from dlbjax.model.bounds import Bounds, check
from dlbjax.policies.ridge import largest_growth, settled_radius


def confidence_radius(
    bounds: Bounds, lam: Number, delta: Number, rounds: Number, V: Array, *, printed: bool = False
) -> Number:
    """The theorem's radius in its determinant form, for DynLin-UCB's own epochs.

    Args:
      bounds: bounds that hold for the problem; see `Bounds.of`.
      lam: ridge parameter λ > 0.
      delta: probability δ with which the radius may be exceeded at some round.
      rounds: t, rounds completed.
      V: (…, d, d) Gram matrix λI + Σ u uᵀ of the epochs completed.
      printed: the theorem as printed, with c₁ instead of c₁/ρ̄. It is false.

    >>> import dlbjax as dlb
    >>> bounds = dlb.Bounds.of(dlb.problems.synthetic())
    >>> radius = confidence_radius(bounds, 1.0, 0.05, rounds=0, V=np.eye(3))
    >>> float(round(radius, 3))                                 # it exceeds ‖h‖ = 0.76, as it must
    8.177
    """
    lam, delta, rounds = _checked(bounds, lam, delta, rounds)
    V = real_array("V", V, None)
    if V.ndim < 2 or V.shape[-1] != V.shape[-2]:
        raise ValueError(f"V must be a (d, d) matrix, or several; got shape {tuple(V.shape)}")
    if not is_traced(V) and np.linalg.eigvalsh(V).min() <= 0:
        raise ValueError("V must be positive definite: it is λI + Σ u uᵀ")
    xp = namespace(bounds, lam, V)
    growth = xp.linalg.slogdet(V).logabsdet - V.shape[-1] * xp.log(lam)
    return radius(bounds, lam, delta, rounds, growth, printed)


def beta(
    bounds: Bounds, lam: Number, delta: Number, d: int, rounds: Number, *, printed: bool = False
) -> Number:
    """The exploration coefficient β_t of the paper's Equation (5): the radius for the largest det V.

        β_t = c̄₁/√λ·log(e(t+1)) + c̄₂√λ + √(2σ̄²(log(1/δ) + (d/2)·log(1 + tU²/(dλ))))

    Args:
      bounds: given to the learner.
      lam: ridge parameter λ.
      delta: confidence δ.
      d: dimension of an action.
      rounds: t, rounds completed.
      printed: with c̄₁ as printed instead of c̄₁/ρ̄, which is infinite at ρ̄ = 0.
    """
    lam, delta, rounds = _checked(bounds, lam, delta, rounds)
    growth = largest_growth(bounds, lam, whole_number("d", d, at_least=1), rounds)
    return radius(bounds, lam, delta, rounds, growth, printed)


def radius(
    bounds: Bounds, lam: Number, delta: Number, rounds: Number, growth: Number, printed: bool
) -> Number:
    """The theorem's radius where log(det V/λ^d) is `growth`."""
    xp = namespace(bounds, lam, rounds)
    c1 = bounds.c1
    if not printed:
        with np.errstate(divide="ignore", invalid="ignore"):
            c1 = xp.where(c1 > 0, xp.divide(c1, bounds.rho), 0.0)
    bias = c1 / xp.sqrt(lam) * xp.log(np.e * (rounds + 1))
    return bias + settled_radius(bounds, lam, delta, growth)


def _checked(
    bounds: Bounds, lam: Number, delta: Number, rounds: Number
) -> tuple[Number, Number, Array]:
    check(bounds)
    return (
        real_number("lam", lam, above=0.0),
        real_number("delta", delta, above=0.0, below=1.0),
        count_of_rounds("rounds", rounds, at_least=0),
    )
