"""What one would write instead of dlbjax: a NumPy loop, and two Numba loops compiled for speed.

All simulate round by round, as the paper describes it, with the same epochs, β and tie rule, and
return the realised regret of each run after the last round.
"""

from functools import cache

import numba
import numpy as np


def numpy_loop(problem, lengths, betas, lam, horizon, seed):
    """One run, vectorised over vertices; the inverse is taken once per epoch."""
    system, vertices = problem.system, problem.actions.vertices
    A, B, omega, theta = system.A, system.B, system.omega, system.theta
    rng = np.random.default_rng(seed)
    root = np.linalg.cholesky(system.state_noise)
    d = vertices.shape[1]
    V, b = lam * np.eye(d), np.zeros(d)
    x, reward, t = system.x1.copy(), 0.0, 0
    for length, beta in zip(lengths, betas, strict=True):
        inverse = np.linalg.inv(V)
        width = np.sqrt(np.einsum("ki,ij,kj->k", vertices, inverse, vertices))
        ucb = vertices @ (inverse @ b) + beta * width
        u = vertices[np.argmax(ucb >= ucb.max() - 1e-12)]
        for _ in range(min(length, horizon - t)):
            y = omega @ x + theta @ u + system.reward_noise * rng.standard_normal()
            x = A @ x + B @ u + root @ rng.standard_normal(len(x))
            reward += y
            t += 1
        V += np.outer(u, u)
        b += y * u
        if t == horizon:
            break
    return horizon * problem.optimal_value - reward


@cache
def _numba_runs(n, d, K):
    """The loop compiled for these sizes, so that its inner loops are unrolled."""

    @numba.njit(parallel=True, fastmath=True)
    def runs_in_parallel(
        A, B, omega, theta, root, eta, x1, vertices, lengths, betas, lam, horizon, rngs, runs
    ):
        rewards = np.zeros(runs)
        for core in numba.prange(len(rngs)):  # a generator must not be shared by threads
            rng = rngs[core]
            for run in range(core, runs, len(rngs)):
                P = np.eye(d) / lam
                h, g = np.zeros(d), np.zeros(d)
                x, x_next, eps = x1.copy(), np.zeros(n), np.zeros(n)
                ucb = np.zeros(K)
                total, t = 0.0, 0
                for m in range(len(lengths)):
                    best = -np.inf
                    for k in range(K):
                        value, square = 0.0, 0.0
                        for i in range(d):
                            value += vertices[k, i] * h[i]
                            row = 0.0
                            for j in range(d):
                                row += P[i, j] * vertices[k, j]
                            square += vertices[k, i] * row
                        ucb[k] = value + betas[m] * np.sqrt(square)
                        best = max(best, ucb[k])
                    chosen = 0
                    while ucb[chosen] < best - 1e-12:
                        chosen += 1
                    u = vertices[chosen]
                    y = 0.0
                    for _ in range(min(lengths[m], horizon - t)):
                        y = eta * rng.standard_normal()
                        for i in range(n):
                            y += omega[i] * x[i]
                        for i in range(d):
                            y += theta[i] * u[i]
                        for i in range(n):
                            eps[i] = rng.standard_normal()
                        for i in range(n):
                            value = 0.0
                            for j in range(n):
                                value += A[i, j] * x[j] + root[i, j] * eps[j]
                            for j in range(d):
                                value += B[i, j] * u[j]
                            x_next[i] = value
                        for i in range(n):
                            x[i] = x_next[i]
                        total += y
                        t += 1
                    if t == horizon:
                        break
                    # Sherman-Morrison instead of an inverse per epoch
                    scale, error = 1.0, y
                    for i in range(d):
                        g[i] = 0.0
                        for j in range(d):
                            g[i] += P[i, j] * u[j]
                        scale += u[i] * g[i]
                        error -= u[i] * h[i]
                    for i in range(d):
                        h[i] += g[i] * error / scale
                    for i in range(d):
                        for j in range(d):
                            P[i, j] -= g[i] * g[j] / scale
                rewards[run] = total
        return rewards

    return runs_in_parallel


