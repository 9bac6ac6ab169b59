"""`identify`: from logged actions and rewards to a system."""

import dataclasses
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import numpy as np
import scipy.stats

from dlbjax.common.arrays import Array, real_array, real_number, short, strings, whole_number
from dlbjax.common.processes import check_not_forked
from dlbjax.identification.controls import Calendar, group_columns
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
    free_parameters,
)
from dlbjax.identification.parameters import rough
from dlbjax.identification.predict import starting_states
from dlbjax.identification.prior import prior_of
from dlbjax.identification.refine import Refined, Search
from dlbjax.identification.regression import Method, enough_rows, excitation, regress
from dlbjax.identification.report import Parts, Report, explained, ljung_box, parts_of
from dlbjax.identification.starts import realisations, with_controls, without_controls
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
_LONG = 0.2  # share of the longest episode within which effects should have faded
_FADED = 20  # by this factor

_MOST_AHEAD = 10**6  # rounds, of which a table is made


class Controls(NamedTuple):
    """Effects of the columns that nobody chooses.

    Attributes:
      names: of the columns.
      effects: (q,) immediate effect of a unit of each.
      std: (q,) standard errors; NaN without refinement.
      means: (q,) mean of each, at which the baseline is counted; 0 without a baseline.
      calendar: the trend and season among them, which are the first columns.
      next_round: number of the round after the last, on the calendar.
    """

    names: tuple[str, ...]
    effects: np.ndarray
    std: np.ndarray
    means: np.ndarray
    calendar: Calendar
    next_round: int

    def ahead(self, rounds: int, controls: Array | None = None) -> np.ndarray:
        """(rounds,) what trend, season and other controls add to the baseline in the next rounds.

        Args:
          rounds: their number.
          controls: as for `columns`.
        """
        return np.asarray(self.columns(rounds, controls) @ self.effects)

    def columns(self, rounds: int, controls: Array | None = None) -> np.ndarray:
        """(rounds, q) trend, season and other controls in the next rounds, less their means.

        Args:
          rounds: their number.
          controls: (rounds, q') values of the columns that `identify` was given as controls; what is not
            given, and the shares of groups, stay at their means.
        """
        rounds = whole_number("rounds", rounds, at_least=0, at_most=_MOST_AHEAD)
        k = len(self.calendar.names)
        columns = np.tile(self.means, (rounds, 1))
        columns[:, :k] = self.calendar.columns(self.next_round + np.arange(rounds))
        if controls is not None:
            shape = (rounds,) if np.ndim(controls) == 1 else (rounds, None)
            given = np.asarray(real_array("controls", controls, shape)).reshape(rounds, -1)
            if k + given.shape[1] > len(self.names):
                raise ValueError(
                    f"controls must have a column for each of {list(self.names[k:])}; got {given.shape[1]}"
                )
            columns[:, k : k + given.shape[1]] = given
        return columns - self.means


