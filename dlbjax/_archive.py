"""Files that hold a header and arrays: .npz archives, written whole and checked as they are read."""

import json
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np

from dlbjax._files import write_atomically

_HEADER = "dlbjax"  # the member that holds the header, as JSON
_FORMAT = 1


def write_archive(
    path: str | Path, header: Mapping[str, Any], arrays: Mapping[str, np.ndarray], *, compress: bool
) -> None:
    """Write a header, which JSON can hold, and arrays to a file, whole or not at all."""
    text = json.dumps({"format": _FORMAT, **header})
    write = np.savez_compressed if compress else np.savez
    with write_atomically(path) as file:
        write(file, allow_pickle=False, **{_HEADER: np.array(text), **arrays})


def read_archive(path: str | Path, what: str) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Header and arrays of a file. Nothing in it is executed.

    Args:
      path: the file.
      what: what it should be, for the error.

    Raises:
      ValueError: it is not what `write_archive` wrote, or not any more.
      OSError: it cannot be opened.
    """
    with open(path, "rb") as raw:
        try:
            arrays = _members(raw)
            return _header(arrays.pop(_HEADER, None)), arrays
        except Exception as error:  # whatever a damaged file may cause
            raise ValueError(f"{path} is not {what}: {in_one_line(error)}") from error


def in_one_line(error: Exception) -> str:
    """What an error says, or what it is called, in a line that can be read."""
    text = " ".join(str(error).split()) or type(error).__name__
    return text if len(text) <= 200 else text[:197] + "..."


def _members(raw: IO[bytes]) -> dict[str, Any]:
    """The arrays of an archive by name, each checked against its checksum."""
    try:
        with zipfile.ZipFile(raw) as archive:
            damaged = archive.testzip()
        raw.seek(0)
        file = np.load(raw, allow_pickle=False)
    except Exception as error:
        raise ValueError("it is no .npz archive, or a damaged one") from error
    if damaged:
        raise ValueError(f"{damaged!r:.60} in it is damaged")
    with file:
        arrays = {}
        for name in file:
            try:
                arrays[name] = file[name]
            except Exception as error:
                raise ValueError(f"{name!r:.60} in it is no array of numbers or text") from error
    return arrays


def _header(member: Any) -> dict[str, Any]:
    if not isinstance(member, np.ndarray) or member.shape or member.dtype.kind != "U":
        raise ValueError("it has no header")
    try:
        header = json.loads(str(member))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"its header is not JSON: {error}") from error
    if not isinstance(header, dict):
        raise ValueError(f"its header must be an object; got {header!r:.60}")
    if header.get("format") != _FORMAT:
        raise ValueError(
            f"its format is {header.get('format')!r:.60}, this version reads {_FORMAT}"
        )
    return header
