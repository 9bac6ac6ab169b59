"""Systems found again in data simulated from them."""

import matplotlib.pyplot as plt
import numpy as np
import pytest
import scipy.stats

import dlbjax as dlb
from tests.identification.worlds import logged, relative_error, rewards_of, small

SYSTEM = small()


@pytest.fixture(scope="module")
def data():
    return logged(SYSTEM)


@pytest.fixture(scope="module")
def fit(data):
    return dlb.identify(*data, 2)


def distance(fit, h):
    """Squared distance of h from the estimate in units of its covariance: χ² with d degrees."""
    off = fit.system.h - h
    return off @ np.linalg.solve(fit.h_covariance, off)


def test_the_system_is_found(fit):
    assert fit.order == fit.system.n == 2
    assert relative_error(fit.system.h, SYSTEM.h) < 0.03
    np.testing.assert_allclose(fit.system.rho, SYSTEM.rho, rtol=0.05)
    for lag in range(6):
        np.testing.assert_allclose(fit.system.markov(lag), SYSTEM.markov(lag), atol=0.03)
    np.testing.assert_allclose(fit.baseline, 0, atol=0.05)
    np.testing.assert_allclose(fit.h_std, np.sqrt(np.diag(fit.h_covariance)))


def test_the_report_says_how_well_it_fits(fit, data):
    report = fit.report
    assert (report.samples, report.missing, report.shrunk) == (600, 0, False)
    assert (report.rho, report.phi) == (fit.system.rho, fit.system.phi)
    assert 0.9 < report.r2_free_run < report.r2_one_step < 1
    assert report.whiteness > 1e-3
    rough = dlb.identify(*data, 2, refine=False)
    assert rough.report.log_likelihood < report.log_likelihood
    assert rough.h_std is rough.h_covariance is None
    assert fit.warnings == rough.warnings == ()


def test_free_run_is_what_the_system_does_without_noise(fit, data):
    actions, rewards = data
    quiet = dlb.System(
        fit.system.A, fit.system.B, fit.system.omega, fit.system.theta, x1=fit.system.x1
    )
    errors = rewards - fit.baseline - rewards_of(quiet, actions, np.random.default_rng(0))
    np.testing.assert_allclose(fit.report.r2_free_run, 1 - errors.var() / rewards.var(), atol=1e-4)


def test_its_likelihood_beats_that_of_the_truth(fit, data):
    truth = dlb.log_likelihood(SYSTEM, *data)
    assert truth < dlb.log_likelihood(fit.system, *data, baseline=fit.baseline) < truth + 40


def test_standard_errors_are_right():
    """χ² of 20 fits against its law; false alarm in one of 10 000 seeds."""
    fits = [dlb.identify(*logged(SYSTEM, seed=100 + i), 2, restarts=1) for i in range(20)]
    total = sum(distance(fit, SYSTEM.h) for fit in fits)
    low, high = scipy.stats.chi2(2 * len(fits)).ppf([5e-5, 1 - 5e-5])
    assert low < total < high
    # The level at the mean action is known far better than the baseline, which goes against h.
    row = np.array([1.0, 0.5, 0.5])
    off = [row @ np.r_[fit.baseline, fit.system.h - SYSTEM.h] for fit in fits]
    variances = [row @ fit.covariance @ row for fit in fits]
    low, high = scipy.stats.chi2(len(fits)).ppf([5e-5, 1 - 5e-5])
    assert low < np.sum(np.square(off) / variances) < high
    assert np.mean(variances) < 0.1 * np.mean([fit.covariance[0, 0] for fit in fits])


@pytest.mark.parametrize("scale", [True, False])
def test_units_do_not_matter(fit, data, scale):
    actions, rewards = data
    units = [1000.0, 1.0] if scale else [2.0, 1.0]
    other = dlb.identify(actions * units, 10 * rewards + 5, 2, scale=scale)
    np.testing.assert_allclose(other.system.h * units / 10, fit.system.h, rtol=0.01)
    np.testing.assert_allclose(other.h_std * units / 10, fit.h_std, rtol=0.05)
    np.testing.assert_allclose(other.baseline, 5 + 10 * fit.baseline, rtol=0.01)


def test_without_a_baseline_none_is_fitted(data):
    fit = dlb.identify(*data, 2, intercept=False)
    assert fit.baseline == 0
    assert distance(fit, SYSTEM.h) < scipy.stats.chi2(2).ppf(0.9999)
    assert np.all(fit.h_std < dlb.identify(*data, 2).h_std)


def test_more_restarts_never_find_less(data, fit):
    one = dlb.identify(*data, 2, restarts=1)
    assert fit.report.log_likelihood >= one.report.log_likelihood - 1e-9


