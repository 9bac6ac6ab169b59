"""Files: atomic writes, so that a reader never sees a partial one, and reads of regular files only."""

import errno
import glob
import os
import secrets
import socket
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from dlbjax.common.arrays import short
from dlbjax.common.digest import digest_text


def as_path(name: str, value: object) -> Path:
    """Convert `value` to a path, or raise a ValueError that names it."""
    if not isinstance(value, str | os.PathLike) or not os.fspath(value):
        raise ValueError(f"{name} must be the path of a file or folder; got {short(value)}")
    return Path(value)


def open_regular(path: str | Path, flags: int = os.O_RDONLY) -> int:
    """Open a regular file and return its descriptor.

    Raises:
      ValueError: it is something else. A device may never end, and a pipe waits for a writer.
      OSError: it cannot be opened.
    """
    # Without O_NONBLOCK the opening of a pipe waits; regular files do not know it.
    handle = os.open(path, flags | getattr(os, "O_NONBLOCK", 0), 0o666)
    try:
        check_regular(path, os.fstat(handle))
    except BaseException:
        os.close(handle)
        raise
    return handle


def read_limited(path: str | Path, limit: int, what: str) -> bytes:
    """The content of a regular file of at most `limit` bytes."""
    with open(open_regular(path), "rb") as file:
        content = file.read(limit + 1)
    if len(content) > limit:
        raise ValueError(f"{path}: {what} may have {limit:,} bytes at most; it has more")
    return content


def check_regular(path: str | Path, found: os.stat_result) -> None:
    """Reject what is no regular file."""
    if stat.S_ISDIR(found.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if not stat.S_ISREG(found.st_mode):
        kinds = {stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket"}
        kind = kinds.get(stat.S_IFMT(found.st_mode), "a device")
        raise ValueError(f"{path} is {kind}, not a regular file; give the path of a file")


@contextmanager
def write_atomically(path: str | Path, *, replace: bool = True) -> Iterator[IO[bytes]]:
    """Open a binary file that gets its name only when it is complete and on the disk.

    With `replace=False` an existing file of that name is kept.
    """
    final = Path(os.path.realpath(as_path("path", path)))  # the target of a link, not the link
    part = _part(final)
    try:
        with _created(part, path) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        with _naming(path):
            if replace:
                os.replace(part, final)
            else:
                with suppress(FileExistsError):
                    os.link(part, final)
    finally:
        part.unlink(missing_ok=True)


def check_can_write(path: str | Path) -> None:
    """Raise the error that `write_atomically` would raise."""
    part = _part(Path(os.path.realpath(path)))
    _created(part, path).close()
    part.unlink()


def remove_leftovers(path: str | Path) -> None:
    """Remove partial files left by killed processes of this machine."""
    path = Path(os.path.realpath(path))
    for part in path.parent.glob(f".{glob.escape(_stem(path))}.{_machine()}-*.part"):
        process = part.name.split("-")[-2]
        if process.isdigit() and not _is_another_alive(int(process)):
            part.unlink(missing_ok=True)


def _part(path: Path) -> Path:
    """Name of a file while it is being written; it contains machine and process."""
    owner = f"{_machine()}-{os.getpid()}-{secrets.token_hex(4)}"
    return path.with_name(f".{_stem(path)}.{owner}.part")


def _stem(path: Path) -> str:
    """The file's name, or a digest where a longer one would be too long for the file system."""
    return path.name if len(os.fsencode(path.name)) <= 200 else digest_text(path.name)


def _created(part: Path, path: str | Path) -> IO[bytes]:
    with suppress(FileNotFoundError):
        check_regular(path, os.stat(path))
    with _naming(path):
        return open(os.open(part, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666), "wb")


@contextmanager
def _naming(path: str | Path) -> Iterator[None]:
    """Let errors name the user's file, not the partial one."""
    try:
        yield
    except OSError as error:
        raise type(error)(error.errno, error.strerror, str(path)) from None


def _machine() -> str:
    return digest_text(socket.gethostname())[:6]


def _is_another_alive(process: int) -> bool:
    if process == os.getpid():
        return False
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:  # another user's process
        return True
    return True
