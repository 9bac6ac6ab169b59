"""Regret bounds: upper bounds for DynLin-UCB, a lower bound for every policy, offline against expected.

The upper bounds hold for the policy that plays the β they contain, `dynlin_ucb(bounds, lam, delta,
beta=theory.beta)`; with printed=True for `dynlin_ucb(bounds, lam, delta)`, though that theorem is false.
They take one or several numbers of rounds, and can be drawn over that policy's measured regret:
`result.plot(overlays={"upper bound": lambda t: offline_regret_bound(bounds, lam, delta, d, t)})`.
"""

import numpy as np
from numpy.typing import ArrayLike

from dlbjax.common.arrays import (
    Array,
    Number,
    count_of_rounds,
    is_traced,
    namespace,
    real_number,
)
from dlbjax.model.bounds import Bounds, check
from dlbjax.model.finite_horizon import lower_bound_horizon
from dlbjax.model.problem import Problem, check_problem, ties
from dlbjax.policies.ridge import largest_growth
from dlbjax.theory.confidence import beta


def offline_regret_bound(
    bounds: Bounds, lam: Number, delta: Number, d: int, rounds: ArrayLike, *, printed: bool = False
) -> Number:
    """Upper bound on the offline regret of DynLin-UCB with β = `theory.beta`, with probability 1 − δ.

        √(8dT·β²·(1 + log T/log(1/ρ̄))·log(1 + TU²/(dλ))), β = max(β_{T−1}, c̄₂U)

    Note:
      It is for `dynlin_ucb(bounds, lam, delta, beta=theory.beta)`. Without the last argument the policy
      plays the printed β, which is no valid radius, and nothing is proven about its regret.
      The paper has β_{T−1} alone, which its proof supports only if that is at least 1 and |J| ≤ 1. No
      action with ‖u‖ ≤ U is worse than the best by more than 2c̄₂U.

    Args:
      bounds: bounds that hold for the problem and were given to the policy.
      lam: its λ.
      delta: its δ.
      d: dimension of an action.
      rounds: T ≥ 1, one or several.
      printed: the theorem as printed, for DynLin-UCB with its printed β. It rests on a false theorem
        (see `confidence_radius`), though no measured regret came near it.

    >>> import dlbjax as dlb
    >>> bounds = dlb.Bounds.of(dlb.problems.synthetic())
    >>> int(offline_regret_bound(bounds, 14.0, 1e-6, 3, 10**6, printed=True))    # measured: 7163
    473556
    """
    rounds = count_of_rounds("rounds", rounds, at_least=1)
    potential = _potential(bounds, lam, delta, d, rounds, printed)
    return (rounds * _longest_epoch(bounds, rounds) * potential) ** 0.5


def gap_regret_bound(
    bounds: Bounds, lam: Number, delta: Number, d: int, rounds: ArrayLike, gap: Number,
    *, printed: bool = False,
) -> Number:  # fmt: skip
    """The same, logarithmic in T, for a problem whose second best vertex is worse than the best by Δ.

        (8d/Δ)·(1 + log T/log(1/ρ̄))·β²·log(1 + TU²/(dλ)), β = max(β_{T−1}, c̄₂U)

    Args:
      bounds: see `offline_regret_bound`, also for the others.
      lam: λ.
      delta: δ.
      d: dimension of an action.
      rounds: T ≥ 1, one or several.
      gap: Δ > 0; see `smallest_gap`.
      printed: with the printed β alone.
    """
    real_number("gap", gap, above=0.0)
    rounds = count_of_rounds("rounds", rounds, at_least=1)
    potential = _potential(bounds, lam, delta, d, rounds, printed)
    return _longest_epoch(bounds, rounds) * potential / gap


