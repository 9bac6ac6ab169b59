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
    PARAMETERS,
    SHORTEST,
    InputError,
    Learner,
    Settings,
    sigma_of,
)
from dlbjax.lab.sources import base_of, limits_of, table_of
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
_WIDE: Any = {"sizing_mode": "stretch_width"}


_SLIDERS: Mapping[str, Any] = {
    "rho_bar": {"start": 0, "end": 0.99, "step": 0.01},
    "scale": {"start": 0, "end": 2, "step": 0.05},
}


class Errors:
    """The place of an error: below the widgets of its field."""

    def __init__(self) -> None:
        self._places: dict[str, pn.Column] = {}
        self._at: pn.Column | None = None
        self._pane = pn.pane.HTML("", stylesheets=[_ERROR], margin=(0, 10), **_WIDE)

    def place(self, field: str, *widgets: Any, **options: Any) -> pn.Column:
        """Widgets of a field, to be put into the layout; with "" those of all that have none."""
        self._places[field] = pn.Column(*widgets, **_WIDE, **options)
        return self._places[field]

    def forget(self, field: str) -> None:
        """Take note that the widgets of a field are gone."""
        del self._places[field]

    def show(self, error: InputError | None) -> None:
        """Show an error beside its field, or with None no error."""
        if self._at is not None:
            self._at.remove(self._pane)
        self._at = None
        if error is None:
            return
        text, field = str(error), error.field
        if field in OFFERS and field not in self._places:  # it has no parameters
            text, field = f"{OFFERS[field].label}: {text}", "policies"
        self._pane.object = html.escape(text)
        self._at = self._places.get(field, self._places[""])
        self._at.append(self._pane)


