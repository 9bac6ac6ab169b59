"""The journal: what was acknowledged survives any crash, and damage is detected."""

import os
import subprocess
import sys
import warnings

import pytest

from dlbjax.live.journal import Journal, Mark

HEADER = {"format": 1, "policy": "π"}
RECORDS = [{"round": i, "reward": 0.1 * i} for i in range(1, 4)]


def write(path):
    """Write a journal of three records; the positions after the header and each of them."""
    journal = Journal(path)
    marks = [journal.begin(HEADER)]
    for record in RECORDS:
        marks.append(journal.append(marks[-1], record))
    journal.close()
    return marks


def read(path):
    journal = Journal(path)
    try:
        return journal.read()
    finally:
        journal.close()


def test_reads_what_was_written(tmp_path):
    marks = write(tmp_path / "a")
    records, mark = read(tmp_path / "a")
    assert records == [HEADER, *RECORDS]
    assert mark == marks[-1]
    assert mark.end == os.path.getsize(tmp_path / "a")


@pytest.mark.parametrize("number", [0.1 + 0.2, 5e-324, 1.7976931348623157e308, -0.0, 1e22, 1 / 3])
def test_numbers_come_back_to_the_last_bit(tmp_path, number):
    journal = Journal(tmp_path / "a")
    journal.append(journal.begin(HEADER), {"reward": number})
    assert journal.read()[0][1]["reward"].hex() == number.hex()
    journal.close()


def test_truncated_anywhere_it_continues_after_the_last_complete_line(tmp_path):
    path = tmp_path / "a"
    marks = write(path)
    whole = path.read_bytes()
    for size in range(len(whole) + 1):
        path.write_bytes(whole[:size])
        complete = sum(mark.end <= size for mark in marks)
        torn = complete > 0 and size not in [mark.end for mark in marks]
        journal = Journal(path)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            begun = journal.begin(HEADER)
            assert (begun is not None) == (complete == 0)
            records, mark = journal.read()
        assert records == [HEADER, *RECORDS][: max(complete, 1)]
        assert mark == marks[max(complete, 1) - 1]
        assert [str(w.message).count("not complete") for w in caught] == [1] * torn
        for record in RECORDS[len(records) - 1 :]:
            mark = journal.append(mark, record)
        journal.close()
        assert path.read_bytes() == whole


def test_every_changed_byte_is_detected(tmp_path):
    path = tmp_path / "a"
    write(path)
    whole = path.read_bytes()
    for place in range(len(whole) - 1):
        for flip in (1, 0x80):
            changed = bytearray(whole)
            changed[place] ^= flip
            path.write_bytes(changed)
            with pytest.raises(ValueError, match=r"is not a journal|is damaged in line \d"):
                read(path)
            assert path.read_bytes() == changed


@pytest.mark.parametrize(
    "change", [lambda a: [a[0], *a[2:]], lambda a: [a[0], a[2], a[1], a[3]], lambda a: [*a, a[3]]]
)
def test_lost_moved_and_repeated_lines_are_detected(tmp_path, change):
    path = tmp_path / "a"
    write(path)
    path.write_bytes(b"".join(change(path.read_bytes().splitlines(keepends=True))))
    with pytest.raises(ValueError, match=r"a is damaged in line \d; it was left as it is"):
        read(path)


@pytest.mark.parametrize("content", [b"x", b"\n", b"{}\n", b"a,b\n1,2\n", b"\0" * 99, b"[" * 9999])
def test_other_files_are_rejected_and_left_unchanged(tmp_path, content):
    path = tmp_path / "a"
    path.write_bytes(content)
    journal = Journal(path)
    assert journal.begin(HEADER) is None
    with pytest.raises(ValueError, match="a is not a journal of dlbjax; it was left as it is"):
        journal.read()
    journal.close()
    assert path.read_bytes() == content


def test_a_line_is_on_the_disk_when_append_returns(tmp_path, monkeypatch):
    synced = []
    fsync = os.fsync

    def note(handle):
        synced.append(os.fstat(handle))
        fsync(handle)

    monkeypatch.setattr(os, "fsync", note)
    journal = Journal(tmp_path / "a")
    mark = journal.begin(HEADER)
    file, folder = synced
    assert file.st_size == mark.end
    assert folder.st_ino == tmp_path.stat().st_ino  # for the file's name
    mark = journal.append(mark, RECORDS[0])
    assert len(synced) == 3
    assert synced[-1].st_size == mark.end
    journal.close()


def half_a_write(handle, line, place):
    return pwrite(handle, line[: len(line) // 2], place)


def interrupted(handle):
    raise KeyboardInterrupt


pwrite = os.pwrite


@pytest.mark.parametrize(
    ("step", "instead", "error"),
    [("pwrite", half_a_write, OSError), ("fsync", interrupted, KeyboardInterrupt)],
)
def test_a_line_that_failed_is_replaced_by_the_next(tmp_path, monkeypatch, step, instead, error):
    journal = Journal(tmp_path / "a")
    mark = journal.begin(HEADER)
    with monkeypatch.context() as patch:
        patch.setattr(os, step, instead)
        with pytest.raises(error):
            journal.append(mark, {"reward": "a long line, so that the next one is shorter"})
    journal.append(mark, RECORDS[0])
    assert journal.read()[0] == [HEADER, RECORDS[0]]
    journal.close()


def test_one_object_at_a_time_can_open_it(tmp_path):
    path = tmp_path / "a"
    attempt = f"import fcntl; fcntl.flock(open({str(path)!r}), fcntl.LOCK_EX | fcntl.LOCK_NB)"

    def another_process():
        command = [sys.executable, "-c", attempt]
        return subprocess.run(command, capture_output=True, text=True, check=False).stderr

    journal = Journal(path)
    with pytest.raises(BlockingIOError, match="a is in use by another process, or by another obj"):
        Journal(path)
    assert "BlockingIOError" in another_process()
    journal.close()
    assert another_process() == ""
    Journal(path).close()


def test_a_closed_journal_raises(tmp_path):
    journal = Journal(tmp_path / "a")
    mark = journal.begin(HEADER)
    journal.close()
    with pytest.raises(RuntimeError, match="a was closed; open it again"):
        journal.append(mark, RECORDS[0])


@pytest.mark.parametrize("damage", [os.remove, lambda path: os.truncate(path, 10)])
def test_a_removed_or_truncated_file_is_detected(tmp_path, damage):
    journal = Journal(tmp_path / "a")
    mark = journal.begin(HEADER)
    damage(tmp_path / "a")
    with pytest.raises(RuntimeError, match="a was removed, replaced or truncated"):
        journal.append(mark, RECORDS[0])
    journal.close()


def test_a_path_may_be_a_string_but_not_a_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    journal = Journal("a")
    assert journal.begin(HEADER) != Mark()
    journal.close()
    with pytest.raises(IsADirectoryError):
        Journal(tmp_path)
    with pytest.raises(FileNotFoundError):
        Journal(tmp_path / "nowhere" / "a")


def test_systems_without_locks_are_rejected(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "fcntl", None)
    with pytest.raises(NotImplementedError, match="omit path"):
        Journal(tmp_path / "a")
    assert not (tmp_path / "a").exists()