@dataclass(frozen=True, eq=False)
class Fit:
    """An identified system and its uncertainty.

    A baseline and effects of controls belong to the fitted model, never to a `System` or a `Problem`, as
    they are the same whatever is played; policies estimate or ignore them.

    Attributes:
      system: the system, with fitted noise levels; x1 is the state from which the first episode starts.
      baseline: level of the rewards without actions, with every control at its mean.
      sigma: standard deviation of the errors of predicting one round ahead.
      covariance: (1 + d + q, 1 + d + q) covariance of the estimates of the baseline, of `system.h` and of the
        controls' effects; None without refinement. It is the inverse of the information at the maximum of the
        likelihood, times N/(N − k) for k fitted parameters and by what makes a normal interval of 95 % as
        wide as Student's. If the order was chosen, it is averaged over the orders compared with their
        weights, each with its distance from the chosen one, so that it counts the uncertainty of the order.
      controls: effects of the columns that nobody chooses.
      state: (n,) predicted state of the round after the last.
      order: number of states n.
      order_reason: why this order.
      order_table: the orders compared; empty if the order was given.
      singular_values: of the Hankel matrix; as many as the order stand out.
      report: how well the model fits.
      parts: of what the fitted rewards consist, round by round.
      warnings: the warnings that `identify` issued.
      model: the model of all outputs; `system` weights them into one reward.
      x1: (E, n) states from which the episodes start.
      lags: number p of past rounds in the regression.
    """

    system: System
    baseline: float
    sigma: float
    covariance: np.ndarray | None
    controls: Controls
    state: np.ndarray
    order: int
    order_reason: str
    order_table: tuple[Candidate, ...]
    singular_values: np.ndarray
    report: Report
    parts: Parts
    warnings: tuple[str, ...]
    model: StateSpace
    x1: np.ndarray
    lags: int

    @property
    def h(self) -> np.ndarray:
        """(d,) effect of a constant action, `system.h`."""
        return np.asarray(self.system.h)

    @property
    def h_covariance(self) -> np.ndarray | None:
        """(d, d) covariance of the estimate of h; None without refinement."""
        d = self.system.d
        return None if self.covariance is None else self.covariance[1 : 1 + d, 1 : 1 + d]

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

    def prior(self, rounds: int = 0, controls: Array | None = None) -> Prior:
        """What a campaign after the data starts from; see `dlbjax.knowledge_gradient`.

        Args:
          rounds: of the campaign, for which trend and season are known; needed if the fit has controls.
          controls: (rounds, q') the other controls in these rounds, as far as they are known; by default
            their means.

        σ² is the variance of a mean of many rewards times their number, r + ωᵀ(I−A)⁻¹Q(I−A)⁻ᵀω with the
        variances r and Q of reward and state noise, but at least that of errors one round ahead: a fit to few
        rounds can see noise that cancels from round to round. α = θ/h, where that is a share; ρ = ρ(A).
        """
        if self.covariance is None:
            raise ValueError("the fit has no covariance; pass refine=True to identify")
        columns = self.controls.columns(rounds, controls)
        if len(columns) == 0 and self.controls.names:
            raise ValueError(
                f"the fit has controls ({', '.join(self.controls.names)}), whose part of the coming rewards "
                "must be known; pass the number of rounds of the campaign, and controls that are planned"
            )
        mean = np.concatenate([[self.baseline], self.h, self.controls.effects])
        return prior_of(self.system, mean, self.covariance, self.sigma, self.state, columns)

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
            *(
                f"  {name:11} {effect:.4g} ± {std:.2g}"
                for name, effect, std in zip(*self.controls[:3], strict=True)
            ),
            f"  ρ(A), Φ(A)  {report.rho:.4g}, {report.phi:.4g}",
            f"  noise       {self.sigma:.3g} one step ahead (reward {self.system.reward_noise:.3g}, state "
            f"{np.sqrt(np.trace(self.system.state_noise)):.3g})",
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
    controls: Episodes | None = None,
    trend: bool = False,
    season: float | None = None,
    harmonics: int = 2,
    first_rounds: Sequence[int] | None = None,
    groups: Sequence[str] | None = None,
    signs: Array | None = None,
    lags: int | None = None,
    intercept: bool = True,
    scale: bool = True,
    method: str = "closed_loop",
    refine: bool = True,
    restarts: int = 2,
    ridge: float = 1e-8,
    value: Array | None = None,
    channels: Sequence[str] | None = None,
    control_names: Sequence[str] | None = None,
    progress: bool | None = None,
) -> Fit:
    """Identify a system from logged actions and rewards.

    Maximum likelihood with a weak prior, started from regressions on past actions and rewards with Ho and
    Kalman's realisation, and from regressions on actions of given memories, however the actions were chosen.
    The prior det(I − AᵀA)/det(I + R⁻¹CQCᵀ) keeps away from oscillations that hardly decay and from rewards
    without noise, which fit the noise of a few hundred rounds; it does not grow with the data.

    Args:
      actions: (T, d), one row per round, or a list with one such array for each episode.
      rewards: (T,), or (T, m) with several outputs, NaN where missing; or a list of them.
      order: number of states n, or "auto" for the best of 1 to 4 by Akaike's criterion with three for each
        parameter.
      controls: (T, q) columns with an immediate effect that nobody chooses (prices, holidays), or a list of
        them. They are never part of a plan or a budget.
      trend: whether rewards have a linear trend.
      season: rounds in a period of the rewards, such as 52 for weeks; None without a season.
      harmonics: number of sines and of cosines of the season.
      first_rounds: number of the first round of every episode, for trend and season; 0 by default.
      groups: name of the group (region) of every episode; each group has a baseline of its own, and
        `Fit.baseline` is their mean over all rounds.
      signs: (d,) or one for all: 1 where only positive effects are possible, −1 where only negative ones
        are, 0 where both are. An effect of the other sign is warned of.
      lags: past rounds p of the regression. By default (N/(d+m))^0.4, at least what the order needs
        and at most what leaves five rounds for each coefficient.
      intercept: whether rewards have a baseline c.
      scale: whether to fit in units in which every channel has spread one; results are in the given
        units either way.
      method: "closed_loop", or "open_loop" to regress on actions alone, which is more precise but
        biased if the actions depended on the rewards.
      refine: whether to maximise the likelihood; without, an order must be given. Takes memory in
        proportion to the data: 2·10⁵ rounds of three channels at order 3 take 1.5 GB.
      restarts: number of starting points from which the maximisation goes on to its end.
      ridge: penalty of the regression, per round and in the units of the fit.
      value: (m,) what a unit of each output is worth as a reward; ones by default.
      channels: names of the action coordinates, for messages.
      control_names: names of the columns of `controls`.
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
    flags = {"intercept": intercept, "scale": scale, "refine": refine, "trend": trend}
    for name, flag in flags.items():
        if not isinstance(flag, bool):
            raise ValueError(f"{name} must be True or False; got {short(flag)}")
    if n is None and not refine:
        raise ValueError(
            "orders are compared by their likelihood; without refinement pass an order"
        )
    ridge = float(real_number("ridge", ridge, at_least=0.0))
    restarts = whole_number("restarts", restarts, at_least=1, at_most=1000)
    samples = read_samples(actions, rewards, controls)
    weights = np.ones(samples.m) if value is None else value
    value = np.asarray(real_array("value", weights, (samples.m,)))
    signs = _signs(signs, samples.d)
    if channels is not None and len(channels := strings("channels", channels)) != samples.d:
        raise ValueError(f"channels must name {samples.d} columns of actions; got {len(channels)}")
    samples, names, calendar, next_round = _with_calendar(
        samples, Calendar.of(trend, season, harmonics), first_rounds, groups, control_names
    )
    issues = check_samples(samples, intercept, channels, names)
    if n is not None:
        check_order(n, samples)
    units = Units.of(samples, intercept, scale)
    scaled = units.apply(samples)
    plain, E = without_controls(scaled, intercept)
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
    regression = regress(plain, lags, how)
    table: dict[Candidate, Refined] = {}
    covariance, first, reason = None, None, "as asked for"
    if refine:
        if n is None:
            table = _compared(scaled, lags, how, restarts, progress)
            n, reason = choose_order(tuple(table))
            refined = list(table.values())[n - 1]
            if n == len(table):
                issues.append(
                    f"order {n} is the largest that was compared, and a higher one might predict better; "
                    "pass a higher order or more data"
                )
        else:
            realise(regression, n)  # raises if the lags are too few for the order
            search = Search(scaled, n, intercept, progress)
            refined = search.maximise(realisations(scaled, n, lags, how), restarts)
        model, x1 = units.undo(refined.model, refined.x1)
        effects = units.effects(value, samples.d)
        spread = _spread(refined, table, n, scaled)
        covariance = effects @ spread @ effects.T
    else:
        assert n is not None
        first = realise(regression, n)
        model, x1 = units.undo(*rough(with_controls(first, E), scaled))
    size = _state_size(model.system(value, x1[0]))
    model, x1 = model.scaled(size), size * x1
    e, likelihood, state = _filter(model, x1, samples)
    if first is not None:  # the regression estimates the gain; the noise levels are only a guess
        e = units.y_scale * starting_states(with_controls(first, E), scaled)[1]
    d = samples.d
    means = units.v_mean[d:]
    parts = parts_of(model, samples, x1, value)
    report = _report(model, x1, samples, value, e, likelihood, first, parts)
    std = (
        np.full(len(names), np.nan) if covariance is None else np.sqrt(np.diag(covariance)[1 + d :])
    )
    found = Controls(tuple(names), value @ model.D[:, d:], std, means, calendar, next_round)
    own = model._replace(B=model.B[:, :d], D=model.D[:, :d], c=model.c + model.D[:, d:] @ means)
    fit = Fit(
        system=own.system(value, x1[0]),
        baseline=float(value @ own.c),
        sigma=float(np.sqrt(np.nanmean((e @ value) ** 2))),
        covariance=covariance,
        controls=found,
        state=state,
        order=n,
        order_reason=reason,
        order_table=tuple(table),
        singular_values=hankel_singular_values(regression),
        report=report,
        parts=parts,
        warnings=(),
        model=own,
        x1=x1,
        lags=lags,
    )
    issues += _issues(fit, excitation(regression, d), first, max(samples.lengths))
    issues += _wrong_signs(fit, signs, channels)
    for text in issues:
        warnings.warn(text, stacklevel=2)
    return dataclasses.replace(fit, warnings=tuple(issues))


def _signs(signs: Array | None, d: int) -> np.ndarray:
    given = 0.0 if signs is None else signs
    found = np.asarray(real_array("signs", given, () if np.ndim(given) == 0 else (d,)))
    if not np.isin(found, (-1, 0, 1)).all():
        raise ValueError(f"signs must be 1, -1 or 0 for each channel; got {short(signs)}")
    return np.broadcast_to(found, d)


def _with_calendar(
    samples: Samples,
    calendar: Calendar,
    first_rounds: Sequence[int] | None,
    groups: Sequence[str] | None,
    names: Sequence[str] | None,
) -> tuple[Samples, list[str], Calendar, int]:
    """The samples with columns of the calendar and the groups, all names, and the next round's number."""
    lengths = samples.lengths
    given_firsts = [0] * len(lengths) if first_rounds is None else first_rounds
    firsts = np.atleast_1d(real_array("first_rounds", given_firsts, (None,))).tolist()
    if len(firsts) != len(lengths):
        raise ValueError(
            f"first_rounds must hold a number for each of the {len(lengths)} episodes; got {len(firsts)}"
        )
    firsts = [whole_number("first_rounds", first, at_least=0) for first in firsts]
    rounds = np.concatenate(
        [first + np.arange(n) for first, n in zip(firsts, lengths, strict=True)]
    )
    q = samples.controls.shape[1]
    numbered = [f"control {i}" for i in range(q)]
    given = numbered if names is None else strings("control_names", names)
    if len(given) != q:
        raise ValueError(f"control_names must name {q} columns of controls; got {len(given)}")
    group_names, indicators = group_columns(groups, lengths)
    columns = [calendar.columns(rounds), samples.controls, indicators]
    joined = dataclasses.replace(samples, controls=np.concatenate(columns, axis=1))
    return joined, [*calendar.names, *given, *group_names], calendar, int(rounds.max()) + 1