class Box:
    """The widgets of a policy's parameters.

    Args:
      policy: its name.
      errors: where its errors are shown.
      change: called with the parameters that a visitor has changed; a text where one was typed.
    """

    def __init__(self, policy: str, errors: Errors, change: Callable[..., None]) -> None:
        offer = OFFERS[policy]
        made: dict[str, Any] = {}
        for name in offer.parameters:
            label = PARAMETERS[name].label
            if name in _SLIDERS:
                made[name] = pn.widgets.FloatSlider(label=label, **_SLIDERS[name], **_WIDE)
            else:
                made[name] = pn.widgets.TextInput(label=label, placeholder="default", width=85)
            made[name].param.watch(lambda event, name=name: change(**{name: event.new}), "value")
        self._widgets = made
        texts = [widget for name, widget in made.items() if name not in _SLIDERS]
        if "rho_bar" in made:
            self._exact = pn.widgets.Checkbox(label="ρ̄ = ρ(A)", width=100, align="end")
            self._exact.param.watch(
                lambda event: change(rho_bar=None if event.new else made["rho_bar"].value), "value"
            )
            texts.append(self._exact)
        sliders = [made[name] for name in _SLIDERS if name in made]
        title = pn.pane.HTML(f"<b>{html.escape(offer.label)}</b>", margin=(5, 10, 0, 10))
        self.layout = errors.place(policy, title, *sliders, pn.Row(*texts), margin=(0, 0, 8, 0))

    def fill(self, learner: Learner) -> None:
        """Bring the widgets in line with a policy's settings."""
        for name, widget in self._widgets.items():
            value = getattr(learner, name)
            if name not in _SLIDERS:
                widget.value = "" if value is None else f"{value:g}"
            elif value is not None:
                widget.value = value
            elif name == "scale":
                widget.value = 1.0
        if "rho_bar" in self._widgets:
            self._exact.value = learner.rho_bar is None

    def fill_rho(self, rho: float) -> None:
        """Show ρ(A) where that is the ρ̄ that the policy is given."""
        if "rho_bar" in self._widgets and self._exact.value:
            self._widgets["rho_bar"].value = min(0.99, rho)


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
        self._boxes: dict[str, Box] = {}
        self._problem: Problem | None = None
        self._table: Any = None  # until it is looked at
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

    def _ticked(self, event: Any) -> None:
        if not self._filling:
            learners = [
                self._settings.learner(name) or Learner(name)
                for name in OFFERS
                if name in event.new
            ]
            self._change(learners=tuple(learners))

    def _learner_moved(self, policy: str, **values: Any) -> None:
        if self._filling:
            return
        try:
            numbers: Any = {name: _number(policy, name, value) for name, value in values.items()}
            learners = {each.policy: each for each in self._settings.learners}
            learners[policy] = replace(learners[policy], **numbers)
        except InputError as error:
            self._errors.show(error)
        else:
            self._change(learners=tuple(learners.values()))

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
            self._fill_learners(settings.learners)
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

    def _fill_learners(self, learners: tuple[Learner, ...]) -> None:
        self._ticks.value = [each.policy for each in learners]
        tunable = {each.policy: each for each in learners if each.parameters}
        for policy in self._boxes.keys() - tunable:
            del self._boxes[policy]
            self._errors.forget(policy)
        for policy, learner in tunable.items():
            if policy not in self._boxes:
                self._boxes[policy] = Box(
                    policy, self._errors, partial(self._learner_moved, policy)
                )
            self._boxes[policy].fill(learner)
        boxes = [self._boxes[policy].layout for policy in tunable]
        if boxes != list(self._tuning):
            self._tuning.objects = boxes

    def fill_problem(self, problem: Problem) -> None:
        """Show a problem: ρ(A), J*, its action set and its table."""
        self._problem, rho, self._filling = problem, float(problem.system.rho), True
        try:
            self._widgets["memory"].label = f"memory, factor on A (ρ(A) = {rho:.3g})"
            for box in self._boxes.values():
                box.fill_rho(rho)
        finally:
            self._filling = False
        self._numbers.object = html.escape(
            f"J* = {problem.optimal_value:.4g} at u* = {views.shown(problem.optimal_action)}, "
            f"{len(problem.actions)} vertices"
        )
        picture = self._drawing.draw(problem)
        self._actions.param.update(object=picture, visible=picture is not None)
        self._fill_table()

    def _fill_table(self) -> None:
        if self._problem is None or self._table_card.collapsed:
            return
        across, down = views.table_names(self._problem.system)
        frame = pd.DataFrame(table_of(self._problem.system), columns=across)
        frame.insert(0, "to", down)
        if self._table is not None and list(frame) == list(self._table.value):
            if not frame.equals(self._table.value):
                self._table.value = frame
            return
        editors: dict[str, Any] = {"to": None} | {name: {"type": "number"} for name in across}
        self._table = pn.widgets.Tabulator(
            frame, layout="fit_data", sortable=False, selectable=False, show_index=False,
            editors=editors, **_WIDE,
        )  # fmt: skip
        self._table.on_edit(self._table_edited)
        self._table_place[0] = self._table

    # --- the cards -----------------------------------------------------------------------------------

    def _field(self, name: str, widget: Any, *above: Any) -> pn.Column:
        """A widget for a field, above the place for its errors."""
        self._widgets[name] = widget
        widget.sizing_mode = "stretch_width"
        widget.param.watch(partial(self._moved, name), "value")
        return self._errors.place(name, *above, widget)

    def _problem_card(self, sources: Mapping[str, str]) -> pn.Card:
        slider = pn.widgets.FloatSlider
        self._table_place = self._errors.place("table", pn.Spacer())
        self._table_card = pn.Card(
            self._table_place, title="the system, editable", collapsed=True, margin=10, **_WIDE
        )
        self._table_card.param.watch(lambda event: self._fill_table(), "collapsed")
        self._numbers = pn.pane.HTML("", margin=(0, 10))
        self._drawing = views.ActionsFigure()
        self._actions = pn.pane.Bokeh(None, **_WIDE)
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
            title="Problem", **_WIDE,
        )  # fmt: skip

    def _policies_card(self) -> pn.Card:
        options = {offer.label: policy for policy, offer in OFFERS.items()}
        self._ticks = pn.widgets.CheckBoxGroup(options=options, **_WIDE)
        self._ticks.param.watch(self._ticked, "value")
        self._tuning = pn.Column(**_WIDE)
        ticks = self._errors.place("policies", self._ticks)
        return pn.Card(ticks, self._tuning, title="Policies", **_WIDE)

    def _size_card(self) -> pn.Card:
        return pn.Card(self._slider("rounds"), self._slider("runs"), title="Size", **_WIDE)

    def _slider(self, name: str) -> pn.Column:
        """A slider over the places in a list, below its value."""
        last = len(_LISTED[name][1]) - 1
        slider = pn.widgets.IntSlider(
            label="", start=0, end=last, show_value=False, tooltips=False, margin=(0, 10, 5, 10)
        )
        return self._field(name, slider, self._labels[name])


def _number(policy: str, name: str, value: Any) -> float | None:
    """A parameter as it came from its widget, None for its default."""
    if not isinstance(value, str):
        return value
    try:
        return float(value) if value.strip() else None
    except ValueError:
        label = PARAMETERS[name].label
        raise InputError(
            policy, f"{label} must be a number, or empty for its default; got {value!r:.60}"
        ) from None
