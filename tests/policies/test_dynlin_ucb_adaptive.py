"""dynlin_ucb_adaptive against a loop that solves its regressions anew, and what it must not depend on."""

import numpy as np
import pytest

import dlbjax as dlb
from tests.oracles import Run, model_of
from tests.policies.replay import PROBLEMS, assert_agrees, noise_for


def lengths(growth, T):
    rounds, m = [], 1
    while sum(rounds) < T:
        rounds.append(4 + int(growth * np.log(m) ** 2))
        m += 1
    return rounds


def solved(data, prior, scale, f):
    """Weighted least squares from the whole list: estimates, squared widths, s²·n and n of its residuals."""
    moments = f.T @ f / len(f)
    V, b = scale * moments, scale * moments @ prior
    squares, count = 0.0, 0
    for row, y, weight in data:
        inverse = np.linalg.inv(V)
        if row @ inverse @ row < 100:
            squares += (y - row @ inverse @ b) ** 2 / (1 / weight + row @ inverse @ row)
            count += 1
        V, b = V + weight * np.outer(row, row), b + weight * y * row
    inverse = np.linalg.inv(V)
    widths = np.einsum("ki,ij,kj->k", f, inverse, f)
    return inverse @ b, widths, squares, count


def first(values):
    size = np.abs(values[np.isfinite(values)]).max()
    return int(np.argmax(values >= values.max() - 1e-9 * size))


def loop(problem, growth, factor, seed, eps, eta):
    model, T = model_of(problem), len(eta)
    v = model.vertices
    f = np.column_stack([np.ones(len(v)), (v - v.min(0)) / (v.max(0) - v.min(0))])
    d = v.shape[1]
    ends = [4 * (d + 1)]
    while ends[-1] < T:
        ends.append(int(ends[-1] * factor))
    window, phase, window_prior, phase_prior = [], [], np.zeros(d + 1), np.zeros(d + 1)
    x, actions, rewards, drifts, before, origin = model.x1.copy(), [], [], [], None, 0.0
    for m, length in enumerate(lengths(growth, T), start=1):
        h, width, squares, count = solved(window, window_prior, 1e-4, f)
        s2 = (squares + np.sum(drifts) / max(len(drifts), 1)) / (count + 1)
        beta2 = 2 * np.log(1 + m) + d * np.log(1 + np.log(1 + m))
        if np.any(width > 100):
            chosen = first(np.where(width > 100, f @ h, -np.inf))
        else:
            bonus = np.sqrt(s2 * beta2 * width)
            index = f @ h + bonus
            if before is not None:
                index[before] += 0.5 * bonus[before]
            chosen = first(index)
        seen = []
        for _ in range(min(length, T - len(rewards))):
            t, u = len(rewards), v[chosen]
            actions.append(chosen)
            rewards.append(model.omega @ x + model.theta @ u + eta[t])
            seen.append(rewards[-1])
            x = model.A @ x + model.B @ u + eps[t]
        stayed = chosen == before
        y, weight = (np.mean(seen), length) if stayed else (seen[-1], 1)
        origin = y if m == 1 else origin
        drifts.append((seen[-1] - np.mean(seen[:-1])) ** 2 if len(seen) > 1 else 0.0)
        window.append((f[chosen], y - origin, weight))
        phase.append((f[chosen], y - origin, weight))
        before = chosen
        if m in ends:
            learnt = solved(window, window_prior, 1e-4, f)[0]
            window, window_prior, phase, phase_prior = phase, phase_prior, [], learnt
    return Run(np.array(actions), np.array(rewards), np.zeros(0))


@pytest.mark.parametrize("name", PROBLEMS)
@pytest.mark.parametrize(("growth", "factor"), [(0.35, 3.0), (0.1, 2.0)])
def test_agrees_with_a_loop_over_the_history(name, growth, factor):
    problem, T = PROBLEMS[name](sigma=0.1), 700
    policy = dlb.dynlin_ucb_adaptive(growth, factor)

    def run(seed, eps, eta):
        return loop(problem, growth, factor, seed, eps, eta)

    played = assert_agrees(problem, policy, noise_for(problem, 2, T), run)
    assert len(np.unique(played)) > 3


def played(problem, T=20_000, seeds=4):
    return dlb.simulate(
        problem, dlb.dynlin_ucb_adaptive(), T, seeds, record="actions", rounds=[T]
    ).actions


