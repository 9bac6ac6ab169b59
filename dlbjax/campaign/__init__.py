"""From a table of spend and rewards to a decision: read it, save a model, choose, report."""

from dlbjax.campaign.choice import Choice, Option, choose
from dlbjax.campaign.log import Log, read_log
from dlbjax.campaign.model import Model, read_model

__all__ = ["Choice", "Log", "Model", "Option", "choose", "read_log", "read_model"]
