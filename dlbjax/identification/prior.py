"""What a policy that starts from a fit is given."""

import numpy as np

from dlbjax.model.system import System
from dlbjax.policies import Prior


def prior_of(
    system: System, mean: np.ndarray, covariance: np.ndarray, sigma: float, state: np.ndarray,
    controls: np.ndarray,
) -> Prior:  # fmt: skip
    """The prior of a campaign that begins from a state; see `Fit.prior`."""
    reach = np.linalg.solve((np.eye(system.n) - system.A).T, system.omega)
    settled = np.sqrt(system.reward_noise**2 + reach @ system.state_noise @ reach)
    share = np.divide(system.theta, system.h, out=np.ones(system.d), where=system.h != 0)
    return Prior(
        mean, covariance, max(float(settled), sigma), np.clip(share, 0, 1), float(system.rho),
        float(system.omega @ state), controls,
    )  # fmt: skip