def expected_regret_bound(
    bounds: Bounds, lam: Number, delta: Number, d: int, rounds: ArrayLike, *, printed: bool = False
) -> Number:
    """Upper bound on the expected regret of DynLin-UCB with β = `theory.beta`: the paper's theorem.

    The sum of the offline bound, the loss where it fails (probability δ, at most 2c̄₂U per round), and the
    difference of offline and expected regret. With δ = 1/T the second is constant.
    """
    rounds = count_of_rounds("rounds", rounds, at_least=1)
    offline = offline_regret_bound(bounds, lam, delta, d, rounds, printed=printed)
    failure = delta * rounds * 2 * bounds.c2 * bounds.U
    return offline + failure + regret_difference(bounds)


def regret_difference(bounds: Bounds, x1: Number | None = None) -> Number:
    """A bound on |expected regret − offline regret| of any policy at any round.

    ΩΦ̄BU/(1−ρ̄)² + ΩΦ̄‖x₁‖/(1−ρ̄)

    Args:
      bounds: bounds that hold for the problem.
      x1: ‖x₁‖, or a bound on it; X by default.

    >>> import dlbjax as dlb
    >>> problem = dlb.problems.synthetic()
    >>> result = dlb.simulate(problem, dlb.myopic(problem), horizon=50)
    >>> apart = abs(result.expected_regret - result.offline_regret).max()
    >>> bool(apart < regret_difference(dlb.Bounds.of(problem)))
    True
    """
    check(bounds)
    start = bounds.X if x1 is None else real_number("x1", x1, at_least=0.0)
    settled = 1 - bounds.rho
    return bounds.Omega * bounds.Phi / settled * (bounds.B * bounds.U / settled + start)


def lower_bound(d: int, rho: Number, horizon: ArrayLike) -> Number:
    """Lower bound on every policy's offline regret after T rounds, averaged over the 2^d hard instances.

    d√T/√(512e(1−ρ)), NaN for a T below `lower_bound_horizon`. See `problems.hard_instance`.

    >>> import dlbjax as dlb
    >>> lower_bound(2, 0.5, np.array([1, 10_000])).round(3)
    array([  nan, 7.582])
    """
    horizon = count_of_rounds("horizon", horizon, at_least=1)
    xp = namespace(rho, horizon)
    least = lower_bound_horizon(d, rho)
    return xp.where(horizon >= least, d * xp.sqrt(horizon / (512 * xp.e * (1 - rho))), np.nan)


def smallest_gap(problem: Problem) -> Number:
    """Δ, the difference in value between the best vertex and the best one that does not tie with it.

    Its derivatives are those of J(u*) − J(v) for the first such vertex v. Under a JAX transformation a
    problem without a gap gives infinity.

    >>> import dlbjax as dlb
    >>> round(smallest_gap(dlb.problems.synthetic()), 5)
    0.03125
    """
    values = check_problem(problem).values
    xp = namespace(values)
    second = ties(values, among=~ties(values))
    gap = xp.where(second.any(), problem.optimal_value - values[xp.argmax(second)], np.inf)
    if is_traced(gap):
        return gap
    if np.isinf(gap):
        raise ValueError("all actions of the problem have the same value: there is no gap")
    return float(gap)


def _longest_epoch(bounds: Bounds, rounds: Array) -> Number:
    """1 + log T/log(1/ρ̄), which bounds the rounds of every epoch."""
    xp = namespace(bounds, rounds)
    with np.errstate(divide="ignore"):  # at ρ̄ = 0 every epoch is one round long
        return 1 - xp.log(rounds) / xp.log(bounds.rho)


def _potential(
    bounds: Bounds, lam: Number, delta: Number, d: int, rounds: Array, printed: bool
) -> Number:
    """Bound on Σ (J* − J(u_m))² over epochs, by the elliptical potential lemma."""
    width = beta(bounds, lam, delta, d, rounds - 1, printed=printed)
    if not printed:
        width = namespace(width).maximum(width, bounds.c2 * bounds.U)
    return 8 * width**2 * largest_growth(bounds, lam, d, rounds)
