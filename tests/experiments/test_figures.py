"""The paper's figures: labelled axes, one legend, a cut that leaves what matters."""

import matplotlib.pyplot as plt
import numpy as np
import pytest

from dlbjax.experiments.figures import axis_top, comparison_figure, noise_figure, tightness_figure
from tests.experiments.shapes import NAMES, OURS, Shape, compared, over_rho_bar, tightened

TOTALS = {"DynLin-UCB": 10.0, "Lin-UCB": 200.0}
LABELS = [
    f"{name}{lam}" for name in (*NAMES, OURS) for lam in
    ((", λ=log T", ", λ=1") if name.endswith("Lin-UCB") or name == "DynLin-UCB" else ("",))
]  # fmt: skip


@pytest.fixture(autouse=True)
def _close():
    yield
    plt.close("all")


def results(**size):
    return compared(
        {
            name: [Shape(TOTALS.get(name, 900.0), 0.7, 0.1)] * (2 if "Lin-UCB" in name else 1)
            for name in NAMES
        },
        **size,
    )


def legends(figure):
    return [
        [text.get_text() for text in ax.get_legend().get_texts()]
        for ax in figure.axes if ax.get_legend()
    ]  # fmt: skip


def panels(figure):
    return [ax for ax in figure.axes if ax.axison]


def test_a_comparison_has_two_panels_and_names_every_curve_once():
    figure = comparison_figure(results(), "Some problem")
    left, right = panels(figure)
    assert legends(figure) == [LABELS]
    assert (left.get_xscale(), right.get_xscale()) == ("linear", "log")
    for panel in (left, right):
        assert panel.get_xlabel().startswith("Round")
        assert panel.get_ylabel() == "Expected regret (units of reward)"
        assert [line.get_label() for line in panel.lines][: len(LABELS)] == LABELS
    assert left.get_title() == "Some problem\nmean of 20 runs, band: 10 % to 90 % of runs"


@pytest.mark.parametrize("kind", ["expected", "offline"])
def test_the_measure_of_regret_is_named_and_shown(kind):
    made = results()
    left, right = panels(comparison_figure(made, "x", kind))
    for panel in (left, right):
        assert panel.get_ylabel() == f"{kind.capitalize()} regret (units of reward)"
        np.testing.assert_allclose(
            panel.lines[0].get_ydata(), made["DynLin-UCB"].regret(kind)[0].mean(axis=0)
        )
    assert axis_top(made, kind) == pytest.approx(left.get_ylim()[1])


def test_the_linear_panel_is_cut_above_dynlin_ucb_and_lin_ucb():
    left, _ = panels(comparison_figure(results(), "x"))
    assert left.get_ylim() == pytest.approx((0, 1.15 * 200))
    below = " ".join(left.get_xlabel().split()).removeprefix("Round Beyond the axis at the end: ")
    others = [label for label in LABELS if not label.startswith(("DynLin-UCB", "Lin-UCB"))]
    assert below.split("; ") == [f"{label} 900" for label in others]


@pytest.mark.parametrize(
    ("shapes", "top"),
    [
        ({"DynLin-UCB": [5, 7], "Lin-UCB": [3, 99], "AR2": [100]}, 7),  # not Lin-UCB with λ = 1
        ({"DynLin-UCB": [5, 7], "Lin-UCB": [30, 2], "AR2": [100]}, 30),
        ({"DynLin-UCB": [5, 7], "D-Lin-UCB": [30, 20]}, 7),
    ],
)
def test_axis_top(shapes, top):
    made = compared({name: [Shape(t) for t in totals] for name, totals in shapes.items()})
    assert axis_top(made) == pytest.approx(1.15 * top)


def test_axis_top_without_a_grid_of_lambda():
    assert axis_top(over_rho_bar([Shape(t) for t in (9, 8, 7, 6, 5, 20)])) == pytest.approx(
        1.15 * 20
    )


def test_the_rates_cover_four_decades_and_have_slopes_for_the_eye():
    _, right = panels(comparison_figure(results(horizon=1_000_000), "x"))
    assert right.get_xlim() == (100, 1_000_000)
    slopes = [line for line in right.lines if line.get_linestyle() == ":"]
    powers = [np.diff(np.log(s.get_ydata()))[0] / np.diff(np.log(s.get_xdata()))[0] for s in slopes]
    assert powers == pytest.approx([1.0, 0.5])
    assert [text.get_text() for text in right.texts] == ["∝ T", "∝ √T"]
    for slope in slopes:  # above all curves, within the axes
        x, y = slope.get_data()
        assert right.get_xlim()[0] < x[0] < x[1] < right.get_xlim()[1]
        highest = max(np.interp(x[1], *line.get_data()) for line in right.lines[: len(LABELS)])
        assert highest < y[0] < y[1] < right.get_ylim()[1]


def test_a_column_for_every_sigma():
    figure = noise_figure({sigma: results() for sigma in (0.001, 0.01, 0.1)})
    assert legends(figure) == [LABELS]
    shown = panels(figure)
    assert len(shown) == 6
    titles = [ax.get_title().splitlines()[0] for ax in shown]
    assert titles[:3] == [f"Synthetic, σ = {sigma}" for sigma in (0.001, 0.01, 0.1)]
    assert titles[3:] == ["Logarithmic axes"] * 3
    for panel in shown:
        assert panel.get_xlabel().startswith("Round")
        assert panel.get_ylabel()


def test_tightness_has_a_panel_for_each_setting():
    figure = tightness_figure(
        {"synthetic": tightened(Shape(20.0, 0.1, 0.1)), "real-world": tightened(Shape(200.0))}
    )
    panels = figure.axes
    assert [len(panel.containers) for panel in panels] == [2, 2, 4, 2]  # the paper's over ρ̄ only
    assert [panel.get_xscale() for panel in panels] == ["log", "linear", "linear", "linear"]
    for panel in panels:
        assert panel.get_xlabel()
        assert panel.get_yscale() == "log"
    assert "after 1,000 rounds" in panels[0].get_ylabel()
    line = panels[1].containers[0].lines[0]
    np.testing.assert_allclose(line.get_data(), ([0, 1], [20, 20]))
    assert "10 % to 90 %" in figure.get_suptitle()
