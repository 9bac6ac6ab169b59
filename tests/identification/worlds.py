"""Data by plain simulation, for tests of identification."""

import numpy as np

import dlbjax as dlb


def rewards_of(system, actions, rng, x=None):
    """Rewards (T,) of a system under given actions, round by round."""
    x = system.x1 if x is None else x
    root = np.linalg.cholesky(system.state_noise + 1e-300 * np.eye(system.n))
    rewards = np.empty(len(actions))
    for t, u in enumerate(actions):
        rewards[t] = system.omega @ x + system.theta @ u + system.reward_noise * rng.normal()
        x = system.A @ x + system.B @ u + root @ rng.normal(size=system.n)
    return rewards


def small(**more):
    """A system of two states and two channels with a complex pair of eigenvalues."""
    noise = {"state_noise": [0.02, 0.01], "reward_noise": 0.03} | more
    return dlb.System(
        A=[[0.6, 0.3], [-0.3, 0.5]], B=[[1.0, 0.0], [0.2, 0.5]], omega=[0.5, 0.8],
        theta=[0.4, -0.3], **noise,
    )  # fmt: skip


def logged(system, T=600, seed=0, x=None):
    """Actions (T, d), drawn uniformly, and rewards."""
    rng = np.random.default_rng(seed)
    actions = rng.uniform(size=(T, system.d))
    return actions, rewards_of(system, actions, rng, x)


def relative_error(found, true):
    return np.linalg.norm(found - true) / np.linalg.norm(true)