def in_units(problem, rewards=1.0, actions=1.0):
    """The same bandit with rewards and each coordinate of the actions measured in other units."""
    s, units = problem.system, np.broadcast_to(actions, problem.system.d)
    system = dlb.System(
        s.A, s.B / units, s.omega * rewards, s.theta / units * rewards,
        state_noise=s.state_noise, reward_noise=s.reward_noise * rewards, x1=s.x1,
    )  # fmt: skip
    return dlb.Problem(system, dlb.actions.finite(problem.actions.vertices * units))


def with_baseline(problem, level):
    """A further coordinate that is 1 in every action, and `level` added to every reward by it."""
    s, v = problem.system, problem.actions.vertices
    system = dlb.System(
        s.A, np.column_stack([s.B, np.zeros(s.n)]), s.omega, np.r_[s.theta, level],
        state_noise=s.state_noise, reward_noise=s.reward_noise, x1=s.x1,
    )  # fmt: skip
    return dlb.Problem(system, dlb.actions.finite(np.column_stack([v, np.ones(len(v))])))


@pytest.mark.parametrize("name", PROBLEMS)
def test_units_that_are_powers_of_two_change_nothing(name):
    problem = PROBLEMS[name](sigma=0.1)
    plain = played(in_units(problem))
    for units in ({"rewards": 2.0**20}, {"actions": 2.0**-9}, {"actions": [0.25, 8.0, 2.0**30]}):
        np.testing.assert_array_equal(played(in_units(problem, **units)), plain)


@pytest.mark.parametrize("name", PROBLEMS)
def test_other_units_and_a_baseline_change_nothing_but_ties(name):
    """Rounding differs, and a decision that hangs on the last digits may tip: none does here."""
    problem = PROBLEMS[name](sigma=0.1)
    plain = played(in_units(problem))
    for other in (
        in_units(problem, actions=[1000.0, 1e-3, 7.0]),
        with_baseline(problem, 50.0),
    ):
        np.testing.assert_array_equal(played(other), plain)


@pytest.mark.parametrize("name", PROBLEMS)
def test_rewards_in_thousandths_change_nothing_but_ties(name):
    """With the noise given: that of a seed is another path where the unit is no power of two."""
    problem, policy = PROBLEMS[name](sigma=0.1), dlb.dynlin_ucb_adaptive()
    noise = noise_for(problem, 4, 5000)
    in_thousandths = dlb.Noise(noise.state, 1000 * noise.reward)
    options = {"horizon": 5000, "record": "actions", "rounds": [5000]}
    plain = dlb.simulate(problem, policy, noise=noise, **options)
    other = dlb.simulate(in_units(problem, 1000.0), policy, noise=in_thousandths, **options)
    np.testing.assert_array_equal(other.actions, plain.actions)


def test_the_horizon_is_not_used():
    problem = dlb.problems.synthetic(sigma=0.1)
    noise = noise_for(problem, 2, 3000)
    short = dlb.Noise(noise.state[:, :1000], noise.reward[:, :1000])
    policy = dlb.dynlin_ucb_adaptive()
    long, brief = (
        dlb.simulate(problem, policy, n.reward.shape[1], noise=n, record="actions").actions
        for n in (noise, short)
    )
    np.testing.assert_array_equal(long[:, :1000], brief)


@pytest.mark.parametrize(
    ("problem", "most"),
    [
        (dlb.problems.synthetic(sigma=0.01), 40),
        (dlb.problems.real_world(sigma=0.01), 50),
        (dlb.problems.synthetic(sigma=0.1), 600),
    ],
    ids=["synthetic", "real-world", "synthetic, more noise"],
)
@pytest.mark.slow
def test_regret_on_the_problems_of_the_paper(problem, most):
    """Means of 50 runs are 37.6 ± 0.1, 39.8 ± 0.6 and 248 ± 5 (standard errors)."""
    result = dlb.simulate(problem, dlb.dynlin_ucb_adaptive(), 1_000_000, 50)
    assert result.expected_regret[:, -1].mean() <= most


def test_no_noise_and_nothing_to_choose():
    still = dlb.problems.synthetic(sigma=0.0)
    assert dlb.simulate(still, dlb.dynlin_ucb_adaptive(), 5000).offline_regret[0, -1] < 20
    one = dlb.Problem(still.system, dlb.actions.finite([[1.0, 0.0, 0.0]]))
    assert dlb.simulate(one, dlb.dynlin_ucb_adaptive(), 100).offline_regret[0, -1] == 0


@pytest.mark.parametrize(("name", "value"), [("growth", 0.0), ("factor", 1.0), ("growth", "x")])
def test_rejects_by_name(name, value):
    with pytest.raises(ValueError, match=name):
        dlb.dynlin_ucb_adaptive(**{name: value})
