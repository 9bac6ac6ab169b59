"""A small model to decide with."""

import numpy as np

import dlbjax as dlb
from dlbjax.campaign import Model

SYSTEM = dlb.System(
    A=[[0.5, 0.1], [0.0, 0.3]], B=[[0.2, 0.0, 0.1], [0.0, 0.3, 0.0]], omega=[1.0, 0.5],
    theta=[0.1, 0.3, 0.0], state_noise=[0.1, 0.2], reward_noise=0.3, x1=[1.0, -0.5],
)  # fmt: skip


def model(**changes):
    spread = np.zeros((4, 4))
    spread[1:, 1:] = [[0.04, 0.01, 0.0], [0.01, 0.09, 0.0], [0.0, 0.0, 0.01]]
    spread[0] = spread[:, 0] = [0.25, -0.05, 0.0, 0.0]
    fields = {
        "system": SYSTEM, "low": np.zeros(3), "high": np.array([2.0, 1.0, 1.0]), "total": 2.5,
        "channels": ("fb", "google", "bing"), "reward": "sales", "baseline": 7.0,
        "covariance": spread,
        "fit": {"report": {"samples": 10, "r2_one_step": 0.9}, "warnings": ["look <here>"]},
    }  # fmt: skip
    return Model(**{**fields, **changes})
