"""Figures: what they show, and that they say so."""

import matplotlib.pyplot as plt
import numpy as np
import pytest

import dlbjax as dlb


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


def test_many_curves_can_be_told_apart():
    ax = made(points=20).plot()
    assert len({(line.get_color(), line.get_linestyle()) for line in ax.lines}) == 20


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
        ({"kind": "total"}, "kind must be one of realised, expected, offline; got 'total'"),
    ],
)
def test_unknown_options_are_refused_and_leave_no_figure(options, message):
    with pytest.raises(ValueError, match=message):
        made().plot(**options)
