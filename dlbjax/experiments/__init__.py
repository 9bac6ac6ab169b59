"""The paper's experiments, each a function of its size that returns labelled results."""

from dlbjax.experiments.sensitivity import sensitivity

__all__ = ["sensitivity"]
