"""`identify`: from logged actions and rewards to a system."""

import dataclasses
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from dlbjax.common.arrays import Array, real_array, real_number, short, whole_number
from dlbjax.common.processes import check_not_forked
from dlbjax.identification.data import Episodes, Samples, Units, check_samples, read_samples
from dlbjax.identification.ho_kalman import Realisation, hankel_singular_values, realise
from dlbjax.identification.kalman import Innovations, Rounds, innovations, log_density
from dlbjax.identification.model import StateSpace
from dlbjax.identification.order import (
    Candidate,
    check_order,
    choose_order,
    compare_orders,
    default_lags,
)
from dlbjax.identification.parameters import rough
from dlbjax.identification.predict import starting_states
from dlbjax.identification.refine import maximise
from dlbjax.identification.regression import Method, enough_rows, excitation, regress
from dlbjax.identification.report import Report, explained, free_run, ljung_box
from dlbjax.identification.steady import steady_covariance
from dlbjax.model.actions import ActionSet
from dlbjax.model.bounds import Bounds
from dlbjax.model.problem import Problem
from dlbjax.model.system import System
from dlbjax.policies import Prior

# Thresholds of the warnings.
_POOR = 1e-5  # `excitation` below which the actions are predictable from their past
_LITTLE = 0.05  # R² in free run below which the model explains hardly anything
_COLOURED = 1e-6  # p-value below which one-step errors are correlated,
_EXACT = 1e-6  # unless their share of the rewards' variance is below this


@dataclass(frozen=True, eq=False)
class Fit:
    """An identified system and its uncertainty.

    Attributes:
      system: the system, with fitted noise levels; x1 is the state from which the first episode starts.
      baseline: level c that is added to every reward.
      covariance: (1 + d, 1 + d) covariance of the estimates of the baseline and of `system.h`, the
        inverse of the information at the maximum of the likelihood; None without refinement.
      state: (n,) predicted state of the round after the last.
      order: number of states n.
      order_reason: why this order.
      order_table: hold-out errors of the orders compared; empty if the order was given.
      singular_values: of the Hankel matrix; as many as the order stand out.
      report: how well the model fits.
      warnings: the warnings that `identify` issued.
      model: the model of all outputs; `system` weights them into one reward.
      x1: (E, n) states from which the episodes start.
      lags: number p of past rounds in the regression.
    """

    system: System
    baseline: float
    covariance: np.ndarray | None
    state: np.ndarray
    order: int
    order_reason: str
    order_table: tuple[Candidate, ...]
    singular_values: np.ndarray
    report: Report
    warnings: tuple[str, ...]
    model: StateSpace
    x1: np.ndarray
    lags: int

    @property
    def h_covariance(self) -> np.ndarray | None:
        """(d, d) covariance of the estimate of h; None without refinement."""
        return None if self.covariance is None else self.covariance[1:, 1:]

    @property
    def h_std(self) -> np.ndarray | None:
        """(d,) standard errors of h; None without refinement."""
        return None if self.h_covariance is None else np.sqrt(np.diag(self.h_covariance))

    def bounds(self, actions: ActionSet, margin: float = 0.1) -> Bounds:
        """Bounds for a learner on these actions, every one wider than the estimate by a margin.

        ρ̄ = 1 − (1−ρ)/(1+margin) and Φ̄ = Φ̄(ρ̄); the others are multiplied by 1 + margin.
        """
        factor = 1 + float(real_number("margin", margin, at_least=0.0))
        rho_bar = 1 - (1 - self.system.rho) / factor
        bounds = Bounds.of(Problem(self.system, actions), rho_bar)
        names = [field.name for field in dataclasses.fields(bounds)]
        widened = {
            name: factor * getattr(bounds, name) for name in names if name not in ("rho", "Phi")
        }
        return bounds.replace(**widened)

    def prior(self) -> Prior:
        """What a campaign after the data starts from; see `dlbjax.knowledge_gradient`.

        σ² is the variance of a mean of many rewards times their number, r + ωᵀ(I−A)⁻¹Q(I−A)⁻ᵀω with the
        variances r and Q of reward and state noise. α = θ/h, where that is a share; ρ = ρ(A).
        """
        if self.covariance is None:
            raise ValueError("the fit has no covariance; pass refine=True to identify")
        s = self.system
        reach = np.linalg.solve((np.eye(s.n) - s.A).T, s.omega)
        sigma = np.sqrt(s.reward_noise**2 + reach @ s.state_noise @ reach)
        share = np.divide(s.theta, s.h, out=np.ones(s.d), where=s.h != 0)
        return Prior(
            np.r_[self.baseline, s.h], self.covariance, float(sigma), np.clip(share, 0, 1),
            float(s.rho), float(s.omega @ self.state),
        )  # fmt: skip

    def plot_order(self, **options: Any) -> np.ndarray:
        """Draw the evidence for the order; see `dlbjax.identification.plots.order`."""
        from dlbjax.identification import plots

        return plots.order(self, **options)

    def __str__(self) -> str:
        report, std = self.report, self.h_std
        h = [
            f"{value:.4g}" + ("" if std is None else f" ± {std[i]:.2g}")
            for i, value in enumerate(self.system.h)
        ]
        lines = [
            f"Fit of order {self.order} to {report.samples} rounds ({report.missing} rewards missing)",
            f"  h           {', '.join(h)}",
            f"  baseline    {self.baseline:.4g}"
            + ("" if self.covariance is None else f" ± {self.covariance[0, 0] ** 0.5:.2g}"),
            f"  ρ(A), Φ(A)  {report.rho:.4g}, {report.phi:.4g}",
            f"  noise       reward {self.system.reward_noise:.3g}, state "
            f"{np.sqrt(np.trace(self.system.state_noise)):.3g}",
            f"  R²          {report.r2_one_step:.4f} one step ahead, {report.r2_free_run:.4f} in free run",
            f"  whiteness   p = {report.whiteness:.2g}",
            f"  likelihood  {report.log_likelihood:.2f} (log)",
            f"  order       {self.order_reason}",
        ]
        return "\n".join(lines + [f"  warning     {text}" for text in self.warnings])


