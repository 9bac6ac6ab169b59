import numpy as np
import pytest

import dlbjax as dlb


def value(problem, action):
    """J(u) by playing u for a long time without noise."""
    s, x = problem.system, np.zeros(problem.system.n)
    for _ in range(500):
        x = s.A @ x + s.B @ action
    return s.omega @ x + s.theta @ action


def test_synthetic_is_what_the_paper_says_it_leads_to():
    problem = dlb.problems.synthetic()
    np.testing.assert_allclose(problem.h, [0.5625, 0.5, 1 / 9], rtol=1e-12)
    assert problem.optimal_action.tolist() == [1, 0.5, 0]
    assert problem.optimal_value == pytest.approx(0.8125, abs=1e-12)
    assert problem.system.rho == 0.2
    assert problem.system.phi == 1.0
    assert len(problem.actions) == 10


def test_the_printed_b11_would_make_the_papers_myopic_action_optimal():
    problem = dlb.problems.synthetic()
    s = problem.system
    assert s.B[0, 0] == 0.45
    B = s.B.copy()
    B[0, 0] = 0.25
    printed = dlb.Problem(dlb.System(s.A, B, s.omega, s.theta), problem.actions)
    assert printed.optimal_action.tolist() == [0.5, 1, 0]
    assert printed.optimal_value != pytest.approx(0.8125, abs=1e-2)


@pytest.mark.parametrize(
    ("action", "expected"),
    [([0, 1, 0.5], 0.5 + 1 / 18), ([0.5, 1, 0], 0.78125), ([1, 0.5, 0], 0.8125)],
)
def test_synthetic_values(action, expected):
    problem = dlb.problems.synthetic()
    assert value(problem, np.array(action)) == pytest.approx(expected, abs=1e-12)
    assert problem.system.value(np.array(action)) == pytest.approx(expected, abs=1e-12)
    i = problem.actions.index(action)
    assert problem.values[i] == pytest.approx(expected, abs=1e-12)
    assert problem.gaps[i] == pytest.approx(0.8125 - expected, abs=1e-12)


def test_synthetic_myopic_action():
    problem = dlb.problems.synthetic()
    assert problem.myopic_action.tolist() == [0, 1, 0.5]
    assert problem.system.value(problem.myopic_action) == pytest.approx(0.556, abs=5e-4)


def test_real_world_facts():
    problem = dlb.problems.real_world()
    s = problem.system
    assert s.rho == pytest.approx(0.667, abs=5e-4)
    np.testing.assert_allclose(s.omega @ s.B, [-0.084, -0.197, 0.009], atol=5e-4)
    np.testing.assert_allclose(s.markov(1), [-0.084, -0.197, 0.009], atol=5e-4)
    np.testing.assert_array_equal(s.theta, [0.13, 0.41, 0.02])
    assert len(problem.actions) == 10
    values = [value(problem, u) for u in problem.actions.vertices]
    assert problem.optimal_value == pytest.approx(max(values), abs=1e-12)
    assert problem.optimal_index == int(np.argmax(values))
    # The expert's allocation against the best immediate reward.
    assert s.theta @ [0.003, 0.497, 1] == pytest.approx(0.224, abs=5e-4)
    assert s.theta @ problem.myopic_action == pytest.approx(0.475, abs=1e-12)


@pytest.mark.parametrize("make", [dlb.problems.synthetic, dlb.problems.real_world])
@pytest.mark.parametrize("sigma", [None, 0.0, 0.5])
def test_noise_is_on_every_coordinate_and_the_reward(make, sigma):
    system = (make() if sigma is None else make(sigma=sigma)).system
    sigma = 0.01 if sigma is None else sigma
    np.testing.assert_allclose(system.state_noise, sigma**2 * np.eye(3))
    assert system.reward_noise == sigma
    np.testing.assert_array_equal(system.x1, np.zeros(3))


# --- other kinds of feedback, each against a loop of the process itself ----------------------------

T, RUNS = 60, 3


PLANNED = dlb.Policy(
    init=lambda params, vertices, key: (),
    act=lambda params, vertices, state, epoch: epoch.plan,
    update=lambda params, state, feedback: (),
    feedback=(),
)


def play(problem, actions, noise):
    """Rewards of given actions (runs, T) under given noise, by the simulator."""
    rewards = []
    for run in range(len(actions)):

        def plan(epoch, run=run):
            return actions[run, epoch.index - 1]

        given = dlb.Noise(noise.state[run : run + 1], noise.reward[run : run + 1])
        result = dlb.simulate(
            problem,
            PLANNED._replace(prepare=lambda T, vertices, plan=plan: dlb.Schedule(plan=plan)),
            T,
            noise=given,
            record=("rewards",),
        )
        rewards.append(result.rewards[0])
    return np.array(rewards)


def noisy(problem, where):
    """Random actions, ε that enters one coordinate of the state or η the reward, and both as noise."""
    rng = np.random.default_rng(1)
    actions = rng.integers(len(problem.actions), size=(RUNS, T))
    drawn = rng.normal(size=(RUNS, T))
    state, reward = np.zeros((RUNS, T, problem.system.n)), np.zeros((RUNS, T))
    if where == "state":
        state[:, :, 0] = drawn
    else:
        reward = drawn
    return actions, drawn, dlb.Noise(state, reward)


MU = np.array([0.3, -0.2, 1.1])


