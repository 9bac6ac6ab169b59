"""dlbjax: a fast, exact laboratory for Dynamical Linear Bandits."""

from importlib.metadata import version as _version

from dlbjax import campaign, sensitivity, theory
from dlbjax.engine.settings import Noise
from dlbjax.engine.simulate import simulate
from dlbjax.identification import Fit, identify, log_likelihood
from dlbjax.lab import lab
from dlbjax.live import Agent
from dlbjax.model import actions, problems
from dlbjax.model.actions import ActionSet
from dlbjax.model.bounds import Bounds
from dlbjax.model.files import read_problem
from dlbjax.model.grid import ProblemGrid
from dlbjax.model.problem import Problem
from dlbjax.model.system import System
from dlbjax.policies import (
    Epoch,
    Epochs,
    Feedback,
    Policy,
    PolicyGrid,
    Prior,
    Schedule,
    ar2,
    ar_ucb,
    batch_exp3,
    clairvoyant,
    constant,
    d_lin_ucb,
    dynlin_ucb,
    dynlin_ucb_adaptive,
    dynlin_ucb_tight,
    exp3,
    expert,
    explore_then_commit,
    knowledge_gradient,
    larl,
    lin_ucb,
    myopic,
    planned,
    small,
    thompson_sampling,
    ucb1,
)
from dlbjax.results.result import Result, Results, Summary, load
from dlbjax.results.selection import concat
from dlbjax.sweeps import Store, sweep

__version__ = _version("dlbjax")

__all__ = [
    "ActionSet",
    "Agent",
    "Bounds",
    "Epoch",
    "Epochs",
    "Feedback",
    "Fit",
    "Noise",
    "Policy",
    "PolicyGrid",
    "Prior",
    "Problem",
    "ProblemGrid",
    "Result",
    "Results",
    "Schedule",
    "Store",
    "Summary",
    "System",
    "actions",
    "ar2",
    "ar_ucb",
    "batch_exp3",
    "campaign",
    "clairvoyant",
    "concat",
    "constant",
    "d_lin_ucb",
    "dynlin_ucb",
    "dynlin_ucb_adaptive",
    "dynlin_ucb_tight",
    "exp3",
    "expert",
    "explore_then_commit",
    "identify",
    "knowledge_gradient",
    "lab",
    "larl",
    "lin_ucb",
    "load",
    "log_likelihood",
    "myopic",
    "planned",
    "problems",
    "read_problem",
    "sensitivity",
    "simulate",
    "small",
    "sweep",
    "theory",
    "thompson_sampling",
    "ucb1",
]
