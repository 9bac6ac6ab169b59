"""The widgets that set the problem, the policies and the size, each beside the place for its errors."""

import html
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import panel as pn

from dlbjax.lab import views
from dlbjax.lab.settings import (
    FEWEST_RUNS,
    LONGEST,
    MOST_RUNS,
    OFFERS,
    SHORTEST,
    InputError,
    Learner,
    Settings,
)
from dlbjax.lab.sources import base_of, limits_of, sigma_of, table_of
from dlbjax.model.problem import Problem

_SIGMAS = [0.0, *(float(f"{s:.2g}") for s in np.geomspace(1e-4, 1, 41))]
_ROUNDS: list[float] = [int(float(f"{t:.2g}")) for t in np.geomspace(SHORTEST, LONGEST, 31)]
_RUNS: list[float] = [2**k for k in range(11) if FEWEST_RUNS <= 2**k <= MOST_RUNS]
# Sliders over listed values. Not a DiscreteSlider: there the browser and the server both write the text
# beside it, and after a drag the older one may stay.
_LISTED: Mapping[str, tuple[str, list[float]]] = {
    "sigma": ("σ, of the noise", _SIGMAS),
    "rounds": ("rounds", _ROUNDS),
    "runs": ("runs", _RUNS),
}
_ERROR = ":host { color: #b00020; font-size: 13px; }"


class Errors:
    """Places for errors, one beside every field."""

    def __init__(self) -> None:
        self._panes: dict[str, pn.pane.HTML] = {}

    def place(self, field: str) -> pn.pane.HTML:
        """The place beside a field, to be put into the layout."""
        pane = pn.pane.HTML(
            "", visible=False, stylesheets=[_ERROR], margin=(0, 10), sizing_mode="stretch_width"
        )
        self._panes[field] = pane
        return pane

    def show(self, error: InputError | None) -> None:
        """Show an error beside its field, or with None no error."""
        at = error and self._panes.get(error.field, self._panes[""])
        for pane in self._panes.values():
            text = html.escape(str(error)) if pane is at else ""
            if pane.object != text:
                pane.object, pane.visible = text, bool(text)


