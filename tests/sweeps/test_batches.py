"""Batches of a sweep, and how writers claim them."""

import errno

import numpy as np
import pytest

from dlbjax.engine.settings import check_settings
from dlbjax.sweeps.batches import Cell, claimed, make_batches, runs_that_fit


@pytest.mark.parametrize(
    ("points", "seeds", "most", "sizes"),
    [
        ([1], 1000, 8192, [(1, 1000)]),
        ([1], 20_000, 8192, [(1, 8192), (1, 8192), (1, 3616)]),
        ([2, 1], 1000, 1200, [(3, 400), (3, 400), (3, 200)]),
        ([50, 50], 10, 200, [(20, 10)] * 5),  # few seeds: many cells side by side
        ([100], 600, 1024, [(4, 256)] * 50 + [(4, 88)] * 25),
        ([3], 5, 2, [(1, 2)] * 6 + [(1, 1)] * 3),  # memory for two runs
    ],
)
def test_batches_hold_every_run_once_and_are_no_larger_than_asked(points, seeds, most, sizes):
    named = {f"series {i}": count for i, count in enumerate(points)}
    batches = make_batches(named, 7 * np.arange(seeds), most)
    assert [(len(batch.cells), len(batch.seeds)) for batch in batches] == sizes
    runs = [(cell, int(seed)) for b in batches for cell in b.cells for seed in b.seeds]
    cells = [Cell(name, p) for name, count in named.items() for p in range(count)]
    assert len(runs) == len(set(runs)) == len(cells) * seeds
    assert {cell for cell, _ in runs} == set(cells)
    assert len({batch.name for batch in batches}) == len(batches)


def test_fewer_runs_fit_with_more_reporting_rounds():
    def settings(rounds):
        return check_settings(1, 10**6, 1, None, (), rounds, "float64", None, None, None)

    assert runs_that_fit(settings(None)) == 8192
    assert runs_that_fit(settings(range(1, 100_001))) == 55  # 8 copies of 24 bytes in a gigabyte
    assert runs_that_fit(settings(range(1, 10**6 + 1))) == 5


def test_work_is_claimed_by_one_at_a_time(tmp_path):
    path = tmp_path / "a.lock"
    with claimed(path) as first, claimed(path) as second:
        assert first
        assert not second
    assert not path.exists()
    with claimed(path) as again:
        assert again


def test_a_lock_file_that_was_removed_meanwhile_is_no_claim(tmp_path, monkeypatch):
    path = tmp_path / "a.lock"

    def lock_after_another_had_it(*_):
        path.unlink()

    monkeypatch.setattr("fcntl.flock", lock_after_another_had_it)
    with claimed(path) as mine:
        assert not mine


def test_where_files_cannot_be_locked_it_raises(tmp_path, monkeypatch):
    def fail(*_):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr("fcntl.flock", fail)
    with (
        pytest.raises(OSError, match=r"files here cannot be locked \(No locks available\)"),
        claimed(tmp_path / "a.lock"),
    ):
        pass
