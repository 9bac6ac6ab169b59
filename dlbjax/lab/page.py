"""The page of one visitor: controls on one side, views on the other, and a state that both follow."""

import asyncio
import html
import io
from collections.abc import Callable
from functools import partial
from typing import Any

import panel as pn
from matplotlib.figure import Figure
from panel.chat.icon import ChatCopyIcon

from dlbjax.lab import views
from dlbjax.lab.computation import MOST_SECONDS, Queue, Ticket
from dlbjax.lab.controls import Controls, Errors
from dlbjax.lab.outcomes import Computer, Curve, Outcome
from dlbjax.lab.script import BAND, script_of
from dlbjax.lab.settings import (
    FEWEST_RUNS,
    GIVEN,
    LONGEST,
    MOST_POLICIES,
    MOST_ROUNDS,
    MOST_RUNS,
    MOST_STATES,
    MOST_VERTICES,
    SHORTEST,
    SOURCES,
    VIEWS,
    InputError,
    State,
)
from dlbjax.lab.tables import final_table, overlays_of, regret_csv, sensitivity_table
from dlbjax.model.problem import Problem
from dlbjax.results.result import Results

_SHOW_PROGRESS = 0.5  # seconds after which a computation shows how far it is
_LIMITS = (
    f"Limits: {FEWEST_RUNS} to {MOST_RUNS} runs, {SHORTEST:,} to {LONGEST:,} rounds, runs × rounds up to "
    f"{MOST_ROUNDS:,} for each of up to {MOST_POLICIES} policies, {MOST_VERTICES} vertices, {MOST_STATES} "
    f"coordinates of the state, {MOST_SECONDS:.0f} s for a picture."
)
_SMALL = ":host { color: #555; font-size: 13px; }"
_STAYS = (
    "@media (min-width: 840px) { :host { position: sticky; top: 0; } }"  # while controls scroll
)
_CELLS = "th, td { white-space: nowrap; }"  # a phone scrolls them
_CODE = "textarea { font-family: monospace; font-size: 11px; white-space: pre; }"


