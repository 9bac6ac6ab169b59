"""Figures: what they show, and that they say so."""

from pathlib import Path

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
import pytest

import dlbjax as dlb
from dlbjax.results.plot import COLOURS, STYLES


@pytest.fixture(autouse=True)
def _close():
    yield
    plt.close("all")


def made(name="mine", points=0, runs=5, seed=0):
    rng = np.random.default_rng(seed)
    shape = (points, runs, 4) if points else (runs, 4)
    regrets = rng.uniform(1, 2, size=(3, *shape)).cumsum(axis=-1)
    axes = {"rho_bar": np.linspace(0, 0.4, points)} if points else {}
    return dlb.Result(
        np.array([1, 10, 50, 100]), *regrets, seeds=np.arange(runs), axes=axes, name=name
    )


def texts(ax):
    return [text.get_text() for text in ax.get_legend().get_texts()]


@pytest.mark.parametrize(
    ("kind", "label"),
    [
        ("realised", "Realised regret (units of reward)"),
        ("expected", "Expected regret (units of reward)"),
        ("offline", "Offline regret (units of reward)"),
    ],
)
def test_curves_are_the_mean_regret_and_axes_say_so(kind, label):
    result = made()
    ax = result.plot(kind)
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("Round", label)
    (line,) = ax.lines
    np.testing.assert_array_equal(line.get_xdata(), result.rounds)
    np.testing.assert_allclose(line.get_ydata(), result.regret(kind).mean(axis=0))
    assert texts(ax) == ["mine"]


def band_of(ax):
    """Lower and upper edge of the first band at the reporting rounds."""
    points = ax.collections[0].get_paths()[0].vertices
    rounds = np.unique(points[:, 0])
    at = [points[points[:, 0] == r, 1] for r in rounds]
    return np.array([v.min() for v in at]), np.array([v.max() for v in at])


@pytest.mark.parametrize(
    ("band", "said", "edges"),
    [
        ("std", "± std over runs", lambda r: r.mean(0) + np.outer([-1, 1], r.std(0, ddof=1))),
        (
            "standard error",
            "± standard error of the mean",
            lambda r: r.mean(0) + np.outer([-1, 1], r.std(0, ddof=1) / np.sqrt(5)),
        ),
        ("quantiles", "10 % to 90 % of runs", lambda r: np.quantile(r, [0.1, 0.9], axis=0)),
    ],
)
def test_the_band_is_what_the_title_says(band, said, edges):
    edges_of = edges
    result = made()
    ax = result.plot(band=band)
    assert said in ax.get_title()
    assert "mean of 5 runs" in ax.get_title()
    low, high = edges_of(result.expected_regret).reshape(2, 4)
    np.testing.assert_allclose(band_of(ax), [low, high])


def test_one_run_has_no_band():
    ax = made(runs=1).plot()
    assert len(ax.collections) == 0
    assert ax.get_title() == "one run"


def test_one_curve_for_each_combination():
    result = made(points=3)
    ax = result.plot()
    assert texts(ax) == ["mine, ρ̄=0", "mine, ρ̄=0.2", "mine, ρ̄=0.4"]
    for i, line in enumerate(ax.lines):
        np.testing.assert_allclose(line.get_ydata(), result.expected_regret[i].mean(axis=0))
    assert len({line.get_color() for line in ax.lines}) == len(ax.collections) == 3


def test_several_results_share_the_axes_and_carry_their_names():
    results = dlb.Results({"A": made(), "B": made("policy", points=2, seed=1), "C": made(runs=3)})
    ax = results.plot("offline", title="Regrets", scale="log")
    assert texts(ax) == ["A", "B, ρ̄=0", "B, ρ̄=0.4", "C"]
    assert ax.get_title().startswith("Regrets\nmean of 3 to 5 runs")
    assert (ax.get_xscale(), ax.get_yscale()) == ("log", "log")


def looks(ax):
    """Colour and dashes of every curve; `get_linestyle` takes all dashes for the same."""
    return [(line.get_color(), line._unscaled_dash_pattern) for line in ax.lines]


def several(*points):
    """Results by name, with so many combinations each."""
    return dlb.Results({f"P{i}": made(f"P{i}", n, seed=i) for i, n in enumerate(points)})


