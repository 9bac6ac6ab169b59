"""A fitted system with its action set, as a file that `dlbjax run` and `dlbjax plan` read."""

import json
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from dlbjax.campaign.log import Log
from dlbjax.common.arrays import Number, instance_of, real_array, real_number, short
from dlbjax.common.files import write_atomically
from dlbjax.identification import Fit
from dlbjax.model.actions import ActionSet, budget
from dlbjax.model.files import problem_of, read_file
from dlbjax.model.problem import Problem
from dlbjax.model.system import System


@dataclass(frozen=True, eq=False)
class Model:
    """A fitted system with its uncertainty and the limits of the budget.

    Attributes:
      system: the fitted system, whose x1 is the predicted state of the next round.
      low: (d,) least spend on each channel in a round.
      high: (d,) most spend on each channel in a round.
      total: most spend on all channels in a round.
      channels: names of the action coordinates.
      reward: name of the reward.
      baseline: expected reward of every round without any spend.
      covariance: (1 + d, 1 + d) covariance of the estimates of baseline and h.
      fit: how the system was found, for readers of the file.
    """

    system: System
    low: np.ndarray
    high: np.ndarray
    total: float
    channels: tuple[str, ...]
    reward: str
    baseline: float
    covariance: np.ndarray
    fit: dict[str, Any]

    @classmethod
    def of(
        cls,
        fit: Fit,
        log: Log,
        *,
        low: Number = 0.0,
        high: Number | None = None,
        total: float | None = None,
    ) -> "Model":
        """A model from a fit and the log it was fitted to.

        Args:
          fit: the result of `dlbjax.identify`.
          log: the log it was fitted to.
          low: least spend on each channel.
          high: most spend on each channel; by default the largest in the log, because nothing is known
            beyond it.
          total: most spend in a round; by default the mean of the log.
        """
        instance_of("fit", fit, Fit, "the result of dlbjax.identify")
        instance_of("log", log, Log, "the result of dlbjax.campaign.read_log")
        if fit.covariance is None:
            raise ValueError("the fit has no covariance; pass refine=True to identify")
        d = len(log.channels)
        if total is None:
            total = float(log.spend.sum(axis=1).mean())
        s = fit.system
        system = System(
            s.A, s.B, s.omega, s.theta, state_noise=s.state_noise, reward_noise=s.reward_noise,
            x1=fit.state,
        )  # fmt: skip
        about = {
            "order": fit.order,
            "order_reason": fit.order_reason,
            "report": {k: _plain(v) for k, v in fit.report._asdict().items()},
            "warnings": list(fit.warnings),
            "last_round": None if log.last is None else log.last.isoformat(),
            "mean_spend": log.spend.mean(axis=0).tolist(),
            "dlbjax": version("dlbjax"),
        }
        return cls(
            system=system,
            low=_limit("low", low, d),
            high=log.spend.max(axis=0) if high is None else _limit("high", high, d),
            total=float(real_number("total", total)),
            channels=log.channels,
            reward=log.reward,
            baseline=fit.baseline,
            covariance=fit.covariance,
            fit=about,
        )

    def actions(self, total: float | None = None) -> ActionSet:
        """The allocations within the limits, with another total if one is given."""
        return budget(self.low, self.high, self.total if total is None else total)

    def problem(self, total: float | None = None) -> Problem:
        """The problem, started from the predicted state of the next round."""
        return Problem(self.system, self.actions(total))

    def save(self, path: str | Path) -> None:
        """Write a JSON file, whole or not at all; `read_model` and `read_problem` read it."""
        self.actions()  # raises if the limits leave no action
        s = self.system
        content = {
            "system": {name: np.asarray(getattr(s, name)).tolist() for name in _SYSTEM},
            "actions": {
                "kind": "budget", "low": self.low.tolist(), "high": self.high.tolist(),
                "total": self.total,
            },
            "fit": {
                "channels": list(self.channels), "reward": self.reward, "baseline": self.baseline,
                "h": s.h.tolist(), "covariance": self.covariance.tolist(), **self.fit,
            },
        }  # fmt: skip
        with write_atomically(path) as file:
            file.write(json.dumps(content, indent=2, allow_nan=False).encode())


def read_model(path: str | Path) -> Model:
    """Read a file written by `Model.save`, or raise a ValueError that starts with its path."""
    return read_file(path, _model)


_OWN = ("channels", "reward", "baseline", "covariance")  # keys of `fit` with a meaning here
_SYSTEM = ("A", "B", "omega", "theta", "state_noise", "reward_noise", "x1")


def _model(content: Any) -> Model:
    system = problem_of(content).system
    actions, fit, d = content["actions"], content.get("fit"), system.d
    if actions["kind"] != "budget" or not isinstance(fit, dict):
        raise ValueError(
            "the file holds a problem but no model; write one with `dlbjax fit` or dlbjax.campaign.Model.save"
        )
    if lacking := [key for key in _OWN if key not in fit]:
        raise ValueError(f"fit lacks {', '.join(lacking)}; run `dlbjax fit` again")
    if not isinstance(fit["reward"], str) or not _are_names(fit["channels"], d):
        raise ValueError(
            f"fit.channels must be {d} distinct names, and fit.reward a name; got "
            f"{short(fit['channels'])} and {short(fit['reward'])}"
        )
    low, high = (np.broadcast_to(np.asarray(actions[k], float), d) for k in ("low", "high"))
    return Model(
        system, low, high, float(actions["total"]), tuple(fit["channels"]), fit["reward"],
        float(real_number("fit.baseline", fit["baseline"])), _covariance(fit["covariance"], d),
        _about(fit, d),
    )  # fmt: skip


def _covariance(value: Any, d: int) -> np.ndarray:
    covariance = np.asarray(real_array("fit.covariance", value, (1 + d, 1 + d)))
    least = np.linalg.eigvalsh(covariance)[0]
    scale = np.abs(covariance).max()
    if np.abs(covariance - covariance.T).max() > 1e-9 * scale or least < -1e-9 * scale:
        raise ValueError("fit.covariance must be symmetric and positive semi-definite")
    return covariance


def _about(fit: dict[str, Any], d: int) -> dict[str, Any]:
    """The other keys of `fit`; those that reports show are checked."""
    about = {key: value for key, value in fit.items() if key not in (*_OWN, "h")}
    report, warnings = about.get("report", {}), about.get("warnings", [])
    if not isinstance(report, dict) or not all(
        value is None or isinstance(value, int | float) for value in report.values()
    ):
        raise ValueError(f"fit.report must be a table of numbers; got {short(report)}")
    if not isinstance(warnings, list):
        raise ValueError(f"fit.warnings must be a list; got {short(warnings)}")
    if "mean_spend" in about:
        real_array("fit.mean_spend", about["mean_spend"], (d,))
    return about


def _are_names(names: Any, count: int) -> bool:
    are_text = isinstance(names, list) and all(isinstance(name, str) for name in names)
    return are_text and len(names) == len(set(names)) == count


def _limit(name: str, value: Number, d: int) -> np.ndarray:
    return np.broadcast_to(real_array(name, value, () if np.ndim(value) == 0 else (d,)), d)


def _plain(value: Any) -> Any:
    """A number for JSON; None for infinity and NaN."""
    if isinstance(value, bool | np.bool_):
        return bool(value)
    number = np.asarray(value).item()
    return number if np.isfinite(number) else None
