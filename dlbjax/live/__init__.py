"""Policies in charge of something real, one round at a time."""

from dlbjax.live.agent import Agent

__all__ = ["Agent"]
