"""The paper's figures: regret with the paper's limits, and a log-log panel that shows rates."""

from collections.abc import Mapping

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from dlbjax.results import plot
from dlbjax.results.result import Result

STYLE = "dlbjax.results.style"
BAND = "quantiles"  # where runs end at different actions, a std hides all other curves


def comparison_figure(results: Mapping[str, Result], title: str, kind: str = "expected") -> Figure:
    """Plot two panels: linear, cut above DynLin-UCB and Lin-UCB with λ = log T; and log-log.

    Args:
      results: results by name.
      title: title of the first panel.
      kind: measure of regret; the paper's figures show the "offline" regret.
    """
    figure, (left, right, side) = plt.subplots(
        1, 3, figsize=(11, 4.4), layout="constrained", width_ratios=(1, 1, 0.36)
    )
    plot.regret(results, kind, title=title, band=BAND, top=axis_top(results, kind), ax=left)
    _draw_rates(results, kind, right)
    _one_legend([left, right], side)
    return figure


def noise_figure(by_sigma: Mapping[float, Mapping[str, Result]], kind: str = "expected") -> Figure:
    """Plot a column of two panels for each σ; the arguments are as in `comparison_figure`."""
    figure, axes = plt.subplots(
        2, len(by_sigma) + 1, figsize=(4.2 * len(by_sigma) + 1.8, 7.6), layout="constrained",
        width_ratios=[1.0] * len(by_sigma) + [0.42],
    )  # fmt: skip
    for (sigma, results), column in zip(by_sigma.items(), axes.T, strict=False):
        top, title = axis_top(results, kind), f"Synthetic, σ = {sigma:g}"
        plot.regret(results, kind, title=title, band=BAND, top=top, ax=column[0])
        _draw_rates(results, kind, column[1])
    axes[1, -1].set_axis_off()
    _one_legend(list(axes[:, :-1].flat), axes[0, -1])
    return figure


def tightness_figure(by_problem: Mapping[str, Mapping[str, Result]]) -> Figure:
    """Plot final regret against each setting, one line per problem."""
    panels = {
        "over λ": "Ridge parameter λ",
        "over q": "Extra rounds q of every epoch",
        "over ρ̄": "ρ̄ of the bounds",
        "over looseness": "Bounds over the tightest",
    }
    figure, axes = plt.subplots(
        1, len(panels), figsize=(13, 3.8), layout="constrained", sharey=True
    )
    for ax, (name, xlabel) in zip(axes, panels.items(), strict=True):
        for colour, (problem, results) in zip(plot.COLOURS, by_problem.items(), strict=False):
            _draw_final(ax, results[name], colour, "-o", f"{problem}, ours")
            if (printed := f"{name}, paper's") in results:
                _draw_final(ax, results[printed], colour, "--s", f"{problem}, paper's DynLin-UCB")
        ax.set(xlabel=xlabel, yscale="log", xscale="log" if name == "over λ" else "linear")
        ax.grid(alpha=0.3)
    first = next(iter(next(iter(by_problem.values())).values()))
    axes[0].set_ylabel(f"Expected regret after {first.rounds[-1]:,} rounds\n(units of reward)")
    figure.legend(*axes[2].get_legend_handles_labels(), loc="outside lower center", ncols=4,
                  frameon=False, fontsize="small")  # fmt: skip
    figure.suptitle(
        f"DynLin-UCB tight, one setting changed at a time; mean of {len(first.seeds)} runs, "
        "bars: 10 % to 90 % of runs", fontsize="medium",
    )  # fmt: skip
    return figure


def _draw_final(ax: Axes, result: Result, colour: str, style: str, label: str) -> None:
    (values,) = result.axes.values()
    final = result.expected_regret[..., -1]
    mean = final.mean(axis=-1)
    # The mean of few runs can lie outside their quantiles; such a bar has no length.
    bars = np.maximum([mean - np.quantile(final, 0.1, -1), np.quantile(final, 0.9, -1) - mean], 0)
    ax.errorbar(values, mean, bars, fmt=style, color=colour, label=label, lw=1.2, ms=4, capsize=2)


def axis_top(results: Mapping[str, Result], kind: str = "expected") -> float:
    """An upper limit above every curve of DynLin-UCB and Lin-UCB with λ = log T."""
    kept = [
        mean[-1]
        for label, mean in _means(results, kind).items()
        if label.startswith("DynLin-UCB") or label in ("Lin-UCB", "Lin-UCB, λ=log T")
    ]
    return 1.15 * float(np.max(kept))


def _draw_rates(results: Mapping[str, Result], kind: str, ax: Axes) -> None:
    """Plot the last four decades of rounds on logarithmic axes, with the slopes of T and √T."""
    plot.regret(results, kind, title="Logarithmic axes", band=BAND, scale="log", ax=ax)
    rounds = next(iter(results.values())).rounds
    first = int(np.argmax(rounds >= rounds[-1] / 10_000))
    means = np.array(list(_means(results, kind).values()))[:, [first, -1]]
    bottom, top = max(means[:, 0].min() / 3, 1e-3), 2 * means[:, 1].max()
    ax.set(xlim=rounds[[first, -1]], ylim=(bottom, top))
    # Regret grows at most linearly, so that the upper left corner is free.
    begin, end = rounds[first] * (rounds[-1] / rounds[first]) ** np.array([0.04, 0.3])
    height = top * (rounds[-1] / rounds[first]) ** -0.35
    for power, name in ((1.0, "∝ T"), (0.5, "∝ √T")):
        there = height * (end / begin) ** power
        ax.plot([begin, end], [height, there], color="grey", lw=0.8, ls=":")
        ax.annotate(name, (end, there), color="grey", fontsize="small", va="center",
                    xytext=(3, 0), textcoords="offset points")  # fmt: skip


def _means(results: Mapping[str, Result], kind: str) -> dict[str, np.ndarray]:
    """(C,) Mean regret of every curve by label."""
    return {
        label: mean
        for name, result in results.items()
        for label, mean in zip(
            result.labels(name),
            np.reshape(result.summary(kind).mean, (-1, len(result.rounds))),
            strict=True,
        )
    }


def _one_legend(panels: list[Axes], side: Axes) -> None:
    """Replace the panels' legends, which are all the same, by one beside them."""
    handles, labels = panels[0].get_legend_handles_labels()
    for panel in panels:
        if (legend := panel.get_legend()) is not None:
            legend.remove()
    side.set_axis_off()
    side.legend(handles, labels, loc="center left", frameon=False, fontsize="small")
