"""Hints for names and packages that do not exist."""

import difflib
import importlib
from collections.abc import Collection
from typing import Any

_MOST = 30  # names in a message


def hint(wrong: object, possible: Collection[str]) -> str:
    """End of an error message about a wrong name: the closest match and the possible names.

    >>> hint("Lam", ["lam", "delta"])
    ', did you mean lam? Possible are lam, delta'
    """
    if not possible:
        return "; it has none"
    by_lower = {name.lower(): name for name in possible}
    close = difflib.get_close_matches(str(wrong)[:100].lower(), by_lower, n=1)
    question = f", did you mean {printable(by_lower[close[0]])}?" if close else "."
    shown = ", ".join(printable(name) for name in list(possible)[:_MOST])
    more = f" and {len(possible) - _MOST} more" if len(possible) > _MOST else ""
    return f"{question} Possible are {shown}{more}"


def printable(text: str) -> str:
    r"""The text on one line, without characters that would move or colour a terminal's cursor.

    >>> printable("a\x1b[31mb")
    'a\\x1b[31mb'
    """
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def show(text: object) -> None:
    r"""Print lines whose names come from files, without what would move or colour the cursor.

    >>> show("channel\n  a\x1b[31m")
    channel
      a\x1b[31m
    """
    print("\n".join(map(printable, str(text).split("\n"))))


def optional(package: str, extra: str = "xarray") -> Any:
    """Import an optional package, or raise an ImportError that says how to install it."""
    try:
        return importlib.import_module(package)
    except ImportError:
        raise ImportError(f'this needs {package}: pip install "dlbjax[{extra}]"') from None
