"""Errors and warnings about bad data, and units."""

import numpy as np
import pytest

import dlbjax as dlb
from dlbjax.identification.data import Units, check_samples, read_samples
from dlbjax.identification.model import StateSpace
from tests.identification.worlds import logged, small

U, Y = logged(small(), T=80)


def changed(array, place, value):
    array = np.array(array, dtype=float)
    array[place] = value
    return array


@pytest.mark.parametrize(
    ("actions", "rewards", "message"),
    [
        (U[:, 0], Y, r"^actions must have shape \(T, d\).*actions\[:, None\]"),
        (U[None], Y, r"^actions must have shape \(any, any\); got shape \(1, 80, 2\)"),
        ([["a", "b"]] * 80, Y, r"^actions must hold real numbers"),
        (
            U,
            ["a"] * 80,
            r"^rewards must hold real numbers in shape \(T,\) or \(T, m\), NaN .* got \['a'",
        ),
        (U, Y[:-1], r"^actions have 80 rows and rewards 79; row t of both is round t"),
        (U, Y[:, None, None], r"^rewards must have shape \(T,\) or \(T, m\); got shape"),
        (U[:0], Y[:0], r"must not be empty"),
        (changed(U, (3, 1), np.nan), Y, r"^actions must be finite; got nan at index \(3, 1\)"),
        (changed(U, (3, 1), np.inf), Y, r"^actions must be finite; got inf at index \(3, 1\)"),
        (U, changed(Y, 7, -np.inf), r"^rewards must be finite, or NaN where .*-inf at round 7"),
        (U, np.full(80, np.nan), r"^rewards: every value is missing"),
        (U, np.c_[Y, np.full(80, np.nan)], r"^column 1 of rewards: every value is missing"),
        (U, np.ones(80), r"^rewards: every value is 1; a constant holds no information"),
        (changed(U, (slice(None), 1), 4.0), Y, r"^u\[1\] never changes.*always 4"),
        (np.c_[U, 2 * U[:, 0]], Y, r"^u\[0\], u\[2\] are collinear: .* is constant"),
        (np.c_[U, 1 - U.sum(1)], Y, r"^u\[0\], u\[1\], u\[2\] are collinear"),
        (
            [U, U],
            Y,
            r"^actions are 2 episodes, so rewards must be a list of as many arrays; got one",
        ),
        ([U, U], [Y], r"so rewards must be a list of as many arrays; got 1"),
        (
            [U, U[:, :1]],
            [Y, Y],
            r"^episode 1 has 1 action and 1 reward columns, episode 0 has 2 and 1",
        ),
        ([U, U], [Y, Y[:5]], r"^actions of episode 1 have 80 rows and rewards 5"),
        (U[:9], Y[:9], r"there are 9 rounds, too few for any system; give 10 or more"),
        (U[:12], Y[:12], r"order 2 has 14 free parameters, too many for 12 rewards"),
        (U, np.c_[Y, 2 * Y + 1], r"^columns of rewards are collinear"),
        (U, 1e200 * Y, r"^values up to .*e\+\d+ with a spread of .* in other units"),
        (U, 1e-200 * Y, r"^values up to .*e-\d+ with a spread of .* in other units"),
        (1e300 * U, Y, r"^values up to .*e\+\d+ with a spread of .* in other units"),
    ],
)
def test_bad_data_are_rejected_with_what_is_wrong(actions, rewards, message):
    with pytest.raises(ValueError, match=message):
        dlb.identify(actions, rewards, 2)


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ({"order": 0}, r"^order, unless \"auto\", must be a whole number >= 1; got 0"),
        ({"order": "many"}, r"^order, unless \"auto\", must be a whole number"),
        ({"order": 2, "lags": 1}, r"^lags must be a whole number >= 2; got 1"),
        ({"order": 4, "lags": 3}, r"^order 4 is too large for 3 lags \(at most 2\)"),
        ({"method": "both"}, r"^method must be closed_loop or open_loop; got 'both'"),
        ({"ridge": -1.0}, r"^ridge must be >= 0"),
        ({"restarts": 0}, r"^restarts must be a whole number from 1 to 1000"),
        (
            {"refine": False},
            r"^orders are compared by their likelihood; without refinement pass an",
        ),
        ({"controls": U[:-1]}, r"^controls must have 80 rows, one for each round"),
        ({"controls": changed(U, (3, 1), np.nan)}, r"^controls must be finite"),
        (
            {"controls": U[:, :1], "control_names": ["a", "b"]},
            r"^control_names must name 1 columns",
        ),
        ({"controls": U[:, :1]}, r"^u\[0\], control 0 are collinear"),
        ({"season": 4, "harmonics": 2}, r"^season must be more than twice harmonics"),
        ({"trend": 1}, r"^trend must be True or False; got 1"),
        ({"first_rounds": [0, 1]}, r"^first_rounds must hold a number for each of the 1 episodes"),
        ({"groups": ["a", "b"]}, r"^groups must name the group of each of the 1 episodes"),
        ({"signs": 2}, r"^signs must be 1, -1 or 0"),
        ({"signs": [1, 1, 1]}, r"^signs must have shape"),
        ({"value": [1.0, 2.0]}, r"^value must have shape \(1,\)"),
    ],
)
def test_bad_options_are_rejected(option, message):
    with pytest.raises(ValueError, match=message):
        dlb.identify(U, Y, **option)


def test_channels_are_named():
    with pytest.raises(ValueError, match=r"^fb, bing are collinear: .*fb .*bing is constant"):
        dlb.identify(np.c_[U, 2 * U[:, 0]], Y, 2, channels=["fb", "google", "bing"])
    with pytest.raises(ValueError, match="channels must name 2 columns"):
        dlb.identify(U, Y, 2, channels=["fb"])


def test_a_constant_channel_is_welcome_where_there_is_no_baseline():
    check_samples(read_samples(np.c_[U, np.ones(80)], Y), intercept=False)


def test_a_long_gap_is_warned_of():
    rewards = changed(Y, slice(20, 45), np.nan)
    (warning,) = check_samples(read_samples(U, rewards), intercept=True)
    assert warning.startswith("rewards 20 to 44 of episode 0 are missing in a row (25 of 80)")
    assert check_samples(read_samples(U, changed(Y, slice(20, 25), np.nan)), True) == []


@pytest.mark.parametrize("intercept", [False, True])
def test_units_are_undone(intercept):
    rng = np.random.default_rng(0)
    samples = read_samples(1000 * U + 7, 0.01 * Y + 3)
    units = Units.of(samples, intercept, scale=True)
    scaled = units.apply(samples)
    np.testing.assert_allclose(np.mean(scaled.actions**2, axis=0), 1)
    np.testing.assert_allclose(np.mean(scaled.rewards**2, axis=0), 1)
    model = StateSpace.of(small(), baseline=0.3 if intercept else 0.0)
    x = rng.standard_normal(2)
    undone, x_undone = units.undo(model, x)
    for u, u_scaled in zip(samples.actions, scaled.actions, strict=True):
        y = undone.c + undone.C @ x_undone + undone.D @ u
        y_scaled = model.c + model.C @ x + model.D @ u_scaled
        np.testing.assert_allclose((y - units.y_mean) / units.y_scale, y_scaled, atol=1e-9)
        x, x_undone = model.A @ x + model.B @ u_scaled, undone.A @ x_undone + undone.B @ u
