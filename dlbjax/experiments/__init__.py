"""The paper's experiments, each a function from its size to labelled results."""

from dlbjax.experiments.sensitivity import sensitivity

__all__ = ["sensitivity"]
