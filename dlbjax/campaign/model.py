"""A fitted system with the actions it is for, as a file that `dlbjax run` and `dlbjax plan` read."""

import json
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from dlbjax._arrays import real_array, real_number
from dlbjax._files import write_atomically
from dlbjax.actions import ActionSet, budget
from dlbjax.campaign.log import Log
from dlbjax.identification import Fit
from dlbjax.problem import Problem
from dlbjax.problem_files import problem_of, read_file
from dlbjax.system import System


@dataclass(frozen=True, eq=False)
class Model:
    """What a decision needs to know.

    Attributes:
      system: the fitted system, whose x1 is the state predicted for the round to come.
      low, high: (d,) least and most that a channel may get in a round.
      total: most that all of them may get together.
      channels: names of the coordinates of actions.
      reward: name of the reward.
      baseline: what every round yields whatever is done.
      covariance: (1 + d, 1 + d) of the estimates of baseline and h: how sure they are.
      fit: how the system was found, for the reader of the file.
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
        cls, fit: Fit, log: Log, *, low: Any = 0.0, high: Any = None, total: float | None = None
    ) -> "Model":
        """A model from a fit and the log it was fitted to.

        Args:
          fit: what `dlbjax.identify` found.
          log: what it was given.
          low: least spend of each channel.
          high: most spend of each channel; by default the largest in the log, because nothing is known
            of what lies beyond.
          total: most spend in a round; by default the mean of the log.
        """
        if fit.covariance is None:
            raise ValueError(
                "the fit must be refined (refine=True), so that it knows how sure it is"
            )
        d = len(log.channels)
        low = _limit("low", low, d)
        high = log.spend.max(axis=0) if high is None else _limit("high", high, d)
        spent = float(log.spend.sum(axis=1).mean())
        total = spent if total is None else real_number("total", total)
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
            system, low, high, total, log.channels, log.reward, fit.baseline,
            fit.covariance, about,
        )  # fmt: skip

    def actions(self, total: float | None = None) -> ActionSet:
        """The allocations within the limits, with another total if one is given."""
        return budget(self.low, self.high, self.total if total is None else total)

    def problem(self, total: float | None = None) -> Problem:
        """The bandit, from the state of the round to come."""
        return Problem(self.system, self.actions(total))

    def save(self, path: str | Path) -> None:
        """Write a JSON file, whole or not at all; `read_model` and `read_problem` read it."""
        self.actions()  # refuses limits that leave nothing
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
    """Read what `Model.save` wrote; a ValueError that starts with the path says what is wrong with it."""
    return read_file(path, _model)


_OWN = ("channels", "reward", "baseline", "covariance")  # keys of `fit` with a meaning here
_SYSTEM = ("A", "B", "omega", "theta", "state_noise", "reward_noise", "x1")


def _model(content: Any) -> Model:
    system = problem_of(content).system
    actions, fit, d = content["actions"], content.get("fit"), system.d
    if actions["kind"] != "budget" or not isinstance(fit, dict):
        raise ValueError(
            "the file holds a problem but no model, which `dlbjax fit` and dlbjax.campaign.Model.save make"
        )
    if lacking := [key for key in _OWN if key not in fit]:
        raise ValueError(f"fit lacks {', '.join(lacking)}; make the model anew")
    if not isinstance(fit["reward"], str) or not _are_names(fit["channels"], d):
        raise ValueError(f"fit.channels must be {d} distinct names, and fit.reward a name")
    low, high = (np.broadcast_to(np.asarray(actions[k], float), d) for k in ("low", "high"))
    return Model(
        system, low, high, float(actions["total"]), tuple(fit["channels"]), fit["reward"],
        real_number("fit.baseline", fit["baseline"]), _covariance(fit["covariance"], d),
        _about(fit, d),
    )  # fmt: skip


def _covariance(value: Any, d: int) -> np.ndarray:
    covariance = real_array("fit.covariance", value, (1 + d, 1 + d))
    least = np.linalg.eigvalsh(covariance)[0]
    scale = np.abs(covariance).max()
    if np.abs(covariance - covariance.T).max() > 1e-9 * scale or least < -1e-9 * scale:
        raise ValueError("fit.covariance must be symmetric and positive semi-definite")
    return covariance


def _about(fit: dict[str, Any], d: int) -> dict[str, Any]:
    """The rest of what a file says about a fit, as far as a reader is shown it."""
    about = {key: value for key, value in fit.items() if key not in (*_OWN, "h")}
    report, told = about.get("report", {}), about.get("warnings", [])
    if not isinstance(report, dict) or not all(
        value is None or isinstance(value, int | float) for value in report.values()
    ):
        raise ValueError("fit.report must be a table of numbers")
    if not isinstance(told, list):
        raise ValueError("fit.warnings must be a list")
    if "mean_spend" in about:
        real_array("fit.mean_spend", about["mean_spend"], (d,))
    return about


def _are_names(names: Any, count: int) -> bool:
    are_text = isinstance(names, list) and all(isinstance(name, str) for name in names)
    return are_text and len(names) == len(set(names)) == count


def _limit(name: str, value: Any, d: int) -> np.ndarray:
    return np.broadcast_to(real_array(name, value, () if np.ndim(value) == 0 else (d,)), d)


def _plain(value: Any) -> Any:
    """A number as JSON can hold it; None for infinity and NaN."""
    if isinstance(value, bool | np.bool_):
        return bool(value)
    number = np.asarray(value).item()
    return number if np.isfinite(number) else None
