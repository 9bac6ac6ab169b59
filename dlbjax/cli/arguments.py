"""What the commands have in common."""

import argparse

_MOST = 2**31 - 1  # rounds and seeds are counted in 32 bits


def count(text: str) -> int:
    """A number of rounds or runs; 1e6 is one, too."""
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not number.is_integer() or not 1 <= number <= _MOST:
        raise argparse.ArgumentTypeError(
            f"must be a whole number from 1 to {_MOST}; got {text!r:.60}"
        )
    return int(number)
