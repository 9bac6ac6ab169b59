"""A stage of a campaign: the rounds in which policy, actions, horizon and limits are the same."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dlbjax.common.arrays import real_array, short, whole_number
from dlbjax.engine.identity import versions
from dlbjax.live.decisions import Decisions
from dlbjax.model.actions import ActionSet
from dlbjax.policies.base import Policy, PolicyGrid, check_policy
from dlbjax.policies.epochs import LONGEST


@dataclass(frozen=True, eq=False)
class Stage:
    """What is fixed until it is changed.

    Attributes:
      policy: the policy.
      actions: what it may choose.
      horizon: rounds of the campaign, those before the stage included.
      seed: for policies that draw random numbers.
      channels: names of the coordinates, or None.
      units: of an allocation, or None.
      current: (d,) what was spent before the first round of the campaign, or None.
      max_change: most that the spend on each channel (d,), or on any, may change in a round, or None.
      begun: rounds before the stage.
    """

    policy: Policy
    actions: ActionSet
    horizon: int
    seed: int
    channels: Sequence[str] | None
    units: str | None
    current: ArrayLike | None
    max_change: ArrayLike | None
    begun: int = 0

    def __post_init__(self) -> None:
        if isinstance(self.policy, PolicyGrid):
            raise ValueError(
                f"policy must be a single one; got a grid of {len(self.policy.policies)}. Choose one of its "
                "policies"
            )
        check_policy(self.policy)
        if not isinstance(self.actions, ActionSet):
            raise ValueError(
                "actions must come from dlbjax.actions (budget, polytope, simplex, hypercube, finite); got "
                f"{type(self.actions).__name__}"
            )
        least = self.begun + 1
        checked: dict[str, Any] = {
            "horizon": whole_number("horizon", self.horizon, at_least=least, at_most=LONGEST),
            "seed": whole_number("seed", self.seed, at_least=0, at_most=LONGEST),
        }
        d = self.actions.d
        if self.channels is not None:
            checked["channels"] = _names(self.channels, d)
        if not isinstance(self.units, str | None):
            raise ValueError(f"units must be text, such as 'EUR per day'; got {short(self.units)}")
        if self.current is not None:
            checked["current"] = np.asarray(real_array("current", self.current, (d,)))
        if self.max_change is not None:
            checked["max_change"] = self._limit(self.max_change)
        for name, value in checked.items():
            object.__setattr__(self, name, value)

    def _limit(self, value: ArrayLike) -> np.ndarray:
        single = np.isscalar(value) or getattr(value, "ndim", 1) == 0
        shape = () if single else (self.actions.d,)
        limit = np.asarray(real_array("max_change", value, shape))
        if np.any(limit <= 0):
            raise ValueError(f"max_change must be > 0; got {short(limit.tolist())}")
        if not self.actions.convex:
            raise ValueError(
                "max_change needs actions that can be mixed; a finite list has nothing between two of its "
                "actions"
            )
        if not self.policy.vectors:
            raise ValueError(
                f"policy {self.policy.name!r} learns about its vertices only, and could not learn while a "
                "limit on changes keeps it between them; omit max_change, or use a policy with `vectors`, "
                "such as dynlin_ucb_adaptive"
            )
        return limit

    @cached_property
    def decisions(self) -> Decisions:
        """The policy's decisions. One that learns from any vector starts from all rounds before the stage."""
        first = 0 if self.policy.vectors else self.begun
        return Decisions(self.policy, self.actions, self.horizon, self.seed, first)

    def limited(self, wanted: np.ndarray, before: np.ndarray) -> np.ndarray:
        """Allocations (rounds, d) as far on the way from those before as `max_change` allows."""
        move = wanted - before
        distance = np.abs(move)
        limit = np.broadcast_to(np.asarray(self.max_change), move.shape)
        share = np.divide(limit, distance, out=np.full_like(move, np.inf), where=distance > 0)
        share = np.minimum(share.min(axis=1, keepdims=True), 1)
        return np.where(share == 1, wanted, before + share * move)

    def header(self) -> dict[str, Any]:
        """What a journal says about the stage."""
        config = self.decisions.config
        try:
            json.dumps(config, allow_nan=False)
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"config in the schedule of policy {self.policy.name!r} must be fit for JSON, to be "
                f"written to the file: {error}"
            ) from None
        return {
            "versions": versions(),
            "policy": self.policy.name,
            "config": config,
            "horizon": self.horizon,
            "seed": self.seed,
            "channels": self.channels,
            "units": self.units,
            "current": _listed(self.current),
            "max_change": _listed(
                None
                if self.max_change is None
                else np.broadcast_to(self.max_change, self.actions.d)
            ),
            "fingerprint": self.decisions.fingerprint,
        }


def _names(channels: Sequence[str], d: int) -> list[str]:
    names = [] if isinstance(channels, str) else list(channels)
    if not all(isinstance(name, str) for name in names) or not len(set(names)) == len(names) == d:
        raise ValueError(
            f"channels must be {d} distinct names, one for each coordinate of an action; got {channels!r}"
        )
    return names


def _listed(value: ArrayLike | None) -> list[float] | None:
    return None if value is None else np.asarray(value).tolist()
