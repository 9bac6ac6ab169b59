"""Writing files so that a reader never sees half of one."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from dlbjax._arrays import short


def as_path(name: str, value: Any) -> Path:
    """`value` as a path, or a ValueError naming it."""
    if not isinstance(value, str | os.PathLike) or not os.fspath(value):
        raise ValueError(f"{name} must be the path of a file or folder; got {short(value)}")
    return Path(value)


@contextmanager
def write_atomically(path: str | Path) -> Iterator[IO[bytes]]:
    """A binary file that takes its name only when it is complete and on the disk."""
    path = Path(path)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".part")
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o666 & ~_umask())
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