def _compared(
    samples: Samples, lags: int, how: Method, restarts: int, progress: bool | None
) -> dict[Candidate, Refined]:
    """The orders compared, with their estimates."""
    searches: dict[int, Search] = {}

    def maximised(order: int, size: int, smaller: Refined | None) -> Refined:
        if size not in searches:
            searches[size] = Search(samples, size, how.intercept, progress)
        starts = realisations(samples, order, lags, how)
        return searches[size].maximise(starts, restarts, smaller)

    return compare_orders(samples, maximised)


def _spread(
    chosen: Refined, table: dict[Candidate, Refined], n: int, samples: Samples
) -> np.ndarray:
    """Covariance of c and h of the chosen order in the units of the fit, as `Fit` has it."""
    N = samples.rewards.size - samples.missing

    def widened(order: int, found: Refined) -> np.ndarray:
        freedom = N - free_parameters(order, samples)
        student = scipy.stats.t.ppf(0.975, freedom) / scipy.stats.norm.ppf(0.975)
        return student**2 * N / freedom * found.covariance

    if not table:
        return widened(n, chosen)
    total = np.zeros_like(chosen.covariance)
    for row, found in table.items():
        off = _c_and_h(found.model) - _c_and_h(chosen.model)
        total += row.weight * (widened(row.order, found) + np.outer(off, off))
    return total


