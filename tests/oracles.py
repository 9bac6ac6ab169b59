"""Plain NumPy loops to test against. They share no code with the package and are not fast."""

from fractions import Fraction
from typing import NamedTuple

import numpy as np


class Model(NamedTuple):
    """A system and its actions, as plain arrays."""

    A: np.ndarray
    B: np.ndarray
    omega: np.ndarray
    theta: np.ndarray
    x1: np.ndarray
    vertices: np.ndarray


class Run(NamedTuple):
    """One run, round by round."""

    actions: np.ndarray  # (T,)
    rewards: np.ndarray  # (T,)
    states: np.ndarray  # (T, n)


def model_of(problem) -> Model:
    s = problem.system
    return Model(s.A, s.B, s.omega, s.theta, s.x1, problem.actions.vertices)


def steady_reward(model: Model) -> np.ndarray:
    """h, through the steady state of each unit action."""
    n, d = model.B.shape
    steady = np.linalg.inv(np.eye(n) - model.A) @ model.B
    return np.array([model.omega @ steady[:, i] + model.theta[i] for i in range(d)])


def exact_values(model: Model) -> list[tuple[Fraction, Fraction]]:
    """⟨h, v⟩ at each vertex v, and the sum of the magnitudes of all terms on the way, in fractions.

    Rounding every number that is given once moves the value by less than 2⁻⁵² of the latter.
    """
    n = len(model.A)
    A, B, omega, theta, vertices = (
        np.vectorize(Fraction, otypes=[object])(array)
        for array in (model.A, model.B, model.omega, model.theta, model.vertices)
    )
    M = np.eye(n, dtype=int).astype(object) - A.T
    inverse = np.concatenate([M, np.eye(n, dtype=int).astype(object)], axis=1)
    for i in range(n):  # Gauss and Jordan
        pivot = next(j for j in range(i, n) if inverse[j, i] != 0)
        inverse[[i, pivot]] = inverse[[pivot, i]]
        inverse[i] = inverse[i] * (Fraction(1) / inverse[i, i])
        for j in set(range(n)) - {i}:
            inverse[j] = inverse[j] - inverse[j, i] * inverse[i]
    inverse = inverse[:, n:]
    x = inverse @ omega
    terms = abs(inverse) @ (abs(omega) + (np.eye(n, dtype=int) + abs(A.T)) @ abs(x))
    values = vertices @ (theta + B.T @ x)
    sizes = abs(vertices) @ (abs(theta) + abs(B.T) @ terms)
    return list(zip(values, sizes, strict=True))


def epoch_lengths(rho_bar: float, horizon: int) -> list[int]:
    """1 + ⌊log m / log(1/ρ̄)⌋ in exact arithmetic, ρ̄ read as the decimal it is written as."""
    rate = Fraction(str(rho_bar))
    lengths: list[int] = []
    H = 0
    while sum(lengths) < horizon:
        m = len(lengths) + 1
        while rate > 0 and rate ** (H + 1) * m >= 1:
            H += 1
        lengths.append(1 + H)
    return lengths


def radius(bounds: dict, lam: float, delta: float, d: int, s: int, bias: bool = True) -> float:
    """β after s rounds (Equation 5), or without the term for the bias."""
    Theta, Omega, B, U, X, Phi, rho, sigma = (
        bounds[k] for k in ("Theta", "Omega", "B", "U", "X", "Phi", "rho", "sigma")
    )
    c1 = U * Omega * Phi * (U * B / (1 - rho) + X)
    c2 = Theta + Omega * B * Phi / (1 - rho)
    variance = sigma**2 * (1 + Omega**2 * Phi**2 / (1 - rho**2))
    logs = np.log(1 / delta) + d / 2 * np.log(1 + s * U**2 / (d * lam))
    return (
        bias * c1 / np.sqrt(lam) * np.log(np.e * (s + 1))
        + c2 * np.sqrt(lam)
        + np.sqrt(2 * variance * logs)
    )


def algorithm1(model: Model, lengths, beta, lam: float, eps, eta, first=None) -> Run:
    """Algorithm 1 as it is printed: beta(s) is the radius after s rounds, eps (T, n), eta (T,)."""
    T, d = len(eta), model.B.shape[1]
    V, b, x = lam * np.eye(d), np.zeros(d), model.x1.copy()
    actions, rewards, states = [], [], []
    for m, length in enumerate(lengths):
        if len(rewards) >= T:
            break
        h_hat = np.linalg.solve(V, b)
        width = [np.sqrt(u @ np.linalg.solve(V, u)) for u in model.vertices]
        ucb = model.vertices @ h_hat + beta(len(rewards)) * np.array(width)
        chosen = next(i for i, value in enumerate(ucb) if value >= max(ucb) - 1e-12)
        if m == 0 and first is not None:
            chosen = first
        u = model.vertices[chosen]
        for _ in range(length):
            t = len(rewards)
            if t == T:
                break
            y = model.omega @ x + model.theta @ u + eta[t]
            actions.append(chosen), rewards.append(y), states.append(x)
            x = model.A @ x + model.B @ u + eps[t]
        V = V + np.outer(u, u)
        b = b + u * y
    return Run(np.array(actions), np.array(rewards), np.array(states))


def regrets(model: Model, run: Run) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Realised, expected and offline regret after every round, each by its definition."""
    values = model.vertices @ steady_reward(model)
    best = values.max()
    z, noiseless = model.x1.copy(), []
    for a in run.actions:
        u = model.vertices[a]
        noiseless.append(model.omega @ z + model.theta @ u)
        z = model.A @ z + model.B @ u
    return (
        np.cumsum(best - run.rewards),
        np.cumsum(best - np.array(noiseless)),
        np.cumsum(best - values[run.actions]),
    )


def noise_of_rewards(A, omega, state_covariance, reward_std, T) -> np.ndarray:
    """Covariance (T, T) of v_t = ω·w_t + η_t with w_1 = 0, w' = Aw + ε, from the matrix of (ε, η)."""
    n = len(omega)
    values, vectors = np.linalg.eigh(state_covariance)
    root = vectors * np.sqrt(np.maximum(values, 0))
    M = np.zeros((T, T * n + T))
    row = omega.copy()
    for lag in range(T):  # of ε_s on v_{s+1+lag}
        for s in range(T - 1 - lag):
            M[s + 1 + lag, s * n : (s + 1) * n] = row @ root
        row = row @ A
    M[np.arange(T), T * n + np.arange(T)] = reward_std
    return M @ M.T


def observation_matrix(lengths, reports, observed) -> np.ndarray:
    """(outputs, T): which rounds are added up in each thing seen, in the order of time.

    At the end of an epoch come the policy's observations ("last", "total"), then the report.
    """
    T, rows, start = reports[-1], [], 0
    ends = {}
    for length in lengths:
        ends[start + length] = start
        start += length
    for t in range(1, T + 1):
        if t in ends:
            rows += [np.eye(T)[t - 1] for name in observed if name == "last"]
            rows += [
                (np.arange(T) >= ends[t]) * (np.arange(T) < t) * 1.0
                for name in observed
                if name == "total"
            ]
        if t in reports:
            rows.append((np.arange(T) < t) * 1.0)
    return np.array(rows)


def random_stable(rng, n: int, rho: float) -> np.ndarray:
    """A random matrix with that spectral radius (0: strictly triangular)."""
    if rho == 0:
        return np.triu(rng.normal(size=(n, n)), 1)
    A = rng.normal(size=(n, n))
    return A * rho / max(abs(np.linalg.eigvals(A)))
