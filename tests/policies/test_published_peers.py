"""Policies published since, each against a plain loop that keeps the whole history."""

import jax
import numpy as np
import pytest

import dlbjax as dlb
from tests.oracles import Run, epoch_lengths, model_of
from tests.policies.replay import PROBLEMS, assert_agrees, key_of, noise_for, uniforms_of


def first_best(values):
    return int(np.argmax(values >= values.max() - 1e-12))


def play(model, x, u, eps, eta):
    """The reward of a round and the state after it."""
    return model.omega @ x + model.theta @ u + eta, model.A @ x + model.B @ u + eps


@pytest.mark.parametrize("name", PROBLEMS)
@pytest.mark.parametrize(("explore", "lags"), [(None, 13), (40, 3), (300, 1)])
def test_explore_then_commit(name, explore, lags):
    problem, T = PROBLEMS[name](sigma=0.1), 200
    model = model_of(problem)
    K, d = model.vertices.shape
    N = int(np.ceil(T ** (2 / 3))) if explore is None else explore

    def loop(seed, eps, eta):
        random, x, actions, rewards = uniforms_of(seed, T), model.x1, [], []
        for t in range(T):
            if t < N:
                chosen = min(int(random[t] * K), K - 1)
            elif t == N:
                rows = np.zeros((N, lags * d))
                for s in range(N):
                    for lag in range(min(lags, s + 1)):
                        rows[s, lag * d : (lag + 1) * d] = model.vertices[actions[s - lag]]
                squares = rows.T @ rows + 1e-6 * np.eye(lags * d)
                h = np.linalg.solve(squares, rows.T @ rewards).reshape(lags, d).sum(axis=0)
                chosen = first_best(model.vertices @ h)
            y, x = play(model, x, model.vertices[chosen], eps[t], eta[t])
            actions.append(chosen)
            rewards.append(y)
        return Run(np.array(actions), np.array(rewards), np.zeros(0))

    policy = dlb.explore_then_commit(explore, lags)
    assert_agrees(problem, policy, noise_for(problem, 2, T), loop)


@pytest.mark.parametrize("name", PROBLEMS)
def test_thompson_sampling(name):
    problem, T, lam = PROBLEMS[name](sigma=0.1), 300, 0.01
    model, bounds = model_of(problem), dlb.Bounds.of(problem, 0.5)
    d = model.vertices.shape[1]
    variance = bounds.sigma**2 * (1 + bounds.Omega**2 * bounds.Phi**2 / (1 - bounds.rho**2))

    def loop(seed, eps, eta):
        V, b, key = lam * np.eye(d), np.zeros(d), key_of(seed, 2)
        x, actions, rewards = model.x1, [], []
        for length in epoch_lengths(0.5, T):
            if len(rewards) >= T:
                break
            with jax.enable_x64(True):
                z = np.asarray(jax.random.normal(key, (d,), np.float64))
                key = jax.random.split(key, 1)[0]
            inverse = np.linalg.inv(V)
            # C⁻ᵀ with V = C Cᵀ, as the upper factor of V⁻¹ = C⁻ᵀC⁻¹
            root = np.linalg.inv(np.linalg.cholesky(V)).T
            chosen = first_best(model.vertices @ (inverse @ b + np.sqrt(variance) * root @ z))
            u = model.vertices[chosen]
            for _ in range(min(length + 5, T - len(rewards))):  # 0.5⁵ < 1/20 < 0.5⁴
                t = len(rewards)
                y, x = play(model, x, u, eps[t], eta[t])
                actions.append(chosen)
                rewards.append(y)
            V, b = V + np.outer(u, u), b + rewards[-1] * u
        return Run(np.array(actions), np.array(rewards), np.zeros(0))

    played = assert_agrees(problem, dlb.thompson_sampling(bounds), noise_for(problem, 2, T), loop)
    assert len(np.unique(played)) > 2


