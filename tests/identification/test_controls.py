"""Columns that nobody chooses, and the warnings that ask for them."""

import numpy as np
import pytest
import scipy.linalg
import scipy.stats

import dlbjax as dlb
from dlbjax.identification import Calendar
from tests.identification.worlds import logged, rewards_of, small

SYSTEM = small()
T = 600
t = np.arange(T)
SEASON = 0.8 * np.sin(2 * np.pi * t / 52) - 0.5 * np.cos(4 * np.pi * t / 52)


@pytest.fixture(scope="module")
def fit():
    """A season, a trend and a price beside the system's rewards, with spend that follows the season."""
    actions, rewards = logged(SYSTEM, T=T)
    price = np.random.default_rng(1).uniform(1, 2, size=T)
    rewards = rewards + SEASON + 0.002 * t - 0.7 * price + 4
    return dlb.identify(
        actions, rewards, 2, controls=price, control_names=["price"], trend=True, season=52, signs=1,
        channels=["fb", "bing"],
    )  # fmt: skip


def test_effects_of_controls_are_found(fit):
    assert fit.controls.names == (
        "trend", "season sin 1", "season cos 1", "season sin 2", "season cos 2", "price",
    )  # fmt: skip
    off = (fit.controls.effects - [0.002, 0.8, 0, 0, -0.5, -0.7]) / fit.controls.std
    assert np.abs(off).max() < scipy.stats.norm.ppf(1 - 1e-4 / 12)  # false alarm in 1 of 10 000
    assert np.all(fit.controls.std < 0.05)
    off = fit.h - SYSTEM.h
    assert off @ np.linalg.solve(fit.h_covariance, off) < scipy.stats.chi2(2).ppf(0.9999)


def test_the_baseline_is_the_level_at_mean_controls(fit):
    level = 4 + 0.002 * t.mean() - 0.7 * fit.controls.means[-1] + SEASON.mean()
    assert abs(fit.baseline - level) < 4 * np.sqrt(fit.covariance[0, 0])
    np.testing.assert_allclose(fit.parts.level.mean(), fit.baseline)


def test_trend_and_season_go_on(fit):
    ahead = T + np.arange(60)
    season = 0.8 * np.sin(2 * np.pi * ahead / 52) - 0.5 * np.cos(4 * np.pi * ahead / 52)
    np.testing.assert_allclose(
        fit.controls.ahead(60), season + 0.002 * (ahead - t.mean()) - SEASON.mean(), atol=0.08
    )


def test_the_parts_make_up_the_free_run(fit):
    rewards = fit.parts.rewards
    errors = rewards - fit.parts.fitted
    np.testing.assert_allclose(fit.report.r2_free_run, 1 - np.sum(errors**2) / T / rewards.var())
    assert fit.report.r2_one_step > 0.99
    w, R = SYSTEM.omega[:, None], [[SYSTEM.reward_noise**2]]
    P = scipy.linalg.solve_discrete_are(SYSTEM.A.T, w, SYSTEM.state_noise, R)
    np.testing.assert_allclose(fit.sigma, np.sqrt(w[:, 0] @ P @ w[:, 0] + R[0][0]), rtol=0.15)


def test_wrong_signs_are_warned_of():
    """The second channel's effect is negative."""
    actions, rewards = logged(small(), T=T)
    effect = "the effect of bing is -.* of the wrong sign"
    with pytest.warns(UserWarning, match=effect):
        found = dlb.identify(
            actions, rewards - 3 * actions[:, 1], 2, signs=[1, 1], refine=False,
            channels=["fb", "bing"],
        )  # fmt: skip
    assert any("bing" in text for text in found.warnings)
    assert dlb.identify(actions, rewards - 3 * actions[:, 1], 2, signs=[1, -1], refine=False)


@pytest.mark.parametrize(("channels", "says"), [(3, "list of texts"), (["fb"], "name 2 columns")])
def test_channels_must_be_named_one_by_one(channels, says):
    with pytest.raises(ValueError, match=f"channels must .*{says}"):
        dlb.identify(*logged(SYSTEM, T=50), 1, channels=channels)


@pytest.mark.filterwarnings("ignore:the estimate of A had", "ignore:the actions explain")
def test_a_memory_as_long_as_the_data_is_warned_of():
    rng = np.random.default_rng(0)
    actions = rng.uniform(size=(200, 1))
    slow = dlb.System([[0.98]], [[1.0]], [1.0], [0.0], reward_noise=0.01)
    rewards = rewards_of(slow, actions, rng)
    with pytest.warns(UserWarning, match="which is long for episodes of at most 200 rounds"):
        dlb.identify(actions, rewards, 1, refine=False)


def test_regions_have_baselines_of_their_own():
    rng = np.random.default_rng(0)
    lengths, levels = (120, 80, 100), {"north": 5.0, "south": -3.0}
    groups = ["north", "south", "north"]
    actions = [rng.uniform(size=(n, 2)) for n in lengths]
    rewards = [
        levels[group] + u @ [2.0, 1.0] + 0.01 * rng.normal(size=len(u))
        for u, group in zip(actions, groups, strict=True)
    ]
    found = dlb.identify(actions, rewards, 1, groups=groups, refine=False)
    assert found.controls.names == ("north less south",)
    np.testing.assert_allclose(found.controls.effects, 8, atol=0.1)
    np.testing.assert_allclose(found.baseline, (5 * 220 - 3 * 80) / 300, atol=0.1)


def test_rounds_are_counted_from_where_an_episode_begins():
    calendar = Calendar(trend=True, season=7, harmonics=1)
    whole = calendar.columns(np.arange(20))
    np.testing.assert_array_equal(calendar.columns(np.arange(12, 20)), whole[12:])
    assert calendar.names == ["trend", "season sin 1", "season cos 1"]
    assert Calendar().columns([1, 2]).shape == (2, 0)


@pytest.mark.filterwarnings("ignore:the actions can be predicted", "ignore:effects take")
@pytest.mark.parametrize("method", ["closed_loop", "open_loop"])
def test_nothing_explains_less_than_the_static_regression(method):
    """Smooth columns among the actions, whose lags are nearly collinear."""
    rng = np.random.default_rng(0)
    time = np.arange(179)
    waves = np.column_stack(
        [f(2 * np.pi * k * time / 52) for k in (1, 2) for f in (np.sin, np.cos)]
    )
    spend = rng.gamma(2.0, size=(179, 2)) * (1 + 0.5 * waves[:, :1])
    rewards = spend @ [3.0, 2.0] + waves @ [4.0, 2.0, -1.0, 1.0] + 0.5 * rng.normal(size=179)
    columns = np.column_stack([np.ones(179), spend, waves])
    left = rewards - columns @ np.linalg.lstsq(columns, rewards)[0]
    found = dlb.identify(np.column_stack([spend, waves]), rewards, 1, method=method, restarts=1)
    assert found.report.r2_one_step >= 1 - left.var() / rewards.var()
