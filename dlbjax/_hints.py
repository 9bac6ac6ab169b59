"""Helping with names and packages that do not exist."""

import difflib
import importlib
from collections.abc import Collection
from typing import Any


def hint(wrong: str, possible: Collection[str]) -> str:
    """The end of a sentence that says a name is wrong: which was meant, and which there are.

    >>> hint("Lam", ["lam", "delta"])
    ', did you mean lam? Possible are lam, delta'
    """
    if not possible:
        return "; it has none"
    by_lower = {name.lower(): name for name in possible}
    close = difflib.get_close_matches(wrong.lower(), by_lower, n=1)
    question = f", did you mean {by_lower[close[0]]}?" if close else "."
    return f"{question} Possible are {', '.join(possible)}"


def optional(package: str) -> Any:
    """A package that not everybody has, or an ImportError that says how to get it."""
    try:
        return importlib.import_module(package)
    except ImportError:
        raise ImportError(f'this needs {package}: pip install "dlbjax[xarray]"') from None
