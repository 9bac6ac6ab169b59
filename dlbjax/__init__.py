"""dlbjax: a fast, exact laboratory for Dynamical Linear Bandits."""

from importlib.metadata import version as _version

from dlbjax import actions, campaign, problems, sensitivity, theory
from dlbjax.actions import ActionSet
from dlbjax.bounds import Bounds
from dlbjax.engine.settings import Noise
from dlbjax.engine.simulate import simulate
from dlbjax.identification import Fit, identify, log_likelihood
from dlbjax.live import Agent
from dlbjax.policies import (
    Epoch,
    Feedback,
    Policy,
    PolicyGrid,
    ar2,
    batch_exp3,
    clairvoyant,
    constant,
    d_lin_ucb,
    dynlin_ucb,
    dynlin_ucb_tight,
    exp3,
    expert,
    lin_ucb,
    myopic,
    planned,
    ucb1,
)
from dlbjax.problem import Problem
from dlbjax.problem_files import read_problem
from dlbjax.result import Result, Results, Summary, load
from dlbjax.sweeps import Store, sweep
from dlbjax.system import System

__version__ = _version("dlbjax")

__all__ = [
    "ActionSet",
    "Agent",
    "Bounds",
    "Epoch",
    "Feedback",
    "Fit",
    "Noise",
    "Policy",
    "PolicyGrid",
    "Problem",
    "Result",
    "Results",
    "Store",
    "Summary",
    "System",
    "actions",
    "ar2",
    "batch_exp3",
    "campaign",
    "clairvoyant",
    "constant",
    "d_lin_ucb",
    "dynlin_ucb",
    "dynlin_ucb_tight",
    "exp3",
    "expert",
    "identify",
    "lin_ucb",
    "load",
    "log_likelihood",
    "myopic",
    "planned",
    "problems",
    "read_problem",
    "sensitivity",
    "simulate",
    "sweep",
    "theory",
    "ucb1",
]
