"""The rounds of a campaign, and how they are read from the events of a journal."""

from collections.abc import Sequence
from math import isfinite, nan
from typing import Any, NamedTuple

from dlbjax.live.journal import Event


class Correction(NamedTuple):
    """What became known of a round after it had been told."""

    told: int  # rounds told by then
    asked: int  # rounds asked by then
    place: int  # of the round, from 0
    reward: float  # NaN where missing
    spend: list[float]


class Record(NamedTuple):
    """What happened, each list with one entry a round.

    Attributes:
      allocations: what was advised.
      spend: what was spent.
      rewards: NaN where missing.
    """

    allocations: list[list[float]]
    spend: list[list[float]]
    rewards: list[float]

    def corrected(self, found: Correction) -> "Record":
        """With one round as it is known now; this record is not changed."""
        spend, rewards = self.spend.copy(), self.rewards.copy()
        spend[found.place], rewards[found.place] = found.spend, found.reward
        return Record(self.allocations, spend, rewards)

    def renamed(self, old: Sequence[str] | None, new: Sequence[str] | None) -> "Record":
        """With the channels `new` instead of `old`; 0 on those that are new."""
        if old is None or new is None or list(old) == list(new):
            return self
        places = [old.index(name) if name in old else None for name in new]

        def moved(rows: list[list[float]]) -> list[list[float]]:
            return [[0.0 if i is None else row[i] for i in places] for row in rows]

        return Record(moved(self.allocations), moved(self.spend), self.rewards)


class Replay(NamedTuple):
    """The events of a journal, put in order.

    Attributes:
      record: what was told, corrected by what was known when the last stage began.
      header: of the last stage.
      begun: rounds before the last stage.
      corrections: those of the last stage.
    """

    record: Record
    header: dict[str, Any]
    begun: int
    corrections: list[Correction]


def replay(events: Sequence[Event]) -> Replay:
    """The rounds that a journal holds.

    Raises:
      ValueError: rounds are missing or repeated, or hold something else than finite numbers.
    """
    record, header, begun = Record([], [], []), None, 0
    corrections: list[Correction] = []
    for number, (round_, kind, data) in enumerate(events, 1):
        told, asked = len(record.rewards), len(record.allocations)
        try:
            if kind == "ask" and header is not None and round_ == told + 1 == asked + 1:
                record.allocations.append(_numbers(data["allocation"]))
            elif kind == "tell" and round_ == told + 1 == asked:
                record.spend.append(_numbers(data.get("spend", record.allocations[-1])))
                record.rewards.append(_reward(data["reward"]))
            elif kind == "correct" and 1 <= round_ <= told:
                spend = _numbers(data["spend"])
                reward = _reward(data["reward"])
                corrections.append(Correction(told, asked, round_ - 1, reward, spend))
            elif kind == ("change" if header else "begin") and round_ == told + 1 == asked + 1:
                for found in corrections:
                    record = record.corrected(found)
                if header is not None:
                    record = record.renamed(header["channels"], data["channels"])
                header, begun, corrections = dict(data), told, []
            else:
                raise ValueError(f"{kind} of round {round_} after {told} rounds were told")
        except (KeyError, IndexError, TypeError, ValueError) as error:
            raise ValueError(f"event {number} makes no sense: {error}") from None
    if header is None:
        raise ValueError("it has no events")
    return Replay(record, header, begun, corrections)


def _reward(value: Any) -> float:
    return nan if value is None else _numbers([value])[0]


def _numbers(values: Any) -> list[float]:
    if not all(type(value) is float and isfinite(value) for value in values):
        raise ValueError(f"{values!r:.60} is no list of finite numbers")
    return values
