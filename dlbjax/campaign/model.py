"""A fitted system with its action set, as a file that `dlbjax run` and `dlbjax plan` read."""

import json
import math
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from dlbjax.campaign.log import Log
from dlbjax.common.arrays import Number, instance_of, real_array, real_number, short, whole_number
from dlbjax.common.files import write_atomically
from dlbjax.identification import Calendar, Controls, Fit
from dlbjax.model.actions import ActionSet, budget
from dlbjax.model.files import problem_of, read_file
from dlbjax.model.problem import Problem
from dlbjax.model.system import System

_LONGEST = 1000  # rounds of history that a model keeps


class History(NamedTuple):
    """Rounds of the log, and of what the model says their rewards consist.

    Attributes:
      spend: (T, d).
      rewards: (T,), NaN where missing.
      level: (T,) baseline and controls.
      carried: (T,) effect of spend before the log.
      channels: (T, d) effect of each channel's spend, at once and delayed.
    """

    spend: np.ndarray
    rewards: np.ndarray
    level: np.ndarray
    carried: np.ndarray
    channels: np.ndarray


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
      baseline: expected reward of a round without any spend, with all controls at their means.
      sigma: standard deviation of the errors of predicting one round ahead.
      covariance: (1 + d, 1 + d) covariance of the estimates of baseline and h.
      controls: effects of what nobody chooses.
      history: the last rounds of the log (at most 1000) and what the model makes of them.
      fit: how the system was found, for readers of the file.
    """

    system: System
    low: np.ndarray
    high: np.ndarray
    total: float
    channels: tuple[str, ...]
    reward: str
    baseline: float
    sigma: float
    covariance: np.ndarray
    controls: Controls
    history: History
    fit: dict[str, Any]

    @property
    def h(self) -> np.ndarray:
        """(d,) estimate of h."""
        return np.asarray(self.system.h)

    @property
    def h_covariance(self) -> np.ndarray:
        """(d, d) covariance of the estimate of h."""
        return self.covariance[1:, 1:]

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

        With several regions all of these are of one region.
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
            "episodes": len(log.rewards),
            "regions": len(set(log.groups or ())),
            "last_round": None if log.last is None else log.last.isoformat(),
            "step_days": None if log.step is None else log.step.total_seconds() / 86400,
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
            sigma=fit.sigma,
            covariance=fit.covariance[: 1 + fit.system.d, : 1 + fit.system.d],
            controls=fit.controls,
            history=History(
                log.spend[-_LONGEST:],
                *(part[-_LONGEST:] for part in (fit.parts.rewards, fit.parts.level)),
                *(part[-_LONGEST:] for part in (fit.parts.carried, fit.parts.channels)),
            ),
            fit=about,
        )

    @property
    def current(self) -> np.ndarray:
        """(d,) mean spend of a round in the log."""
        return np.asarray(self.fit["mean_spend"], dtype=float)

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
                "h": s.h.tolist(), "covariance": self.covariance.tolist(), "sigma": self.sigma,
                "controls": _controls_as_json(self.controls),
                "history": {name: _numbers(part) for name, part in self.history._asdict().items()},
                **self.fit,
            },
        }  # fmt: skip
        with write_atomically(path) as file:
            file.write(json.dumps(content, indent=2, allow_nan=False).encode())


def read_model(path: str | Path) -> Model:
    """Read a file written by `Model.save`, or raise a ValueError that starts with its path."""
    return read_file(path, _model)


_OWN = (  # keys of `fit` with a meaning here
    "channels", "reward", "baseline", "sigma", "covariance", "controls", "history", "mean_spend",
)  # fmt: skip
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
        float(real_number("fit.baseline", fit["baseline"])),
        float(real_number("fit.sigma", fit["sigma"], at_least=0.0)),
        _covariance(fit["covariance"], d), _controls(fit["controls"]), _history(fit["history"], d),
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
    own = {*_OWN, "h"} - {"mean_spend"}
    about = {key: value for key, value in fit.items() if key not in own}
    report, warnings = about.get("report", {}), about.get("warnings", [])
    if not isinstance(report, dict) or not all(
        value is None or isinstance(value, int | float) for value in report.values()
    ):
        raise ValueError(f"fit.report must be a table of numbers; got {short(report)}")
    if not isinstance(warnings, list):
        raise ValueError(f"fit.warnings must be a list; got {short(warnings)}")
    real_array("fit.mean_spend", about["mean_spend"], (d,))
    if about.get("step_days") is not None:
        real_number("fit.step_days", about["step_days"], at_least=0.0)
    return about


def _controls_as_json(controls: Controls) -> dict[str, Any]:
    return {
        "names": list(controls.names),
        **{name: _numbers(getattr(controls, name)) for name in ("effects", "std", "means")},
        "calendar": controls.calendar._asdict(),
        "next_round": controls.next_round,
    }


def _controls(content: Any) -> Controls:
    """Read effects of controls."""
    try:
        names, calendar = content["names"], Calendar.of(**content["calendar"])
        numbers = [_array(f"fit.controls.{k}", content[k], (len(names),)) for k in _EFFECTS]
        next_round = whole_number("fit.controls.next_round", content["next_round"], at_least=0)
    except (KeyError, TypeError):
        raise ValueError(
            f"fit.controls must hold names, effects, std, means, calendar and next_round; "
            f"got {short(content)}"
        ) from None
    if not _are_names(names, len(names)) or names[: len(calendar.names)] != calendar.names:
        raise ValueError(
            f"fit.controls.names must be names, those of the calendar first; got {short(names)}"
        )
    effects, std, means = numbers
    return Controls(tuple(names), effects, std, means, calendar, next_round)


def _history(content: Any, d: int) -> History:
    """Read the last rounds."""
    if not isinstance(content, dict) or set(content) != set(History._fields):
        raise ValueError(
            f"fit.history must hold {', '.join(History._fields)}; got {short(content)}"
        )
    spend = _array("fit.history.spend", content["spend"], (None, d))
    T = len(spend)
    shapes = {"rewards": (T,), "level": (T,), "carried": (T,), "channels": (T, d)}
    return History(
        spend,
        *(_array(f"fit.history.{name}", content[name], shape) for name, shape in shapes.items()),
    )


_EFFECTS = ("effects", "std", "means")


def _array(name: str, content: Any, shape: tuple[int | None, ...]) -> np.ndarray:
    """An array of numbers in which null is NaN."""
    if isinstance(content, list):
        content = [math.nan if cell is None else cell for cell in content]
    found = np.asarray(content, dtype=float)
    finite = np.where(np.isnan(found), 0.0, found)
    return np.where(np.isnan(found), np.nan, np.asarray(real_array(name, finite, shape)))


def _numbers(values: np.ndarray) -> list[Any]:
    """Lists for JSON, None for NaN."""
    if values.ndim == 2:
        return values.tolist()
    return [_plain(value) for value in values]


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
