"""The policies that numbers alone describe, by name: what the command line and the lab offer."""

import inspect
from collections.abc import Callable, Mapping

from dlbjax import policies
from dlbjax.policies.base import Policy, PolicyGrid

Maker = Callable[..., Policy | PolicyGrid]

# All but those that start from a fit.
POLICIES: Mapping[str, Maker] = {
    name: make
    for name in policies.__all__
    if inspect.isfunction(make := getattr(policies, name))
    and "prior" not in inspect.signature(make).parameters
}


def takes(make: Maker) -> str:
    """What a policy is made from besides numbers: "bounds", "problem" or "".

    >>> takes(policies.lin_ucb), takes(policies.myopic), takes(policies.larl)
    ('bounds', 'problem', '')
    """
    first = next(iter(inspect.signature(make).parameters), "")
    return first if first in ("bounds", "problem") else ""
