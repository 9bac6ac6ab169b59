"""A small model to decide with."""

import numpy as np

import dlbjax as dlb
from dlbjax.campaign import Model
from dlbjax.campaign.model import History
from dlbjax.identification import Calendar, Controls

SYSTEM = dlb.System(
    A=[[0.5, 0.1], [0.0, 0.3]], B=[[0.2, 0.0, 0.1], [0.0, 0.3, 0.0]], omega=[1.0, 0.5],
    theta=[0.1, 0.3, 0.0], state_noise=[0.1, 0.2], reward_noise=0.3, x1=[1.0, -0.5],
)  # fmt: skip


def controls():
    calendar = Calendar(trend=True, season=52.0, harmonics=1)
    names = ("trend", "season sin 1", "season cos 1", "price")
    effects, std, means = (
        np.array([0.01, 0.5, -0.2, -3.0]),
        np.full(4, 0.1),
        np.array([9.5, 0, 0, 2]),
    )
    return Controls(names, effects, std, means, calendar, next_round=20)


def history():
    """Twenty rounds that surround the mean spend."""
    rng = np.random.default_rng(0)
    spend = np.array([1.0, 0.5, 0.5]) * rng.uniform(0.2, 1.8, size=(20, 3))
    channels = spend * SYSTEM.h
    rewards = 7 + channels.sum(axis=1) + 0.3 * rng.normal(size=20)
    rewards[3] = np.nan
    return History(spend, rewards, np.full(20, 7.0), np.zeros(20), channels)


def model(**changes):
    spread = np.zeros((4, 4))
    spread[1:, 1:] = [[0.04, 0.01, 0.0], [0.01, 0.09, 0.0], [0.0, 0.0, 0.01]]
    spread[0] = spread[:, 0] = [0.25, -0.05, 0.0, 0.0]
    fields = {
        "system": SYSTEM, "low": np.zeros(3), "high": np.array([2.0, 1.0, 1.0]), "total": 2.5,
        "channels": ("fb", "google", "bing"), "reward": "sales", "baseline": 7.0,
        "sigma": 0.4, "covariance": spread, "controls": controls(), "history": history(),
        "fit": {
            "report": {"samples": 10, "r2_one_step": 0.9}, "warnings": ["look <here>"],
            "mean_spend": [1.0, 0.5, 0.5], "step_days": 7.0, "last_round": "2026-11-16T00:00:00",
        },
    }  # fmt: skip
    return Model(**{**fields, **changes})
