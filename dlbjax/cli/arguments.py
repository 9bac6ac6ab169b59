"""What the commands have in common."""

import argparse
import math
from collections.abc import Sequence
from pathlib import Path

from dlbjax._files import check_can_write
from dlbjax.epochs import LONGEST


def count(text: str) -> int:
    """A number of rounds or runs; 1e6 is one, too."""
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
    """A number of hidden states, or "auto"."""
    return text if text == "auto" else count(text)


def numbers(text: str) -> float | list[float]:
    """A number, or several with commas between them."""
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
    """A length of time."""
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 0 <= number < math.inf:
        raise argparse.ArgumentTypeError(f"must be a number of seconds, >= 0; got {text!r:.60}")
    return number


def add_size(parser: argparse.ArgumentParser, *, horizon: int, seeds: int) -> None:
    """Add the options that say how much is computed, and how exactly."""
    parser.add_argument(
        "--horizon", type=count, default=horizon, help=f"rounds (default {horizon})"
    )
    parser.add_argument("--seeds", type=count, default=seeds, help=f"runs (default {seeds})")
    parser.add_argument(
        "--dtype", choices=("float64", "float32"), default="float64", help="(default float64)"
    )


def add_checkpoint_every(parser: argparse.ArgumentParser) -> None:
    """Add the option."""
    parser.add_argument(
        "--checkpoint-every", type=seconds, default=30.0, metavar="SECONDS",
        help="time between two saves of what is under way (default 30)",
    )  # fmt: skip


def check_writable(option: str, path: Path, suffix: str) -> None:
    """Refuse a file that could not be written, before hours are spent on what goes into it."""
    if path.suffix != suffix:
        raise ValueError(f"{option} must end in {suffix}; got {str(path)!r}")
    if path.is_dir():
        raise ValueError(f"{option} must be a file; {str(path)!r} is a folder")
    try:
        check_can_write(path)
    except OSError as error:
        raise ValueError(f"{option} {str(path)!r} cannot be written: {error.strerror}") from error


def refuse_repeated(option: str, texts: Sequence[str]) -> None:
    """Refuse an option that is given the same text twice."""
    for text in texts:
        if texts.count(text) > 1:
            raise ValueError(f"{option} {text!r:.60} is given twice; leave one out")
