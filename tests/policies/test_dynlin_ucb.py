"""DynLin-UCB round by round against a plain NumPy loop of Algorithm 1."""

import numpy as np
import pytest

import dlbjax as dlb
from tests.oracles import algorithm1, epoch_lengths, model_of, radius, random_stable, regrets

T = 100  # with a report every round, all of it fits one block


def random_problem(seed, n, d, actions, rho=0.7, noise=0.3, x1=1.0):
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(n, n))
    system = dlb.System(
        A=random_stable(rng, n, rho), B=rng.normal(size=(n, d)), omega=rng.normal(size=n),
        theta=rng.normal(size=d), state_noise=noise * root @ root.T, reward_noise=noise,
        x1=x1 * rng.normal(size=n),
    )  # fmt: skip
    return dlb.Problem(system, actions(rng, d))


def points(K):
    return lambda rng, d: dlb.actions.finite(rng.normal(size=(K, d)))


def polytope(rng, d):
    """A box with two random cuts."""
    eye = np.eye(d)
    cuts = rng.uniform(size=(2, d))
    return dlb.actions.polytope(
        np.r_[eye, -eye, cuts], np.r_[np.ones(2 * d), 0.4 * cuts.sum(axis=1)]
    )


def line(rng, d):
    return dlb.actions.finite([[-1.0], [0.9], [0.1]])


def budget(rng, d):
    return dlb.actions.budget(0.0, rng.uniform(0.5, 1.0, size=d), total=0.4 * d)


CASES = {
    "finite": (random_problem(1, 3, 3, points(8)), {"rho_bar": 0.8}),
    "polytope": (random_problem(2, 4, 2, polytope), {"rho_bar": 0.75, "lam": 0.1}),
    "n = d = 6": (random_problem(3, 6, 6, points(12), rho=0.5), {"rho_bar": 0.6, "lam": 3.0}),
    "budget": (random_problem(4, 2, 4, budget), {"delta": 0.05}),
    "d = 1": (random_problem(8, 3, 1, line, rho=0.5, noise=1.0), {"rho_bar": 0.6, "lam": 0.5}),
    "n = 1": (random_problem(6, 1, 3, points(5), rho=0.3), {"rho_bar": 0.4}),
    "one action": (random_problem(7, 2, 2, points(1)), {}),
    "rho_bar = 0": (random_problem(8, 3, 3, points(8)), {"rho_bar": 0.0}),
    "nilpotent": (random_problem(9, 3, 3, points(8), rho=0), {"rho_bar": 0.5}),
    "no noise": (random_problem(10, 3, 3, points(8), noise=0.0), {"lam": 0.01}),
}


def fields_of(bounds):
    return {name: float(getattr(bounds, name)) for name in type(bounds).__dataclass_fields__}


def noise_for(problem, runs, horizon, seed=0):
    """Noise that need not have the problem's law: replayed noise is whatever is given."""
    rng = np.random.default_rng(seed)
    scale = problem.system.reward_noise
    return dlb.Noise(
        rng.normal(0, scale, (runs, horizon, problem.system.n)),
        rng.normal(0, scale, (runs, horizon)),
    )


def assert_agrees(problem, policy, noise, lengths, beta, lam, first=None):
    """Everything that is recorded and reported, after every round."""
    runs, horizon = noise.reward.shape
    result = dlb.simulate(
        problem, policy, horizon, noise=noise, rounds=range(1, horizon + 1),
        record=("actions", "rewards", "states"),
    )  # fmt: skip
    model, distinct = model_of(problem), set()
    for i in range(runs):
        run = algorithm1(model, lengths, beta, lam, noise.state[i], noise.reward[i], first)
        np.testing.assert_array_equal(result.actions[i], run.actions)
        for found, expected in [
            (result.rewards, run.rewards),
            (result.states, run.states),
            *zip(
                (result.realised_regret, result.expected_regret, result.offline_regret),
                regrets(model, run),
                strict=True,
            ),
        ]:
            scale = np.abs(expected).max()
            np.testing.assert_allclose(found[i], expected, rtol=1e-9, atol=1e-9 * (1 + scale))
        distinct |= set(run.actions)
    return distinct