def identify(
    actions: Episodes,
    rewards: Episodes,
    order: int | str = "auto",
    *,
    lags: int | None = None,
    intercept: bool = True,
    scale: bool = True,
    method: str = "closed_loop",
    refine: bool = True,
    restarts: int = 3,
    seed: int = 0,
    ridge: float = 1e-8,
    value: Array | None = None,
    channels: Sequence[str] | None = None,
    progress: bool | None = None,
) -> Fit:
    """Identify a system from logged actions and rewards.

    A regression on past actions and rewards and Ho and Kalman's realisation give a first estimate,
    however the actions were chosen; maximum likelihood refines it and gives standard errors.

    Args:
      actions: (T, d), one row per round, or a list with one such array for each episode.
      rewards: (T,), or (T, m) with several outputs, NaN where missing; or a list of them.
      order: number of states n, or "auto" to compare up to 8 on the last fifth of every episode.
      lags: past rounds p of the regression. By default (N/(d+m))^0.4, at least what the order needs
        and at most what leaves five rounds for each coefficient.
      intercept: whether rewards have a baseline c.
      scale: whether to fit in units in which every channel has spread one; results are in the given
        units either way.
      method: "closed_loop", or "open_loop" to regress on actions alone, which is more precise but
        biased if the actions depended on the rewards.
      refine: whether to maximise the likelihood. Takes memory in proportion to the data: 2·10⁵ rounds
        of three channels at order 3 take 1.5 GB.
      restarts: number of starting points of the maximisation: the first estimate, one with half the
        lags, one by the other method, and random perturbations of the first.
      seed: of those perturbations.
      ridge: penalty of the regression, per round and in the units of the fit.
      value: (m,) what a unit of each output is worth as a reward; ones by default.
      channels: names of the action coordinates, for messages.
      progress: whether to show a progress bar; by default if standard error is a terminal and the call
        takes more than two seconds.

    Returns:
      A `Fit`. Without refinement its noise levels are rough and it has no standard errors.

    >>> import dlbjax as dlb, numpy as np
    >>> rng = np.random.default_rng(0)
    >>> actions = rng.uniform(size=(500, 2))
    >>> carried = np.zeros(501)
    >>> for t in range(500):
    ...     carried[t + 1] = 0.5 * carried[t] + actions[t, 0]
    >>> rewards = carried[:500] + 3 * actions[:, 1] + 0.1 * rng.standard_normal(500)
    >>> fit = dlb.identify(actions, rewards, order=1, refine=False)
    >>> fit.system.h.round(1), round(fit.system.rho, 1)
    (array([2., 3.]), 0.5)
    """
    check_not_forked()
    n = None if order == "auto" else whole_number('order, unless "auto",', order, at_least=1)
    if method not in ("closed_loop", "open_loop"):
        raise ValueError(f"method must be closed_loop or open_loop; got {method!r}")
    for name, flag in {"intercept": intercept, "scale": scale, "refine": refine}.items():
        if not isinstance(flag, bool):
            raise ValueError(f"{name} must be True or False; got {short(flag)}")
    ridge = float(real_number("ridge", ridge, at_least=0.0))
    restarts = whole_number("restarts", restarts, at_least=1, at_most=1000)
    seed = whole_number("seed", seed, at_least=0)
    samples = read_samples(actions, rewards)
    weights = np.ones(samples.m) if value is None else value
    value = np.asarray(real_array("value", weights, (samples.m,)))
    issues = check_samples(samples, intercept, channels)
    if n is not None:
        check_order(n, samples)
    units = Units.of(samples, intercept, scale)
    scaled = units.apply(samples)
    how = Method(method == "closed_loop", intercept, ridge)
    if lags is None:
        lags = default_lags(scaled, n, how.closed_loop)
    lags = whole_number("lags", lags, at_least=2)
    if how.closed_loop and not enough_rows(samples, lags, how):
        how = how._replace(closed_loop=False)
        issues.append(
            "too many rewards are missing for a regression on past rewards: the first estimate is from the "
            "actions alone, and biased if they depended on the rewards; "
            + ("it was the start of the refinement" if refine else "refine it, or pass fewer lags")
        )
    table, reason = [], "as asked for"
    if n is None:
        table = compare_orders(scaled, lags, how)
        n, reason = choose_order(table)
        if n == table[-1].order:
            issues.append(
                f"order {n} is the largest that was compared, and a higher one might predict better; "
                "pass a higher order, more lags or more data"
            )
    regression = regress(scaled, lags, how)
    first = realise(regression, n)
    covariance = None
    if refine:
        starts = _starts(first, scaled, lags, restarts, seed, how)
        found = maximise(starts, scaled, intercept=intercept, progress=progress)
        model, x1 = units.undo(found.model, found.x1)
        effects = units.effects(value)
        covariance = effects @ found.covariance @ effects.T
    else:
        model, x1 = units.undo(*rough(first, scaled))
    size = _state_size(model.system(value, x1[0]))
    model, x1 = model.scaled(size), size * x1
    e, likelihood, state = _filter(model, x1, samples)
    if not refine:  # the regression estimates the gain, but the noise levels are only a guess
        e = units.y_scale * starting_states(first, scaled)[1]
    report = _report(model, x1, samples, value, e, likelihood, first)
    issues += _issues(excitation(regression, samples.d), first, report, refine)
    for text in issues:
        warnings.warn(text, stacklevel=2)
    return Fit(
        system=model.system(value, x1[0]),
        baseline=float(value @ model.c),
        covariance=covariance,
        state=state,
        order=n,
        order_reason=reason,
        order_table=tuple(table),
        singular_values=hankel_singular_values(regression),
        report=report,
        warnings=tuple(issues),
        model=model,
        x1=x1,
        lags=lags,
    )


