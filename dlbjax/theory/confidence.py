"""How far the ridge estimate ĥ may be from the cumulative Markov parameter h.

The paper's concentration theorem: with probability at least 1 − δ, after every round t,

    ‖ĥ_t − h‖_{V_t} ≤ c₁/√λ·log(e(t+1)) + c₂√λ + √(2σ̄²(log(1/δ) + ½·log(det V_t/λ^d))).

As printed it is false, for two reasons (see notebooks/errata.md). The state at the end of an epoch is off by
ρ^{H}, not by ρ^{H+1}: c₁ must be divided by ρ̄. And noise carried over from earlier epochs is no
martingale difference: a policy that looks at past rewards can make it add up. Corrected (derived in
notebooks/derivation.md),

    ‖ĥ_t − h‖_{V_t} ≤ c₁/(Uρ̄)·min(U/√λ·log(e(t+1)), π/√6) + N + c₂√λ
                      + √(2σ̄²(log(2/δ) + ½·log(det V_t/λ^d))),
    N = ΩΦ̄σ·√(2(a·log(4a/δ) + b)/(1−ρ̄²)),   a = Σ_{l≥2} 1/l²,   b = Σ_{l≥2} 2·log(l)/l².
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

_A = np.pi**2 / 6 - 1  # Σ_{l≥2} 1/l²
_B = 1.8750965086316874  # Σ_{l≥2} 2·log(l)/l² = −2ζ'(2)


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
      printed: the theorem as printed. It is false.

    >>> import dlbjax as dlb
    >>> bounds = dlb.Bounds.of(dlb.problems.synthetic())
    >>> radius = confidence_radius(bounds, 1.0, 0.05, rounds=0, V=np.eye(3))
    >>> float(round(radius, 3))                                 # it exceeds ‖h‖ = 0.76, as it must
    8.211
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
    """The exploration coefficient β_t: the corrected radius for the largest det V, d·log(1 + tU²/(dλ)).

    A policy that plays it is `dynlin_ucb(bounds, beta=theory.beta)`. As printed (the paper's Equation 5),
    which is what `dynlin_ucb` plays by default, it is

        β_t = c̄₁/√λ·log(e(t+1)) + c̄₂√λ + √(2σ̄²(log(1/δ) + (d/2)·log(1 + tU²/(dλ))))

    Args:
      bounds: given to the learner.
      lam: ridge parameter λ.
      delta: confidence δ.
      d: dimension of an action.
      rounds: t, rounds completed.
      printed: as printed; the corrected one is infinite at ρ̄ = 0, where no transient ever settles.

    >>> import dlbjax as dlb
    >>> problem = dlb.problems.synthetic()
    >>> policy = dlb.dynlin_ucb(dlb.Bounds.of(problem), beta=dlb.theory.beta)
    >>> dlb.simulate(problem, policy, horizon=100).rounds[-1]
    np.int64(100)
    """
    lam, delta, rounds = _checked(bounds, lam, delta, rounds)
    growth = largest_growth(bounds, lam, whole_number("d", d, at_least=1), rounds)
    return radius(bounds, lam, delta, rounds, growth, printed)


def radius(
    bounds: Bounds, lam: Number, delta: Number, rounds: Number, growth: Number, printed: bool
) -> Number:
    """The theorem's radius where log(det V/λ^d) is `growth`."""
    xp = namespace(bounds, lam, rounds)
    steps = xp.log(xp.e * (rounds + 1)) / xp.sqrt(lam)  # bounds Σ_l 1/l·‖u_l‖_{V⁻¹}/U
    if printed:
        return bounds.c1 * steps + settled_radius(bounds, lam, delta, growth)
    with np.errstate(divide="ignore", invalid="ignore"):
        transient = xp.where(bounds.transient > 0, xp.divide(bounds.transient, bounds.rho), 0.0)
    bias = transient * xp.minimum(bounds.U * steps, np.pi / 6**0.5)
    return bias + carried_noise(bounds, delta / 2) + settled_radius(bounds, lam, delta / 2, growth)


def carried_noise(bounds: Bounds, delta: Number) -> Number:
    """√Σ_l ν_l² ≤ N with probability 1 − δ, where ν_l is the noise carried over into epoch l."""
    xp = namespace(bounds, delta)
    tails = 2 * (_A * xp.log(2 * _A / delta) + _B) / (1 - bounds.rho**2)
    return bounds.Omega * bounds.Phi * bounds.sigma * xp.sqrt(tails)


def _checked(
    bounds: Bounds, lam: Number, delta: Number, rounds: Number
) -> tuple[Number, Number, Array]:
    check(bounds)
    return (
        real_number("lam", lam, above=0.0),
        real_number("delta", delta, above=0.0, below=1.0),
        count_of_rounds("rounds", rounds, at_least=0),
    )
