"""Bokeh figures of the lab. Each names its axes and what its colours mean."""

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy as np
from bokeh.layouts import column
from bokeh.models import (
    ColumnDataSource,
    HoverTool,
    LayoutDOM,
    LinearColorMapper,
    NumeralTickFormatter,
    Range1d,
)
from bokeh.palettes import RdBu11, Viridis256
from bokeh.plotting import figure
from scipy.spatial import ConvexHull, QhullError

from dlbjax.common.arrays import Array
from dlbjax.lab.outcomes import Curve, Run, Shares
from dlbjax.lab.settings import OFFERS, State
from dlbjax.lab.sources import table_of
from dlbjax.model.actions import ActionSet
from dlbjax.model.problem import Problem
from dlbjax.model.system import System
from dlbjax.results.plot import BANDS, COLOURS
from dlbjax.sensitivity import Sensitivity

WINDOW = 150  # rounds of a run that are shown
_LAGS = 40  # of an impulse response, at most
_MOST_AREAS = 8  # vertices with a colour of their own
_SUBSCRIPTS = str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉")


def colour_of(policy: str) -> str:
    """The colour of a policy in all figures."""
    return COLOURS[list(OFFERS).index(policy) % len(COLOURS)]


def numbered(name: str, count: int) -> list[str]:
    """Coordinates of a vector: u₁, u₂, …"""
    return [f"{name}{str(i + 1).translate(_SUBSCRIPTS)}" for i in range(count)]


def shown(action: Array) -> str:
    """An action in a few characters."""
    return f"({', '.join(f'{u:.3g}' for u in action)})"


def table_names(system: System) -> tuple[list[str], list[str]]:
    """What the columns of [[A, B], [ωᵀ, θᵀ]] come from, and what its rows go to."""
    states = numbered("x", system.n)
    return states + numbered("u", system.d), [f"{name}′" for name in states] + ["y"]


def _figure(height: int, **options: Any) -> Any:  # Bokeh's own types do not know its conversions
    made: Any = figure(
        height=height, sizing_mode="stretch_width", min_width=280, tools="pan,box_zoom,reset,save",
        active_drag=None, **options,
    )  # fmt: skip
    made.toolbar.logo = None
    made.title.text_font_size = "12px"
    for axis, kind in ((made.xaxis, "x_axis_type"), (made.yaxis, "y_axis_type")):
        if (
            options.get(kind, "linear") == "linear"
            and kind.replace("axis_type", "range") not in options
        ):
            axis.formatter = NumeralTickFormatter(format="0,0.[000]")
    return made