@pytest.mark.parametrize(("problem", "options"), CASES.values(), ids=CASES)
def test_agrees_with_algorithm_1_round_by_round(problem, options):
    bounds = dlb.Bounds.of(problem, rho_bar=options.get("rho_bar", 0.8))
    lam, delta = options.get("lam", np.log(T)), options.get("delta", 1 / T)
    policy = dlb.dynlin_ucb(bounds, options.get("lam"), options.get("delta"))
    d = problem.system.d
    played = assert_agrees(
        problem,
        policy,
        noise_for(problem, 3, T),
        epoch_lengths(bounds.rho, T),
        lambda s: radius(fields_of(bounds), lam, delta, d, s),
        lam,
    )
    assert len(played) >= min(2, len(problem.actions)), "nothing was decided"


def test_epochs_beta_and_first_are_those_given():
    """Own epochs (the last one cut by the horizon), own radius per epoch, own first vertex."""
    problem, _ = CASES["finite"]
    lengths = [3, 1, 7, 2] + [9] * 10
    values = np.random.default_rng(3).uniform(0, 2, size=len(lengths))
    starts = (np.cumsum(lengths) - lengths).tolist()
    assert sum(lengths) > T > starts[-1]
    policy = dlb.dynlin_ucb(dlb.Bounds.of(problem, 0.8), 1.0, epochs=lengths, beta=values, first=5)
    assert_agrees(
        problem, policy, noise_for(problem, 3, T), lengths,
        lambda s: values[starts.index(s)], 1.0, first=5,
    )  # fmt: skip


def test_one_round():
    problem, _ = CASES["finite"]
    bounds = dlb.Bounds.of(problem, 0.8)
    policy = dlb.dynlin_ucb(bounds, 1.0, 0.1)
    assert_agrees(problem, policy, noise_for(problem, 3, 1), [1], lambda s: 1.0, 1.0)


@pytest.mark.parametrize(("longer", "chosen"), [(1e-13, 0), (1e-11, 1)])
@pytest.mark.parametrize("beta", [1e-10, 1.0, 1e10])
def test_ties_within_a_part_in_1e12_go_to_the_first(beta, longer, chosen):
    """At the start UCB(u) = β‖u‖/√λ, and the second action is a little longer."""
    system = dlb.System(A=[[0.0]], B=[[0.0]], omega=[0.0], theta=[0.0])
    problem = dlb.Problem(system, dlb.actions.finite([[1.0], [1.0 + longer], [-1.0]]))
    policy = dlb.dynlin_ucb(dlb.Bounds.of(problem), 1.0, beta=[beta])
    assert dlb.simulate(problem, policy, 1, record="actions").actions == chosen


@pytest.mark.parametrize("rho_bar", [0.0, 0.1, 0.2, 0.5, 0.9])
def test_holds_each_decision_one_plus_H_rounds(rho_bar):
    problem = dlb.problems.synthetic()
    policy = dlb.dynlin_ucb(dlb.Bounds.of(problem, rho_bar=rho_bar))
    table = policy.prepare(5000, problem.actions.vertices).epochs
    expected = epoch_lengths(rho_bar, 5000)
    np.testing.assert_array_equal(np.repeat(table.lengths, table.counts), expected)


@pytest.mark.parametrize("rounds", [0, 1, 1000])
def test_exploration_is_equation_5(rounds):
    bounds = dlb.Bounds.of(dlb.problems.real_world(sigma=0.3), rho_bar=0.7)
    for lam, delta in [(1.0, 0.1), (13.8, 1e-6)]:
        found = dlb.theory.beta(bounds, lam, delta, 3, np.array([rounds]), printed=True)[0]
        np.testing.assert_allclose(
            found, radius(fields_of(bounds), lam, delta, 3, rounds), rtol=1e-13
        )


def test_scale_multiplies_the_radius_and_extra_lengthens_every_epoch():
    problem, horizon = dlb.problems.synthetic(sigma=0.5), 200
    bounds = dlb.Bounds.of(problem, rho_bar=0.4)
    lengths = np.array(epoch_lengths(0.4, horizon)) + 2
    starts = np.cumsum(lengths) - lengths
    beta = [0.3 * radius(fields_of(bounds), 2.0, 0.1, 3, t) for t in starts]
    both = {
        "settings": dlb.dynlin_ucb(bounds, 2.0, 0.1, scale=0.3, extra=2),
        "lists": dlb.dynlin_ucb(bounds, 2.0, 0.1, epochs=lengths, beta=beta),
        "neither": dlb.dynlin_ucb(bounds, 2.0, 0.1),
    }
    results = dlb.simulate(problem, both, horizon, seeds=8, record="actions")
    played = [results[name].actions for name in both]
    np.testing.assert_array_equal(played[0], played[1])
    assert not np.array_equal(played[0], played[2])


