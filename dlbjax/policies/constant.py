"""Policies that always play one action: a given allocation, the clairvoyant and the myopic one."""

import jax.numpy as jnp
import numpy as np

from dlbjax.common.arrays import Array, real_array
from dlbjax.model.problem import Problem, check_problem
from dlbjax.policies.base import Epoch, Feedback, Policy, Schedule


def init(params: tuple[()], vertices: Array, key: Array) -> tuple[()]:
    """Nothing to remember."""
    return ()


def act(params: tuple[()], vertices: Array, state: tuple[()], epoch: Epoch) -> Array:
    """The only arm there is."""
    return jnp.zeros((), jnp.int32)


def update(params: tuple[()], state: tuple[()], feedback: Feedback) -> tuple[()]:
    """Nothing to learn."""
    return ()


def constant(action: Array, name: str = "constant") -> Policy:
    """Play one action for ever; any point of the action set, not only a vertex.

    >>> import dlbjax as dlb
    >>> problem = dlb.problems.synthetic()
    >>> result = dlb.simulate(problem, dlb.constant([0.5, 0.5, 0.5]), horizon=1000, seeds=2)
    >>> round(float(result.offline_regret[0, -1]), 3)      # 1000 · (0.8125 − 0.5868)
    225.694
    """
    arms = np.asarray(real_array("action", action, (None,)))[None]

    def prepare(horizon: int, vertices: np.ndarray) -> Schedule:
        return Schedule(epochs=horizon, arms=arms)

    return Policy(init, act, update, feedback=(), name=name, prepare=prepare, vectors=True)


def clairvoyant(problem: Problem) -> Policy:
    """Play u* = argmax ⟨h,u⟩, the optimal policy of the infinite horizon."""
    return constant(check_problem(problem).optimal_action, "clairvoyant")


def myopic(problem: Problem) -> Policy:
    """Play argmax ⟨θ,u⟩, which sees the immediate effect only.

    Note:
      The paper calls u° = (0.5, 1, 0) myopic on the synthetic problem. That is where Lin-UCB gets
      stuck; the action that maximises ⟨θ,u⟩ is (0, 1, 0.5). See notebooks/errata.md.
    """
    return constant(np.array(check_problem(problem).myopic_action), "myopic")
