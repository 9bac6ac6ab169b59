"""`Agent`: a policy that runs a real campaign through `ask` and `tell`."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from dlbjax.common.arrays import real_number, whole_number
from dlbjax.common.files import as_path
from dlbjax.engine.identity import versions
from dlbjax.live.decisions import Decision, Decisions, Seen
from dlbjax.live.journal import Journal, Mark
from dlbjax.model.actions import ActionSet
from dlbjax.policies.base import Policy, PolicyGrid, check_policy
from dlbjax.policies.epochs import LONGEST

_FORMAT = 1


class _Now(NamedTuple):
    """The state of a campaign, replaced as a whole: an interruption leaves the old or the new one."""

    told: int  # rounds whose rewards are known
    waiting: bool  # whether the allocation of the next round has been returned
    decision: Decision
    seen: Seen  # rewards since the decision
    mark: Mark = Mark()  # end of the journal


class Agent:
    """A policy that runs a real campaign, round by round.

    It decides as the policy does in a simulation with the same seed and the same rewards. For a policy
    that draws random numbers this must be a simulation that reports the last round only
    (`rounds=[horizon]`), because reporting rounds are part of what a seed means.

    With a `path` every allocation and every reward is on the disk before `ask` or `tell` returns, and an
    agent that is made with the path of an earlier one continues its campaign, whether that one ended, was
    killed or lost power:

        with dlb.Agent(policy, actions, horizon=365, path="campaign.jsonl") as agent:  # every morning
            if agent.waiting:
                agent.tell(conversions_of_yesterday)
            print(agent.ask())

    The file is a journal with a line of JSON for every allocation and every reward. It does not hold the
    state of the policy, which is computed again from the rewards by the same code. So anyone can read the
    file, any policy can be used, a round costs the same however many came before, and a policy that would
    not have chosen the allocations in the file is rejected. One agent at a time can have the file open. A
    reward cannot be withdrawn; to return to an earlier round, continue from a copy of the file's first
    lines.

    A round without an observation does not count: keep the allocation, and tell the first reward that is
    observed. No number can replace a missing reward: some policies count rounds, others average them.

    Args:
      policy: a policy of the package or one's own.
      actions: the set to choose allocations from, in one's own units: a budget in EUR with limits for
        every channel is `dlbjax.actions.budget(low, high, total)`.
      horizon: number of rounds T.
      seed: for policies that draw random numbers.
      path: file of the campaign, new or to be continued; by default the campaign ends with the process.
      channels: names of the coordinates of an action.
      units: of an allocation, such as "EUR per day".

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
    ):
        _check(policy, actions)
        self._policy = policy
        self._horizon = whole_number("horizon", horizon, at_least=1, at_most=LONGEST)
        self._seed = whole_number("seed", seed, at_least=0, at_most=LONGEST)
        self._channels = None if channels is None else _names(channels, actions.d)
        if not isinstance(units, str | None):
            raise ValueError(f"units must be text, such as 'EUR per day'; got {units!r}")
        self._units = units
        self._decisions = Decisions(policy, actions, self._horizon, self._seed)
        decision, seen, _ = self._decisions.replay([])  # a policy that fails here leaves no file
        self._now = _Now(0, False, decision, seen)
        self._journal: Journal | None = None
        if path is not None:
            header = self._header()
            self._journal = Journal(as_path("path", path))
            try:
                self._now = self._resumed(self._journal, header)
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
        if now.told == self._horizon:
            raise RuntimeError(
                f"all {self._horizon} rounds have been played; start a new campaign to play more"
            )
        allocation = self._decisions.arms[now.decision.action].copy()
        if not now.waiting:
            mark = self._written(now, {"allocation": allocation.tolist()})
            self._now = now._replace(waiting=True, mark=mark)
        return allocation

    def tell(self, reward: float) -> None:
        """Learn the reward of the allocation that `ask` returned.

        Args:
          reward: a finite number. If none was observed, do not call this for the round; see above.
        """
        now = self._now
        if not now.waiting:
            raise RuntimeError(
                f"the rewards of all {now.told} allocations have been told; call ask before tell"
            )
        try:
            reward = real_number("reward", reward)
        except ValueError as error:
            raise ValueError(
                f"{error}. If none was observed, keep the allocation and tell the next reward that is"
            ) from None
        told, decision, seen = now.told + 1, now.decision, now.seen.add(reward)
        if told == decision.end and told < self._horizon:
            decision, seen = self._decisions.after(decision, seen), Seen()
        mark = self._written(now, {"reward": reward})
        self._now = _Now(told, False, decision, seen, mark)

    def close(self) -> None:
        """Close the file, so that another agent can open it. Leaving a `with` block does it, too."""
        if self._journal is not None:
            self._journal.close()

    def __enter__(self) -> "Agent":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __str__(self) -> str:
        now = self._now
        text = f"{self._policy.name}, {now.told} of {self._horizon} rounds told"
        if not now.waiting:
            return text
        numbers = [f"{x:.10g}" for x in self._decisions.arms[now.decision.action]]
        if self._channels is None:
            shown = f"({', '.join(numbers)})"
        else:
            shown = ", ".join(map(" ".join, zip(self._channels, numbers, strict=True)))
        units = f" {self._units}" if self._units else ""
        return f"{text}; round {now.told + 1} plays {shown}{units}"

    def _written(self, now: _Now, record: Mapping[str, Any]) -> Mark:
        if self._journal is None:
            return now.mark
        return self._journal.append(now.mark, {"round": now.told + 1, **record})

    def _resumed(self, journal: Journal, header: dict[str, Any]) -> _Now:
        if (begun := journal.begin(header)) is not None:
            return self._now._replace(mark=begun)
        (found, *lines), mark = journal.read()
        _check_header(journal.path, found, header)
        rewards = [line["reward"] for line in lines if "reward" in line]
        asked = [line["allocation"] for line in lines if "allocation" in line]
        decision, seen, actions = self._decisions.replay(rewards)
        played = self._decisions.arms[actions[: len(asked)]]
        differs = np.any(np.reshape(asked, played.shape) != played, axis=1)
        if np.any(differs):
            raise ValueError(
                f"{journal.path} holds another campaign: in round {1 + np.argmax(differs)} the policy "
                "given here plays something else. It was left as it is; continue with the policy and the "
                f"versions that made it: {found['versions']}"
            )
        return _Now(len(rewards), len(asked) > len(rewards), decision, seen, mark)

    def _header(self) -> dict[str, Any]:
        config = self._decisions.config
        try:
            json.dumps(config)
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"config in the schedule of policy {self._policy.name!r} must be fit for JSON, to be "
                f"written to the file: {error}"
            ) from None
        return {
            "format": _FORMAT,
            "versions": versions(),
            "policy": self._policy.name,
            "config": config,
            "horizon": self._horizon,
            "seed": self._seed,
            "channels": self._channels,
            "units": self._units,
            "fingerprint": self._decisions.fingerprint,
        }


