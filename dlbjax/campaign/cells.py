"""What is written in a table: numbers of several countries, and dates."""

import re
import warnings
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import TypeAlias

from dlbjax.common.arrays import short

Signs: TypeAlias = tuple[str | None, str | None]  # decimal, thousands

_PLAIN = re.compile(r"[+-]?\d*\.?\d+")
_CURRENCY = re.compile(r"^([+-]?)[$€£¥]\s?|\s?[$€£¥]$")
_SPACES = " \u00a0\u202f'"  # that group digits, besides point and comma
_FORMATS = ("%d.%m.%Y", "%Y/%m/%d", "%d/%m/%Y", "%m/%d/%Y", "%d-%m-%Y", "%m-%d-%Y")


def number_reader(
    cells: Iterable[str], delimiter: str, decimal: str | None = None, thousands: str | None = None
) -> Callable[[str], float]:
    """A function that reads numbers as all of the given cells together are written.

    >>> read = number_reader(["1.234", "0,5"], ";")
    >>> read("1.234"), read("0,5"), read("€ 7")
    (1234.0, 0.5, 7.0)
    """
    if decimal not in (None, ".", ","):
        raise ValueError(f'decimal must be "." or ","; got {short(decimal)}')
    if thousands is not None and (thousands not in (".", ",", *_SPACES) or thousands == decimal):
        raise ValueError(
            f"thousands must be a point, a comma, a space or an apostrophe, and not the decimal sign; got "
            f"{short(thousands)}"
        )
    if decimal is None and thousands is None:
        decimal, known = _inferred(cells, delimiter)
    else:
        decimal, known = decimal or ("," if thousands == "." else "."), True
    groups = thousands or ((",.".replace(decimal, "") if known else "") + _SPACES)
    point, group = re.escape(decimal), f"[{re.escape(groups)}]"
    pattern = re.compile(
        rf"[+-]?(\d{{1,3}}({group}\d{{3}})+|\d+)?({point}\d*)?([eE][+-]?\d{{1,3}})?"
    )
    dropped = str.maketrans(decimal, ".", groups)

    def read(cell: str) -> float:
        if decimal == "." and _PLAIN.fullmatch(cell):
            return float(cell)
        text = _CURRENCY.sub(r"\1", cell)
        number = text.translate(dropped)
        if not pattern.fullmatch(text) or not any(map(str.isdecimal, text)):
            raise ValueError(f"must be a number such as 1234.5; got {cell!r:.40}")
        value = float(number)
        if abs(value) == float("inf"):
            raise ValueError(f"must be a finite number; got {cell!r:.40}")
        return value

    return read


def _inferred(cells: Iterable[str], delimiter: str) -> tuple[str, bool]:
    """The decimal sign that the cells use, and whether any of them says so."""
    votes: dict[str, str] = {}  # a cell for each sign that must be decimal
    unclear: dict[str, str] = {}  # a cell for each sign that may be
    for cell in cells:
        if cell.isdecimal() or ("." in votes and "," not in cell and cell.count(".") < 2):
            continue
        found = re.findall("[.,]", cell)
        if len(set(found)) == 2:
            votes.setdefault(found[-1], cell)
        elif len(found) > 1:
            votes.setdefault("," if found[0] == "." else ".", cell)
        elif found:
            grouped = re.search(r"(?<!\d)[1-9]\d{0,2}[.,]\d{3}(?!\d)", cell)
            (unclear if grouped else votes).setdefault(found[0], cell)
    if len(votes) == 2:
        raise ValueError(
            f"{votes['.']!r:.40} and {votes[',']!r:.40} have different decimal signs; write all numbers alike"
        )
    if votes:
        return next(iter(votes)), True
    if "," in unclear:
        raise ValueError(
            f"{unclear[',']!r:.40} has two meanings; say which sign is the decimal one (decimal)"
        )
    if "." in unclear and delimiter != ",":
        warnings.warn(
            f"{unclear['.']!r:.40} has two meanings and is read with a decimal point; if the point separates "
            'thousands, say so (decimal=",")',
            stacklevel=5,
        )
    return ".", False


def read_dates(name: str, cells: Sequence[str], lines: Sequence[int]) -> list[datetime]:
    """Dates written alike, by the only format that fits all of them."""
    formats: list[str | None] = [None, *_FORMATS]
    for cell, line in zip(cells, lines, strict=True):
        fitting = [form for form in formats if _date(cell, form) is not None]
        if not fitting:
            raise ValueError(
                f"line {line}: {name} must be a date such as 2026-11-16, written as those before; got "
                f"{cell!r:.40}"
            )
        formats = fitting
    if len(formats) > 1:
        raise ValueError(
            f"{name}: {cells[0]!r:.40} and all other dates could have the day first, or the month; write "
            "them as 2026-11-16"
        )
    return [date for cell in cells if (date := _date(cell, formats[0])) is not None]


def _date(cell: str, form: str | None) -> datetime | None:
    """The date in a format, None for ISO 8601, or None if it does not fit."""
    try:
        if form is None:
            return datetime.fromisoformat(cell).replace(tzinfo=None)
        return datetime.strptime(cell, form)
    except ValueError:
        return None
