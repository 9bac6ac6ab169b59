"""AR2 round by round against a plain loop with sets and dictionaries, and its first rounds."""

import numpy as np
import pytest
from scipy import stats

import dlbjax as dlb
from tests import baseline_oracles as loops
from tests.oracles import model_of
from tests.policies.replay import PROBLEMS, assert_agrees, noise_for, order_of

T, K = 6000, 10

VARIANTS = {
    "default": {},
    "default epoch beyond 32 bits": {"sigma": 0.001},
    "restarts, triggers often": {"epoch": 500, "sigma": 0.1},
    "restarts, triggers at times": {"epoch": 500, "sigma": 0.0028},
    "restarts, triggers rarely": {"epoch": 500, "sigma": 0.0003},
    "own rate": {"epoch": 333, "alpha": 0.9, "sigma": 0.0003},
    "default epoch of 640": {"alpha": 0.5, "sigma": 0.5},  # 10·8·8, exact in floats
    "epoch shorter than the arms": {"epoch": 7},
}


@pytest.mark.parametrize("make", PROBLEMS.values(), ids=PROBLEMS)
@pytest.mark.parametrize("options", VARIANTS.values(), ids=VARIANTS)
def test_ar2_plays_as_the_loop_does(make, options):
    problem = make()
    bounds = dlb.Bounds.of(problem)
    alpha = options.get("alpha", float(bounds.rho))
    sigma = options.get("sigma", float(bounds.sigma))
    epoch = options.get("epoch", loops.ar2_epoch(K, alpha, sigma))

    def loop(seed, eps, eta):
        return loops.ar2(model_of(problem), alpha, sigma, epoch, order_of(seed, K), eps, eta)

    policy = dlb.ar2(bounds, **options)
    actions = assert_agrees(problem, policy, noise_for(problem, 2, T), loop)
    for run in actions:
        for start in range(0, T - K, epoch):
            first = run[start : start + min(K, epoch)]
            assert len(set(first)) == len(first), "an arm was pulled twice"
            np.testing.assert_array_equal(first, run[: len(first)])


def test_the_variants_trigger_as_they_say():
    """How many of the rounds go to another arm than the one played most: the cases do differ."""
    problem = dlb.problems.real_world()
    noise = noise_for(problem, 2, T)
    others = {}
    for name in ("restarts, triggers often", "restarts, triggers rarely"):
        policy = dlb.ar2(dlb.Bounds.of(problem), **VARIANTS[name])
        actions = dlb.simulate(problem, policy, T, noise=noise, record="actions").actions[0]
        others[name] = T - np.bincount(actions).max()
    assert others["restarts, triggers often"] > 1.5 * others["restarts, triggers rarely"]
    assert others["restarts, triggers rarely"] > T / 500 * (K - 1), "nothing was triggered"


def test_orders_are_random():
    """Distinct for 8 seeds, and the first arm uniform by χ²: 8·10⁻⁶ + 10⁻⁶ false alarms."""
    problem = dlb.problems.synthetic()
    policy = dlb.ar2(dlb.Bounds.of(problem))
    orders = dlb.simulate(problem, policy, K, seeds=1000, record="actions").actions
    np.testing.assert_array_equal(np.sort(orders, axis=1), np.tile(np.arange(K), (1000, 1)))
    assert len(np.unique(orders[:8], axis=0)) == 8
    assert stats.chisquare(np.bincount(orders[:, 0], minlength=K)).pvalue > 1e-6


@pytest.mark.parametrize("arms", [1, 2])
def test_few_arms(arms):
    system = dlb.problems.synthetic().system
    problem = dlb.Problem(system, dlb.actions.finite(np.eye(3)[:arms]))
    bounds, noise = dlb.Bounds.of(problem), noise_for(problem, 2, 200)

    def loop(seed, eps, eta):
        order = order_of(seed, arms)
        return loops.ar2(model_of(problem), 0.2, 0.01, 50, order, eps, eta)

    actions = assert_agrees(problem, dlb.ar2(bounds, 0.2, 0.01, epoch=50), noise, loop)
    assert set(actions.ravel()) == set(range(arms))


WRONG = [
    ({"alpha": 0.0}, "alpha"),
    ({"alpha": 1.0}, "alpha"),
    ({"alpha": -0.2}, "alpha"),
    ({"sigma": 0.0}, "sigma"),
    ({"sigma": -1.0}, "sigma"),
    ({"epoch": 0}, "epoch"),
    ({"epoch": 2.5}, "epoch"),
]


@pytest.mark.parametrize(("options", "named"), WRONG, ids=str)
def test_wrong_hyper_parameters_are_refused(options, named):
    with pytest.raises(ValueError, match=f"^{named} must be"):
        dlb.ar2(dlb.Bounds.of(dlb.problems.synthetic()), **options)


@pytest.mark.parametrize(("field", "named"), [("rho", "alpha"), ("sigma", "sigma")])
def test_bounds_it_cannot_use_are_refused(field, named):
    """The epoch's length Kα⁻³σ⁻³ is infinite where the state forgets at once or nothing is noisy."""
    bounds = dlb.Bounds.of(dlb.problems.synthetic()).replace(**{field: 0.0})
    with pytest.raises(ValueError, match=named):
        dlb.ar2(bounds)


@pytest.mark.parametrize("sigma", [1e-200, 1e6])
def test_a_width_that_is_no_number_is_refused(sigma):
    problem = dlb.problems.synthetic()
    with pytest.raises(ValueError, match="'AR2' cannot be run: its params is not finite"):
        dlb.simulate(problem, dlb.ar2(dlb.Bounds.of(problem), sigma=sigma), 10)
