"""The problems of Mussi, Metelli and Restelli (ICML 2023), Section 6 and its appendix."""

import numpy as np

from dlbjax.actions import budget
from dlbjax.problem import Problem
from dlbjax.system import System


def synthetic(sigma: float = 0.01) -> Problem:
    """The paper's synthetic problem: three platforms, diagonal dynamics, a budget of 1.5.

    Note:
      The paper prints B₁₁ = 0.25. Only B₁₁ = 0.45 gives the h = (0.56, 0.5, 0.11), u* = (1, 0.5, 0)
      and J* = 0.81 that it states, and it is what is used here. See dlbjax/ERRATA.md.

    >>> import dlbjax as dlb
    >>> dlb.problems.synthetic().h.round(4)
    array([0.5625, 0.5   , 0.1111])
    """
    system = System(
        A=np.diag([0.2, 0.0, 0.1]),
        B=np.diag([0.45, 0.0, 0.1]),
        omega=[1.0, 0.0, 0.1],
        theta=[0.0, 0.5, 0.1],
        sigma=sigma,
    )
    return Problem(system, budget(0.0, np.ones(3), total=1.5))


def real_world(sigma: float = 0.01) -> Problem:
    """The system the paper identified from two years of advertising on three platforms.

    The platforms are Facebook, Google and Bing; the action set is that of the synthetic problem.

    >>> import dlbjax as dlb
    >>> problem = dlb.problems.real_world()
    >>> round(problem.system.rho, 3), round(problem.system.phi, 2)
    (0.667, 2.78)
    """
    system = System(
        A=[[0.38, 0.33, 0.6], [0.07, 0.76, -0.54], [0.18, 0.34, 0.05]],
        B=[[0.14, 0.34, -0.05], [-0.17, 0.03, -0.01], [0.04, -0.09, 0.17]],
        omega=[-0.61, -0.04, -0.13],
        theta=[0.13, 0.41, 0.02],
        sigma=sigma,
    )
    return Problem(system, budget(0.0, np.ones(3), total=1.5))
