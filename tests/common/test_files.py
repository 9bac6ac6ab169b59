import os
import stat

import pytest

from dlbjax.common.files import write_atomically


def test_a_complete_file_takes_its_name(tmp_path):
    path = tmp_path / "result.npz"
    with write_atomically(path) as file:
        file.write(b"new")
        assert not path.exists()
        assert len(os.listdir(tmp_path)) == 1  # beside it: a rename must not cross file systems
    assert path.read_bytes() == b"new"
    assert os.listdir(tmp_path) == ["result.npz"]


def test_a_name_may_be_a_string(tmp_path):
    with write_atomically(str(tmp_path / "a")) as file:
        file.write(b"1")
    assert (tmp_path / "a").read_bytes() == b"1"


def test_the_old_file_stays_whole_until_the_new_one_is(tmp_path):
    path = tmp_path / "result.npz"
    path.write_bytes(b"old")
    reader = path.open("rb")
    with write_atomically(path) as file:
        file.write(b"new and longer")
        file.flush()
        assert path.read_bytes() == b"old"
    assert path.read_bytes() == b"new and longer"
    assert reader.read() == b"old"  # replaced, not overwritten
    reader.close()


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt, SystemExit, GeneratorExit])
def test_an_interruption_leaves_nothing_behind(tmp_path, error):
    path = tmp_path / "result.npz"
    path.write_bytes(b"old")
    before = path.stat()

    def interrupted():
        with write_atomically(path) as file:
            file.write(b"half")
            raise error

    with pytest.raises(error):
        interrupted()
    assert path.read_bytes() == b"old"
    assert (path.stat().st_ino, path.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    assert os.listdir(tmp_path) == ["result.npz"]


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_a_failing_disk_leaves_nothing_behind(tmp_path, monkeypatch, step):
    def fail(*_):
        raise OSError("no space left")

    path = tmp_path / "result.npz"
    path.write_bytes(b"old")
    monkeypatch.setattr(os, step, fail)
    with pytest.raises(OSError, match="no space left"), write_atomically(path) as file:
        file.write(b"new")
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["result.npz"]


def test_contents_are_on_the_disk_before_the_name_is(tmp_path, monkeypatch):
    steps = []
    fsync, replace = os.fsync, os.replace

    def note_fsync(handle):
        steps.append(("fsync", os.fstat(handle).st_size))
        fsync(handle)

    def note_replace(*names):
        steps.append(("replace", os.stat(names[0]).st_size))
        replace(*names)

    monkeypatch.setattr(os, "fsync", note_fsync)
    monkeypatch.setattr(os, "replace", note_replace)
    with write_atomically(tmp_path / "a") as file:
        file.write(b"12345")
    assert steps == [("fsync", 5), ("replace", 5)]


@pytest.mark.parametrize(("mask", "mode"), [(0o022, 0o644), (0o077, 0o600), (0o000, 0o666)])
def test_permissions_are_those_of_an_ordinary_file(tmp_path, mask, mode):
    old = os.umask(mask)
    try:
        with write_atomically(tmp_path / "a") as file:
            file.write(b"1")
        assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == mode
        assert os.umask(mask) == mask  # left as it was
    finally:
        os.umask(old)


def test_a_missing_directory_is_an_error(tmp_path):
    with pytest.raises(FileNotFoundError), write_atomically(tmp_path / "no" / "a"):
        pass
