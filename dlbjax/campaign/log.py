"""Reading a table of spend and rewards."""

import csv
import math
import warnings
from collections.abc import Sequence
from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np

from dlbjax.common.hints import hint

_MISSING = ("", "nan", "na", "n/a", "null", "none")


class Log(NamedTuple):
    """Spend and rewards, round by round, in one or several episodes without gaps.

    Attributes:
      actions: (T_i, d) spend of each episode.
      rewards: (T_i,) rewards of each episode, NaN where missing.
      channels: names of the columns of the actions.
      reward: name of the reward.
      last: date of the last round, if there are dates.
      step: time between two rounds, if there are dates.
    """

    actions: list[np.ndarray]
    rewards: list[np.ndarray]
    channels: tuple[str, ...]
    reward: str
    last: datetime | None = None
    step: timedelta | None = None

    @property
    def spend(self) -> np.ndarray:
        """(T, d) spend of all episodes, one after another."""
        return np.concatenate(self.actions)


def read_log(path: str | Path, actions: Sequence[str], reward: str, date: str | None = None) -> Log:
    r"""Read a CSV file with one row per round.

    Cells are separated by commas, semicolons or tabs, and the first row names the columns. An empty
    reward is a missing one; an empty spend is an error, because 0 and unknown are not the same.

    Args:
      path: of the file.
      actions: columns of spend, in the order of the action coordinates.
      reward: column of rewards.
      date: column of dates, such as 2026-11-16, by which rows are sorted. Where rounds are missing
        between two dates, a new episode begins, because the spend meanwhile is unknown. Without dates,
        rows must be in order and without gaps.

    >>> import os, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "spend.csv")
    ...     with open(path, "w") as file:
    ...         _ = file.write("day,fb,bing,sales\n2026-01-01,1,2,5\n2026-01-02,3,0,\n")
    ...     log = read_log(path, ["bing", "fb"], "sales", "day")
    >>> log.actions[0].tolist(), log.rewards[0].tolist()
    ([[2.0, 1.0], [0.0, 3.0]], [5.0, nan])
    """
    path = Path(path)
    try:
        return _read(path, list(actions), reward, date)
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}: must be UTF-8 text; byte {error.start} is not") from None
    except (ValueError, csv.Error) as error:
        raise ValueError(f"{path}: {error}") from None


def _read(path: Path, actions: list[str], reward: str, date: str | None) -> Log:
    wanted = [*actions, reward, *([date] if date else [])]
    for name in wanted:
        if wanted.count(name) > 1:
            raise ValueError(f"column {name!r:.60} is asked for twice; name each column once")
    if not actions:
        raise ValueError("name at least one column of actions")
    header, rows = _table(path)
    places = {name: _place(name, header) for name in wanted}
    spent = np.array(
        [[_number(row, line, name, places[name]) for name in actions] for line, row in rows]
    )
    if np.isnan(spent).any():
        line, column = np.argwhere(np.isnan(spent))[0]
        raise ValueError(
            f"line {rows[line][0]}: {actions[column]} is empty; write 0 where nothing was spent"
        )
    earned = np.array([_number(row, line, reward, places[reward]) for line, row in rows])
    if date is None:
        return Log([spent], [earned], tuple(actions), reward)
    dates = [_date(row[places[date]], line, date) for line, row in rows]
    order = sorted(range(len(dates)), key=dates.__getitem__)
    dates, spent, earned = [dates[i] for i in order], spent[order], earned[order]
    step, starts = _episodes(dates)
    return Log(
        np.split(spent, starts), np.split(earned, starts), tuple(actions), reward, dates[-1], step
    )


def _table(path: Path) -> tuple[list[str], list[tuple[int, list[str]]]]:
    """Column names, and rows with their line numbers."""
    text = path.read_text("utf-8-sig")
    first = text.partition("\n")[0]
    delimiter = max(",;\t", key=first.count)
    reader = csv.reader(text.splitlines(), delimiter=delimiter, strict=True)
    rows = [(reader.line_num, [cell.strip() for cell in row]) for row in reader if any(row)]
    if not rows:
        raise ValueError(
            "the file is empty; it must have a row of column names and a row per round"
        )
    (_, header), *rows = rows
    for name in header:
        if header.count(name) > 1:
            raise ValueError(f"two columns are called {name!r:.60}; rename one of them")
    for line, row in rows:
        if len(row) != len(header):
            raise ValueError(
                f"line {line} has {len(row)} cells, the first line has {len(header)}; they must agree"
            )
    if not rows:
        raise ValueError("there are no rows below the column names; write one row per round")
    return header, rows


def _place(name: str, header: list[str]) -> int:
    if name in header:
        return header.index(name)
    raise ValueError(f"there is no column {name!r:.60}{hint(name, header)}")


def _number(row: list[str], line: int, name: str, place: int) -> float:
    cell = row[place]
    if cell.lower() in _MISSING:
        return math.nan
    try:
        number = float(cell)
    except ValueError:
        number = math.inf
    if math.isinf(number):
        raise ValueError(f"line {line}: {name} must be a number such as 1234.5; got {cell!r:.40}")
    return number


def _date(cell: str, line: int, name: str) -> datetime:
    try:
        return datetime.fromisoformat(cell).replace(tzinfo=None)
    except ValueError:
        raise ValueError(
            f"line {line}: {name} must be a date such as 2026-11-16; got {cell!r:.40}"
        ) from None


def _episodes(dates: list[datetime]) -> tuple[timedelta | None, list[int]]:
    """The usual time between two rounds, and the rows at which a new episode begins."""
    steps = [after - before for before, after in pairwise(dates)]
    if not steps:
        return None, []
    usual = sorted(steps)[len(steps) // 2]
    if min(steps) <= usual / 2:  # months differ by a tenth, not by half
        twice = dates[steps.index(min(steps))]
        raise ValueError(
            f"the usual time between rounds is {usual}, but two are at or just after {twice:%Y-%m-%d}; "
            "keep one row for each round"
        )
    starts = [i + 1 for i, step in enumerate(steps) if step > 1.5 * usual]
    if starts:
        gap = dates[starts[0] - 1]
        warnings.warn(
            f"{len(starts)} gap(s) between the dates, the first after {gap:%Y-%m-%d}: rows after a gap are "
            "a new episode",
            stacklevel=4,
        )
    return usual, starts