def test_policies_have_colours_and_their_combinations_styles():
    found = looks(several(2, 0, 4).plot())
    colours, dashes = zip(*found, strict=True)
    assert list(colours) == [COLOURS[i] for i in (0, 0, 1, 2, 2, 2, 2)]
    assert dashes[0] == dashes[2] == dashes[3]
    assert len(set(dashes[3:])) == 4
    assert dashes[:2] == dashes[3:5]


def test_combinations_of_one_policy_have_colours():
    colours, dashes = zip(*looks(made(points=3).plot()), strict=True)
    assert list(colours) == COLOURS[:3]
    assert len(set(dashes)) == 1


def test_more_combinations_than_styles_have_colours():
    colours, dashes = zip(*looks(several(len(STYLES) + 1, 0).plot()), strict=True)
    assert list(colours) == COLOURS[:6]
    assert len(set(dashes)) == 1


@pytest.mark.parametrize(
    "points",
    [
        (20,),
        (0,) * 20,
        (4,) * 8,
        (5, 5, 5),
        pytest.param((2,) * 9),
    ],
    ids=str,
)
def test_many_curves_look_different(points):
    found = looks(several(*points).plot())
    assert len(set(found)) == len(found) == sum(max(1, n) for n in points)


def test_bands_have_the_colours_of_their_curves():
    ax = several(2, 0).plot()
    for line, band in zip(ax.lines, ax.collections, strict=True):
        assert matplotlib.colors.same_color(band.get_facecolor()[0][:3], line.get_color())


def flat(name, heights, **fields):
    """A result whose mean regret stays at the heights, one for every combination."""
    regret = np.multiply.outer(heights, np.ones((3, 4)))
    return dlb.Result(
        np.array([1, 10, 50, 100]), regret, regret, regret, seeds=np.arange(3), name=name, **fields
    )


def test_curves_beyond_the_axis_are_named_where_it_is_cut():
    results = dlb.Results(
        {
            "A": flat("A", [99.0, 101.0], axes={"lam": np.array([np.log(100), 1.0])}),
            "B": flat("B", 12345.6),
            "C": flat("C", 100.0),
        }
    )
    ax = results.plot(top=100.0)
    assert ax.get_ylim() == (0, 100)
    assert ax.get_xlabel() == "Round\nBeyond the axis at the end: A, λ=1 101; B 12,346"
    assert texts(ax) == ["A, λ=log T", "A, λ=1", "B", "C"]


def test_what_is_beyond_the_axis_is_wrapped_and_names_stay_whole():
    results = dlb.Results({f"Long-Name-{i}": flat("x", 10.0) for i in range(9)})
    first, *lines = results.plot(top=1.0).get_xlabel().split("\n")
    assert first == "Round"
    assert len(lines) > 1
    assert max(map(len, lines)) <= 62
    # A hyphen is no place to break a name.
    assert not any(line.endswith("-") for line in lines)
    named = " ".join(lines).removeprefix("Beyond the axis at the end: ")
    assert named == "; ".join(f"Long-Name-{i} 10" for i in range(9))


@pytest.mark.parametrize("top", [None, 200.0])
def test_an_axis_that_cuts_nothing_says_nothing(top):
    ax = flat("A", 100.0).plot(top=top)
    assert ax.get_xlabel() == "Round"
    assert ax.get_ylim()[1] > 100


def test_labels_show_readable_values():
    axes = {"gamma": np.array([0.99, 1 - 1e-6]), "lam": np.array([np.log(100), 1.0])}
    ax = flat("D", np.ones((2, 2)), axes=axes).plot()
    assert texts(ax) == [
        "D, γ=0.99, λ=log T", "D, γ=0.99, λ=1", "D, γ=1−1e-06, λ=log T", "D, γ=1−1e-06, λ=1"
    ]  # fmt: skip