class RegretFigure:
    """Regret over rounds, one curve and band per policy; other numbers are drawn into the same figure."""

    def __init__(self) -> None:
        self._drawn: Any = None
        self._sources: dict[str, ColumnDataSource] = {}
        self.figure = _figure(430)

    def draw(
        self, curves: Sequence[Curve], overlays: Mapping[str, np.ndarray], state: State
    ) -> bool:
        """Draw curves, and overlays at the rounds of the first; whether the figure is a new one."""
        data = regret_data(curves, overlays, state)
        look = (list(data), state.log_rounds, state.log_regret)
        is_new = look != self._drawn
        if is_new:
            self._begin(curves, overlays, state)
            self._drawn = look
        for name, columns in data.items():
            self._sources[name].data = columns
        runs = sorted({len(curve.result.seeds) for curve in curves})
        self.figure.yaxis.axis_label = f"{state.measure} regret (units of reward)"
        self.figure.title.text = (
            f"{' and '.join(map(str, runs))} runs: mean, {BANDS['quantiles']}"
            if runs else "tick a policy to see its regret"
        )  # fmt: skip
        return is_new

    def _begin(self, curves: Sequence[Curve], overlays: Mapping[str, Any], state: State) -> None:
        kinds = ("log" if log else "linear" for log in (state.log_rounds, state.log_regret))
        made = _figure(430, **dict(zip(("x_axis_type", "y_axis_type"), kinds, strict=True)))
        made.xaxis.axis_label = "round"
        self._sources = {}
        lines = []
        for curve in curves:
            source = self._sources[curve.label] = ColumnDataSource({"rounds": []})
            look: dict[str, Any] = {"color": colour_of(curve.learner.policy), "source": source}
            dashes = ("dashed", "dotted") if curve.kept else ("solid", "dotdash")
            dash = dashes[list(OFFERS).index(curve.learner.policy) // len(COLOURS) % 2]
            made.varea("rounds", "low", "high", fill_alpha=0.08 if curve.kept else 0.18, **look)
            lines.append(
                made.line("rounds", "mean", line_width=2, line_dash=dash, name=curve.label,
                          legend_label=curve.label, **look)
            )  # fmt: skip
        for dash, name in zip(("dotted", "dotdash", "dashed"), overlays, strict=False):
            source = self._sources[name] = ColumnDataSource({"rounds": []})
            made.line(
                "rounds", "mean", color="#777777", line_dash=dash, legend_label=name, source=source
            )
        if lines:
            tips = [("", "$name"), ("round", "@rounds{0,0}"), ("mean", "@mean{0,0.00}"),
                    ("10 % to 90 %", "@low{0,0.00} to @high{0,0.00}")]  # fmt: skip
            made.add_tools(HoverTool(renderers=lines, tooltips=tips))
            made.legend.location = "top_left"
            made.legend.background_fill_alpha = 0.7
            made.legend.label_text_font_size = "11px"
            made.legend.click_policy = "hide"
        self.figure = made


def regret_data(
    curves: Sequence[Curve], overlays: Mapping[str, np.ndarray], state: State
) -> dict[str, dict[str, np.ndarray]]:
    """Columns of each curve; on a logarithmic axis without what is not positive."""
    columns = {}
    for curve in curves:
        summary = curve.result.summary(state.measure, (0.1, 0.9))
        low, high = summary.quantiles
        columns[curve.label] = {
            "rounds": curve.result.rounds, "mean": summary.mean, "low": low, "high": high,
        }  # fmt: skip
    for name, values in overlays.items():
        columns[name] = {"rounds": curves[0].result.rounds, "mean": values}
    if state.log_regret and columns:
        positive = np.concatenate([each["mean"][each["mean"] > 0] for each in columns.values()])
        floor = 0.5 * max(positive.min(), 1e-6 * positive.max()) if len(positive) else 1.0
        for each in columns.values():
            each["mean"] = np.where(each["mean"] > floor, each["mean"], np.nan)
            for edge in {"low", "high"} & set(each):
                each[edge] = np.maximum(each[edge], floor)
    return columns


def vertices_figure(shares: Shares, problem: Problem, log_rounds: bool) -> figure:
    """Which vertices are played, as stacked shares of the runs."""
    made = _figure(430, x_axis_type="log" if log_rounds else "linear", y_range=(0, 1))
    made.title.text = f"{shares.learner.label}: vertices played by {shares.runs} runs"
    made.xaxis.axis_label, made.yaxis.axis_label = "round", "share of runs"
    order = np.argsort(-shares.shares.mean(axis=1), kind="stable")
    drawn = [k for k in order[:_MOST_AREAS] if shares.shares[k].any()]
    below = np.zeros(len(shares.rounds))
    for k, colour in zip(drawn, COLOURS, strict=False):
        above = below + shares.shares[k]
        star = "★ " if problem.gaps[k] <= 1e-12 * abs(float(problem.optimal_value)) else ""
        label = f"{star}{shown(problem.actions.vertices[k])}, J = {problem.values[k]:.3g}"
        made.varea(shares.rounds, below, above, color=colour, fill_alpha=0.75, legend_label=label)
        below = above
    if np.any(below < 1 - 1e-9):
        made.varea(
            shares.rounds, below, np.ones_like(below), color="#dddddd", legend_label="others"
        )
    _legend_below(made)
    return made


def _legend_below(made: figure, columns: int = 2) -> None:
    legend = made.legend[0]
    made.add_layout(legend, "below")
    legend.ncols, legend.label_text_font_size, legend.border_line_color = columns, "11px", None


def run_figure(run: Run, problem: Problem, first: int) -> LayoutDOM:
    """State, reward and vertex of some rounds of one run, with the epochs marked."""
    T, n = run.states.shape
    first = max(1, min(first, T - WINDOW + 1))
    rows = slice(first - 1, first - 1 + WINDOW)
    rounds = np.arange(first, first + len(run.rewards[rows]))
    epochs = run.epochs[(run.epochs >= rounds[0]) & (run.epochs <= rounds[-1])]
    span = Range1d(rounds[0] - 1, rounds[-1] + 1)
    states, rewards, played = (_figure(height, x_range=span) for height in (280, 200, 170))
    for i, name in enumerate(numbered("x", n)):
        look = {"color": COLOURS[i % len(COLOURS)], "legend_label": name}
        states.line(rounds, run.states[rows, i], line_width=1.5, **look)
        states.line(
            rounds, run.shadow[rows, i], line_width=2.5, line_alpha=0.45, line_dash="dashed", **look
        )
    states.title.text = f"{run.learner.label}, run {run.seed} (dashed: without noise)"
    states.legend.visible = n <= len(COLOURS)
    _legend_below(states, 6)
    states.yaxis.axis_label = "hidden state"
    rewards.scatter(rounds, run.rewards[rows], size=4, color="#444444")
    rewards.line(rounds, run.rewards[rows], color="#888888")
    rewards.line(
        rounds, np.full(len(rounds), problem.optimal_value), color=COLOURS[2], line_width=1.5,
        line_dash="dashed",
    )  # fmt: skip
    rewards.yaxis.axis_label = "reward"
    played.step(rounds, run.actions[rows], mode="center", color=COLOURS[0], line_width=2)
    played.yaxis.axis_label, played.xaxis.axis_label = "vertex", "round"
    every_round = len(run.epochs) == T
    for each in (states, rewards, played):
        if not every_round:
            each.vspan(x=epochs - 0.5, line_color="#999999", line_alpha=0.6, line_width=1)
    rewards.title.text = "dashed: J*; " + (
        "a decision every round" if every_round else f"grey: {len(epochs)} epochs begin"
    )
    return column(states, rewards, played, sizing_mode="stretch_width")


def response_figure(problem: Problem) -> LayoutDOM:
    """The impulse response of each channel, and h in its immediate and its carried part."""
    system = problem.system
    markov = [system.markov(lag) for lag in range(_LAGS + 1)]
    sizes = np.abs(markov).max(axis=1)
    settled = np.flatnonzero(sizes > 1e-3 * max(sizes.max(), 1e-300))
    lags = np.arange(max(6, int(settled[-1]) + 2 if len(settled) else 6))[: _LAGS + 1]
    response = _figure(300)
    response.title.text = "impulse response"
    response.xaxis.axis_label, response.yaxis.axis_label = "rounds later", "reward per unit"
    names = numbered("u", system.d)
    for i, name in enumerate(names):
        look = {"color": COLOURS[i % len(COLOURS)], "legend_label": name}
        values = np.array([markov[lag][i] for lag in lags])
        response.line(lags, values, line_width=1.5, **look)
        response.scatter(lags, values, size=5, **look)
    response.legend.background_fill_alpha, response.legend.visible = 0.6, system.d <= len(COLOURS)
    totals = _figure(270, x_range=names)
    totals.title.text = "h per channel: immediate (θ), carried over"
    totals.yaxis.axis_label = "reward per unit and round"
    offset = [(name, -0.18) for name in names]
    totals.vbar(offset, 0.3, system.theta, color=COLOURS[4], legend_label="immediate")
    offset = [(name, 0.18) for name in names]
    totals.vbar(
        offset, 0.3, problem.h - system.theta, color=COLOURS[0], legend_label="carried over"
    )
    totals.scatter(names, problem.h, marker="diamond", size=11, color="black", legend_label="h")
    _legend_below(totals, 3)
    return column(response, totals, sizing_mode="stretch_width")


class ActionsFigure:
    """The action set in two or three dimensions, vertices coloured by J(u)."""

    def __init__(self) -> None:
        self._vertices: np.ndarray | None = None
        self._figure: figure | None = None

    def draw(self, problem: Problem) -> figure | None:
        """The figure for a problem, a new one for other vertices; None in other dimensions."""
        vertices = problem.actions.vertices
        if vertices.shape[1] not in (2, 3):
            return None
        if self._vertices is None or not np.array_equal(vertices, self._vertices):
            self._vertices = np.array(vertices)
            self._source, self._mapper = ColumnDataSource(), LinearColorMapper(palette=Viridis256)
            self._figure = _drawn_actions(problem.actions, self._source, self._mapper)
        flat = vertices if vertices.shape[1] == 2 else vertices @ _VIEW
        best = problem.gaps <= 1e-12 * max(abs(float(problem.optimal_value)), 1e-300)
        low, high = float(problem.values.min()), float(problem.values.max())
        self._mapper.update(low=low, high=high if high > low else low + 1)
        self._source.data = {
            "x": flat[:, 0], "y": flat[:, 1], "J": problem.values, "u": [shown(u) for u in vertices],
            "size": np.where(best, 18, 11), "marker": np.where(best, "star", "circle"),
        }  # fmt: skip
        return self._figure


def _drawn_actions(
    actions: ActionSet, source: ColumnDataSource, mapper: LinearColorMapper
) -> figure:
    vertices, d = actions.vertices, actions.d
    made = _figure(250, toolbar_location=None)
    flat = vertices if d == 2 else vertices @ _VIEW
    edges = _edges(vertices) if actions.convex else []
    made.multi_line(
        [flat[list(edge), 0] for edge in edges],
        [flat[list(edge), 1] for edge in edges],
        color="#aaaaaa",
    )
    dots = made.scatter(
        "x", "y", size="size", marker="marker", source=source, line_color="#333333",
        fill_color={"field": "J", "transform": mapper},
    )  # fmt: skip
    made.add_tools(HoverTool(renderers=[dots], tooltips=[("u", "@u"), ("J(u)", "@J{0.0000}")]))
    made.add_layout(dots.construct_color_bar(width=8), "right")
    if d == 3:
        made.axis.visible = made.grid.visible = False
        made.match_aspect = True
        origin, size = vertices.min(axis=0), np.ptp(vertices, axis=0).max() or 1.0
        tips = np.array([(origin + 0.35 * size * e) @ _VIEW for e in np.eye(3)])
        start = origin @ _VIEW
        made.segment(
            [start[0]] * 3, [start[1]] * 3, tips[:, 0], tips[:, 1], color="#cc4444", line_width=2
        )
        ends = ColumnDataSource({"x": tips[:, 0], "y": tips[:, 1], "text": numbered("u", 3)})
        made.text(
            "x", "y", "text", source=ends, text_color="#cc4444", text_font_size="12px", x_offset=3
        )
    else:
        made.xaxis.axis_label, made.yaxis.axis_label = numbered("u", 2)
    made.title.text = "action set, coloured by J(u); ★ u*"
    return made


_VIEW = np.array(
    [[-0.75, -0.4], [0.85, -0.3], [0.0, 1.0]]
)  # where the axes of three dimensions point


def _edges(vertices: np.ndarray) -> list[tuple[int, int]]:
    """Pairs of vertices that share d − 1 facets; none for a set without an interior."""
    try:
        hull = ConvexHull(vertices)
    except (QhullError, ValueError):
        return []
    facets = np.unique(hull.equations.round(9), axis=0)
    on = np.abs(vertices @ facets[:, :-1].T + facets[:, -1]) < 1e-7 * max(
        1.0, np.abs(vertices).max()
    )
    d = vertices.shape[1]
    pairs = combinations(range(len(vertices)), 2)
    return [pair for pair in pairs if (on[pair[0]] & on[pair[1]]).sum() >= d - 1]


def sensitivity_figure(sensitivity: Sensitivity) -> figure:
    """Derivatives of J* in every entry of [[A, B], [ωᵀ, θᵀ]], as a heat map."""
    slopes, system = sensitivity.derivatives, sensitivity.problem.system
    n, d = system.B.shape
    values = np.block([[slopes.A, slopes.B], [slopes.omega[None], slopes.theta[None]]])
    across, down = table_names(system)
    most = float(np.abs(values).max()) or 1.0
    mapper = LinearColorMapper(palette=RdBu11[::-1], low=-most, high=most)
    rows, columns = np.indices(values.shape)
    entries = table_of(system)
    source = ColumnDataSource({
        "x": [across[j] for j in columns.ravel()], "y": [down[i] for i in rows.ravel()],
        "slope": values.ravel(), "entry": entries.ravel(),
        "text": [f"{v:.2g}" if v else "0" for v in values.ravel()],
    })  # fmt: skip
    made = _figure(60 + 44 * (n + 1), x_range=across, y_range=down[::-1], x_axis_location="above")
    made.title.text = f"∂J*/∂entry: from column to row; J* = {sensitivity.value:.4g}"
    cells = made.rect("x", "y", 1, 1, source=source, line_color="white", fill_alpha=0.75,
                      fill_color={"field": "slope", "transform": mapper})  # fmt: skip
    if n + d <= 12:
        made.text("x", "y", text="text", source=source, text_align="center", text_baseline="middle",
                  text_font_size="12px")  # fmt: skip
    made.grid.visible = False
    made.add_layout(cells.construct_color_bar(width=8), "right")
    tips = [("from", "@x"), ("to", "@y"), ("entry", "@entry"), ("∂J*/∂entry", "@slope")]
    made.add_tools(HoverTool(renderers=[cells], tooltips=tips))
    return made
