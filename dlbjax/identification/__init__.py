"""Identification: from logged actions and rewards to a system with its uncertainty."""

from dlbjax.identification.controls import Calendar
from dlbjax.identification.fit import Controls, Fit, identify
from dlbjax.identification.kalman import log_likelihood
from dlbjax.identification.model import StateSpace
from dlbjax.identification.report import Report

__all__ = ["Calendar", "Controls", "Fit", "Report", "StateSpace", "identify", "log_likelihood"]
