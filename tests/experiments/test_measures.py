"""What is read off regret curves."""

import numpy as np
import pytest
from scipy import stats

import dlbjax as dlb
from dlbjax.experiments.measures import Curve, curves, paired


def curve(expected, offline=None, rounds=None):
    rounds = np.arange(1, np.shape(expected)[-1] + 1) if rounds is None else rounds
    offline = expected if offline is None else offline
    return Curve("mine", np.asarray(rounds), np.array(expected), np.array(offline))


@pytest.mark.parametrize("scale", [0.01, 300.0])
@pytest.mark.parametrize(("power", "about"), [(1.0, 1.0), (0.9, 0.928), (0.5, 0.687)])
def test_pace_of_a_power_law(power, about, scale):
    expected = (1 - 0.9**power) / (0.5**power - 0.4**power)
    assert expected == pytest.approx(about, abs=5e-4)
    rounds = np.arange(10, 1001, 10)
    regret = scale * np.outer([0.5, 1.5], rounds**power)  # of two runs
    assert curve(regret, rounds=rounds).pace == pytest.approx(expected, rel=1e-12)


def test_pace_is_that_of_the_mean_of_expected_regret():
    rounds = np.arange(1, 101.0)
    one, other = rounds, rounds**2
    paces = 10 / 10, (100**2 - 90**2) / (50**2 - 40**2)
    assert curve([one]).pace == pytest.approx(paces[0])
    assert curve([other], offline=[one]).pace == pytest.approx(paces[1])
    both = (10 + 100**2 - 90**2) / (10 + 50**2 - 40**2)
    assert curve([one, other]).pace == pytest.approx(both)


def test_rates_take_the_nearest_reporting_rounds():
    rounds = np.array([1, 41, 52, 88, 100])
    regret = np.array([[0.0, 10.0, 32.0, 50.0, 56.0]])
    found = curve(regret, rounds=rounds)
    assert found.pace == pytest.approx((6 / 12) / (22 / 11))
    assert found.late_rate == pytest.approx([6 / 12])


@pytest.mark.parametrize(
    ("regret", "pace"),
    [(np.minimum(np.arange(100.0), 20), 0.0), (np.maximum(np.arange(100.0) - 60, 0), np.inf)],
    ids=["stops", "starts late"],
)
def test_pace_of_what_loses_nothing_midway(regret, pace):
    assert curve([regret]).pace == pace


def test_one_reporting_round_has_no_pace():
    found = curve([[3.0]], rounds=[1])
    assert found.pace == 0
    assert found.late_rate == pytest.approx([0])


def test_late_rate_is_of_every_run_and_of_offline_regret():
    rounds = np.arange(1, 101.0)
    early = np.minimum(rounds, 95)
    found = curve(np.zeros((3, 100)), offline=[rounds, 2 * rounds, early])
    np.testing.assert_allclose(found.late_rate, [1, 2, 0.5])
    np.testing.assert_array_equal(found.final, [0, 0, 0])


def made(name, axes, seed, seconds=2.5):
    rng = np.random.default_rng(seed)
    shape = tuple(len(values) for values in axes.values())
    regrets = rng.uniform(size=(3, *shape, 4, 5))
    return dlb.Result(
        np.array([1, 2, 5, 10, 20]), *regrets, seeds=np.arange(4), name=name,
        axes={key: np.asarray(values) for key, values in axes.items()},
        config={"execution": {"core seconds": seconds}},
    )  # fmt: skip


def test_curves_of_grids_in_order():
    results = dlb.Results(
        {
            "B": made("B", {}, 0),
            "A": made("A", {"rho_bar": [0.1, 0.2], "lam": [np.log(20), 1.0, 2.0]}, 1),
        }
    )
    found = curves(results)
    assert list(found) == ["B"] + [
        f"A, ρ̄={rho}, λ={lam}" for rho in (0.1, 0.2) for lam in ("log T", 1, 2)
    ]
    assert [c.label for c in found.values()] == list(found)
    np.testing.assert_array_equal(found["B"].expected, results["B"].expected_regret)
    one, grid = found["A, ρ̄=0.2, λ=log T"], results["A"]
    np.testing.assert_array_equal(one.expected, grid.expected_regret[1, 0])
    np.testing.assert_array_equal(one.offline, grid.offline_regret[1, 0])
    np.testing.assert_array_equal(one.rounds, [1, 2, 5, 10, 20])
    np.testing.assert_array_equal(one.final, grid.expected_regret[1, 0, :, -1])


def test_curves_are_named_by_the_key_of_their_result():
    results = {"mine": made("Lin-UCB", {"lam": [1.0, 2.0]}, 0), "yours": made("Lin-UCB", {}, 1)}
    assert list(curves(results)) == ["mine, λ=1", "mine, λ=2", "yours"]


@pytest.mark.parametrize("runs", [2, 3, 50])
def test_paired_interval_is_students(runs):
    rng = np.random.default_rng(runs)
    common = rng.normal(0, 100, runs)
    one, other = common + rng.normal(3, 1, runs), common + rng.normal(0, 2, runs)
    mean, half = paired(one, other)
    interval = stats.ttest_rel(one, other).confidence_interval(0.95)
    assert mean - half == pytest.approx(interval.low)
    assert mean + half == pytest.approx(interval.high)


def test_one_run_has_no_interval():
    mean, half = paired(np.array([5.0]), np.array([3.0]))
    assert mean == 2
    assert np.isnan(half)
