"""Reading a table of spend and rewards."""

import csv
import math
import warnings
from array import array
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from dlbjax.campaign.cells import Signs, number_reader, read_dates
from dlbjax.common.arrays import strings
from dlbjax.common.files import as_path, open_regular
from dlbjax.common.hints import hint

_MISSING = ("", "nan", "na", "n/a", "null", "none")
_LONGEST_LINE = 2**20  # characters of the first line, by which the delimiter is chosen
Row: TypeAlias = tuple[int, list[str]]  # number of the line, cells


class Log(NamedTuple):
    """Spend and rewards, round by round, in one or several episodes without gaps.

    Attributes:
      actions: (T_i, d) spend of each episode.
      rewards: (T_i,) rewards of each episode, NaN where missing.
      channels: names of the columns of the actions.
      reward: name of the reward.
      last: date of the last round, if there are dates.
      step: time between two rounds, if there are dates.
      controls: (T_i, q) columns of each episode that nobody chooses.
      control_names: names of those columns.
      first_rounds: number of the first round of each episode, counted from the first date of all.
      groups: region of each episode, or None if there is no such column.
    """

    actions: list[np.ndarray]
    rewards: list[np.ndarray]
    channels: tuple[str, ...]
    reward: str
    last: datetime | None = None
    step: timedelta | None = None
    controls: list[np.ndarray] | None = None
    control_names: tuple[str, ...] = ()
    first_rounds: list[int] | None = None
    groups: list[str] | None = None

    @property
    def spend(self) -> np.ndarray:
        """(T, d) spend of all episodes, one after another."""
        return np.concatenate(self.actions)


def read_log(
    path: str | Path, actions: Sequence[str], reward: str, date: str | None = None, *,
    controls: Sequence[str] = (), region: str | None = None,
    decimal: str | None = None, thousands: str | None = None,
) -> Log:  # fmt: skip
    r"""Read a CSV file with one row per round.

    Cells are separated by commas, semicolons or tabs, and the first row names the columns. An empty
    reward is a missing one; an empty spend is an error, because 0 and unknown are not the same.

    Numbers may be written 1234.5, 1,234.5, 1.234,5 or 1 234,5, with a currency sign or without. Which sign
    is the decimal one follows from all of them together. Where every number could be read in two ways, as
    1.234 can, a file with semicolons or tabs is read with a decimal point and a warning.

    Args:
      path: of the file.
      actions: columns of spend, in the order of the action coordinates.
      reward: column of rewards.
      date: column of dates, by which rows are sorted, such as 2026-11-16, 16.11.2026, or 11/16/2026 where
        the order of day and month follows from all of them. Where rounds are missing between two dates, a
        new episode begins, because the spend meanwhile is unknown. Without dates, rows must be in order
        and without gaps.
      controls: columns that nobody chooses, such as prices or holidays.
      region: column of names by which rows are split into episodes, one or more for each region.
      decimal: "." or ",", if it should not be inferred.
      thousands: sign between groups of three digits, if it should not be inferred.

    >>> import os, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "spend.csv")
    ...     with open(path, "w") as file:
    ...         _ = file.write("day,fb,bing,sales\n2026-01-01,1,2,5\n2026-01-02,3,0,\n")
    ...     log = read_log(path, ["bing", "fb"], "sales", "day")
    >>> log.actions[0].tolist(), log.rewards[0].tolist()
    ([[2.0, 1.0], [0.0, 3.0]], [5.0, nan])
    """
    path = as_path("path", path)
    spent, beside = strings("actions", actions), strings("controls", controls)
    others = [name for name in (date, region) if name is not None]
    names = strings("reward, date and region", [*spent, *beside, reward, *others])
    asked = _Asked(len(spent), len(beside), date is not None, region is not None)
    try:
        return _read(path, names, asked, (decimal, thousands))
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}: must be UTF-8 text; byte {error.start} is not") from None
    except csv.Error as error:
        raise ValueError(f"{path}: {error}") from None
    except ValueError as error:
        text = str(error)
        raise ValueError(text if text.startswith(str(path)) else f"{path}: {text}") from None


class _Asked(NamedTuple):
    """How many columns are actions and controls, and whether there are dates and regions."""

    d: int
    q: int
    dated: bool
    regional: bool


