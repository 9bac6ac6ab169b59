"""Figures. Everything drawn here names its axes, its curves and what its bands are."""

from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib.pyplot as plt
import numpy as np

BANDS = {
    "std": "± std over runs",
    "standard error": "± standard error of the mean",
    "quantiles": "10 % to 90 % of runs",
}
# Okabe and Ito's colours, which colour-blind readers can tell apart.
COLOURS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#999999"]
_NAMES = {"realised": "Realised regret", "expected": "Expected regret", "offline": "Offline regret"}


def regret(
    results: Mapping[str, Any],
    kind: str = "expected",
    *,
    band: str = "std",
    scale: str = "linear",
    title: str | None = None,
    ax: Any = None,
) -> Any:
    """Mean regret against rounds, one curve per policy and combination of hyper-parameters.

    Args:
      results: results by name; see `Result` and `Results`.
      kind: "realised", "expected" or "offline".
      band: what the shaded band shows: "std", "standard error" or "quantiles".
      scale: "linear" or "log" (both axes).
      title: above the axes.
      ax: axes to draw into; new ones by default.

    Returns:
      The axes.
    """
    if band not in BANDS:
        raise ValueError(f"band must be one of {', '.join(BANDS)}; got {band!r}")
    if scale not in ("linear", "log"):
        raise ValueError(f"scale must be linear or log; got {scale!r}")
    if ax is None:
        _, ax = plt.subplots(figsize=(6.4, 4.2), layout="constrained")
    runs = set()
    for label, curve in _curves(results, kind):
        colour = COLOURS[len(ax.lines) % len(COLOURS)]
        style = ["-", "--", ":"][len(ax.lines) // len(COLOURS) % 3]
        ax.plot(curve["rounds"], curve["mean"], style, color=colour, label=label, lw=1.6)
        if curve["runs"] > 1:
            low, high = curve[band]
            ax.fill_between(curve["rounds"], low, high, color=colour, alpha=0.2, lw=0)
        runs.add(curve["runs"])
    count = f"{min(runs)}" if len(runs) == 1 else f"{min(runs)} to {max(runs)}"
    shown = f"mean of {count} runs, band: {BANDS[band]}" if max(runs) > 1 else "one run"
    ax.set(xscale=scale, yscale=scale, xlabel="Round", ylabel=f"{_NAMES[kind]} (units of reward)")
    ax.set_title(f"{title}\n{shown}" if title else shown, fontsize="medium")
    if scale == "linear":
        ax.set_xlim(left=0)
        ax.ticklabel_format(axis="x", style="sci", scilimits=(-3, 4))
    ax.grid(alpha=0.3)
    ax.legend(frameon=False)
    return ax


def _curves(results: Mapping[str, Any], kind: str) -> Sequence[tuple[str, dict[str, Any]]]:
    curves = []
    for name, result in results.items():
        summary = result.summary(kind, quantiles=(0.1, 0.9))
        flat = {field: np.reshape(getattr(summary, field), (-1, len(result.rounds)))
                for field in ("mean", "std", "standard_error")}  # fmt: skip
        low, high = (np.reshape(q, (-1, len(result.rounds))) for q in summary.quantiles)
        for i, label in enumerate(result.labels()):
            mean, std, error = (flat[f][i] for f in ("mean", "std", "standard_error"))
            curves.append(
                (
                    label.replace(result.name, name, 1),
                    {
                        "rounds": result.rounds,
                        "mean": mean,
                        "std": (mean - std, mean + std),
                        "standard error": (mean - error, mean + error),
                        "quantiles": (low[i], high[i]),
                        "runs": len(result.seeds),
                    },
                )
            )
    return curves