def test_draws_into_given_axes():
    _, ax = plt.subplots()
    assert made().plot(ax=ax) is ax
    assert ax.get_xscale() == "linear"
    assert ax.get_xlim()[0] == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"band": "sd"}, "band must be one of std, standard error, quantiles, or None; got 'sd'"),
        ({"scale": "cubic"}, "scale must be linear or log, or one of them for each axis; got 'cubic'"),
        pytest.param(
            {"kind": "total"}, "kind must be one of realised, expected, offline; got 'total'"
        ),
        ({"scale": ("log", "cubic")}, "got 'cubic'"),
        ({"curves": ["yours"]}, "no policy or curve is called 'yours'. Possible are mine"),
        ({"colours": {"yours": "red"}}, "colours has no policy or curve 'yours'"),
        ({"colours": ["red", "blue"]}, "colours must be 1, one per curve; got 2"),
        ({"colours": ["reddish"]}, "colours must be colours of matplotlib; got 'reddish'"),
        ({"labels": {"Mine": "ours"}}, r"labels has no policy or curve 'Mine', did you mean mine\?"),
    ],
)  # fmt: skip
def test_unknown_options_are_rejected_and_leave_no_figure(options, message):
    with pytest.raises(ValueError, match=message):
        made().plot(**options)
    assert plt.get_fignums() == []


def test_colours_and_labels_go_by_policy_or_by_curve():
    ax = several(2, 0).plot(
        colours={"P0": "crimson", "P0, ρ̄=0.4": "navy"},
        labels={"P0": "ours", "P1": "theirs", "P0, ρ̄=0": "first"},
    )
    assert [line.get_color() for line in ax.lines] == ["crimson", "navy", COLOURS[1]]
    assert texts(ax) == ["first", "ours, ρ̄=0.4", "theirs"]
    listed = several(2, 0).plot(colours=["red", "green", "blue"])
    assert [line.get_color() for line in listed.lines] == ["red", "green", "blue"]


def test_curves_are_chosen_and_ordered():
    assert texts(several(2, 0).plot(curves=["P1", "P0, ρ̄=0.4"])) == ["P1", "P0, ρ̄=0.4"]
    assert texts(several(2, 0).plot(curves="P1")) == ["P1"]


def test_legend_and_band_can_be_left_out():
    ax = made().plot(legend=False, band=None)
    assert ax.get_legend() is None
    assert len(ax.collections) == 0
    assert ax.get_title() == "mean of 5 runs"


def test_each_axis_has_its_scale():
    ax = made().plot(scale=("log", "linear"))
    assert (ax.get_xscale(), ax.get_yscale()) == ("log", "linear")


def test_forty_values_of_an_axis_get_a_colour_bar():
    ax = made(points=40).plot()
    assert len({line.get_color() for line in ax.lines}) == 40
    assert ax.get_legend() is None
    assert ax.figure.axes[-1].get_ylabel() == "ρ̄"


def test_forty_policies_are_rejected_with_what_to_do():
    results = several(*[0] * 40)
    with pytest.raises(ValueError, match=r"40 curves are too many .* curves=\[…\] .* P0, P1, P2"):
        results.plot()
    assert plt.get_fignums() == []
    assert len(results.plot(curves=list(results)[:32]).lines) == 32
    assert len(results.plot(colours=["grey"] * 40, legend=False).lines) == 40


@pytest.mark.parametrize("first", [1.0, -3.0])
def test_bands_end_at_the_foot_of_a_logarithmic_axis(first):
    """The lower edge of the first points is negative, or all of them are."""
    regret = np.array([[first, 5.0, 50.0, 60.0], [first - 4, 1.0, 20.0, 70.0]])
    rounds = np.array([1, 10, 50, 100])
    result = dlb.Result(rounds, regret, regret, regret, seeds=np.arange(2))
    ax = result.plot(scale="log")
    positive = regret.mean(axis=0)[regret.mean(axis=0) > 0]
    bottom = ax.get_ylim()[0]
    assert bottom == pytest.approx(positive.min() / 2)
    low, _ = band_of(ax)
    assert low.min() == pytest.approx(bottom)
    assert np.isnan(ax.lines[0].get_ydata()[0])


def test_the_style_sheet_has_these_colours_and_embeds_fonts():
    style = matplotlib.rc_params_from_file(
        Path(dlb.__file__).parent / "results/style.mplstyle", use_default_template=False
    )
    cycle = style["axes.prop_cycle"].by_key()["color"]
    assert [
        matplotlib.colors.to_hex(f"#{colour.lstrip('#')}").upper() for colour in cycle
    ] == COLOURS
    assert style["pdf.fonttype"] == 42
    with plt.style.context("dlbjax.results.style"):
        assert matplotlib.rcParams["pdf.fonttype"] == 42
