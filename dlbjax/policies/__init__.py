"""Policies: each file holds one, as three pure functions and a factory."""

from dlbjax.policies.constant import clairvoyant, constant, myopic
from dlbjax.policies.dynlin_ucb import dynlin_ucb
from dlbjax.policies.lin_ucb import lin_ucb
from dlbjax.policies.policy import Epoch, Feedback, Policy, PolicyGrid

__all__ = [
    "Epoch",
    "Feedback",
    "Policy",
    "PolicyGrid",
    "clairvoyant",
    "constant",
    "dynlin_ucb",
    "lin_ucb",
    "myopic",
]