class Page:
    """One visitor's page.

    Args:
      given: a problem to offer beside the built-in ones, and to start with.
      name: what to call it.
      query: the query of the address that was opened.
    """

    def __init__(self, given: Problem | None = None, name: str = "", query: str = "") -> None:
        self._given = given
        self._computer = Computer(given)
        self._queue = Queue(self)
        self._document = pn.state.curdoc
        self._filling = self._shown = False
        self._curves: list[Curve] = []
        self._run: Any = None
        self._regret = views.RegretFigure()
        self._errors = Errors()
        sources = {text: source for source, text in SOURCES.items()}
        sources = sources if given is None else {name or "your problem": GIVEN} | sources
        self._controls = Controls(sources, given, self._errors, self._change)
        self.layout = self._layout()
        start, error = State() if given is None else State().change(source=GIVEN), None
        try:
            self.state = State.of_query(query) if query else start
            self._fill()
        except InputError as rejected:
            self.state, error = start, rejected
            self._fill()
        if error is not None:
            self._address.object = html.escape(f"{error}. The page starts from its defaults.")
            self._address.visible = True

    # --- from a change to a picture ------------------------------------------------------------------

    def start(self) -> None:
        """Compute the first picture."""
        self._queue.put(partial(self._computer.compute, self.state))

    def close(self) -> None:
        """End what is computed for this visitor."""
        self._queue.close()

    def _change(self, **values: Any) -> None:
        """Change the state and compute its picture; what is rejected is said beside its field."""
        if self._filling:
            return
        try:
            self.state = self.state.change(**values)
        except InputError as error:
            self._complain(error)
            return
        self._fill()
        self._errors.show(None)
        if pn.state.location is not None:
            query = self.state.query()
            pn.state.location.search = f"?{query}" if query else ""
        self.start()

    def progress(self, ticket: Ticket) -> None:
        """Show how far a computation is, if it takes long; end it where the browser is gone."""
        if self._is_left():
            ticket.cancel()
        elif ticket.began is None or ticket.seconds > _SHOW_PROGRESS:
            self._later(partial(self._progress, ticket))

    def show(self, outcome: Outcome, ticket: Ticket) -> None:
        """Show a picture."""
        self._later(partial(self._show, outcome, ticket.seconds))

    def reject(self, error: InputError) -> None:
        """Say why there is no picture; the last one stays."""
        self._later(partial(self._complain, error))

    def _is_left(self) -> bool:
        """Whether no browser is connected; its session is kept for a while."""
        context: Any = None if self._document is None else self._document.session_context
        return context is not None and context.session.connection_count == 0

    def _later(self, change: Callable[[], None]) -> None:
        """Change the document: under its lock on a server, at once in a notebook."""
        if self._document is not None and self._document.session_context is not None:
            self._document.add_next_tick_callback(change)
        else:
            change()

    # --- what is shown -------------------------------------------------------------------------------

    def _progress(self, ticket: Ticket) -> None:
        done, total, seconds = ticket.done, ticket.total, ticket.seconds
        self._bar.visible = True
        if ticket.began is None:
            self._bar.value, self._status.object = -1, "waiting for other visitors…"
        elif done == 0:
            self._bar.value = -1
            self._status.object = f"preparing tables, compiling what is new… {seconds:.0f} s"
        else:
            self._bar.value = min(100, int(100 * done / max(total, 1)))
            self._status.object = (
                f"{done / 1e6:.1f} of {total / 1e6:.1f} million rounds… {seconds:.0f} s"
            )

    def _show(self, outcome: Outcome, seconds: float) -> None:
        state, problem, content = outcome.state, outcome.problem, outcome.content
        self._bar.visible, self._shown = False, True
        self._errors.show(None)
        if state.view == "regret":
            self._show_regret(content, problem, state)
        elif state.view == "vertices":
            picture = content and views.vertices_figure(content, problem, state.log_rounds)
            self._panes["vertices"].object = picture
        elif state.view == "run":
            self._run = content and (content, problem)
            self._show_run()
        elif state.view == "system":
            self._panes["system"].object = views.response_figure(problem)
        else:
            self._panes["sensitivity"].object = views.sensitivity_figure(content)
            self._panes["entries"].object = sensitivity_table(content)
        rounds = outcome.simulated
        work = (
            f"{rounds / 1e6:.2f} million rounds simulated" if rounds else "nothing new to simulate"
        )
        empty = state.view in ("regret", "vertices", "run") and not content
        self._status.object = "Tick a policy." if empty else f"{seconds:.2f} s, {work}"
        self._controls.fill_problem(problem)
        self._script.value = self._copy.value = script_of(state, self._given)

    def _show_regret(self, curves: list[Curve], problem: Problem, state: State) -> None:
        self._curves = curves
        overlays = overlays_of(curves, problem, state) if state.overlays and curves else {}
        if self._regret.draw(curves, overlays, state):
            self._panes["regret"].object = self._regret.figure
        self._panes["final"].object = final_table(curves)

    def _show_run(self) -> None:
        self._first.visible = bool(self._run)
        if self._run:
            run, problem = self._run
            self._first.end = max(2, len(run.rewards) - views.WINDOW + 1)
            self._panes["run"].object = views.run_figure(run, problem, int(self._first.value or 1))
        else:
            self._panes["run"].object = None

    def _complain(self, error: InputError) -> None:
        self._bar.visible = False
        self._errors.show(error)
        self._status.object = (
            "The last picture stays until this is corrected."
            if self._shown
            else "There is no picture until this is corrected."
        )

    def _fill(self) -> None:
        """Bring the widgets in line with the state."""
        state, self._filling = self.state, True
        try:
            self._controls.fill(state.settings)
            for name, widget in self._widgets.items():
                widget.value = getattr(state, name)
            options = {each.label: each.policy for each in state.settings.learners}
            for select in self._selects:
                select.options = options
                select.value = state.subject if state.subject in options.values() else None
                if select.value is None and options:
                    select.value = next(iter(options.values()))
            self._tabs.active = VIEWS.index(state.view)
            self._drop.visible = state.kept is not None
            self._kept.object = "" if state.kept is None else "dashed: the settings that were kept"
        finally:
            self._filling = False

    # --- the layout ----------------------------------------------------------------------------------

    def _layout(self) -> pn.viewable.Viewable:
        small = partial(pn.pane.HTML, stylesheets=[_SMALL], margin=(2, 10))
        self._status, self._kept = small("Loading…"), small("")
        self._address = small("", visible=False)
        self._bar = pn.indicators.Progress(
            value=-1, max=100, visible=False, sizing_mode="stretch_width", height=6, margin=(0, 10)
        )
        main = pn.Column(
            self._views(), self._bar, pn.FlexBox(self._status, self._kept), self._errors.place(""),
            self._compare(), self._take_away(), small(_LIMITS), sizing_mode="stretch_width",
            min_width=300, styles={"flex": "1 1 480px"}, stylesheets=[_STAYS],
        )  # fmt: skip
        title = pn.pane.HTML(
            "<b style='font-size: 20px'>dlbjax lab</b> drag a parameter, watch the regret"
        )
        # Where both do not fit side by side, the views come first.
        body = pn.FlexBox(
            self._controls.layout, main, flex_wrap="wrap-reverse", align_items="flex-end",
            sizing_mode="stretch_width",
        )  # fmt: skip
        return pn.Column(title, self._address, body, sizing_mode="stretch_width")

    def _views(self) -> pn.Tabs:
        wide: Any = {"sizing_mode": "stretch_width"}
        self._panes: dict[str, Any] = {name: pn.pane.Bokeh(None, **wide) for name in VIEWS}
        for name in ("final", "entries"):
            self._panes[name] = pn.pane.DataFrame(None, index=False, stylesheets=[_CELLS], **wide)
        self._widgets = {
            "measure": pn.widgets.RadioButtonGroup(options=["expected", "offline", "realised"]),
            "log_rounds": pn.widgets.Checkbox(label="log rounds"),
            "log_regret": pn.widgets.Checkbox(label="log regret"),
            "overlays": pn.widgets.Checkbox(label="bounds"),
            "run": pn.widgets.IntInput(
                label="run (its seed)", start=0, end=MOST_RUNS - 1, width=110
            ),
        }
        for name, widget in self._widgets.items():
            widget.param.watch(lambda event, name=name: self._change(**{name: event.new}), "value")
        self._selects = [pn.widgets.Select(label="policy", width=180) for _ in range(2)]
        for select in self._selects:
            select.param.watch(lambda event: self._change(subject=event.new or ""), "value")
        self._first = pn.widgets.IntSlider(label="first round shown", start=1, end=2, **wide)
        self._first.param.watch(lambda event: self._show_run(), "value")
        choices = [
            self._widgets[name] for name in ("measure", "log_rounds", "log_regret", "overlays")
        ]
        scroll = pn.Column(self._panes["final"], styles={"overflow-x": "auto"}, **wide)
        entries = pn.Column(self._panes["entries"], styles={"overflow-x": "auto"}, **wide)
        which = self._errors.place("run", pn.FlexBox(self._selects[1], self._widgets["run"]))
        self._tabs = pn.Tabs(
            ("Regret", pn.Column(
                pn.FlexBox(*choices, align_items="center"), self._panes["regret"], scroll, **wide)),
            ("Vertices", pn.Column(self._selects[0], self._panes["vertices"], **wide)),
            ("One run", pn.Column(which, self._first, self._panes["run"], **wide)),
            ("System", pn.Column(self._panes["system"], **wide)),
            ("Sensitivity", pn.Column(self._panes["sensitivity"], entries, **wide)),
            dynamic=True, **wide,
        )  # fmt: skip
        self._tabs.param.watch(lambda event: self._change(view=VIEWS[event.new]), "active")
        return self._tabs

    def _compare(self) -> pn.FlexBox:
        keep = pn.widgets.Button(label="Keep these settings for comparison", color="primary")
        keep.on_click(lambda event: self._change(kept=self.state.settings))
        self._drop = pn.widgets.Button(label="Drop what was kept", visible=False)
        self._drop.on_click(lambda event: self._change(kept=None))
        return pn.FlexBox(keep, self._drop)

    def _take_away(self) -> pn.Card:
        self._script = pn.widgets.TextAreaInput(
            label="Copy as Python",
            rows=10,
            max_length=10**6,
            sizing_mode="stretch_width",
            stylesheets=[_CODE],
        )
        self._copy = ChatCopyIcon(width=20, height=20, margin=(10, 5))
        files: dict[str, Callable[[], bytes]] = {
            "regret.png": partial(self._picture, "png"),
            "regret.svg": partial(self._picture, "svg"),
            "regret.csv": lambda: regret_csv(self._curves).encode(),
            "regret.py": lambda: str(self._script.value).encode(),
        }
        downloads = [
            pn.widgets.FileDownload(
                callback=lambda make=make: io.BytesIO(make()), filename=name, label=name, width=100
            )
            for name, make in files.items()
        ]
        return pn.Card(
            pn.FlexBox(*downloads),
            pn.Row(self._script, self._copy, sizing_mode="stretch_width"),
            title="Take away: Python, PNG, SVG, CSV", collapsed=True, sizing_mode="stretch_width", margin=10,
        )  # fmt: skip

    def _picture(self, kind: str) -> bytes:
        """The regret as matplotlib draws it, and as the script does."""
        state, file = self.state, io.BytesIO()
        scale = ("log" if state.log_rounds else "linear", "log" if state.log_regret else "linear")
        drawn = Figure(figsize=(6.4, 4.2), layout="constrained")
        results = Results({curve.label: curve.result for curve in self._curves})
        if results:
            results.plot(state.measure, band=BAND, scale=scale, ax=drawn.subplots())
        drawn.savefig(file, format=kind, dpi=150)
        return file.getvalue()


def in_notebook(problem: Problem | None) -> pn.viewable.Viewable:
    """The page as the value of a notebook's cell."""
    pn.extension("tabulator", inline=True)
    page = Page(problem)
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return page.layout  # nothing is computed until there is one
    page.start()
    return page.layout
