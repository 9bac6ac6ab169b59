"""Plots of regret. Each names its axes, its curves and the meaning of its bands."""

import textwrap
from collections.abc import Callable, Mapping, Sequence
from itertools import cycle
from typing import TYPE_CHECKING, Any, NamedTuple

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import LogNorm, Normalize, is_color_like

from dlbjax.common.arrays import instance_of, real_number
from dlbjax.common.hints import hint

if TYPE_CHECKING:
    from dlbjax.results.result import Colours, Result

BANDS = {
    "std": "± std over runs",
    "standard error": "± standard error of the mean",
    "quantiles": "10 % to 90 % of runs",
}
# Okabe and Ito's colours, distinct for colour-blind readers; also in style.mplstyle.
COLOURS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#999999"]
STYLES = ["-", (0, (4, 1.5)), (0, (1, 1)), "-."]
MOST = len(COLOURS) * len(STYLES)  # curves that look different
_NAMES = {"realised": "Realised regret", "expected": "Expected regret", "offline": "Offline regret"}


def regret(
    results: "Mapping[str, Result]",
    kind: str = "expected",
    *,
    curves: Sequence[str] | None = None,
    colours: "Colours" = None,
    labels: Mapping[str, str] | None = None,
    legend: bool = True,
    band: str | None = "std",
    scale: str | tuple[str, str] = "linear",
    title: str | None = None,
    top: float | None = None,
    overlays: Mapping[str, Callable[[np.ndarray], np.ndarray]] | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Mean regret against rounds, one curve per policy and combination of hyper-parameters.

    With several policies each has a colour, and its combinations of hyper-parameters have line
    styles, as long as there are enough styles; otherwise every curve has its own colour. Many values
    of one numeric axis of one policy are coloured by value, with a colour bar.

    Args:
      results: results by name; see `Result` and `Results`.
      kind: "realised", "expected" or "offline".
      curves: names of policies and labels of curves to show, in this order, as in `Results.sel`; all by
        default.
      colours: colours by name of a policy or label of a curve, or a list in the order of the curves.
      labels: texts for the legend, by name of a policy or label of a curve.
      legend: whether to draw a legend (or a colour bar).
      band: meaning of the shaded band: "std", "standard error", "quantiles" or None for no band.
      scale: "linear" or "log" for both axes, or one for each, such as ("log", "linear").
      title: title of the axes.
      top: upper limit of the regret axis; curves that end above it are listed below the axes.
      overlays: further curves by name, as functions of the rounds, such as bounds from `dlbjax.theory`.
      ax: axes to plot into; new ones by default.

    Returns:
      The axes.

    >>> import dlbjax as dlb
    >>> problem = dlb.problems.synthetic()
    >>> policies = {"myopic": dlb.myopic(problem), "best": dlb.clairvoyant(problem)}
    >>> results = dlb.simulate(problem, policies, horizon=1000, seeds=5)
    >>> ax = results.plot(
    ...     "offline", colours={"myopic": "crimson"}, labels={"best": "clairvoyant"}, band=None
    ... )
    >>> [text.get_text() for text in ax.get_legend().get_texts()]
    ['myopic', 'clairvoyant']
    """
    if band is not None and band not in BANDS:
        raise ValueError(f"band must be one of {', '.join(BANDS)}, or None; got {band!r}")
    xscale, yscale = (scale, scale) if isinstance(scale, str) else scale
    for name in (xscale, yscale):
        if name not in ("linear", "log"):
            raise ValueError(
                f"scale must be linear or log, or one of them for each axis; got {name!r}"
            )
    for name, mapping in (("labels", labels), ("overlays", overlays)):
        instance_of(name, mapping, Mapping | None, "a mapping by name, or None")
    instance_of("ax", ax, Axes | None, "axes of matplotlib, or None")
    top = None if top is None else real_number("top", top)
    found = _curves(results, kind, curves)
    by_value = _colour_by_value(found) if colours is None else None
    if len(found) > MOST and by_value is None and colours is None:
        shown = ", ".join(curve.label for curve in found[:3])
        raise ValueError(
            f"{len(found)} curves are too many to look different; select up to {MOST} by their labels with "
            f"curves=[…] or sel(…), or give colours. The labels are {shown}, …"
        )
    looks = _looks(found, by_value)
    looks = _recoloured(found, looks, colours)
    texts = _renamed(found, labels)
    if ax is None:
        _, ax = plt.subplots(figsize=(6.4, 4.2), layout="constrained")
    floor = _floor(found) if yscale == "log" else -np.inf
    faint = max(0.05, min(0.2, 0.6 / len(found)))  # so that bands on top of each other stay light
    beyond = []
    for curve, (colour, dashes), text in zip(found, looks, texts, strict=True):
        mean = np.where(curve.mean > floor, curve.mean, np.nan)
        ax.plot(curve.rounds, mean, linestyle=dashes, color=colour, label=text, lw=1.6)
        if curve.runs > 1 and band is not None:
            edges = np.maximum(curve.bands[band], floor)  # ends at the foot of a logarithmic axis
            face, edge = (colour, faint), (colour, 3 * faint)
            ax.fill_between(curve.rounds, *edges, facecolor=face, edgecolor=edge, lw=0.5)
        if top is not None and curve.mean[-1] > top:
            beyond.append(f"{text} {curve.mean[-1]:,.0f}")
    for dashes, (label, curve_of) in zip(cycle(STYLES[1:]), (overlays or {}).items(), strict=False):
        rounds = found[0].rounds
        ax.plot(rounds, curve_of(rounds), linestyle=dashes, color="black", label=label, lw=1.0)
    said = _meaning({curve.runs for curve in found}, band)
    ax.set_title(f"{title}\n{said}" if title else said, fontsize="medium")
    ax.set(xscale=xscale, yscale=yscale, xlabel="Round", ylabel=f"{_NAMES[kind]} (units of reward)")
    if xscale == "linear":
        ax.set_xlim(left=0)
        ax.ticklabel_format(axis="x", style="sci", scilimits=(-3, 4))
    if yscale == "log" and ax.get_autoscaley_on():
        ax.set_ylim(bottom=floor, auto=True)
    if top is not None:
        ax.set_ylim(0 if yscale == "linear" else None, top)
    if beyond:
        text = textwrap.fill(
            "Beyond the axis at the end: " + "; ".join(beyond), 62, break_on_hyphens=False
        )
        ax.set_xlabel(f"Round\n{text}", fontsize="small")
    ax.grid(alpha=0.3)
    if legend and by_value is not None:
        ax.figure.colorbar(by_value, ax=ax, label=found[0].axis)
    elif legend and len(ax.lines) > len(COLOURS):
        columns = -(-len(ax.lines) // 20)
        ax.legend(frameon=False, fontsize="small", ncols=columns, loc="center left",
                  bbox_to_anchor=(1.0, 0.5))  # fmt: skip
    elif legend:
        ax.legend(frameon=False)
    return ax


class _Curve(NamedTuple):
    label: str
    name: str  # of the policy
    policy: int  # index among the results
    point: int  # index among its combinations of hyper-parameters
    axis: str | None  # symbol and
    value: Any  # value of the only axis, if there is just one
    rounds: np.ndarray
    mean: np.ndarray
    bands: dict[str, tuple[np.ndarray, np.ndarray]]
    runs: int


_Look = tuple[Any, Any]  # colour and dashes


def _curves(
    results: "Mapping[str, Result]", kind: str, chosen: Sequence[str] | None
) -> list[_Curve]:
    from dlbjax.results.result import Results, symbol

    if chosen is not None:
        results = Results(results).sel(*([chosen] if isinstance(chosen, str) else chosen))
    if not results:
        raise ValueError("there is no result to plot")
    found = []
    for policy, (name, result) in enumerate(results.items()):
        summary = result.summary(kind, quantiles=(0.1, 0.9))
        columns = (summary.mean, summary.std, summary.standard_error, *summary.quantiles)
        rows = zip(*(np.reshape(c, (-1, len(result.rounds))) for c in columns), strict=True)
        axis, values = next(iter(result.axes.items())) if len(result.axes) == 1 else (None, None)
        sign = None if axis is None else symbol(axis)
        for point, (label, row) in enumerate(zip(result.labels(name), rows, strict=True)):
            mean, std, error, low, high = row
            bands = {
                "std": (mean - std, mean + std),
                "standard error": (mean - error, mean + error),
                "quantiles": (low, high),
            }
            value = None if values is None else values[point]
            runs = len(result.seeds)
            found.append(
                _Curve(label, name, policy, point, sign, value, result.rounds, mean, bands, runs)
            )
    return found


def _colour_by_value(found: list[_Curve]) -> ScalarMappable | None:
    """Colours of the values of a numeric axis, if it has more than there are distinct colours."""
    one_policy = found[-1].policy == 0 and found[0].axis is not None
    if not one_policy or len(found) <= len(COLOURS) or isinstance(found[0].value, str):
        return None
    values = np.array([curve.value for curve in found], dtype=float)
    wide = values.min() > 0 and values.max() > 30 * values.min()
    norm = (LogNorm if wide else Normalize)(values.min(), values.max())
    return ScalarMappable(norm, "viridis")


def _looks(found: list[_Curve], by_value: ScalarMappable | None) -> list[_Look]:
    if by_value is not None:
        return [(by_value.to_rgba(curve.value), "-") for curve in found]
    points = max(curve.point for curve in found) + 1
    by_policy = found[-1].policy > 0 and points <= len(STYLES)
    styles = points if by_policy else 1  # per colour
    looks: list[_Look] = []
    for place, curve in enumerate(found):
        number, style = (curve.policy, curve.point) if by_policy else (place, 0)
        dashes = STYLES[(style + styles * (number // len(COLOURS))) % len(STYLES)]
        looks.append((COLOURS[number % len(COLOURS)], dashes))
    return looks


def _recoloured(found: list[_Curve], looks: list[_Look], colours: "Colours") -> list[_Look]:
    if colours is None:
        return looks
    if isinstance(colours, Mapping):
        _check_names("colours", colours, found)
        wanted = [colours.get(c.label, colours.get(c.name)) for c in found]
    else:
        wanted = list(colours)
        if len(wanted) != len(found):
            raise ValueError(f"colours must be {len(found)}, one per curve; got {len(wanted)}")
    for colour in wanted:
        if colour is not None and not is_color_like(colour):
            raise ValueError(f"colours must be colours of matplotlib; got {colour!r:.60}")
    return [(look[0] if c is None else c, look[1]) for look, c in zip(looks, wanted, strict=True)]


def _renamed(found: list[_Curve], labels: Mapping[str, str] | None) -> list[str]:
    if labels is None:
        return [curve.label for curve in found]
    _check_names("labels", labels, found)
    return [
        labels.get(c.label) or labels.get(c.name, c.name) + c.label.removeprefix(c.name)
        for c in found
    ]


def _check_names(what: str, given: Mapping[str, Any], found: list[_Curve]) -> None:
    known = dict.fromkeys([c.name for c in found] + [c.label for c in found])
    for name in given:
        if name not in known:
            raise ValueError(f"{what} has no policy or curve {name!r}{hint(str(name), known)}")


def _floor(found: list[_Curve]) -> float:
    """Foot of a logarithmic axis: half of the least positive mean, at most six decades below the largest."""
    means = np.concatenate([curve.mean for curve in found])
    positive = means[means > 0]
    return 0.5 * max(positive.min(), 1e-6 * positive.max()) if len(positive) else 1.0


def _meaning(runs: set[int], band: str | None) -> str:
    if max(runs) == 1:
        return "one run"
    count = f"{min(runs)}" if len(runs) == 1 else f"{min(runs)} to {max(runs)}"
    return f"mean of {count} runs" + ("" if band is None else f", band: {BANDS[band]}")
