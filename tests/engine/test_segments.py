"""Cutting epochs at reporting rounds, against a loop that walks through every round."""

import numpy as np
import pytest

from dlbjax.engine.segments import cut, expand, expand_rounds, round_by_round
from dlbjax.policies.epochs import Epochs, listed_epochs
from tests.oracles import epoch_lengths

CASES = {
    "reports at the ends of epochs": ([3, 3, 3, 3], [3, 6, 12]),
    "reports inside epochs": ([3, 3, 3, 3], [1, 2, 5, 10, 12]),
    "several reports in one epoch": ([10, 2], [2, 3, 9, 10, 12]),
    "report every round": ([1, 2, 3, 4], list(range(1, 11))),
    "last epoch cut by the horizon": ([2, 5, 5, 5], [4, 13]),
    "one round": ([1], [1]),
    "one epoch longer than the horizon": ([9], [2]),
    "single rounds": ([1] * 50, [10, 50]),
    "growing": (epoch_lengths(0.4, 200), [1, 7, 50, 101, 200]),
}


def by_rounds(lengths, reports):
    """(length, starts, ends, slot, epoch, epoch_start, epoch_length) by walking through rounds."""
    T, rows, t = reports[-1], [], 0
    for number, length in enumerate(lengths, 1):
        begin, piece, starts = t, 0, True
        if t == T:
            break
        for place in range(1, length + 1):
            t, piece = t + 1, piece + 1
            ends = place == length
            if ends or t in reports:
                rows.append((piece, starts, ends, -1, number, begin, length))
                piece, starts = 0, False
            if t in reports:
                rows.append((0, False, False, reports.index(t), number, begin, length))
            if t == T:
                break
    return np.array(rows, dtype=int)


@pytest.mark.parametrize(("lengths", "reports"), CASES.values(), ids=CASES)
def test_segments_are_what_walking_through_the_rounds_finds(lengths, reports):
    runs = cut(listed_epochs(lengths, reports[-1]), np.array(reports))
    segments, _, _ = expand(runs, np.arange(runs.repeats.sum()))
    np.testing.assert_array_equal(np.array(segments[:7]).T, by_rounds(lengths, reports))


@pytest.mark.parametrize(("lengths", "reports"), CASES.values(), ids=CASES)
def test_round_by_round_visits_every_round_of_the_same_epochs(lengths, reports):
    T = reports[-1]
    runs = round_by_round(cut(listed_epochs(lengths, T), np.array(reports)))
    rounds = expand_rounds(runs, np.arange(runs.repeats.sum()))
    played = rounds.length == 1
    assert played.sum() == T
    ends = np.cumsum(lengths)
    starts = ends - lengths
    epoch = np.searchsorted(ends, np.arange(T), side="right")
    np.testing.assert_array_equal(rounds.epoch[played], epoch + 1)
    np.testing.assert_array_equal(rounds.epoch_start[played], starts[epoch])
    np.testing.assert_array_equal(rounds.epoch_length[played], np.array(lengths)[epoch])
    np.testing.assert_array_equal(rounds.starts[played], np.isin(np.arange(T), starts))
    np.testing.assert_array_equal(rounds.ends[played], np.isin(np.arange(1, T + 1), ends))
    np.testing.assert_array_equal(rounds.slot[~played], np.arange(len(reports)))
    np.testing.assert_array_equal(np.cumsum(rounds.length)[~played], reports)


def test_expand_is_the_same_piece_by_piece():
    runs = cut(listed_epochs(epoch_lengths(0.4, 200), 200), np.array([1, 7, 50, 101, 200]))
    whole, run, place = expand(runs, np.arange(runs.repeats.sum()))
    for first in range(0, len(run), 7):
        numbers = np.arange(first, min(first + 7, len(run)))
        piece, piece_run, piece_place = expand(runs, numbers)
        np.testing.assert_array_equal(np.array(piece), np.array(whole)[:, numbers])
        np.testing.assert_array_equal(piece_run, run[numbers])
        np.testing.assert_array_equal(piece_place, place[numbers])


def test_the_table_does_not_grow_with_the_horizon():
    T = 10**9
    short, long = (cut(Epochs(np.array([1]), np.array([t])), np.array([t // 2, t])) for t in (9, T))
    assert len(long.length) == len(short.length) == 4
    assert (long.length * long.repeats).sum() == T
