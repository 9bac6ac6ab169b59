"""Plots of regret. Each names its axes, its curves and the meaning of its bands."""

import textwrap
from collections.abc import Callable, Iterator, Mapping
from itertools import cycle
from typing import TYPE_CHECKING, NamedTuple

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes

if TYPE_CHECKING:
    from dlbjax.results.result import Result

BANDS = {
    "std": "± std over runs",
    "standard error": "± standard error of the mean",
    "quantiles": "10 % to 90 % of runs",
}
# Okabe and Ito's colours, distinct for colour-blind readers.
COLOURS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#999999"]
STYLES = ["-", (0, (4, 1.5)), (0, (1, 1)), "-."]
_NAMES = {"realised": "Realised regret", "expected": "Expected regret", "offline": "Offline regret"}


def regret(
    results: "Mapping[str, Result]",
    kind: str = "expected",
    *,
    band: str = "std",
    scale: str = "linear",
    title: str | None = None,
    top: float | None = None,
    overlays: Mapping[str, Callable[[np.ndarray], np.ndarray]] | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Mean regret against rounds, one curve per policy and combination of hyper-parameters.

    With several policies each has a colour, and its combinations of hyper-parameters have line
    styles, as long as there are enough styles; otherwise every curve has its own colour.

    Args:
      results: results by name; see `Result` and `Results`.
      kind: "realised", "expected" or "offline".
      band: meaning of the shaded band: "std", "standard error" or "quantiles".
      scale: "linear" or "log" (both axes).
      title: title of the axes.
      top: upper limit of the regret axis; curves that end above it are listed below the axes.
      overlays: further curves by name, as functions of the rounds, such as bounds from `dlbjax.theory`.
      ax: axes to plot into; new ones by default.

    Returns:
      The axes.
    """
    if band not in BANDS:
        raise ValueError(f"band must be one of {', '.join(BANDS)}; got {band!r}")
    if scale not in ("linear", "log"):
        raise ValueError(f"scale must be linear or log; got {scale!r}")
    found = list(_curves(results, kind))
    if ax is None:
        _, ax = plt.subplots(figsize=(6.4, 4.2), layout="constrained")
    points = max(len(result.labels()) for result in results.values())
    by_policy = len(results) > 1 and points <= len(STYLES)
    styles = points if by_policy else 1  # per colour
    runs, beyond = set(), []
    for curve in found:
        number, style = (curve.policy, curve.point) if by_policy else (len(ax.lines), 0)
        colour = COLOURS[number % len(COLOURS)]
        dashes = STYLES[(style + styles * (number // len(COLOURS))) % len(STYLES)]
        ax.plot(curve.rounds, curve.mean, linestyle=dashes, color=colour, label=curve.label, lw=1.6)
        if curve.runs > 1:
            ax.fill_between(curve.rounds, *curve.bands[band], color=colour, alpha=0.2, lw=0)
        if top is not None and curve.mean[-1] > top:
            beyond.append(f"{curve.label} {curve.mean[-1]:,.0f}")
        runs.add(curve.runs)
    for dashes, (label, curve_of) in zip(cycle(STYLES[1:]), (overlays or {}).items(), strict=False):
        rounds = found[0].rounds
        ax.plot(rounds, curve_of(rounds), linestyle=dashes, color="black", label=label, lw=1.0)
    count = f"{min(runs)}" if len(runs) == 1 else f"{min(runs)} to {max(runs)}"
    shown = f"mean of {count} runs, band: {BANDS[band]}" if max(runs) > 1 else "one run"
    ax.set(xscale=scale, yscale=scale, xlabel="Round", ylabel=f"{_NAMES[kind]} (units of reward)")
    ax.set_title(f"{title}\n{shown}" if title else shown, fontsize="medium")
    if scale == "linear":
        ax.set_xlim(left=0)
        ax.ticklabel_format(axis="x", style="sci", scilimits=(-3, 4))
    if top is not None:
        ax.set_ylim(0, top)
    if beyond:
        text = textwrap.fill(
            "Beyond the axis at the end: " + "; ".join(beyond), 62, break_on_hyphens=False
        )
        ax.set_xlabel(f"Round\n{text}", fontsize="small")
    ax.grid(alpha=0.3)
    ax.legend(frameon=False)
    return ax


class _Curve(NamedTuple):
    label: str
    policy: int  # index among the results
    point: int  # index among its combinations of hyper-parameters
    rounds: np.ndarray
    mean: np.ndarray
    bands: dict[str, tuple[np.ndarray, np.ndarray]]
    runs: int


def _curves(results: "Mapping[str, Result]", kind: str) -> Iterator[_Curve]:
    for policy, (name, result) in enumerate(results.items()):
        summary = result.summary(kind, quantiles=(0.1, 0.9))
        columns = (summary.mean, summary.std, summary.standard_error, *summary.quantiles)
        rows = zip(*(np.reshape(c, (-1, len(result.rounds))) for c in columns), strict=True)
        for point, (label, row) in enumerate(zip(result.labels(), rows, strict=True)):
            mean, std, error, low, high = row
            bands = {
                "std": (mean - std, mean + std),
                "standard error": (mean - error, mean + error),
                "quantiles": (low, high),
            }
            label = label.replace(result.name, name, 1)
            yield _Curve(label, policy, point, result.rounds, mean, bands, len(result.seeds))
