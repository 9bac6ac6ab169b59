"""`identify`: from logged actions and rewards to a system."""

import dataclasses
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from dlbjax._arrays import Array, real_array, real_number, whole_number
from dlbjax.actions import ActionSet
from dlbjax.bounds import Bounds
from dlbjax.identification.data import Samples, Units, check_samples, read_samples
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
from dlbjax.problem import Problem
from dlbjax.system import System

_POOR = 1e-5  # share of their spread by which actions must differ from what their past foretells
_LITTLE = 0.05  # R² in free run below which the model is said to explain hardly anything
_COLOURED = 1e-6  # p-value below which one-step errors are said to be correlated,
_EXACT = 1e-6  # unless this is all that they leave of the rewards' variance


@dataclass(frozen=True, eq=False)
class Fit:
    """An identified system and how sure it is.

    Attributes:
      system: the system, whose noise levels are fitted and whose x1 is where the first episode starts.
      baseline: level c that adds to every reward.
      covariance: (1 + d, 1 + d) covariance of the estimates of the baseline and of `system.h`, the
        inverse of the information at the maximum of the likelihood; None without refinement.
      state: (n,) the state predicted for the round after the last.
      order: number of states n.
      order_reason: why this order.
      order_table: hold-out errors of the orders compared; empty where the order was given.
      singular_values: of the Hankel matrix; as many as the order stand out.
      report: how well the model fits.
      warnings: what to beware of.
      model: all outputs, where there are several; `system` weighs them into one reward.
      x1: (E, n) the states from which the episodes start.
      lags: past rounds that the regression used.
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
        margin = real_number("margin", margin, at_least=0.0)
        rho_bar = 1 - (1 - self.system.rho) / (1 + margin)
        bounds = Bounds.of(Problem(self.system, actions), rho_bar)
        names = [field.name for field in dataclasses.fields(bounds)]
        widened = {
            name: (1 + margin) * getattr(bounds, name)
            for name in names
            if name not in ("rho", "Phi")
        }
        return bounds.replace(**widened)

    def plot_order(self, **options: Any) -> Any:
        """Draw what speaks for the order; see `dlbjax.identification.plots.order`."""
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
    actions: Any,
    rewards: Any,
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
    value: Array = None,
    channels: Sequence[str] | None = None,
    progress: bool | None = None,
) -> Fit:
    """Identify a system from logged actions and rewards.

    A regression on past actions and rewards and Ho and Kalman's realisation give a first estimate,
    whatever chose the actions; maximum likelihood refines it and says how sure it is.

    Args:
      actions: (T, d), one row per round, or a list with one such array for each episode.
      rewards: (T,), or (T, m) with several outputs, NaN where missing; or a list of them.
      order: number of states n, or "auto" to compare up to 8 on the last fifth of the data.
      lags: past rounds p of the regression. By default (N/(d+m))^0.4, at least what the order needs
        and at most what leaves five rounds for each coefficient.
      intercept: whether rewards have a baseline c.
      scale: whether to fit in units in which every channel has spread one; results are in the given
        units either way.
      method: "closed_loop", or "open_loop" to regress on actions alone, which is sharper where the
        actions were chosen without regard to the rewards.
      refine: whether to maximise the likelihood. Takes memory in proportion to the data: 2·10⁵ rounds
        of three channels at order 3 take 1.5 GB.
      restarts: starting points of the maximisation: the first estimate, one of half the lags, one by
        the other method, and random changes of the first.
      seed: of those random changes.
      ridge: penalty of the regression, per round and in the units of the fit.
      value: (m,) what a unit of each output is worth as a reward; ones by default.
      channels: names of the action coordinates, for messages.
      progress: show a progress bar; by default where standard error is a terminal and the call is not
        over within two seconds.

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
    n = None if order == "auto" else whole_number('order, unless "auto",', order, at_least=1)
    if method not in ("closed_loop", "open_loop"):
        raise ValueError(f"method must be closed_loop or open_loop; got {method!r}")
    ridge = real_number("ridge", ridge, at_least=0.0)
    restarts = whole_number("restarts", restarts, at_least=1)
    seed = whole_number("seed", seed, at_least=0)
    samples = read_samples(actions, rewards)
    value = real_array("value", np.ones(samples.m) if value is None else value, (samples.m,))
    told = check_samples(samples, intercept, channels)
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
        told.append(
            "too many rewards are missing for a regression on past ones: the first estimate is from the "
            "actions alone, which need not have been chosen without regard to the rewards. "
            + ("It was refined all the same" if refine else "Refine it, or pass fewer lags")
        )
    table, reason = [], "as asked for"
    if n is None:
        table = compare_orders(scaled, lags, how)
        n, reason = choose_order(table)
        if n == table[-1].order:
            told.append(
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
    if not refine:  # the regression knows its gain, but only a guess at the noise behind it
        e = units.y_scale * starting_states(first, scaled)[1]
    report = _report(model, x1, samples, value, e, likelihood, first)
    told += _doubts(excitation(regression, samples.d), first, report, refine)
    for text in told:
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
        warnings=tuple(told),
        model=model,
        x1=x1,
        lags=lags,
    )


def _starts(
    first: Realisation, samples: Samples, lags: int, restarts: int, seed: int, how: Method
) -> list[Realisation]:
    """Where to climb the likelihood from: the first estimate, others, and changes of the first."""
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
    """Units of the state, which the data leave open, that suit bounds on norms: ‖B‖ = ‖ω‖.

    Where the state's noise would then exceed that of the rewards, so that it alone would set the
    bound on both, units in which they are equal.
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
        rho=system.rho,
        phi=float(system.phi),
        shrunk=first.radius >= 1,
    )


def _doubts(excitation: float, first: Realisation, report: Report, refined: bool) -> list[str]:
    doubts = []
    if excitation < _POOR:
        doubts.append(
            "the actions can be foretold from those of the rounds before, so that immediate and "
            "delayed effects are hard to tell apart; vary each channel from round to round"
        )
    if report.shrunk:
        what = "it was the start of the refinement" if refined else "refine it, or lower the order"
        doubts.append(
            f"the first estimate of A had spectral radius {first.radius:.4g} and was shrunk; {what}"
        )
    if report.r2_free_run < _LITTLE:
        doubts.append(
            f"the actions explain {max(report.r2_free_run, 0):.0%} of the rewards' ups and downs: look for "
            "outliers, for another cause of them, and whether rows of actions and rewards belong together"
        )
    exact = report.r2_one_step > 1 - _EXACT
    if refined and report.whiteness < _COLOURED and not exact:
        doubts.append(
            f"one-step errors are correlated (p = {report.whiteness:.1g}): there is more in the data "
            "than the model holds; try a higher order, and look for outliers and drift"
        )
    return doubts
