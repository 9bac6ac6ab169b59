"""Atomic writes: a reader never sees a partial file."""

import glob
import os
import secrets
import socket
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


@contextmanager
def write_atomically(path: str | Path, *, replace: bool = True) -> Iterator[IO[bytes]]:
    """Open a binary file that gets its name only when it is complete and on the disk.

    With `replace=False` an existing file of that name is kept.
    """
    path = Path(os.path.realpath(path))  # the target of a link, not the link
    part = _part(path)
    try:
        with _created(part, path) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        if replace:
            os.replace(part, path)
        else:
            with suppress(FileExistsError):
                os.link(part, path)
    finally:
        part.unlink(missing_ok=True)


def check_can_write(path: str | Path) -> None:
    """Raise the OSError that `write_atomically` would raise."""
    path = Path(os.path.realpath(path))
    part = _part(path)
    _created(part, path).close()
    part.unlink()


def remove_leftovers(path: str | Path) -> None:
    """Remove partial files left by killed processes of this machine."""
    path = Path(os.path.realpath(path))
    for part in path.parent.glob(f".{glob.escape(path.name)}.{_machine()}-*.part"):
        process = part.name.split("-")[-2]
        if process.isdigit() and not _is_another_alive(int(process)):
            part.unlink(missing_ok=True)


def _part(path: Path) -> Path:
    """Name of a file while it is being written; it contains machine and process."""
    owner = f"{_machine()}-{os.getpid()}-{secrets.token_hex(4)}"
    return path.with_name(f".{path.name}.{owner}.part")


def _created(part: Path, path: Path) -> IO[bytes]:
    try:
        return open(os.open(part, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666), "wb")
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