def test_the_state_predicts_the_next_round():
    quiet = small(state_noise=1e-5, reward_noise=1e-4)
    actions, rewards = logged(quiet, T=601)
    fit = dlb.identify(actions[:-1], rewards[:-1], 2)
    system = fit.system
    predicted = fit.baseline + system.omega @ fit.state + system.theta @ actions[-1]
    np.testing.assert_allclose(predicted, rewards[-1], atol=1e-3)


def test_without_noise_the_fit_is_exact():
    fit = dlb.identify(*logged(small(state_noise=0.0, reward_noise=0.0)), 2)
    np.testing.assert_allclose(fit.system.h, SYSTEM.h, rtol=1e-4)


def test_the_state_has_units_that_make_bounds_tight(fit):
    system = fit.system
    assert np.linalg.norm(system.state_noise, 2) <= system.reward_noise**2 * (1 + 1e-9)
    assert np.linalg.norm(system.B, 2) <= np.linalg.norm(system.omega) * (1 + 1e-9)


def test_bounds_are_wider_than_the_estimate(fit):
    actions = dlb.actions.budget(0.0, np.ones(2), total=1.5)
    tight = dlb.Bounds.of(dlb.Problem(fit.system, actions))
    wide = fit.bounds(actions, margin=0.2)
    np.testing.assert_allclose(1 - wide.rho, (1 - fit.system.rho) / 1.2)
    np.testing.assert_allclose(wide.Phi, fit.system.phi_at(wide.rho))
    for name in ("Theta", "Omega", "B", "U", "sigma"):
        np.testing.assert_allclose(getattr(wide, name), 1.2 * getattr(tight, name))
    assert wide.X > tight.X
    with pytest.raises(ValueError, match="margin must be >= 0"):
        fit.bounds(actions, margin=-0.1)


def test_the_summary_reads_well(fit):
    text = str(fit)
    assert text.startswith("Fit of order 2 to 600 rounds (0 rewards missing)")
    for part in (f"{fit.system.h[0]:.4g} ± {fit.h_std[0]:.2g}", "ρ(A)", "R²", "as asked for"):
        assert part in text


def test_progress_is_shown_on_request(data, capsys):
    dlb.identify(*data, 2, restarts=1, progress=True)
    assert "maximum likelihood" in capsys.readouterr().err
    dlb.identify(*data, 2, restarts=1)
    assert capsys.readouterr().err == ""


@pytest.mark.filterwarnings("ignore:effects take")
def test_too_small_an_order_is_warned_of(data):
    actions, rewards = data
    t = np.arange(600)
    seasons = np.sin(2 * np.pi * t / 7) + np.sin(2 * np.pi * t / 2.5)
    with pytest.warns(UserWarning, match="one-step errors are correlated") as issued:
        fit = dlb.identify(actions, rewards + seasons, 2, restarts=1)
    assert set(fit.warnings) >= {str(warning.message) for warning in issued}
    assert fit.warnings[0] in str(fit)


def test_actions_that_repeat_are_warned_of():
    rng = np.random.default_rng(0)
    actions = np.tile(rng.uniform(size=(5, 2)), (120, 1))
    rewards = rewards_of(SYSTEM, actions, rng)
    with pytest.warns(UserWarning, match="can be predicted from those of earlier rounds"):
        dlb.identify(actions, rewards, 2, refine=False)


def test_a_long_gap_is_warned_of(data):
    actions, rewards = data
    gap = np.where((np.arange(600) >= 100) & (np.arange(600) < 200), np.nan, rewards)
    with pytest.warns(UserWarning, match="rewards 100 to 199 of episode 0 are missing in a row"):
        fit = dlb.identify(actions, gap, 2, refine=False)
    assert relative_error(fit.system.h, SYSTEM.h) < 0.05


@pytest.mark.filterwarnings("ignore:effects take")
def test_an_unstable_estimate_is_warned_of():
    rng = np.random.default_rng(0)
    actions = rng.uniform(size=(600, 2))
    with pytest.warns(UserWarning, match=r"spectral radius 1\..* was shrunk; refine it"):
        fit = dlb.identify(actions, 1.01 ** np.arange(600), 1, refine=False)
    assert fit.report.shrunk
    assert fit.system.rho < 1


