"""Cutting a run into segments: stretches of rounds that play one action.

An epoch is one segment unless a reporting round falls inside it, which cuts it in two. A reporting
round itself is a segment of no rounds at which the regret is written down. The engine then needs one
step per segment, whatever its length.
"""

from typing import NamedTuple

import numpy as np

from dlbjax.policies.epochs import Epochs


class Segments(NamedTuple):
    """Columns over segments; in a table of runs, `repeats` segments in a row differ in time only."""

    length: np.ndarray  # rounds; 0 where the regret is reported
    starts: np.ndarray  # whether an epoch starts here
    ends: np.ndarray  # whether an epoch ends here
    slot: np.ndarray  # which report is written, −1 for none
    epoch: np.ndarray  # number of the epoch, from 1
    epoch_start: np.ndarray  # rounds completed before that epoch
    epoch_length: np.ndarray  # rounds of the whole epoch
    repeats: np.ndarray  # how many such segments follow each other


def cut(epochs: Epochs, reports: np.ndarray) -> Segments:
    """The segments of a run, as runs of equal ones; the last report is at the horizon.

    Only whole epochs come in runs longer than one, so the table's size does not grow with the
    horizon unless the epochs are irregular.

    Args:
      epochs: epoch table that covers the horizon.
      reports: (C,) increasing rounds after which the regret is reported.
    """
    rows: list[tuple[int, ...]] = []
    slot, begin, index = 0, 0, 1
    for length, count in zip(epochs.lengths.tolist(), epochs.counts.tolist(), strict=True):
        end = begin + length * count
        while begin < end and slot < len(reports):
            whole = (min(int(reports[slot]), end) - begin) // length
            if whole:
                rows.append((length, 1, 1, -1, index, begin, length, whole))
                begin, index = begin + whole * length, index + whole
            else:  # the next report falls inside this epoch
                done = begin
                while slot < len(reports) and reports[slot] < begin + length:
                    piece = int(reports[slot]) - done
                    rows.append((piece, done == begin, 0, -1, index, begin, length, 1))
                    rows.append((0, 0, 0, slot, index, begin, length, 1))
                    done, slot = done + piece, slot + 1
                if slot == len(reports):
                    break
                rows.append((begin + length - done, 0, 1, -1, index, begin, length, 1))
                begin, index = begin + length, index + 1
            if slot < len(reports) and reports[slot] == begin:
                rows.append((0, 0, 0, slot, index - 1, begin - length, length, 1))
                slot += 1
    return Segments(*np.array(rows, dtype=np.int64).T)


def round_by_round(runs: Segments) -> Segments:
    """The same runs for a pass that steps through single rounds, to record or replay every one."""
    return runs._replace(repeats=runs.repeats * np.maximum(runs.length, 1))


def expand(runs: Segments, numbers: np.ndarray) -> tuple[Segments, np.ndarray, np.ndarray]:
    """Segments by their number: the segments, the run each belongs to, and its place in the run."""
    ends = np.cumsum(runs.repeats)
    run = np.searchsorted(ends, numbers, side="right")
    place = numbers - (ends - runs.repeats)[run]
    found = Segments(*(column[run] for column in runs))
    return (
        found._replace(
            epoch=found.epoch + place,
            epoch_start=found.epoch_start + place * found.length,
            repeats=np.ones_like(place),
        ),
        run,
        place,
    )


def expand_rounds(runs: Segments, numbers: np.ndarray) -> Segments:
    """Single rounds by their number, from runs made by `round_by_round`."""
    found, run, place = expand(runs, numbers)
    length = np.maximum(found.length, 1)
    number, inside = place // length, place % length
    return found._replace(
        length=np.minimum(found.length, 1),
        starts=found.starts * (inside == 0),
        ends=found.ends * (inside == length - 1),
        epoch=runs.epoch[run] + number,
        epoch_start=runs.epoch_start[run] + number * found.length,
    )