@cache
def _recursive_numba_runs(n, d, K):
    """The loop that carries each vertex's estimate and squared width from epoch to epoch.

    An observation then costs K·d + d² operations. One pass over the vertices updates both, takes the
    root and looks for the largest index; vertices are its innermost axis, which fills vector registers.
    """

    @numba.njit(parallel=True, fastmath=True)
    def runs_in_parallel(
        A, B, omega, theta, root, eta, x1, vertices, lengths, betas, lam, horizon, rngs, runs
    ):
        rewards = np.zeros(runs)
        columns = np.ascontiguousarray(vertices.T)
        squares = np.zeros(K)
        for k in range(K):
            for i in range(d):
                squares[k] += vertices[k, i] ** 2 / lam
        for core in numba.prange(len(rngs)):  # a generator must not be shared by threads
            rng = rngs[core]
            u, g = np.zeros(d), np.zeros(d)
            x, x_next, eps = np.zeros(n), np.zeros(n), np.zeros(n)
            ucb, s = np.zeros(K), np.zeros(K)
            for run in range(core, runs, len(rngs)):
                P = np.eye(d) / lam
                estimate, square = np.zeros(K), squares.copy()
                x[:] = x1
                best = -np.inf
                for k in range(K):
                    ucb[k] = betas[0] * np.sqrt(square[k])
                    best = max(best, ucb[k])
                total, t = 0.0, 0
                for m in range(len(lengths)):
                    chosen = 0
                    while ucb[chosen] < best - 1e-12:
                        chosen += 1
                    for i in range(d):
                        u[i] = vertices[chosen, i]
                    y = 0.0
                    for _ in range(min(lengths[m], horizon - t)):
                        y = eta * rng.standard_normal()
                        for i in range(n):
                            y += omega[i] * x[i]
                        for i in range(d):
                            y += theta[i] * u[i]
                        for i in range(n):
                            eps[i] = rng.standard_normal()
                        for i in range(n):
                            value = 0.0
                            for j in range(n):
                                value += A[i, j] * x[j] + root[i, j] * eps[j]
                            for j in range(d):
                                value += B[i, j] * u[j]
                            x_next[i] = value
                        for i in range(n):
                            x[i] = x_next[i]
                        total += y
                        t += 1
                    if t == horizon:
                        break
                    norm = 1.0
                    for i in range(d):
                        value = 0.0
                        for j in range(d):
                            value += P[i, j] * u[j]
                        g[i] = value
                        norm += u[i] * value
                    scale = 1 / norm
                    step = scale * (y - estimate[chosen])
                    for k in range(K):
                        s[k] = columns[0, k] * g[0]
                    for i in range(1, d):
                        for k in range(K):
                            s[k] += columns[i, k] * g[i]
                    beta, best = betas[m + 1], -np.inf
                    for k in range(K):
                        square[k] -= scale * s[k] * s[k]
                        estimate[k] += step * s[k]
                        ucb[k] = estimate[k] + beta * np.sqrt(square[k])
                        best = max(best, ucb[k])
                    for i in range(d):
                        for j in range(d):
                            P[i, j] -= scale * g[i] * g[j]
                rewards[run] = total
        return rewards

    return runs_in_parallel


def _on_all_cores(make, problem, lengths, betas, lam, horizon, runs):
    rngs = tuple(np.random.default_rng(core) for core in range(numba.get_num_threads()))
    system = problem.system
    root = np.linalg.cholesky(system.state_noise)
    n, d, K = system.n, system.d, len(problem.actions)
    rewards = make(n, d, K)(
        system.A, system.B, system.omega, system.theta, root, system.reward_noise, system.x1,
        problem.actions.vertices, lengths, betas, lam, horizon, rngs, runs,
    )  # fmt: skip
    return horizon * problem.optimal_value - rewards


def numba_loop(*arguments):
    """All runs with every vertex's width computed from V⁻¹, in parallel over the cores."""
    return _on_all_cores(_numba_runs, *arguments)


def recursive_numba_loop(*arguments):
    """All runs with every vertex's width carried along, in parallel over the cores."""
    return _on_all_cores(_recursive_numba_runs, *arguments)
