"""`Agent`: a policy that runs a real campaign through `ask` and `tell`."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from dlbjax.common.arrays import real_array, real_number, short, whole_number
from dlbjax.common.files import as_path, write_atomically
from dlbjax.live.decisions import Decision
from dlbjax.live.journal import Event, Journal, Mark
from dlbjax.live.record import Correction, Record, replay
from dlbjax.live.stage import Stage
from dlbjax.model.actions import ActionSet
from dlbjax.policies.base import Policy

_LARGEST = 1e150  # size of a reward or a spend: its square, and sums of it, do not overflow


class History(NamedTuple):
    """The rounds of a campaign, as they are known now.

    Attributes:
      allocations: (T, d) what `ask` returned.
      spend: (T, d) what was spent.
      rewards: (T,) NaN where missing.
    """

    allocations: np.ndarray
    spend: np.ndarray
    rewards: np.ndarray


class _Now(NamedTuple):
    """The state of a campaign, replaced as a whole: an interruption leaves the old or the new one.

    The lists may be longer than they should be by what an interrupted call added.
    """

    stage: Stage
    told: int  # rounds whose rewards are known, or known to be missing
    waiting: bool  # whether the allocation of the next round has been returned
    record: Record
    decision: Decision
    chosen: list[int]  # arms of the policy's epochs, the current one last
    mark: Mark = Mark()  # end of the journal


class Agent:
    """A policy that runs a real campaign, round by round.

    It decides as the policy does in a simulation with the same seed and the same rewards. For a policy
    that draws random numbers this must be a simulation that reports the last round only
    (`rounds=[horizon]`), because reporting rounds are part of what a seed means.

    With a `path` every allocation and every reward is on the disk before `ask` or `tell` returns, and an
    agent that is made with the path of an earlier one continues its campaign, whether that one ended, was
    killed or lost power:

        with dlb.Agent(policy, actions, horizon=365, path="campaign.db") as agent:  # every morning
            if agent.waiting:
                agent.tell(conversions_of_yesterday)
            print(agent.ask())

    The file is an SQLite database with a row for every event. It does not hold the state of the policy, which
    is computed again from the events by the same code. So anyone can read the file, any policy can be used,
    and a policy that would not have chosen the allocations in the file is rejected. One agent at a time can
    have the file open. Nothing in it is changed later: what becomes known later is a further event.

    What a policy learns from an epoch in which not all went as planned:

    - Of missing rewards: the mean and the last of those that were observed stand for all. From an epoch
      without any it does not learn, as if the epoch had not been.
    - Of spend that differs from the allocation: the reward is that of the mean spend of the epoch. Policies
      that learn about vertices only (Exp3, Batch-Exp3, UCB1, AR2, AR-UCB, LARL, one's own without `vectors`)
      do not learn from such an epoch.

    Args:
      policy: a policy of the package or one's own.
      actions: the set to choose allocations from, in one's own units: a budget in EUR with limits for
        every channel is `dlbjax.actions.budget(low, high, total)`.
      horizon: number of rounds T.
      seed: for policies that draw random numbers.
      path: file of the campaign, new or to be continued; by default the campaign ends with the process.
      channels: names of the coordinates of an action.
      units: of an allocation, such as "EUR per day".
      current: (d,) spend before the first round, from which `max_change` counts.
      max_change: most that the spend on a channel may change from one round to the next, a number or (d,).
        The allocation then is as far on the straight way to the policy's choice as that allows.

    >>> import dlbjax as dlb
    >>> problem = dlb.problems.synthetic()
    >>> agent = dlb.Agent(dlb.ucb1(dlb.Bounds.of(problem)), problem.actions, horizon=365)
    >>> agent.ask()
    array([0., 0., 0.])
    >>> agent.tell(0.2)
    >>> agent.ask()
    array([0., 0., 1.])
    >>> print(agent)
    UCB1, 1 of 365 rounds told; round 2 plays (0, 0, 1)
    """

    def __init__(
        self,
        policy: Policy,
        actions: ActionSet,
        horizon: int,
        seed: int = 0,
        *,
        path: str | Path | None = None,
        channels: Sequence[str] | None = None,
        units: str | None = None,
        current: ArrayLike | None = None,
        max_change: ArrayLike | None = None,
    ):
        stage = Stage(policy, actions, horizon, seed, channels, units, current, max_change)
        self._now = _begun(stage, Record([], [], []), 0)  # a policy that fails here leaves no file
        self._journal: Journal | None = None
        if path is not None:
            begin = Event(1, "begin", stage.header())
            self._journal = Journal(as_path("path", path), begin)
            try:
                self._now = self._resumed(self._journal, stage)
            except BaseException:
                self._journal.close()
                raise

    @property
    def told(self) -> int:
        """Rounds whose rewards have been told."""
        return self._now.told

    @property
    def waiting(self) -> bool:
        """Whether the reward of the last allocation has not been told yet."""
        return self._now.waiting

    def ask(self) -> np.ndarray:
        """The allocation (d,) of the next round; the same until its reward has been told."""
        now = self._now
        if now.told == now.stage.horizon:
            raise RuntimeError(
                f"all {now.told} rounds have been played; call change with a longer horizon to play more"
            )
        if not now.waiting:
            (allocation,) = _allocations(now, now.told, [now.decision.action])
            now.record.allocations[now.told :] = [allocation.tolist()]
            mark = self._written(now, "ask", {"allocation": allocation.tolist()})
            self._now = now._replace(waiting=True, mark=mark)
        return np.array(now.record.allocations[now.told])

    def tell(self, reward: float | None, spend: ArrayLike | None = None) -> None:
        """Learn the reward of the allocation that `ask` returned.

        Args:
          reward: a finite number; None if it is missing. `correct` can supply it later.
          spend: (d,) what was spent, where it differs from the allocation.
        """
        now = self._now
        if not now.waiting:
            raise RuntimeError(
                f"the rewards of all {now.told} allocations have been told; call ask before tell"
            )
        record, place = now.record, now.told
        y = _reward(reward)
        data: dict[str, Any] = {"reward": _known(y)}
        record.rewards[place:] = [y]
        record.spend[place:] = [record.allocations[place]]
        if spend is not None:
            data["spend"] = record.spend[place] = _spend(spend, now.stage)
        after = _advanced(now._replace(told=place + 1, waiting=False))
        self._now = after._replace(mark=self._written(now, "tell", data))

    def correct(self, round: int, reward: float | None, spend: ArrayLike | None = None) -> None:
        """Replace what was told of an earlier round, from now on: past decisions stand.

        Args:
          round: number of the round, from 1.
          reward: its reward as it is known now; None if it is missing.
          spend: (d,) its spend as it is known now, if that has changed.
        """
        now = self._now
        if now.told == 0:
            raise RuntimeError("no round has been told yet; there is nothing to correct")
        place = whole_number("round", round, at_least=1, at_most=now.told) - 1
        y = _reward(reward)
        u = now.record.spend[place] if spend is None else _spend(spend, now.stage)
        found = Correction(now.told, now.told + now.waiting, place, y, u)
        after = _corrected(now, found)
        event = Event(place + 1, "correct", {"reward": _known(y), "spend": u})
        self._now = after._replace(mark=self._append(now.mark, event))

    def change(
        self,
        policy: Policy | None = None,
        actions: ActionSet | None = None,
        horizon: int | None = None,
        *,
        channels: Sequence[str] | None = None,
        max_change: ArrayLike | None = None,
    ) -> None:
        """Go on with another policy, budget, horizon, set of channels or limit; what is not given stays.

        A policy that learns from any allocation (see `Policy.vectors`) starts from all rounds so far, as if
        it had been there and other allocations had been played. Any other starts anew with the next round.
        New channels count as unused so far; to drop one, give it the limits 0 and 0. From now on the campaign
        is continued with the new arguments.
        """
        now = self._now
        if now.waiting:
            raise RuntimeError(
                f"round {now.told + 1} has been asked for; tell its reward, or None, before a change"
            )
        given: dict[str, Any] = {
            "policy": policy, "actions": actions, "horizon": horizon, "channels": channels,
            "max_change": max_change,
        }  # fmt: skip
        old = now.stage
        kept: dict[str, Any] = {"begun": now.told, "current": None if now.told else old.current}
        limit_of_each = isinstance(old.max_change, np.ndarray) and old.max_change.ndim == 1
        if limit_of_each and channels is not None and max_change is None:
            raise ValueError("max_change has a limit for each of the channels so far; pass it, too")
        stage = replace(old, **kept, **{k: v for k, v in given.items() if v is not None})
        _check_channels(old, stage)
        record = now.record.renamed(old.channels, stage.channels)
        after = _begun(stage, record, now.told)
        self._now = after._replace(mark=self._written(now, "change", stage.header()))

    def history(self) -> History:
        """All rounds whose rewards have been told, as they are known now.

        `identify(history.spend, history.rewards)` fits a system to them.
        """
        now, shape = self._now, (self._now.told, self._now.stage.actions.d)
        allocations, spend, rewards = (np.array(part[: now.told], float) for part in now.record)
        return History(allocations.reshape(shape), spend.reshape(shape), rewards)

    def export(self, path: str | Path) -> None:
        """Write all events as text, a line of JSON for each."""
        if self._journal is None:
            raise RuntimeError("this campaign has no file; pass path to Agent to keep its events")
        lines = [
            json.dumps({"round": event.round, "event": event.kind, **event.data})
            for event in self._journal.read()[0]
        ]
        with write_atomically(as_path("path", path)) as file:
            file.write("".join(f"{line}\n" for line in lines).encode())

    def close(self) -> None:
        """Close the file, so that another agent can open it. Leaving a `with` block does it, too."""
        if self._journal is not None:
            self._journal.close()

    def __enter__(self) -> "Agent":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __str__(self) -> str:
        now, stage = self._now, self._now.stage
        text = f"{stage.policy.name}, {now.told} of {stage.horizon} rounds told"
        if not now.waiting:
            return text
        numbers = [f"{x:.10g}" for x in now.record.allocations[now.told]]
        if stage.channels is None:
            shown = f"({', '.join(numbers)})"
        else:
            shown = ", ".join(map(" ".join, zip(stage.channels, numbers, strict=True)))
        units = f" {stage.units}" if stage.units else ""
        return f"{text}; round {now.told + 1} plays {shown}{units}"

    def _written(self, now: _Now, kind: str, data: Mapping[str, Any]) -> Mark:
        return self._append(now.mark, Event(now.told + 1, kind, data))

    def _append(self, mark: Mark, event: Event) -> Mark:
        return mark if self._journal is None else self._journal.append(mark, event)

    def _resumed(self, journal: Journal, stage: Stage) -> _Now:
        events, mark = journal.read()
        try:
            record, header, begun, corrections = replay(events)
        except ValueError as error:
            raise ValueError(f"{journal.path} is damaged: {error}; it was left as it is") from None
        stage = _continued(journal.path, header, stage, begun)
        if any(len(row) != stage.actions.d for row in (*record.allocations, *record.spend)):
            raise ValueError(f"{journal.path} is damaged: its allocations have different lengths")
        told, asked, checked = len(record.rewards), len(record.allocations), begun
        now = _begun(stage, record, begun)
        ends: list[tuple[int, int, Correction | None]] = [(c.told, c.asked, c) for c in corrections]
        for until, end, found in [*ends, (told, asked, None)]:
            now = _advanced(now._replace(told=until))
            arms = stage.decisions.arms_of(now.chosen, checked, end)
            expected = _allocations(now, checked, arms)
            differs = np.any(
                expected != np.reshape(record.allocations[checked:end], expected.shape), axis=1
            )
            if np.any(differs):
                raise ValueError(
                    f"{journal.path} holds another campaign: in round {checked + 1 + np.argmax(differs)} the "
                    "policy given here plays something else. It was left as it is; continue with the policy "
                    f"and the versions that made it: {header['versions']}"
                )
            checked = end
            if found is not None:
                now = _corrected(now, found)
        return now._replace(waiting=asked > told, mark=mark)


def _begun(stage: Stage, record: Record, told: int) -> _Now:
    """The first decision of a stage, which begins after rounds of others."""
    initial = stage.decisions.initial
    return _advanced(_Now(stage, told, False, record, initial, [initial.action]))


def _advanced(now: _Now) -> _Now:
    """The decision that follows from all rounds told."""
    record, decisions = now.record, now.stage.decisions
    decision, made = decisions.after(now.decision, now.told, record.rewards, record.spend)
    now.chosen[now.decision.number :] = made.tolist()
    return now._replace(decision=decision)


def _corrected(now: _Now, found: Correction) -> _Now:
    """Knowing more about an earlier round; a decision that was asked for stands."""
    record, before, decisions = now.record.corrected(found), now.decision, now.stage.decisions
    chosen = now.chosen[: before.number - 1]
    decision = decisions.corrected(before, found.place, chosen, record.rewards, record.spend)
    if found.asked > decisions.first + before.start:
        decision = decision._replace(action=before.action)
    return now._replace(record=record, decision=decision, chosen=[*chosen, decision.action])


def _allocations(now: _Now, first: int, arms: Sequence[int] | np.ndarray) -> np.ndarray:
    """(rounds, d) what is played from a round on, given the arms chosen for each."""
    stage, wanted = now.stage, now.stage.decisions.arms[np.asarray(arms, int)]
    if stage.max_change is None or len(wanted) == 0:
        return wanted
    current = wanted[0] if stage.current is None else stage.current
    before = [current, *now.record.spend][first : first + len(wanted)]
    return stage.limited(wanted, np.array(before))


def _reward(value: float | None) -> float:
    if value is None:
        return np.nan
    if isinstance(value, bool) or getattr(value, "dtype", None) == np.dtype(bool):
        raise ValueError(f"reward must be a number, or None if it is missing; got {short(value)}")
    try:
        return real_number("reward", value, at_least=-_LARGEST, at_most=_LARGEST)
    except ValueError as error:
        raise ValueError(f"{error}. If it is missing, tell None") from None


def _known(reward: float) -> float | None:
    return None if np.isnan(reward) else reward


def _spend(value: ArrayLike, stage: Stage) -> list[float]:
    spend = np.asarray(real_array("spend", value, (stage.actions.d,)))
    if np.asarray(value).dtype == bool:
        raise ValueError(f"spend must hold numbers; got {short(value)}")
    real_number("the largest spend", np.abs(spend).max(), at_most=_LARGEST)
    return spend.tolist()


def _check_channels(old: Stage, new: Stage) -> None:
    if old.channels is None or new.channels is None:
        if old.actions.d != new.actions.d:
            raise ValueError(
                f"channels must be named to change their number from {old.actions.d} to {new.actions.d}; "
                "pass channels when the campaign begins"
            )
    elif gone := [name for name in old.channels if name not in new.channels]:
        raise ValueError(
            f"channels must keep {gone[0]!r}, on which past rewards depend; give it the limits 0 and 0 to "
            "spend nothing on it"
        )


def _continued(path: Path, found: dict[str, Any], stage: Stage, begun: int) -> Stage:
    """The stage that a file is to be continued with, if it is the one in the file."""
    since = f"changed in round {begun + 1} to" if begun else "begun with"
    if begun:
        stage = replace(stage, begun=min(begun, stage.horizon - 1), current=None)
    header = stage.header()
    for name, value in header.items():
        if name in ("versions", "config", "fingerprint"):
            continue
        if found.get(name) != value:
            raise ValueError(
                f"{path} holds another campaign, {since} {name}={found.get(name)!r} instead of {value!r}. It "
                "was left as it is; use another path, or `change` what is to change"
            )
    for name, digest in header["fingerprint"].items():
        if found["fingerprint"][name] != digest:
            raise ValueError(
                f"{path} holds another campaign, {since} other {name}. It was left as it is; use another "
                "path, or `change` what is to change"
            )
    return stage
