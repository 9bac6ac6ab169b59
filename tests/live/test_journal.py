"""The journal: what was acknowledged is there, whole or not at all, and damage is detected."""

import json
import os
import sqlite3
import subprocess
import sys
import zlib

import pytest

from dlbjax.live.journal import Event, Journal

BEGIN = Event(1, "begin", {"policy": "π"})
EVENTS = [Event(i, "tell", {"reward": 0.1 * i}) for i in range(1, 4)]


@pytest.fixture(autouse=True)
def _unsynced(monkeypatch):
    monkeypatch.setattr("dlbjax.live.journal.SYNCHRONOUS", "OFF")


def write(path):
    journal = Journal(path, BEGIN)
    _, mark = journal.read()
    for event in EVENTS:
        mark = journal.append(mark, event)
    journal.close()


def read(path):
    journal = Journal(path, BEGIN)
    try:
        return journal.read()[0]
    finally:
        journal.close()


def forge(path, statement, *values):
    with sqlite3.connect(path) as database:
        database.execute(statement, values)
    database.close()


def chain_again(path):
    """Give every row of a forged journal the checksum that it should have."""
    with sqlite3.connect(path) as database:
        rows = database.execute("SELECT number, round, event, data FROM events ORDER BY number")
        chains, chain = [], 0
        for number, round_, event, data in rows.fetchall():
            chain = zlib.crc32(f"{number}\n{round_!r}\n{event!r}\n{data}".encode(), chain)
            chains.append((chain, number))
        database.executemany("UPDATE events SET chain = ? WHERE number = ?", chains)
    database.close()


def test_reads_what_was_written(tmp_path):
    write(tmp_path / "a")
    assert read(tmp_path / "a") == [BEGIN, *EVENTS]
    assert os.listdir(tmp_path) == ["a"]


@pytest.mark.parametrize("number", [0.1 + 0.2, 5e-324, 1.7976931348623157e308, -0.0, 1e22, 1 / 3])
def test_numbers_come_back_to_the_last_bit(tmp_path, number):
    journal = Journal(tmp_path / "a", BEGIN)
    journal.append(journal.read()[1], Event(1, "tell", {"reward": number}))
    assert journal.read()[0][1].data["reward"].hex() == number.hex()
    journal.close()


def test_an_event_that_was_not_acknowledged_is_replaced(tmp_path):
    journal = Journal(tmp_path / "a", BEGIN)
    mark = journal.read()[1]
    journal.append(mark, Event(1, "tell", {"reward": 7.0}))
    journal.append(mark, EVENTS[0])
    assert journal.read()[0] == [BEGIN, EVENTS[0]]
    journal.close()


def test_changed_bytes_are_detected_or_change_nothing(tmp_path):
    path = tmp_path / "a"
    write(path)
    whole, noticed = path.read_bytes(), 0
    filled = [i for i in range(len(whole)) if whole[i]]
    for place in sorted({*range(0, len(whole), 61), *filled[:100:9], *filled[100::5]}):
        changed = bytearray(whole)
        changed[place] ^= 0x21
        path.write_bytes(changed)
        try:
            assert read(path) == [BEGIN, *EVENTS]
        except (ValueError, OSError) as error:
            assert str(path) in str(error)  # noqa: PT017
            noticed += 1
    assert noticed > 50


def test_truncated_anywhere_it_is_rejected(tmp_path):
    path = tmp_path / "a"
    write(path)
    whole = path.read_bytes()
    for size in (*range(0, len(whole), 512), len(whole) - 1):
        path.write_bytes(whole[:size])
        with pytest.raises(
            (ValueError, OSError), match=r"a (is empty|is not|is damaged|could not)"
        ):
            read(path)


