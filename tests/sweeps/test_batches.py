"""Which runs are computed together."""

import numpy as np
import pytest

from dlbjax.engine.settings import check_settings
from dlbjax.sweeps.batches import batch_size, block_size, make_batches, runs_that_fit


def settings(horizon=10**6, rounds=None):
    return check_settings(1, horizon, 1, None, (), rounds, "float64", None, None, None)


@pytest.mark.parametrize(
    ("points", "seeds", "block", "most", "sizes"),
    [
        (1, 1000, 256, 8192, [(1, 1000)]),
        (1, 20_000, 256, 8192, [(1, 8192), (1, 8192), (1, 3616)]),
        (3, 1000, 256, 1200, [(3, 256), (3, 256), (3, 256), (3, 232)]),
        (50, 10, 256, 2048, [(8, 10)] * 6 + [(2, 10)]),
        (100, 600, 256, 1024, [(4, 256)] * 50 + [(4, 88)] * 25),
        (3, 5, 2, 1, [(1, 2)] * 6 + [(1, 1)] * 3),  # a chunk at least
    ],
)
def test_batches_hold_every_run_once_and_share_no_chunk(points, seeds, block, most, sizes):
    missing, rows = np.ones((points, seeds), bool), np.random.default_rng(0).permutation(seeds)
    batches = list(make_batches(missing, rows, 7 * rows, block, most))
    assert [(len(batch.points), len(batch.seeds)) for batch in batches] == sizes
    runs = [(p, s) for b in batches for p in b.points.tolist() for s in b.seeds.tolist()]
    assert len(runs) == len(set(runs)) == points * seeds
    chunks = [
        {(p, r // block) for p in b.points.tolist() for r in b.rows.tolist()} for b in batches
    ]
    assert sum(map(len, chunks)) == len(set.union(*chunks))
    for batch in batches:
        np.testing.assert_array_equal(batch.seeds, 7 * batch.rows)
        assert batch.runs <= max(most, block)


def test_only_missing_runs_are_in_batches():
    missing = np.zeros((3, 8), bool)
    missing[0, :2] = missing[2, :2] = missing[1, 5] = True
    batches = list(make_batches(missing, np.arange(8), np.arange(10, 18), 4, 100))
    found = sorted((batch.points.tolist(), batch.seeds.tolist()) for batch in batches)
    assert found == [([0, 2], [10, 11]), ([1], [15])]
    assert list(make_batches(np.zeros((2, 3), bool), np.arange(3), np.arange(3), 4, 9)) == []


def test_sizes_follow_memory_and_time():
    assert runs_that_fit(settings()) == 8192
    assert runs_that_fit(settings(rounds=range(1, 100_001))) == 55  # 8 copies of 24 bytes in 1 GiB
    assert block_size(settings()) == 256
    assert block_size(settings(10**8)) == 32
    assert block_size(settings(rounds=range(1, 10**6 + 1))) == 5
    assert batch_size(settings(), shared=False) == 8192
    assert batch_size(settings(), shared=True) == 256
    assert batch_size(settings(10**5), shared=True) == 1342
    assert batch_size(settings(10**8), shared=True) == 32
    assert batch_size(settings(100), shared=True) == 8192