def _check(policy: Policy, actions: ActionSet) -> None:
    if isinstance(policy, PolicyGrid):
        raise ValueError(
            f"policy must be a single one; got a grid of {len(policy.policies)}. Choose one of its policies"
        )
    check_policy(policy)
    if not isinstance(actions, ActionSet):
        raise ValueError(
            "actions must come from dlbjax.actions (budget, polytope, simplex, hypercube, finite); got "
            f"{type(actions).__name__}"
        )


def _names(channels: Sequence[str], d: int) -> list[str]:
    names = [] if isinstance(channels, str) else list(channels)
    if len(set(names)) != d or len(names) != d or not all(isinstance(n, str) for n in names):
        raise ValueError(
            f"channels must be {d} distinct names, one for each coordinate of an action; got {channels!r}"
        )
    return names


def _check_header(path: Path, found: dict[str, Any], header: dict[str, Any]) -> None:
    """Reject a file that was begun with other arguments."""
    if found.get("format") != _FORMAT:
        raise ValueError(
            f"{path} has format {found.get('format')}, but this version of dlbjax reads format {_FORMAT}. "
            "It was left as it is; continue with the version that made it"
        )
    for name in ("policy", "horizon", "seed", "channels", "units"):
        if found[name] != header[name]:
            raise ValueError(
                f"{path} holds another campaign, begun with {name}={found[name]!r} instead of "
                f"{header[name]!r}. It was left as it is; use another path"
            )
    for name, digest in header["fingerprint"].items():
        if found["fingerprint"][name] != digest:
            raise ValueError(
                f"{path} holds another campaign, begun with other {name}. It was left as it is; use "
                "another path"
            )