class Controls:
    """Cards with the widgets of `Settings`.

    Args:
      sources: names of sources by their texts.
      given: the problem of the source "given".
      errors: where errors are shown.
      change: called with the fields that a visitor has changed.
    """

    def __init__(
        self, sources: Mapping[str, str], given: Problem | None, errors: Errors,
        change: Callable[..., None],
    ) -> None:  # fmt: skip
        self._given, self._errors, self._change = given, errors, change
        self._filling = False
        self._settings = Settings()
        self._widgets: dict[str, Any] = {}
        self._listed = {name: list(values) for name, (_, values) in _LISTED.items()}
        self._labels = {name: pn.pane.HTML("", margin=(5, 10, 0, 10)) for name in _LISTED}
        self._learners: dict[str, dict[str, Any]] = {}
        self._table: Any = pn.widgets.Tabulator(pd.DataFrame())  # until there is a problem
        self._table_card: Any = None
        cards = [self._problem_card(sources), self._policies_card(), self._size_card()]
        self.layout = pn.Column(*cards, width=340, margin=(0, 10))

    # --- what a visitor does -------------------------------------------------------------------------

    def _moved(self, name: str, event: Any) -> None:
        if self._filling:
            return
        if name == "source":
            self._change(settings=self._of_source(event.new))
        elif name in ("delay", "seed"):
            self._change(**{name: event.new, "table": None})
        elif name in self._listed:
            self._change(**{name: self._listed[name][event.new]})
        else:
            self._change(**{name: event.new})

    def _of_source(self, source: str) -> Settings:
        """The settings with another source, as it is."""
        learners = self._settings.learners
        if source == "delayed":  # where no multiple of ρ(A)^τ = 0 bounds the powers of A
            learners = tuple(
                replace(each, rho_bar=each.rho_bar or 0.5) if "rho_bar" in each.parameters else each
                for each in learners
            )
        return replace(
            self._settings, source=source, learners=learners, memory=1.0, sigma=None, budget=None, x1=0.0,
            table=None,
        )  # fmt: skip

    def _learner_moved(self, policy: str, name: str, event: Any) -> None:
        if self._filling:
            return
        learners = {each.policy: each for each in self._settings.learners}
        learner = learners.get(policy, Learner(policy))
        try:
            if name == "lam":
                learners[policy] = replace(learner, lam=_number_or_none(policy, event.new))
            elif name == "exact":
                rho_bar = None if event.new else self._learners[policy]["rho_bar"].value
                learners[policy] = replace(learner, rho_bar=rho_bar)
            elif name != "tick":
                learners[policy] = replace(learner, **{name: event.new})
            elif event.new:
                learners[policy] = learner
            else:
                del learners[policy]
        except InputError as error:
            self._errors.show(error)
        else:
            self._change(learners=tuple(learners[name] for name in OFFERS if name in learners))

    def _table_edited(self, event: Any) -> None:
        rows = self._table.value.iloc[:, 1:].to_numpy().tolist()
        self._change(table=tuple(map(tuple, rows)), memory=1.0)

    # --- the widgets follow the state ----------------------------------------------------------------

    def fill(self, settings: Settings) -> None:
        """Bring the widgets in line with the settings."""
        self._settings, self._filling = settings, True
        try:
            base = base_of(settings, self._given)
            values = {name: getattr(settings, name) for name in self._widgets}
            values["sigma"] = sigma_of(base.system) if settings.sigma is None else settings.sigma
            self._fill_budget(limits_of(base.actions), values)
            for name, value in values.items():
                if name in self._listed:
                    self._fill_listed(name, value)
                else:
                    self._widgets[name].value = value
            self._widgets["delay"].visible = settings.source == "delayed"
            self._widgets["seed"].visible = settings.source == "random"
            for policy in OFFERS:
                self._fill_learner(policy, settings.learner(policy))
        finally:
            self._filling = False

    def _fill_listed(self, name: str, value: float) -> None:
        if value not in self._listed[name]:
            self._listed[name] = sorted([*self._listed[name], value])
        values, (label, _) = self._listed[name], _LISTED[name]
        shown = f"{value:,}" if isinstance(value, int) else f"{value:.3g}"
        self._widgets[name].param.update(end=len(values) - 1, value=values.index(value))
        self._labels[name].object = f"{label}: <b>{shown}</b>"

    def _fill_budget(self, limits: Any, values: dict[str, Any]) -> None:
        slider = self._widgets["budget"]
        slider.disabled = limits is None
        if limits is None:
            values["budget"] = slider.value
            return
        low, high = sum(limits.low), sum(limits.high)
        values["budget"] = total = limits.total if values["budget"] is None else values["budget"]
        step = float(f"{(high - low) / 60:.1g}") or 1.0
        slider.param.update(start=min(total, low + step), end=max(total, high), step=step)

    def _fill_learner(self, policy: str, learner: Learner | None) -> None:
        widgets = self._learners[policy]
        widgets["tick"].value = learner is not None
        widgets["box"].visible = learner is not None and bool(learner.parameters)
        if learner is None:
            return
        if "rho_bar" in widgets:
            widgets["exact"].value = learner.rho_bar is None
            widgets["rho_bar"].value = (
                widgets["rho_bar"].value if learner.rho_bar is None else learner.rho_bar
            )
        if "lam" in widgets:
            widgets["lam"].value = "" if learner.lam is None else f"{learner.lam:g}"
        if "scale" in widgets:
            widgets["scale"].value = learner.scale

    def fill_problem(self, problem: Problem) -> None:
        """Show a problem: ρ(A), J*, its action set and its table."""
        system, self._filling = problem.system, True
        try:
            self._widgets["memory"].label = f"memory, a factor on A; ρ(A) = {system.rho:.3g}"
            for learner in self._settings.learners:
                if "rho_bar" in learner.parameters and learner.rho_bar is None:
                    self._learners[learner.policy]["rho_bar"].value = min(0.99, float(system.rho))
        finally:
            self._filling = False
        self._numbers.object = html.escape(
            f"J* = {problem.optimal_value:.4g} at u* = {views.shown(problem.optimal_action)}, "
            f"{len(problem.actions)} vertices"
        )
        picture = views.actions_figure(problem)
        self._actions.param.update(object=picture, visible=picture is not None)
        self._fill_table(problem)

    def _fill_table(self, problem: Problem) -> None:
        across, down = views.table_names(problem.system)
        frame = pd.DataFrame(table_of(problem.system), columns=across)
        frame.insert(0, "to", down)
        if frame.equals(self._table.value):
            return
        if list(frame) == list(self._table.value):
            self._table.value = frame
            return
        editors: dict[str, Any] = {"to": None} | {name: {"type": "number"} for name in across}
        self._table = pn.widgets.Tabulator(
            frame, layout="fit_data", sortable=False, selectable=False, show_index=False, editors=editors,
            sizing_mode="stretch_width",
        )  # fmt: skip
        self._table.on_edit(self._table_edited)
        self._table_card[0] = self._table

    # --- the cards -----------------------------------------------------------------------------------

    def _field(self, name: str, widget: Any) -> pn.Column:
        """A widget for a field, above the place for its errors."""
        self._widgets[name] = widget
        widget.sizing_mode = "stretch_width"
        widget.param.watch(partial(self._moved, name), "value")
        return pn.Column(widget, self._errors.place(name), sizing_mode="stretch_width")

    def _problem_card(self, sources: Mapping[str, str]) -> pn.Card:
        slider = pn.widgets.FloatSlider
        self._table_card = pn.Card(
            pn.Spacer(), self._errors.place("table"), title="the system, editable", collapsed=True, margin=10,
            sizing_mode="stretch_width",
        )  # fmt: skip
        self._numbers = pn.pane.HTML("", margin=(0, 10))
        self._actions = pn.pane.Bokeh(None, sizing_mode="stretch_width")
        return pn.Card(
            self._field("source", pn.widgets.Select(label="source", options=dict(sources))),
            self._field("delay", pn.widgets.IntSlider(label="delay (rounds)", start=1, end=20)),
            self._field("seed", pn.widgets.IntInput(label="number of the random system", start=0, end=10**6)),
            self._field("memory", slider(label="memory", start=0, end=1.5, step=0.01)),
            self._slider("sigma"),
            self._field("budget", slider(label="budget", start=0.1, end=3, step=0.05)),
            self._field("x1", slider(label="x₁, added to every coordinate", start=-2, end=2, step=0.05)),
            self._numbers, self._actions,
            self._table_card,
            title="Problem", sizing_mode="stretch_width",
        )  # fmt: skip

    def _policies_card(self) -> pn.Card:
        rows: list[Any] = [self._errors.place("policies")]
        for policy, offer in OFFERS.items():
            made: dict[str, Any] = {"tick": pn.widgets.Checkbox(label=offer.label, margin=(3, 10))}
            if "rho_bar" in offer.parameters:
                made["rho_bar"] = pn.widgets.FloatSlider(
                    label="ρ̄ it is given", start=0, end=0.99, step=0.01
                )
                made["exact"] = pn.widgets.Checkbox(
                    label="ρ̄ = ρ(A)", value=True, width=100, align="center"
                )
            if "lam" in offer.parameters:
                made["lam"] = pn.widgets.TextInput(label="λ", placeholder="its default", width=120)
            if "scale" in offer.parameters:
                made["scale"] = pn.widgets.FloatSlider(
                    label="scale of β", start=0, end=2, step=0.05, value=1
                )
            for name, widget in made.items():
                widget.param.watch(partial(self._learner_moved, policy, name), "value")
            sliders = [made[name] for name in ("rho_bar", "scale") if name in made]
            for widget in sliders:
                widget.sizing_mode = "stretch_width"
            others = pn.Row(*(made[name] for name in ("exact", "lam") if name in made))
            made["box"] = pn.Column(
                *sliders, others, visible=False, margin=(0, 0, 8, 20), sizing_mode="stretch_width"
            )
            self._learners[policy] = made
            rows += [made["tick"], made["box"], self._errors.place(policy)]
        return pn.Card(*rows, title="Policies", sizing_mode="stretch_width")

    def _size_card(self) -> pn.Card:
        return pn.Card(
            self._slider("rounds"), self._slider("runs"), title="Size", sizing_mode="stretch_width"
        )

    def _slider(self, name: str) -> pn.Column:
        """A slider over the places in a list, below its value."""
        slider = pn.widgets.IntSlider(
            label="", start=0, end=len(_LISTED[name][1]) - 1, show_value=False, tooltips=False,
            margin=(0, 10, 5, 10),
        )  # fmt: skip
        return pn.Column(self._labels[name], self._field(name, slider), sizing_mode="stretch_width")


def _number_or_none(policy: str, text: str) -> float | None:
    try:
        return float(text) if text.strip() else None
    except ValueError:
        raise InputError(
            policy, f"λ must be a number, or empty for its default; got {text!r:.60}"
        ) from None