def _read(path: Path, wanted: list[str], asked: _Asked, signs: Signs) -> Log:
    """Read the columns: actions, controls, the reward, then the date and the region if there are any."""
    if twice := [name for name, count in Counter(wanted).items() if count > 1]:
        raise ValueError(f"column {twice[0]!r:.60} is asked for twice; name each column once")
    d, width = asked.d, asked.d + asked.q + 1
    if d == 0:
        raise ValueError("name at least one column of actions")
    # Twice through the file: what a number means may follow from the last row.
    with _table(path, wanted) as (rows, delimiter):
        cells = (cell for _, row in rows for cell in row[:width])
        parse = number_reader(cells, delimiter, *signs)
    lines, numbers, days, regions = [], array("d"), [], []
    with _table(path, wanted) as (rows, _):
        for line, row in rows:
            lines.append(line)
            for name, cell in zip(wanted[:width], row, strict=False):
                try:
                    numbers.append(parse(cell))
                except ValueError as error:
                    if cell.lower() in _MISSING:
                        numbers.append(math.nan)
                        continue
                    raise ValueError(f"line {line}: {name} {error}") from None
            days += row[width : width + asked.dated]
            regions += row[width + asked.dated :]
    if not lines:
        raise ValueError("there are no rows below the column names; write one row per round")
    table = np.array(numbers).reshape(len(lines), width)
    known = table[:, :-1]
    if np.isnan(known).any():
        row, column = np.argwhere(np.isnan(known))[0]
        what = (
            "write 0 where nothing was spent"
            if column < d
            else "fill it in, or leave the column out"
        )
        raise ValueError(f"line {lines[row]}: {wanted[column]} is empty; {what}")
    dates = read_dates(wanted[width], days, lines) if asked.dated else None
    pieces = _pieces(regions or [""] * len(lines), dates)
    step = pieces[0].step
    origin = None if dates is None else min(dates)
    return Log(
        actions=[table[piece.rows, :d] for piece in pieces],
        rewards=[table[piece.rows, -1] for piece in pieces],
        channels=tuple(wanted[:d]),
        reward=wanted[width - 1],
        last=None if dates is None else max(dates),
        step=step,
        controls=[table[piece.rows, d:-1] for piece in pieces] if asked.q else None,
        control_names=tuple(wanted[d : width - 1]),
        first_rounds=[_round_of(piece, dates, origin, step) for piece in pieces],
        groups=[piece.region for piece in pieces] if asked.regional else None,
    )


class _Piece(NamedTuple):
    """Rows of one episode in order, their region, and the usual time between rounds."""

    rows: np.ndarray
    region: str
    step: timedelta | None


def _pieces(regions: list[str], dates: list[datetime] | None) -> list[_Piece]:
    """The episodes: the rows of each region by date, cut at gaps."""
    pieces, rows_of = [], defaultdict(list)
    for i, region in enumerate(regions):
        rows_of[region].append(i)
    for region, rows in rows_of.items():
        if dates is None:
            pieces.append(_Piece(np.array(rows), region, None))
            continue
        rows.sort(key=dates.__getitem__)
        step, starts = _episodes([dates[i] for i in rows])
        pieces += [_Piece(part, region, step) for part in np.split(np.array(rows), starts)]
    return pieces


def _round_of(
    piece: _Piece, dates: list[datetime] | None, origin: datetime | None, step: timedelta | None
) -> int:
    if dates is None or origin is None or step is None:
        return 0
    return round((dates[piece.rows[0]] - origin) / step)


@contextmanager
def _table(path: Path, wanted: list[str]) -> Iterator[tuple[Iterator[Row], str]]:
    """Line numbers and the wanted cells of all rows, one after another, and the delimiter."""
    with open(open_regular(path), encoding="utf-8-sig", newline="") as file:
        first = file.readline(_LONGEST_LINE)
        delimiter = max(",;\t", key=first.count)
        file.seek(0)
        reader = csv.reader(file, delimiter=delimiter, strict=True)
        header = next((row for row in reader if any(row)), None)
        if header is None:
            raise ValueError(
                "the file is empty; it must have a row of column names and a row per round"
            )
        header = [cell.strip() for cell in header]
        name, count = Counter(header).most_common(1)[0]
        if count > 1:
            raise ValueError(f"two columns are called {name!r:.60}; rename one of them")
        place_of = {name: place for place, name in enumerate(header)}
        for name in wanted:
            if name not in place_of:
                raise ValueError(f"there is no column {name!r:.60}{hint(name, header)}")
        places = [place_of[name] for name in wanted]
        yield _rows(reader, len(header), places), delimiter


def _rows(reader: Any, width: int, places: list[int]) -> Iterator[Row]:
    for row in reader:
        if not any(row):
            continue
        if len(row) != width:
            raise ValueError(
                f"line {reader.line_num} has {len(row)} cells, the first line has {width}; they must agree"
            )
        yield reader.line_num, [row[place].strip() for place in places]


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
