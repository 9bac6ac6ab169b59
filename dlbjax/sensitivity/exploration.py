"""DynLin-UCB with a factor on its exploration coefficient."""

import numpy as np

from dlbjax._arrays import real_number, whole_number
from dlbjax.bounds import Bounds, check
from dlbjax.epochs import growing_epochs
from dlbjax.policies.dynlin_ucb import dynlin_ucb
from dlbjax.policies.policy import Policy
from dlbjax.theory.confidence import beta


def scaled_dynlin_ucb(
    bounds: Bounds,
    d: int,
    horizon: int,
    lam: float | None = None,
    scale: float = 1.0,
    delta: float | None = None,
    extra: int = 0,
) -> Policy:
    """DynLin-UCB that explores with scale·β instead of the printed β, in epochs of `extra` rounds more.

    The policies of several λ and scales share their epochs: a `PolicyGrid` of them is one pass, and the
    same seed means the same normals for all.

    Args:
      bounds: what the learner is told.
      d: dimension of an action.
      horizon: rounds T, for which the policy is made.
      lam: ridge parameter λ > 0, log T by default.
      scale: factor on β.
      delta: confidence δ, 1/T by default.
      extra: further rounds of every epoch.

    >>> import dlbjax as dlb
    >>> problem = dlb.problems.synthetic()
    >>> bounds = dlb.Bounds.of(problem)
    >>> same = scaled_dynlin_ucb(bounds, d=3, horizon=500)
    >>> results = dlb.simulate(problem, {"scaled": same, "paper": dlb.dynlin_ucb(bounds)}, horizon=500)
    >>> bool((results["scaled"].expected_regret == results["paper"].expected_regret).all())
    True
    """
    check(bounds)
    horizon = whole_number("horizon", horizon, at_least=1)
    scale = real_number("scale", scale, at_least=0.0)
    lam = real_number("lam", np.log(max(horizon, 2)) if lam is None else lam, above=0.0)
    delta = real_number("delta", 1 / horizon if delta is None else delta, above=0.0, below=1.0)
    epochs = growing_epochs(bounds.rho, horizon, whole_number("extra", extra, at_least=0))
    lengths = np.repeat(epochs.lengths, epochs.counts)
    done = np.cumsum(lengths) - lengths
    radius = scale * beta(bounds, lam, delta, d, done, printed=True)
    policy = dynlin_ucb(bounds, lam, delta, epochs=lengths, beta=radius)
    assert isinstance(policy, Policy)  # no argument is a list
    return policy._replace(name=f"{policy.name} × {scale:.3g}")
