"""Policies that run a real campaign, one round at a time."""

from dlbjax.live.agent import Agent, History

__all__ = ["Agent", "History"]