def test_defaults_are_those_of_the_paper():
    """λ = log T and δ = 1/T."""
    problem, T = dlb.problems.synthetic(sigma=0.5), 50
    bounds = dlb.Bounds.of(problem, rho_bar=0.2)
    both = {
        "default": dlb.dynlin_ucb(bounds),
        "written out": dlb.dynlin_ucb(bounds, lam=np.log(T), delta=1 / T),
        "other": dlb.dynlin_ucb(bounds, lam=1.0, delta=0.5),
    }
    results = dlb.simulate(problem, both, T, seeds=8)
    paths = [results[name].realised_regret for name in both]
    np.testing.assert_array_equal(paths[0], paths[1])
    assert not np.array_equal(paths[0], paths[2])


WRONG = {
    "bounds": (lambda b: dlb.dynlin_ucb("bounds"), "bounds must be a dlbjax.Bounds; got str"),
    "lam": (lambda b: dlb.dynlin_ucb(b, lam=0.0), "lam must be > 0.0; got 0"),
    "lam in a list": (lambda b: dlb.dynlin_ucb(b, lam=[1.0, -1.0]), "lam must be > 0.0; got -1"),
    "lam nan": (lambda b: dlb.dynlin_ucb(b, lam=np.nan), "lam must be finite"),
    "lam of two axes": (lambda b: dlb.dynlin_ucb(b, lam=[[1.0]]), r"lam .*got shape \(1, 1\)"),
    "lam empty": (lambda b: dlb.dynlin_ucb(b, lam=[]), r"lam .*got shape \(0,\)"),
    "lam text": (lambda b: dlb.dynlin_ucb(b, lam="big"), "lam must hold real numbers"),
    "delta 0": (lambda b: dlb.dynlin_ucb(b, delta=0.0), "delta must be > 0.0 and < 1.0; got 0"),
    "delta 1": (lambda b: dlb.dynlin_ucb(b, delta=1.0), "delta must be > 0.0 and < 1.0; got 1"),
    "first": (lambda b: dlb.dynlin_ucb(b, first=-1), "first must be a whole number >= 0; got -1"),
    "scale": (lambda b: dlb.dynlin_ucb(b, scale=-1.0), "scale must be >= 0.0; got -1"),
    "extra": (lambda b: dlb.dynlin_ucb(b, extra=0.5), "extra must be a whole number >= 0; got 0.5"),
    "beta": (lambda b: dlb.dynlin_ucb(b, beta=[[1.0]]), "beta must have shape"),
    "beta nan": (lambda b: dlb.dynlin_ucb(b, beta=[1.0, np.nan]), r"beta must be finite.*\(1,\)"),
    "rho": (lambda b: dlb.dynlin_ucb(b.replace(rho=1.0)), r"rho \(ρ̄\) must be below 1; got 1"),
    "negative": (lambda b: dlb.dynlin_ucb(b.replace(sigma=-1.0)), "sigma must be >= 0; got -1"),
    "field": (lambda b: b.replace(rho_bar=0.1), "no field 'rho_bar'; its fields are Theta"),
    "two lengths": (
        lambda b: dlb.dynlin_ucb(b.replace(rho=[0.1, 0.2], X=[1.0, 2.0, 3.0])),
        "fields of the bounds that are lists must have one length",
    ),
    "rho_bar": (
        lambda b: dlb.Bounds.of(dlb.problems.synthetic(), rho_bar=1.0),
        "rho_bar must satisfy 0 <= rho_bar < 1; got 1",
    ),
}


@pytest.mark.parametrize(("make", "message"), WRONG.values(), ids=WRONG)
def test_wrong_arguments_are_refused_by_name(make, message):
    with pytest.raises(ValueError, match=message):
        make(dlb.Bounds.of(dlb.problems.synthetic(), rho_bar=0.2))
