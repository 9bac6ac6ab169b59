"""Figures: what they show, and that they say so."""

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
        ({"band": "sd"}, "band must be one of std, standard error, quantiles; got 'sd'"),
        ({"scale": "cubic"}, "scale must be linear or log; got 'cubic'"),
        pytest.param(
            {"kind": "total"}, "kind must be one of realised, expected, offline; got 'total'"
        ),
    ],
)  # fmt: skip
def test_unknown_options_are_rejected_and_leave_no_figure(options, message):
    with pytest.raises(ValueError, match=message):
        made().plot(**options)
    assert plt.get_fignums() == []