@pytest.mark.slow
def test_episodes_with_gaps_and_several_outputs_are_put_together():
    other = dlb.System(
        SYSTEM.A, SYSTEM.B, [1.0, -0.4], [0.0, 0.6], state_noise=[0.02, 0.01], reward_noise=0.05
    )
    starts = np.array([[3.0, -2.0], [-1.0, 4.0]])
    actions, rewards = [], []
    for T, x in zip((350, 250), starts, strict=True):
        u = np.random.default_rng(T).uniform(size=(T, 2))
        y = [rewards_of(system, u, np.random.default_rng(7), x) for system in (SYSTEM, other)]
        actions.append(u)
        rewards.append(np.stack(y, axis=1) + np.array([2.0, 0.0]))
        rewards[-1][np.random.default_rng(0).uniform(size=(T, 2)) < 0.05] = np.nan
    value = np.array([2.0, 0.5])
    fit = dlb.identify(actions, rewards, 2, value=value, restarts=1)
    assert fit.report.missing == sum(np.isnan(y).sum() for y in rewards) > 40
    np.testing.assert_allclose(fit.model.h, [SYSTEM.h, other.h], atol=0.1)
    assert distance(fit, 2 * SYSTEM.h + 0.5 * other.h) < scipy.stats.chi2(2).ppf(0.9999)
    np.testing.assert_allclose(fit.model.c, [2, 0], atol=0.05)
    np.testing.assert_allclose(fit.baseline, value @ fit.model.c)
    np.testing.assert_allclose(fit.system.omega, fit.model.C.T @ value)
    np.testing.assert_allclose(fit.system.theta, fit.model.D.T @ value)
    np.testing.assert_allclose(fit.system.reward_noise**2, value @ fit.model.R @ value)
    # Coordinates of the state are arbitrary; what it adds to the first rewards is not.
    for k in range(4):
        found = fit.x1 @ np.linalg.matrix_power(fit.model.A, k).T @ fit.model.C[0]
        expected = starts @ np.linalg.matrix_power(SYSTEM.A, k).T @ SYSTEM.omega
        np.testing.assert_allclose(found, expected, atol=0.15)


@pytest.mark.slow
def test_the_real_world_system_is_found_with_its_order():
    system = dlb.problems.real_world(sigma=0.01).system
    fit = dlb.identify(*logged(system, T=2000), restarts=1)
    assert fit.order == 3
    assert "order 3 has the best of Akaike's criterion among 1 to 4" in fit.order_reason
    assert [row.order for row in fit.order_table] == [1, 2, 3, 4]
    rising = [row.log_likelihood for row in fit.order_table]
    assert rising == sorted(rising)
    assert relative_error(fit.system.h, system.h) < 0.06
    assert distance(fit, system.h) < scipy.stats.chi2(3).ppf(0.9999)
    axes = fit.plot_order()
    assert [ax.get_xlabel() for ax in axes] == ["Number", "Order"]
    assert all(ax.get_ylabel() for ax in axes)
    plt.close("all")


@pytest.mark.slow
def test_data_of_a_learner_identify_the_system():
    problem = dlb.problems.real_world(sigma=0.01)
    policy = dlb.dynlin_ucb(dlb.Bounds.of(problem))
    run = dlb.simulate(problem, policy, horizon=6000, record=("actions", "rewards"))
    fit = dlb.identify(problem.actions.vertices[run.actions[0]], run.rewards[0], 3, restarts=1)
    assert distance(fit, problem.h) < scipy.stats.chi2(3).ppf(0.9999)
    assert relative_error(fit.system.h, problem.h) < 0.03


@pytest.mark.slow
def test_feedback_biases_the_open_loop_only():
    system = dlb.problems.real_world(sigma=0.1).system
    rng = np.random.default_rng(0)
    x, last = system.x1, 0.0
    actions, rewards = np.empty((20_000, 3)), np.empty(20_000)
    for t in range(20_000):
        actions[t] = last * np.array([1.5, -1.0, 0.5]) + 0.2 * rng.normal(size=3)
        last = rewards[t] = system.omega @ x + system.theta @ actions[t] + 0.1 * rng.normal()
        x = system.A @ x + system.B @ actions[t] + 0.1 * rng.normal(size=3)
    closed = dlb.identify(actions, rewards, 3, restarts=1)
    opened = dlb.identify(actions, rewards, 3, method="open_loop", refine=False)
    off = opened.system.h - system.h
    assert distance(closed, system.h) < scipy.stats.chi2(3).ppf(0.9999)
    assert off @ np.linalg.solve(closed.h_covariance, off) > 2 * scipy.stats.chi2(3).ppf(0.9999)


def test_a_given_order_has_one_panel(fit):
    (ax,) = fit.plot_order()
    np.testing.assert_array_equal(ax.lines[0].get_ydata(), fit.singular_values[:12])
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("Number", "Hankel singular value")
    plt.close("all")


@pytest.mark.slow
def test_rewards_that_are_missing_every_weekend():
    """No row of the regression has all its past rewards, so the start is from the actions alone."""
    actions, rewards = logged(SYSTEM, seed=3)
    rewards[np.arange(600) % 7 > 4] = np.nan
    with pytest.warns(UserWarning, match="the first estimate is from the actions alone"):
        found = dlb.identify(actions, rewards, 2, restarts=1)
    assert distance(found, SYSTEM.h) < scipy.stats.chi2(2).ppf(1 - 1e-6)


def test_actions_that_explain_nothing_are_warned_of(data):
    noise = np.random.default_rng(0).normal(size=600)
    with pytest.warns(UserWarning, match="the actions explain .* of the rewards' variance"):
        dlb.identify(data[0], noise, 1, refine=False)