CHANGES = {
    "lost": "DELETE FROM events WHERE number = 2",
    "moved": "UPDATE events SET number = 9 WHERE number = 2",
    "repeated": "INSERT INTO events SELECT 5, round, event, data, chain FROM events WHERE number = 4",
    "other round": "UPDATE events SET round = 7 WHERE number = 3",
    "other reward": "UPDATE events SET data = '{\"reward\": 0.3}' WHERE number = 2",
    "other event": "UPDATE events SET event = 'ask' WHERE number = 4",
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_changed_events_are_detected(tmp_path, change):
    write(tmp_path / "a")
    forge(tmp_path / "a", change)
    with pytest.raises(ValueError, match=r"a is damaged in event \d; it was left as it is"):
        read(tmp_path / "a")


@pytest.mark.parametrize("data", ['{"reward": NaN}', '{"reward": Infinity}', "{", "1", "{}, {}"])
def test_data_that_are_no_numbers_are_detected_whatever_their_checksum(tmp_path, data):
    write(tmp_path / "a")
    forge(tmp_path / "a", "UPDATE events SET data = ? WHERE number = 3", data)
    chain_again(tmp_path / "a")
    with pytest.raises(ValueError, match="a is damaged in an event's data"):
        read(tmp_path / "a")


@pytest.mark.parametrize("content", [b"x", b"\n", b"{}\n", b"a,b\n1,2\n", b"\0" * 99, b"[" * 9999])
def test_other_files_are_rejected_and_left_unchanged(tmp_path, content):
    path = tmp_path / "a"
    path.write_bytes(content)
    with pytest.raises(ValueError, match="a is not a campaign of dlbjax; it was left as it is"):
        read(path)
    assert path.read_bytes() == content


def test_other_databases_are_rejected(tmp_path):
    forge(tmp_path / "a", "CREATE TABLE events (number)")
    with pytest.raises(ValueError, match="a is not a campaign of dlbjax"):
        read(tmp_path / "a")
    write(tmp_path / "b")
    forge(tmp_path / "b", "PRAGMA user_version = 3")
    with pytest.raises(
        ValueError, match="b has format 3, but this version of dlbjax reads format 2"
    ):
        read(tmp_path / "b")


def test_an_emptied_file_is_rejected(tmp_path):
    (tmp_path / "a").touch()
    with pytest.raises(ValueError, match="a is empty: it was emptied, or is no campaign"):
        read(tmp_path / "a")


def test_one_object_at_a_time_can_open_it(tmp_path):
    path = tmp_path / "a"
    attempt = (
        f"import sqlite3; sqlite3.connect({str(path)!r}, timeout=0).execute('BEGIN IMMEDIATE')"
    )

    def another_process():
        command = [sys.executable, "-c", attempt]
        return subprocess.run(command, capture_output=True, text=True, check=False).stderr

    journal = Journal(path, BEGIN)
    for _ in range(2):  # the first attempt does not release the lock
        with pytest.raises(BlockingIOError, match="a is in use by another process, or by another"):
            Journal(path, BEGIN)
    assert "database is locked" in another_process()
    journal.close()
    assert another_process() == ""
    Journal(path, BEGIN).close()


def test_a_closed_journal_raises(tmp_path):
    journal = Journal(tmp_path / "a", BEGIN)
    _, mark = journal.read()
    journal.close()
    with pytest.raises(RuntimeError, match="a was closed; open it again"):
        journal.append(mark, EVENTS[0])


def replace(path):
    os.remove(path)
    write(path)


@pytest.mark.parametrize("damage", [os.remove, lambda path: os.truncate(path, 512), replace])
def test_a_removed_or_truncated_file_is_detected(tmp_path, damage):
    journal = Journal(tmp_path / "a", BEGIN)
    _, mark = journal.read()
    damage(tmp_path / "a")
    with pytest.raises(RuntimeError, match="a was removed, replaced or truncated"):
        journal.append(mark, EVENTS[0])
    journal.close()


def test_a_path_may_be_a_string_but_not_a_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Journal("a ?#%41.db", BEGIN).close()
    assert os.listdir(tmp_path) == ["a ?#%41.db"]
    with pytest.raises(IsADirectoryError):
        Journal(tmp_path, BEGIN)
    with pytest.raises(FileNotFoundError):
        Journal(tmp_path / "nowhere" / "a", BEGIN)


def test_a_writer_that_was_stopped_within_a_transaction_leaves_what_was_before(tmp_path):
    path = tmp_path / "a"
    write(path)
    code = (
        "import os, sqlite3; d = sqlite3.connect('a', isolation_level=None);"
        "d.execute('PRAGMA cache_size=1'); d.execute('BEGIN'); "
        "d.execute('UPDATE events SET data = zeroblob(90000)'); os._exit(9)"
    )
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=False)
    assert os.path.exists(tmp_path / "a-journal")
    assert read(path) == [BEGIN, *EVENTS]


def test_events_are_json(tmp_path):
    write(tmp_path / "a")
    database = sqlite3.connect(tmp_path / "a")
    rows = database.execute("SELECT data FROM events WHERE event = 'tell'").fetchall()
    database.close()
    assert [json.loads(data)["reward"] for (data,) in rows] == [0.1, 0.2, 0.1 * 3]
