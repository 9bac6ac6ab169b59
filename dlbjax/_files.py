"""Writing files so that a reader never sees half of one."""

import glob
import os
import secrets
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from dlbjax._arrays import short
from dlbjax._digest import digest_text


def as_path(name: str, value: Any) -> Path:
    """`value` as a path, or a ValueError naming it."""
    if not isinstance(value, str | os.PathLike) or not os.fspath(value):
        raise ValueError(f"{name} must be the path of a file or folder; got {short(value)}")
    return Path(value)


@contextmanager
def write_atomically(path: str | Path, *, replace: bool = True) -> Iterator[IO[bytes]]:
    """A binary file that takes its name only when it is complete and on the disk.

    With `replace=False` a file that has the name by then keeps it.
    """
    path = Path(os.path.realpath(path))  # what a link points to, not the link
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
    """Raise an OSError where `write_atomically` would."""
    path = Path(os.path.realpath(path))
    part = _part(path)
    _created(part, path).close()
    part.unlink()


def remove_leftovers(path: str | Path) -> None:
    """Remove what processes of this machine that were killed had written of a file."""
    path = Path(os.path.realpath(path))
    for part in path.parent.glob(f".{glob.escape(path.name)}.{_machine()}-*.part"):
        process = part.name.split("-")[-2]
        if process.isdigit() and not _is_another_alive(int(process)):
            part.unlink(missing_ok=True)


def _part(path: Path) -> Path:
    """A name for a file while it is being written, which says by whom."""
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
    except OSError:  # somebody else's
        return True
    return True