@pytest.mark.parametrize(
    ("problem", "weights"),
    [
        (dlb.problems.delayed(MU, 1), [1.0]),
        (dlb.problems.delayed(MU, 4), [0, 0, 0, 1.0]),
        (dlb.problems.composite(MU, [0.5, 0.0, 0.3, 0.2]), [0.5, 0.0, 0.3, 0.2]),
        (dlb.problems.composite(MU, [-1.0, 2.0]), [-1.0, 2.0]),
    ],
)
def test_composite_and_delayed_feedback(problem, weights):
    actions, drawn, noise = noisy(problem, "state")
    full = MU[actions] + drawn
    direct = np.zeros((RUNS, T))
    for t in range(T):
        for lag, weight in enumerate(weights, start=1):
            if t >= lag:
                direct[:, t] += weight * full[:, t - lag]
    np.testing.assert_allclose(play(problem, actions, noise), direct, rtol=0, atol=1e-14)
    np.testing.assert_allclose(problem.h, MU * sum(weights), atol=1e-14)
    assert problem.system.rho == 0


@pytest.mark.parametrize("coefficients", [0.7, [0.5, 0.2], [0.3, -0.4, 0.2]])
def test_autoregressive_feedback(coefficients):
    problem = dlb.problems.autoregressive(MU, coefficients)
    a = np.atleast_1d(coefficients)
    actions, drawn, noise = noisy(problem, "state")
    direct = np.zeros((RUNS, T))
    for t in range(1, T):
        past = sum(a[j] * direct[:, t - 1 - j] for j in range(len(a)) if t - 1 - j >= 0)
        direct[:, t] = past + MU[actions[:, t - 1]] + drawn[:, t - 1]
    np.testing.assert_allclose(play(problem, actions, noise), direct, rtol=0, atol=1e-13)
    np.testing.assert_allclose(problem.h, MU / (1 - a.sum()), rtol=1e-12)


def test_adstock():
    decay, effect = np.array([0.9, 0.0, 0.5]), np.array([0.2, -0.1, 1.0])
    channels = dlb.actions.budget(0.0, np.ones(3), total=1.5)
    problem = dlb.problems.adstock(decay, effect, actions=channels)
    actions, drawn, noise = noisy(problem, "reward")
    spent = channels.vertices[actions]
    stock, direct = np.zeros((RUNS, 3)), np.zeros((RUNS, T))
    for t in range(T):
        stock = spent[:, t] + decay * stock
        direct[:, t] = stock @ effect + drawn[:, t]
    np.testing.assert_allclose(play(problem, actions, noise), direct, rtol=0, atol=1e-13)
    np.testing.assert_allclose(problem.h, effect / (1 - decay), rtol=1e-12)


@pytest.mark.parametrize(
    ("problem", "state", "reward"),
    [
        (dlb.problems.composite(MU, [0.6, 0.4], sigma=0.3), [0.09, 0.0], 0.0),
        (dlb.problems.autoregressive(MU, [0.2, 0.1], sigma=0.3), [0.09, 0.0], 0.0),
        (dlb.problems.adstock([0.2, 0.1], [1.0, 1.0], sigma=0.3), [0.0, 0.0], 0.3),
    ],
)
def test_noise_enters_where_the_process_has_it(problem, state, reward):
    np.testing.assert_allclose(problem.system.state_noise, np.diag(state), atol=1e-15)
    assert problem.system.reward_noise == reward


@pytest.mark.parametrize("signs", [None, [1, 1, 1], [1, -1, -1]])
def test_hard_instance_has_the_h_of_the_proof(signs):
    d, rho, horizon = 3, 0.6, 5000
    problem = dlb.problems.hard_instance(d, rho, horizon, signs)
    tilde = 1 / np.sqrt(8 * horizon * (1 - rho))
    right = np.ones(d) if signs is None else np.array(signs)
    np.testing.assert_allclose(problem.h, right * tilde / 2, rtol=1e-9)
    np.testing.assert_array_equal(problem.optimal_action, right)
    assert problem.optimal_value == pytest.approx(d / np.sqrt(32 * horizon * (1 - rho)), rel=1e-9)
    assert sorted(map(tuple, problem.actions.vertices)) == sorted(
        (a, b, c) for a in (-1, 1) for b in (-1, 1) for c in (-1, 1)
    )
    assert value(problem, right) == pytest.approx(problem.optimal_value, rel=1e-6)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda p: p.delayed(MU, 0), "delay must be"),
        (lambda p: p.delayed(MU, 501), "delay must be .* from 1 to 500"),
        (lambda p: p.delayed([], 2), "theta|rewards|B"),
        (lambda p: p.composite(MU, []), "weights must hold"),
        (lambda p: p.composite(MU, [0.5, np.nan]), "weights must"),
        (lambda p: p.autoregressive(MU, 1.2), "A must be stable"),
        (lambda p: p.autoregressive(MU, [[0.1]]), "coefficients must be"),
        (lambda p: p.autoregressive(MU, 0.5, sigma=-1), "sigma must be"),
        (lambda p: p.adstock([0.5, 1.0], [1, 1]), "decay must satisfy"),
        (lambda p: p.adstock([0.5], [1, 1]), "effect must"),
        (lambda p: p.hard_instance(2, 0.0, 100), "rho must be"),
        (lambda p: p.hard_instance(2, 0.01, 100), "horizon must be >= 1262.63"),
        (lambda p: p.hard_instance(2, 0.5, 100, [1, 2]), "signs must be"),
    ],
)
def test_invalid_arguments_are_rejected(call, message):
    with pytest.raises(ValueError, match=message):
        call(dlb.problems)
