"""Archives of strangers: nothing is read before its size is known."""

import io
import time
import tracemalloc
import zipfile

import numpy as np
import pytest

import dlbjax as dlb
from dlbjax.common.archive import read_archive, write_archive


def npy(array, shape=None):
    """The bytes of an array, with another shape in the header if one is given."""
    file = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        file,
        {"descr": array.dtype.str, "fortran_order": False, "shape": shape or array.shape},
    )
    return file.getvalue() + array.tobytes()


@pytest.fixture(scope="module")
def bomb(tmp_path_factory):
    """A file of 5 MB with 1.1 GB of zeros."""
    path = tmp_path_factory.mktemp("bomb") / "bomb.npz"
    zeros, count = bytes(2**24), 66
    head = npy(np.zeros(0), (count * 2**24 // 8,))
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        archive.writestr("dlbjax.npy", npy(np.array('{"format": 1, "kind": "Result"}')))
        with archive.open("rounds.npy", "w", force_zip64=True) as file:
            file.write(head)
            for _ in range(count):
                file.write(zeros)
    return path


def test_a_file_that_would_decompress_beyond_the_limit_is_rejected_unread(bomb):
    problem = dlb.problems.synthetic()
    calls = {
        "result": lambda: dlb.load(bomb),
        "checkpoint": lambda: dlb.simulate(problem, dlb.myopic(problem), 10, checkpoint=bomb),
    }
    for what, call in calls.items():
        tracemalloc.start()
        began = time.perf_counter()
        with pytest.raises(ValueError, match=f"is not a.* {what}: its arrays would take 1,107,"):
            call()
        assert time.perf_counter() - began < 5
        assert tracemalloc.get_traced_memory()[1] < 50e6
        tracemalloc.stop()


def test_the_limit_can_be_chosen(tmp_path):
    problem = dlb.problems.synthetic()
    result = dlb.simulate(problem, dlb.myopic(problem), 100)
    result.save(tmp_path / "a.npz")
    with pytest.raises(ValueError, match="more than the limit of 1,000"):
        dlb.load(tmp_path / "a.npz", limit=1000)
    assert dlb.load(tmp_path / "a.npz", limit=10**6).name == result.name


@pytest.mark.parametrize("shape", [(10**12,), (3,), (1,), (-1,), (2**62, 4)])
def test_a_shape_that_does_not_fit_its_bytes_is_rejected(tmp_path, shape):
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.writestr("dlbjax.npy", npy(np.array('{"format": 1}')))
        archive.writestr("rounds.npy", npy(np.zeros(2), shape))
    with pytest.raises(ValueError, match="'rounds' in it is not an array"):
        read_archive(tmp_path / "a.npz", "a file")


def test_a_name_that_appears_twice_is_rejected(tmp_path):
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.writestr("a.npy", npy(np.zeros(2)))
        archive.writestr("a", npy(np.zeros(2)))
    with pytest.raises(ValueError, match="it holds 'a' twice"):
        read_archive(tmp_path / "a.npz", "a file")


def test_a_wrong_checksum_is_noticed(tmp_path):
    write_archive(tmp_path / "a.npz", {}, {"a": np.arange(1000.0)}, compress=False)
    content = bytearray((tmp_path / "a.npz").read_bytes())
    place = content.index(np.float64(777).tobytes())
    content[place] ^= 1
    (tmp_path / "a.npz").write_bytes(content)
    with pytest.raises(ValueError, match="'a' in it is damaged"):
        read_archive(tmp_path / "a.npz", "a file")
