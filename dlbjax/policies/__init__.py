"""Policies: each file holds one, as three pure functions and a factory."""

from dlbjax.policies.ar2 import ar2
from dlbjax.policies.ar_ucb import ar_ucb
from dlbjax.policies.base import Epoch, Feedback, Policy, PolicyGrid, Schedule
from dlbjax.policies.batch_exp3 import batch_exp3
from dlbjax.policies.constant import clairvoyant, constant, myopic
from dlbjax.policies.d_lin_ucb import d_lin_ucb
from dlbjax.policies.dynlin_ucb import dynlin_ucb
from dlbjax.policies.dynlin_ucb_adaptive import dynlin_ucb_adaptive
from dlbjax.policies.dynlin_ucb_tight import dynlin_ucb_tight
from dlbjax.policies.epochs import Epochs
from dlbjax.policies.exp3 import exp3
from dlbjax.policies.expert import expert
from dlbjax.policies.explore_then_commit import explore_then_commit
from dlbjax.policies.knowledge_gradient import Prior, knowledge_gradient
from dlbjax.policies.larl import larl
from dlbjax.policies.lin_ucb import lin_ucb
from dlbjax.policies.planned import planned
from dlbjax.policies.thompson_sampling import thompson_sampling
from dlbjax.policies.ucb1 import ucb1

__all__ = [
    "Epoch",
    "Epochs",
    "Feedback",
    "Policy",
    "PolicyGrid",
    "Prior",
    "Schedule",
    "ar2",
    "ar_ucb",
    "batch_exp3",
    "clairvoyant",
    "constant",
    "d_lin_ucb",
    "dynlin_ucb",
    "dynlin_ucb_adaptive",
    "dynlin_ucb_tight",
    "exp3",
    "expert",
    "explore_then_commit",
    "knowledge_gradient",
    "larl",
    "lin_ucb",
    "myopic",
    "planned",
    "thompson_sampling",
    "ucb1",
]
