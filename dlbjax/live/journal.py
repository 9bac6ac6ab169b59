"""A journal: a file of JSON lines that only grows, so that a crash at any time loses no line.

Every line is on the disk before `append` returns. Its "check" is the CRC-32 of all lines up to it, so
that a changed, lost or moved line is detected. An incomplete last line, left by a writer that was stopped
before `append` returned, is dropped. The file is locked while it is open; the system releases the lock
when the process ends, however it ends.
"""

import json
import os
import warnings
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from dlbjax.common.files import open_regular

_CHECK = b', "check": "'


class Mark(NamedTuple):
    """A position between two lines."""

    end: int = 0  # bytes before it
    check: int = 0  # CRC-32 of the lines before it


class Journal:
    """A journal, open and locked."""

    def __init__(self, path: str | Path):
        """Open a journal, or create an empty one.

        Raises:
          ValueError: it is no regular file.
          BlockingIOError: another process, or another object of this one, has it open.
        """
        try:
            import fcntl
        except ImportError:
            raise NotImplementedError(
                "a journal needs a system that can lock files, such as Linux or macOS; omit path"
            ) from None
        self.path = Path(path)
        handle = open_regular(path, os.O_RDWR | os.O_CREAT)
        self._file = open(handle, "r+b", buffering=0)  # noqa: SIM115
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self.close()
            raise BlockingIOError(
                f"{path} is in use by another process, or by another object of this one; close that first"
            ) from None
        except BaseException:
            self.close()
            raise

    def begin(self, header: Mapping[str, Any]) -> Mark | None:
        """Write the header and return the position after it; None if the file already has a first line.

        A file that is empty, or holds an incomplete copy of this header, is begun anew.
        """
        self._file.seek(0)
        line, mark = _line(Mark(), header)
        found = self._file.read(len(line))
        if len(found) == len(line) or not line.startswith(found):
            return None
        self.append(Mark(), header)
        folder = os.open(self.path.absolute().parent, os.O_RDONLY)
        try:
            os.fsync(folder)  # so that the file's name survives a power cut, too
        finally:
            os.close(folder)
        return mark

    def read(self) -> tuple[list[dict[str, Any]], Mark]:
        """All lines, the header first, and the position after them."""
        self._file.seek(0)
        *lines, rest = self._file.read().split(b"\n")
        bodies, mark = [], Mark()
        for line in lines:
            body, _, written = line.rpartition(_CHECK)
            check = zlib.crc32(body, mark.check)
            if written != b'%08x"}' % check:
                break
            bodies.append(body + b"}")
            mark = Mark(mark.end + len(line) + 1, check)
        if not bodies:
            raise ValueError(f"{self.path} is not a journal of dlbjax; it was left as it is")
        if len(bodies) < len(lines):
            raise ValueError(
                f"{self.path} is damaged in line {len(bodies) + 1}; it was left as it is. Continue from a "
                "copy of the lines before, or use another path"
            )
        if rest:
            warnings.warn(
                f"the last line of {self.path} is not complete and was dropped: its writer was stopped",
                stacklevel=4,
            )
        return json.loads(b"[%s]" % b",".join(bodies)), mark

    def append(self, mark: Mark, record: Mapping[str, Any]) -> Mark:
        """Write a line at a position and return the position after it.

        Anything after the position, at most a line that was not completed, is overwritten.
        """
        if self._file.closed:
            raise RuntimeError(f"{self.path} was closed; open it again to continue")
        line, after = _line(mark, record)
        handle = self._file.fileno()
        found = os.fstat(handle)
        if found.st_nlink == 0 or found.st_size < mark.end:
            raise RuntimeError(
                f"{self.path} was removed, replaced or truncated while it was in use; restore it"
            )
        os.ftruncate(handle, mark.end)
        if os.pwrite(handle, line, mark.end) < len(line):
            raise OSError(f"{self.path} could not be written: is the disk full?")
        os.fsync(handle)
        return after

    def close(self) -> None:
        """Close the file and release its lock."""
        self._file.close()


def _line(mark: Mark, record: Mapping[str, Any]) -> tuple[bytes, Mark]:
    body = json.dumps(record)[:-1].encode()
    check = zlib.crc32(body, mark.check)
    line = body + _CHECK + b'%08x"}\n' % check
    return line, Mark(mark.end + len(line), check)
