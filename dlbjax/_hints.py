"""Helping with names that do not exist."""

import difflib
from collections.abc import Collection


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