def _c_and_h(model: StateSpace) -> np.ndarray:
    return np.concatenate([model.c, np.ravel(model.h)])


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
        e = np.where(np.isnan(samples.rewards), np.nan, found.e[-len(samples.actions) :])
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
    first: Realisation | None,
    parts: Parts,
) -> Report:
    system = model.system(value, x1[0])
    rewards = samples.rewards @ value
    return Report(
        samples=len(samples.actions),
        missing=samples.missing,
        log_likelihood=likelihood,
        r2_one_step=explained(rewards, rewards - e @ value),
        r2_free_run=explained(rewards, parts.fitted),
        whiteness=ljung_box(e @ value, samples.lengths, system.n),
        rho=float(system.rho),
        phi=float(system.phi),
        shrunk=first is not None and first.radius >= 1,
    )


def _issues(fit: Fit, excitation: float, first: Realisation | None, longest: int) -> list[str]:
    """What is doubtful about a fit, for its warnings."""
    issues, report = [], fit.report
    if excitation < _POOR:
        issues.append(
            "the actions can be predicted from those of earlier rounds, so that immediate and delayed "
            "effects are hard to separate; vary each channel from round to round"
        )
    if first is not None and report.shrunk:
        issues.append(
            f"the estimate of A had spectral radius {first.radius:.4g} and was shrunk; refine it, or lower "
            "the order"
        )
    memory = np.log(_FADED) / -np.log(report.rho) if report.rho > 0 else 0.0
    if memory > _LONG * longest:
        issues.append(
            f"effects take {memory:.0f} rounds to fade to a twentieth (ρ = {report.rho:.3g}), which is long "
            f"for episodes of at most {longest} rounds: they can hardly be separated from a trend or from "
            "the baseline. Add a trend, a season or controls, or more data"
        )
    if report.r2_free_run < _LITTLE:
        issues.append(
            f"the actions explain {max(report.r2_free_run, 0):.0%} of the rewards' variance; look for "
            "outliers and other causes, and check that row t of actions and rewards is the same round"
        )
    exact = report.r2_one_step > 1 - _EXACT
    if first is None and report.whiteness < _COLOURED and not exact:
        issues.append(
            f"one-step errors are correlated (p = {report.whiteness:.1g}), so that the model misses "
            "something; try a higher order, and look for outliers and drift"
        )
    return issues


def _wrong_signs(fit: Fit, signs: np.ndarray, channels: Sequence[str] | None) -> list[str]:
    """Warnings of effects whose sign is not possible."""
    std = np.full(len(signs), np.nan) if fit.h_std is None else fit.h_std
    names = dict(enumerate(channels or [f"u[{i}]" for i in range(len(signs))]))
    return [
        f"the effect of {names[i]} is {fit.h[i]:.3g} ± {std[i]:.2g}, of the "
        "wrong sign: something else moves with it, such as a season, a trend or a price. Add it to the "
        "controls, and do not decide by this fit"
        for i in np.flatnonzero(signs * fit.h < 0).tolist()
    ]
