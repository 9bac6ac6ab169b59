"""`Agent`: a policy that is asked what to play, and told what it earned."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from dlbjax._arrays import real_number, whole_number
from dlbjax.actions import ActionSet
from dlbjax.engine.fingerprint import versions
from dlbjax.epochs import LONGEST
from dlbjax.live.decisions import Decision, Decisions, Seen
from dlbjax.live.journal import Journal, Mark
from dlbjax.policies.policy import Policy, PolicyGrid, check_policy

_FORMAT = 1


class _Now(NamedTuple):
    """Where a campaign is. Replaced as a whole, so that an interruption leaves it before or after a step."""

    told: int  # rounds whose rewards are known
    waiting: bool  # whether the allocation of the round after them has been handed out
    decision: Decision
    seen: Seen  # rewards since the decision
    mark: Mark = Mark()  # end of the journal


class Agent:
    """A policy in charge of a real campaign, round by round.

    It decides as the policy does in a simulation with that seed and the same rewards; one that draws
    random numbers does so if the simulation reports the last round only (`rounds=[horizon]`), because
    reports are part of what a seed means there. With a `path` every
    allocation and every reward is on the disk before `ask` or `tell` returns, and making an agent with
    the path of an earlier one goes on where that one was, whether it ended, was killed or lost power:

        with dlb.Agent(policy, actions, horizon=365, path="campaign.jsonl") as agent:  # every morning
            if agent.waiting:
                agent.tell(conversions_of_yesterday)
            print(agent.ask())

    The file is a journal, a line of JSON for every allocation and every reward, and holds no state of the
    policy. That is computed again from the rewards, by the very code that computed it first: so the file
    can be read by anyone, a round costs the same however many came before, any policy can be kept, and a
    policy that would not have decided as the file says is noticed. One agent at a time has the file. What
    was told cannot be taken back, but the first lines of a file are the campaign as it was then: to go
    back to it, go on from a copy of them.

    A round without an observation is no round: leave the allocation as it is, and tell the first reward
    that is observed. No number could stand for it: some policies count rounds, others average them.

    Args:
      policy: a policy of the package or one's own.
      actions: what may be played, in one's own units: a budget in EUR with limits for every channel is
        `dlbjax.actions.budget(low, high, total)`.
      horizon: number of rounds, which a policy may need to know.
      seed: for policies that draw random numbers.
      path: file to keep the campaign in, or to go on from. Without one it ends with the process.
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
        decision, seen, _ = self._decisions.replay([])  # what cannot decide should leave no file
        self._now = _Now(0, False, decision, seen)
        self._journal: Journal | None = None
        if path is not None:
            header = self._header()
            self._journal = Journal(path)
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
        """Whether an allocation has been handed out whose reward has not been told."""
        return self._now.waiting

    def ask(self) -> np.ndarray:
        """The allocation of the coming round, (d,); the same one until its reward has been told."""
        now = self._now
        if now.told == self._horizon:
            raise RuntimeError(
                f"all {self._horizon} rounds have been played; for further ones begin another campaign"
            )
        allocation = self._decisions.arms[now.decision.action].copy()
        if not now.waiting:
            mark = self._written(now, {"allocation": allocation.tolist()})
            self._now = now._replace(waiting=True, mark=mark)
        return allocation

    def tell(self, reward: float) -> None:
        """The reward that was observed in the round last asked for.

        Args:
          reward: a finite number. Where none was observed see above.
        """
        now = self._now
        if not now.waiting:
            raise RuntimeError(
                f"the rewards of all {now.told} rounds asked for have been told; ask before telling another"
            )
        try:
            reward = real_number("reward", reward)
        except ValueError as error:
            raise ValueError(
                f"{error}. If none was observed leave the allocation as it is and tell the next that is"
            ) from None
        told, decision, seen = now.told + 1, now.decision, now.seen.add(reward)
        if told == decision.end and told < self._horizon:
            decision, seen = self._decisions.after(decision, seen), Seen()
        mark = self._written(now, {"reward": reward})
        self._now = _Now(told, False, decision, seen, mark)

    def close(self) -> None:
        """Let another agent have the file. Leaving a `with` block does it too."""
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

    def _written(self, now: _Now, fact: Mapping[str, Any]) -> Mark:
        if self._journal is None:
            return now.mark
        return self._journal.append(now.mark, {"round": now.told + 1, **fact})

    def _resumed(self, journal: Journal, header: dict[str, Any]) -> _Now:
        if (begun := journal.begin(header)) is not None:
            return self._now._replace(mark=begun)
        (found, *lines), mark = journal.read()
        _refuse_other(journal.path, found, header)
        rewards = [line["reward"] for line in lines if "reward" in line]
        asked = [line["allocation"] for line in lines if "allocation" in line]
        decision, seen, actions = self._decisions.replay(rewards)
        played = self._decisions.arms[actions[: len(asked)]]
        differs = np.any(np.reshape(asked, played.shape) != played, axis=1)
        if np.any(differs):
            raise ValueError(
                f"{journal.path} holds another campaign: in round {1 + np.argmax(differs)} the policy "
                "given here plays something else. It was left as it is; go on with the policy, and the "
                f"versions, that made it: {found['versions']}"
            )
        return _Now(len(rewards), len(asked) > len(rewards), decision, seen, mark)

    def _header(self) -> dict[str, Any]:
        try:
            json.dumps(self._policy.config)
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"config of policy {self._policy.name!r} must be fit for JSON, so that a file can hold it: "
                f"{error}"
            ) from None
        return {
            "format": _FORMAT,
            "versions": versions(),
            "policy": self._policy.name,
            "config": self._policy.config,
            "horizon": self._horizon,
            "seed": self._seed,
            "channels": self._channels,
            "units": self._units,
            "fingerprint": self._decisions.fingerprint,
        }


def _check(policy: Policy, actions: ActionSet) -> None:
    if isinstance(policy, PolicyGrid):
        raise ValueError(
            f"policy must be a single one; got a grid of {len(policy.policies)}. Choose among its policies"
        )
    if not isinstance(policy, Policy):
        raise ValueError(f"policy must be a dlbjax.Policy; got {type(policy).__name__}")
    if not isinstance(actions, ActionSet):
        raise ValueError(
            "actions must come from dlbjax.actions (budget, polytope, simplex, hypercube, finite); got "
            f"{type(actions).__name__}"
        )
    check_policy(policy, actions)


def _names(channels: Sequence[str], d: int) -> list[str]:
    names = [] if isinstance(channels, str) else list(channels)
    if len(set(names)) != d or len(names) != d or not all(isinstance(n, str) for n in names):
        raise ValueError(
            f"channels must be {d} distinct names, one for each coordinate of an action; got {channels!r}"
        )
    return names


def _refuse_other(path: Path, found: dict[str, Any], header: dict[str, Any]) -> None:
    """Refuse to go on with a file that was begun with other arguments."""
    if found.get("format") != _FORMAT:
        raise ValueError(
            f"{path} has format {found.get('format')}, this version of dlbjax reads {_FORMAT}"
        )
    for name in ("policy", "horizon", "seed", "channels", "units"):
        if found[name] != header[name]:
            raise ValueError(
                f"{path} holds another campaign, begun with {name}={found[name]!r} instead of "
                f"{header[name]!r}. It was left as it is; give this one a path of its own"
            )
    for name, digest in header["fingerprint"].items():
        if found["fingerprint"][name] != digest:
            raise ValueError(
                f"{path} holds another campaign, begun with other {name}. It was left as it is; give this "
                "one a path of its own"
            )
