"""A journal: the events of a campaign, in an SQLite database to which events are only added.

An event is on the disk when `append` returns, whole or not at all. Its "chain" is the CRC-32 of all events up
to it, so that a changed, lost or moved one is detected. The database is locked while it is open; the system
releases the lock when the process ends, however it ends.
"""

import json
import os
import sqlite3
import zlib
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

from dlbjax.common.files import check_regular, write_atomically

SYNCHRONOUS = "EXTRA"  # SQLite's setting for data that must survive a power cut
_APPLICATION, _FORMAT = 0x646C626A, 2
_SCHEMA = f"""
PRAGMA application_id = {_APPLICATION};
PRAGMA user_version = {_FORMAT};
CREATE TABLE events (
    number INTEGER PRIMARY KEY,  -- 1, 2, …
    round INTEGER NOT NULL,      -- the round that it is about
    event TEXT NOT NULL,         -- begin, ask, tell, correct or change
    data TEXT NOT NULL,          -- JSON
    chain INTEGER NOT NULL       -- CRC-32 of this event and all before
);
"""
_INSERT = "INSERT OR REPLACE INTO events VALUES (?, ?, ?, ?, ?)"


class Event(NamedTuple):
    """Something that happened in a campaign."""

    round: int
    kind: str
    data: Mapping[str, Any]


class Mark(NamedTuple):
    """A position between two events."""

    number: int = 0  # of the event before it
    chain: int = 0  # CRC-32 of the events before it


class Journal:
    """A journal, open and locked."""

    def __init__(self, path: str | Path, first: Event):
        """Open a journal, or create one that begins with an event.

        Raises:
          ValueError: it is no journal.
          BlockingIOError: another process, or another object of this one, has it open.
        """
        self.path = Path(path)
        try:
            found = os.stat(path)
            check_regular(path, found)
            self._check_size(found.st_size)
        except FileNotFoundError:
            with write_atomically(path, replace=False) as file:
                file.write(_created(first))
        with self._explained():
            # One writes a file of that name only through this object: SQLite's locks are lost when a
            # process closes any other handle of the file.
            address = f"{self.path.absolute().as_uri()}?mode=rw"
            self._database = sqlite3.connect(
                address, uri=True, timeout=0, isolation_level=None, check_same_thread=False
            )
            try:
                for statement in (
                    "PRAGMA locking_mode = EXCLUSIVE", f"PRAGMA synchronous = {SYNCHRONOUS}",
                    "BEGIN EXCLUSIVE", "COMMIT",
                ):  # fmt: skip
                    self._database.execute(statement)
                self._check()
            except BaseException:
                self.close()
                raise
        self._found = os.stat(path)

    def read(self) -> tuple[list[Event], Mark]:
        """All events, and the position after them."""
        with self._explained():
            rows = self._database.execute("SELECT * FROM events ORDER BY number").fetchall()
        mark, texts = Mark(), []
        for row in rows:
            after = _next(mark, *row[1:4])
            if Mark(row[0], row[4]) != after:
                raise self._damaged(f"in event {after.number}")
            mark = after
            texts.append(str(row[3]))
        try:
            data = json.loads(f"[{','.join(texts)}]", parse_constant=_reject)
        except ValueError:
            raise self._damaged("in an event's data") from None
        if len(data) != len(rows) or not data or not all(isinstance(d, dict) for d in data):
            raise self._damaged("in an event's data")
        return [Event(row[1], row[2], d) for row, d in zip(rows, data, strict=True)], mark

    def append(self, mark: Mark, event: Event) -> Mark:
        """Write an event at a position and return the position after it.

        An event that is there already, because its `append` was interrupted after the writing, is replaced.
        """
        row, after = _row(mark, event)
        with suppress(FileNotFoundError):
            found = os.stat(self.path)
            if os.path.samestat(found, self._found) and found.st_size >= self._found.st_size:
                with self._explained():
                    self._database.execute(_INSERT, row)
                self._found = os.stat(self.path)
                return after
        raise RuntimeError(
            f"{self.path} was removed, replaced or truncated while it was in use; restore it"
        )

    def close(self) -> None:
        """Close the file and release its lock."""
        self._database.close()

    def _check_size(self, size: int) -> None:
        """Reject files that are too small for a database, which SQLite would make one of."""
        if size == 0:
            raise ValueError(
                f"{self.path} is empty: it was emptied, or is no campaign. Restore it, or remove it to begin "
                "anew"
            )
        if size < 512:
            raise ValueError(f"{self.path} is not a campaign of dlbjax; it was left as it is")

    def _check(self) -> None:
        application, version, sound = (
            self._database.execute(f"PRAGMA {name}").fetchone()[0]
            for name in ("application_id", "user_version", "integrity_check")
        )
        if application != _APPLICATION:
            raise ValueError(f"{self.path} is not a campaign of dlbjax; it was left as it is")
        if version != _FORMAT:
            raise ValueError(
                f"{self.path} has format {version}, but this version of dlbjax reads format {_FORMAT}. It "
                "was left as it is; continue with the version that made it"
            )
        if sound != "ok":
            raise self._damaged(f"({' '.join(sound.split())[:60]})")

    def _damaged(self, where: str) -> ValueError:
        return ValueError(
            f"{self.path} is damaged {where}; it was left as it is. Restore a copy, or use another path"
        )

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """SQLite's errors, with the path and what to do."""
        try:
            yield
        except sqlite3.ProgrammingError:
            raise RuntimeError(f"{self.path} was closed; open it again to continue") from None
        except sqlite3.OperationalError as error:
            if "locked" in str(error):
                raise BlockingIOError(
                    f"{self.path} is in use by another process, or by another object of this one; close "
                    "that first"
                ) from None
            raise OSError(f"{self.path} could not be read or written: {error}") from None
        except sqlite3.DatabaseError as error:
            if "not a database" not in str(error):
                raise self._damaged(f"({error})") from None
            with open(self.path, "rb") as file:
                old = file.read(10) == b'{"format":'
            if old:
                raise ValueError(
                    f"{self.path} is a journal of dlbjax 0.1, which was text. Tell its rewards to a new "
                    "agent, each after ask: [json.loads(line)['reward'] for line in open(path) if "
                    "'\"reward\"' in line]"
                ) from None
            raise ValueError(
                f"{self.path} is not a campaign of dlbjax; it was left as it is"
            ) from None


def _created(first: Event) -> bytes:
    """A database with one event."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as database:
        database.executescript(_SCHEMA)
        database.execute(_INSERT, _row(Mark(), first)[0])
        return database.serialize()


def _row(mark: Mark, event: Event) -> tuple[tuple[int, int, str, str, int], Mark]:
    text = json.dumps(event.data, allow_nan=False)
    after = _next(mark, event.round, event.kind, text)
    return (after.number, event.round, event.kind, text, after.chain), after


def _next(mark: Mark, round_: Any, kind: Any, text: Any) -> Mark:
    number = mark.number + 1
    return Mark(number, zlib.crc32(f"{number}\n{round_!r}\n{kind!r}\n{text}".encode(), mark.chain))


def _reject(text: str) -> float:
    raise ValueError(text)