@pytest.mark.parametrize("order", [1, 3])
def test_ar_ucb(order):
    problem = dlb.problems.autoregressive([0.2, 0.5, 0.4], [0.4, 0.1, -0.2], sigma=0.1)
    T, model, lam, m, sigma = 250, model_of(problem), 1.0, 0.5, 0.1
    K = len(model.vertices)

    def loop(seed, eps, eta):
        x, actions, rewards = model.x1, [], []
        for t in range(T):
            seen = [0.0] * order + rewards
            context = np.r_[1.0, seen[: -order - 1 : -1]]
            index = np.zeros(K)
            for a in range(K):
                V, b = lam * np.eye(order + 1), np.zeros(order + 1)
                for s in range(1, t):  # the reward of round s shows the action of round s − 1
                    if actions[s - 1] == a:
                        past = [0.0] * order + rewards[:s]
                        z = np.r_[1.0, past[: -order - 1 : -1]]
                        V, b = V + np.outer(z, z), b + rewards[s] * z
                inverse = np.linalg.inv(V)
                logs = 2 * np.log(K * T) + np.log(np.linalg.det(V) / lam ** (order + 1))
                beta = np.sqrt(lam * (m**2 + 1)) + sigma * np.sqrt(logs)
                index[a] = inverse @ b @ context + beta * np.sqrt(context @ inverse @ context)
            actions.append(first_best(index))
            y, x = play(model, x, model.vertices[actions[-1]], eps[t], eta[t])
            rewards.append(y)
        return Run(np.array(actions), np.array(rewards), np.zeros(0))

    noise = noise_for(problem, 1, T)
    state = 0.1 * np.random.default_rng(1).normal(size=noise.state.shape)
    state[..., 1:] = 0  # only the newest reward has noise
    given = dlb.Noise(state, np.zeros_like(noise.reward))
    played = assert_agrees(problem, dlb.ar_ucb(order, m, sigma), given, loop)
    assert len(np.unique(played)) == 3


@pytest.mark.parametrize(("lags", "alpha", "lam"), [(1, 1.0, 1.0), (2, 0.1, 0.5)])
def test_larl(lags, alpha, lam):
    problem = dlb.problems.autoregressive([0.2, 0.5, 0.4], [0.4, 0.1, -0.2], sigma=0.1)
    T, model = 150, model_of(problem)
    K = len(model.vertices)

    def loop(seed, eps, eta):
        random, x, actions, rewards, contexts = uniforms_of(seed, T), model.x1, [], [], []
        for t in range(T):
            chosen, z = min(int(random[t] * K), K - 1), None
            if t >= lags:
                one = np.eye(K)[
                    actions[-lags:]
                ]  # oldest first: the order of coefficients is no matter
                z = np.r_[(np.array(rewards[-lags:])[:, None] * one).ravel(), one.ravel(), 1.0]
                index = np.zeros(K)
                for a in range(K):
                    past = [s for s in range(lags, t) if actions[s] == a]
                    Z, y = np.array([contexts[s] for s in past]), np.array(rewards)[past]
                    V = lam * np.eye(len(z)) + (Z.T @ Z if past else 0)
                    b = Z.T @ y if past else np.zeros(len(z))
                    width = np.sqrt(z @ np.linalg.solve(V, z))
                    index[a] = np.linalg.solve(V, b) @ z + alpha * width
                chosen = first_best(index)
            y, x = play(model, x, model.vertices[chosen], eps[t], eta[t])
            actions.append(chosen)
            rewards.append(y)
            contexts.append(z)
        return Run(np.array(actions), np.array(rewards), np.zeros(0))

    played = assert_agrees(problem, dlb.larl(lags, alpha, lam), noise_for(problem, 2, T), loop)
    assert len(np.unique(played)) == K


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda: dlb.explore_then_commit(0), "explore"),
        (lambda: dlb.explore_then_commit(lags=0), "lags"),
        (lambda: dlb.ar_ucb(0, 1.0, 0.1), "order"),
        (lambda: dlb.ar_ucb(1, -1.0, 0.1), "m must"),
        (lambda: dlb.ar_ucb(1, 1.0, 0.1, delta=1.0), "delta"),
        (lambda: dlb.larl(0), "lags"),
        (lambda: dlb.simulate(dlb.problems.synthetic(), dlb.larl(9), 10, seeds=1), "lags=9"),
        (lambda: dlb.larl(1, alpha=-1.0), "alpha"),
        (lambda: dlb.larl(1, lam=0.0), "lam"),
    ],
)
def test_rejects_by_name(make, name):
    with pytest.raises(ValueError, match=name):
        make()