def _starts(
    first: Realisation, samples: Samples, lags: int, restarts: int, seed: int, how: Method
) -> list[Realisation]:
    """Starting points of the maximisation: the first estimate, others, and perturbations of the first."""
    order = len(first.A)
    starts = [first]
    other = how._replace(closed_loop=not how.closed_loop)
    for fewer, way in ((lags // 2, how), (lags, other))[: restarts - 1]:
        try:
            starts.append(realise(regress(samples, max(2, fewer), way), order))
        except ValueError:  # too few lags for the order, or too few rounds for the lags
            continue
    rng = np.random.default_rng(seed)
    while len(starts) < restarts:
        B, C, F = (part * rng.uniform(0.5, 1.5, part.shape) for part in (first.B, first.C, first.F))
        starts.append(first._replace(A=first.A * rng.uniform(0.5, 1.0), B=B, C=C, F=F))
    return starts


def _state_size(system: System) -> float:
    """Units of the state, which the data do not determine, that suit bounds on norms: ‖B‖ = ‖ω‖.

    If the state's noise would then exceed that of the rewards, and alone determine the bound on both,
    units in which they are equal.
    """
    B, omega, noise = (np.linalg.norm(a, 2) for a in (system.B, system.omega, system.state_noise))
    even = np.sqrt(omega / B) if min(omega, B) > 0 else 1.0
    return float(min(even, system.reward_noise / np.sqrt(noise)) if noise > 0 else even)


def _filter(
    model: StateSpace, x1: np.ndarray, samples: Samples
) -> tuple[np.ndarray, float, np.ndarray]:
    """One-step errors (N, m), the log-likelihood, and the state after the last round."""
    with jax.enable_x64(True):
        found, state = _from_steady(model, Rounds.of(samples), x1)
        e = np.where(np.isnan(samples.rewards), np.nan, found.e)
        return e, float(log_density(found)), np.asarray(state)


@jax.jit
def _from_steady(model: StateSpace, rounds: Rounds, x1: Array) -> tuple[Innovations, Array]:
    return innovations(model, rounds, x1, steady_covariance(model))


def _report(
    model: StateSpace,
    x1: np.ndarray,
    samples: Samples,
    value: np.ndarray,
    e: np.ndarray,
    likelihood: float,
    first: Realisation,
) -> Report:
    system = model.system(value, x1[0])
    return Report(
        samples=len(samples.actions),
        missing=samples.missing,
        log_likelihood=likelihood,
        r2_one_step=explained(samples, samples.rewards - e, value),
        r2_free_run=explained(samples, free_run(model, samples, x1), value),
        whiteness=ljung_box(e @ value, samples.lengths, system.n),
        rho=float(system.rho),
        phi=float(system.phi),
        shrunk=first.radius >= 1,
    )


def _issues(excitation: float, first: Realisation, report: Report, refined: bool) -> list[str]:
    """What is doubtful about a fit, for its warnings."""
    issues = []
    if excitation < _POOR:
        issues.append(
            "the actions can be predicted from those of earlier rounds, so that immediate and delayed "
            "effects are hard to separate; vary each channel from round to round"
        )
    if report.shrunk:
        what = "it was the start of the refinement" if refined else "refine it, or lower the order"
        issues.append(
            f"the first estimate of A had spectral radius {first.radius:.4g} and was shrunk; {what}"
        )
    if report.r2_free_run < _LITTLE:
        issues.append(
            f"the actions explain {max(report.r2_free_run, 0):.0%} of the rewards' variance; look for "
            "outliers and other causes, and check that row t of actions and rewards is the same round"
        )
    exact = report.r2_one_step > 1 - _EXACT
    if refined and report.whiteness < _COLOURED and not exact:
        issues.append(
            f"one-step errors are correlated (p = {report.whiteness:.1g}), so that the model misses "
            "something; try a higher order, and look for outliers and drift"
        )
    return issues
