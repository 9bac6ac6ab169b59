import errno
import os
import stat

import pytest

import dlbjax as dlb
from dlbjax.common.files import check_can_write, read_limited, remove_leftovers, write_atomically


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
        raise OSError(errno.ENOSPC, "no space left")

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


def special(tmp_path):
    """Paths that are no regular files: reading the first waits, the second never ends."""
    os.mkfifo(tmp_path / "pipe")
    return {"a pipe": tmp_path / "pipe", "a device": "/dev/zero"}


@pytest.mark.parametrize("kind", ["a pipe", "a device"])
def test_only_regular_files_are_read_and_written(tmp_path, kind):
    path = special(tmp_path)[kind]
    problem = dlb.problems.synthetic()
    policy = dlb.myopic(problem)
    calls = [
        lambda: dlb.load(path),
        lambda: dlb.Agent(policy, problem.actions, 10, path=path),
        lambda: dlb.simulate(problem, policy, 10, checkpoint=path),
        lambda: dlb.simulate(problem, policy, 10).save(path),
        lambda: dlb.campaign.read_log(path, ["a"], "b"),
        lambda: check_can_write(path),
        lambda: read_limited(path, 10, "a file"),
    ]
    for call in calls:
        with pytest.raises(ValueError, match=f"is {kind}, not a regular file"):
            call()


def test_a_problem_is_not_read_from_a_pipe(tmp_path):
    os.mkfifo(tmp_path / "problem.json")
    with pytest.raises(ValueError, match="is a pipe"):
        dlb.read_problem(tmp_path / "problem.json")


def test_a_folder_is_rejected_by_its_name(tmp_path):
    for call in (check_can_write, dlb.load, lambda path: read_limited(path, 10, "a file")):
        with pytest.raises(IsADirectoryError, match=str(tmp_path)):
            call(tmp_path)


@pytest.mark.parametrize("length", [200, 230, 255])
def test_long_names_are_written(tmp_path, length):
    path = tmp_path / ("n" * length)
    with write_atomically(path) as file:
        file.write(b"1")
    assert path.read_bytes() == b"1"
    with write_atomically(path) as file:
        part = next(p for p in tmp_path.iterdir() if p.name.endswith(".part"))
        content = part.read_bytes()
    part.write_bytes(content)  # as if the process had been killed
    remove_leftovers(path)
    assert os.listdir(tmp_path) == [path.name]


def test_errors_name_the_file_that_was_asked_for(tmp_path):
    with pytest.raises(FileNotFoundError) as error, write_atomically(tmp_path / "no" / "a"):
        pass
    assert error.value.filename == str(tmp_path / "no" / "a")


def test_a_file_beyond_the_limit_is_rejected(tmp_path):
    (tmp_path / "a").write_bytes(b"12345")
    assert read_limited(tmp_path / "a", 5, "a file") == b"12345"
    with pytest.raises(ValueError, match="may have 4 bytes at most"):
        read_limited(tmp_path / "a", 4, "a file")
