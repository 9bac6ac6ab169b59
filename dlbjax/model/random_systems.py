"""Gains of random systems: what actions do to the state and the reward, drawn for given dynamics."""

import numpy as np

from dlbjax.model.system import System


def random_gains(
    rng: np.random.Generator, A: np.ndarray, d: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Gaussian B, ω and θ for dynamics A and d coordinates of an action, rescaled so that ‖h‖ = 1.

    The scale makes the regrets of different systems comparable.

    >>> A = np.diag([0.5, -0.2])
    >>> B, omega, theta = random_gains(np.random.default_rng(0), A, d=3)
    >>> round(float(np.linalg.norm(System(A, B, omega, theta).h)), 6)
    1.0
    """
    n = len(A)
    B, omega, theta = rng.normal(size=(n, d)), rng.normal(size=n), rng.normal(size=d)
    size = np.linalg.norm(System(A, B, omega, theta).h)
    return B, omega / size, theta / size
