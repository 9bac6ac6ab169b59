"""Plain NumPy loops of the baselines, each from its definition; see oracles.py."""

import numpy as np

from tests.oracles import Model, Run, epoch_lengths


class Session:
    """A model that is played, one action a round, under given noise eps (T, n) and eta (T,)."""

    def __init__(self, model: Model, eps, eta):
        self.model, self.eps, self.eta, self.x = model, eps, eta, model.x1.copy()
        self.actions, self.rewards, self.states = [], [], []

    @property
    def t(self) -> int:
        """Rounds completed."""
        return len(self.rewards)

    @property
    def over(self) -> bool:
        return self.t == len(self.eta)

    def play(self, chosen: int) -> float:
        m, u = self.model, self.model.vertices[chosen]
        y = m.omega @ self.x + m.theta @ u + self.eta[self.t]
        eps = self.eps[self.t]
        self.actions.append(chosen), self.rewards.append(y), self.states.append(self.x)
        self.x = m.A @ self.x + m.B @ u + eps
        return y

    def run(self) -> Run:
        return Run(np.array(self.actions), np.array(self.rewards), np.array(self.states))


def first_best(values) -> int:
    """Ties within 1e-12 go to the lowest index."""
    return next(i for i, value in enumerate(values) if value >= max(values) - 1e-12)


def d_lin_ucb(model: Model, beta, lam: float, gamma: float, eps, eta) -> Run:
    """Russac et al. (2019); beta(s) is Lin-UCB's radius after s rounds, here of weight γ² each.

    After t rounds s = 1 + γ² + … + γ^{2(t−1)} = (1 − γ^{2t})/(1 − γ²), added up term by term because
    the quotient loses its digits where γ is near 1.
    """
    eye = np.eye(model.B.shape[1])
    V, V2, b, s = lam * eye, lam * eye, np.zeros(len(eye)), 0.0
    session = Session(model, eps, eta)
    while not session.over:
        inverse = np.linalg.inv(V)
        spread = inverse @ V2 @ inverse
        width = [np.sqrt(u @ spread @ u) for u in model.vertices]
        chosen = first_best(model.vertices @ (inverse @ b) + beta(s) * np.array(width))
        y = session.play(chosen)
        u = model.vertices[chosen]
        V = gamma * V + np.outer(u, u) + (1 - gamma) * lam * eye
        V2 = gamma**2 * V2 + np.outer(u, u) + (1 - gamma) * (1 + gamma) * lam * eye
        b = gamma * b + y * u
        s = gamma**2 * s + 1
    return session.run()


def reward_range(bounds: dict) -> float:
    """ξ = (Θ + ΩB/(1−ρ))U: rewards are taken to lie in [−2ξ, 2ξ]."""
    Theta, Omega, B, U, rho = (bounds[k] for k in ("Theta", "Omega", "B", "U", "rho"))
    return (Theta + Omega * B / (1 - rho)) * U


def exp3_gamma(K: int, decisions: float) -> float:
    """√(K ln K / ((e−1)T)), at most 1."""
    return min(1.0, np.sqrt(K * np.log(K) / ((np.e - 1) * decisions)))


def exp3_batch(rho_bar: float, horizon: int) -> int:
    """⌈log M / log(1/ρ̄)⌉ for the M epochs of Algorithm 1 that fit the horizon, at least 1."""
    M = int(np.sum(np.cumsum(epoch_lengths(rho_bar, horizon)) <= horizon))
    k = 1
    while rho_bar > 0 and rho_bar**k * M > 1 + 1e-9:
        k += 1
    return k


def exp3(model: Model, gamma: float, xi: float, uniforms, eps, eta) -> tuple[Run, np.ndarray]:
    """Auer et al. (1995); also the probabilities of each decision (T, K)."""
    return batch_exp3(model, gamma, xi, 1, uniforms, eps, eta)


def batch_exp3(
    model: Model, gamma: float, xi: float, batch: int, uniforms, eps, eta
) -> tuple[Run, np.ndarray]:
    """Exp3 fed with means of batches (Dekel et al., 2012); also the probabilities (decisions, K).

    The decision at round t (from 0) uses uniforms[t].
    """
    K = len(model.vertices)
    gains, seen = np.zeros(K), []
    session = Session(model, eps, eta)
    while not session.over:
        weights = np.exp(gamma / K * (gains - gains.max()))
        p = (1 - gamma) * weights / weights.sum() + gamma / K
        beyond = np.flatnonzero(np.cumsum(p) > uniforms[session.t])
        chosen = int(beyond[0]) if len(beyond) else K - 1
        seen.append(p)
        rewards = []
        while len(rewards) < batch and not session.over:
            rewards.append(session.play(chosen))
        if len(rewards) == batch:
            gains[chosen] += (np.mean(rewards) + 2 * xi) / (4 * xi) / p[chosen]
    return session.run(), np.array(seen)


def ar2_epoch(K: int, alpha: float, sigma: float) -> int:
    """⌈K α⁻³ σ⁻³⌉."""
    return int(np.ceil(K * alpha**-3 * sigma**-3))


def ar2(model: Model, alpha: float, sigma: float, epoch: int, order, eps, eta) -> Run:
    """Chen, Golrezaei and Bouneffouf (2021): alternate the superior arm with the triggered ones."""
    K = len(model.vertices)
    c0 = np.sqrt(4 * np.log(1 / (alpha * sigma)) + 4 * np.log(epoch) + 2 * np.log(4 * K))
    session = Session(model, eps, eta)
    while not session.over:
        local = session.t % epoch + 1
        t = session.t + 1
        if local == 1:
            estimate, pulled, triggered = {}, {}, {}  # reward, round of last pull, of trigger
        if local <= K:
            chosen = int(order[local - 1])
        else:
            latest, before = session.actions[-1], session.actions[-2 if K > 1 else -1]
            sup = before if estimate[before] > estimate[latest] else latest
            for i in set(range(K)) - {sup} - set(triggered):
                spread = (alpha**2 - alpha ** (2 * (t - pulled[i] + 1))) / (1 - alpha**2)
                if estimate[sup] - estimate[i] <= 24 * c0 * sigma * np.sqrt(spread):
                    triggered[i] = t
            chosen = sup
            if (local - K) % 2 == 0 and triggered:
                chosen = min(triggered, key=lambda i: (triggered[i], i))
        triggered.pop(chosen, None)
        estimate[chosen] = session.play(chosen)
        pulled[chosen] = t
        estimate = {i: alpha * value for i, value in estimate.items()}
    return session.run()


def ucb1(model: Model, scale: float, eps, eta) -> Run:
    """Auer, Cesa-Bianchi and Fischer (2002) for rewards in a range of width `scale`."""
    K = len(model.vertices)
    sums, counts = np.zeros(K), np.zeros(K)
    session = Session(model, eps, eta)
    while not session.over:
        chosen = session.t
        if session.t >= K:
            width = scale * np.sqrt(2 * np.log(session.t) / counts)
            chosen = first_best(sums / counts + width)
        sums[chosen] += session.play(chosen)
        counts[chosen] += 1
    return session.run()
