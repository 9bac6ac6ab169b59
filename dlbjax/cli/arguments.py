"""Arguments that several commands share."""

import argparse
import math
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TypeAlias

from dlbjax.common.files import check_can_write
from dlbjax.policies.epochs import LONGEST

Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"


def count(text: str) -> int:
    """Parse a number of rounds or runs, such as 1000 or 1e6."""
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not number.is_integer() or not 1 <= number <= LONGEST:
        raise argparse.ArgumentTypeError(
            f"must be a whole number from 1 to {LONGEST}; got {text!r:.60}"
        )
    return int(number)


def order(text: str) -> int | str:
    """Parse a number of hidden states, or "auto"."""
    return text if text == "auto" else count(text)


def numbers(text: str) -> float | list[float]:
    """Parse a number, or several separated by commas."""
    try:
        found = [float(part) for part in text.split(",")]
    except ValueError:
        found = [math.nan]
    if not all(map(math.isfinite, found)):
        raise argparse.ArgumentTypeError(
            f"must be a number, or several such as 10,20,30; got {text!r:.60}"
        )
    return found[0] if len(found) == 1 else found


def seconds(text: str) -> float:
    """Parse a duration in seconds."""
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 0 <= number < math.inf:
        raise argparse.ArgumentTypeError(f"must be a number of seconds, >= 0; got {text!r:.60}")
    return number


def add_size(parser: argparse.ArgumentParser, *, horizon: int, seeds: int) -> None:
    """Add --horizon, --seeds and --dtype."""
    parser.add_argument(
        "--horizon", type=count, default=horizon, help=f"number of rounds (default {horizon})"
    )
    parser.add_argument(
        "--seeds", type=count, default=seeds, help=f"number of runs (default {seeds})"
    )
    parser.add_argument(
        "--dtype", choices=("float64", "float32"), default="float64", help="(default float64)"
    )


def add_checkpoint_every(parser: argparse.ArgumentParser) -> None:
    """Add --checkpoint-every."""
    parser.add_argument(
        "--checkpoint-every", type=seconds, default=30.0, metavar="SECONDS",
        help="seconds between two checkpoints (default 30)",
    )  # fmt: skip


def check_writable(option: str, path: Path, suffix: str) -> None:
    """Raise a ValueError if a file cannot be written, before hours are spent on its content."""
    if path.suffix != suffix:
        raise ValueError(f"{option} must end in {suffix}; got {str(path)!r}")
    if os.path.isdir(path):
        raise ValueError(f"{option} must be a file; {str(path)!r} is a folder")
    try:
        check_can_write(path)
    except OSError as error:
        raise ValueError(f"{option} {str(path)!r} cannot be written: {error.strerror}") from error


def check_distinct(option: str, texts: Sequence[str]) -> None:
    """Raise a ValueError if an option is given the same text twice."""
    for text in texts:
        if texts.count(text) > 1:
            raise ValueError(f"{option} {text!r:.60} is given twice; remove one")
