"""Files that hold a header and arrays: .npz archives, written whole and checked as they are read."""

import io
import json
import zipfile
from collections.abc import Collection, Mapping
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


def read_archive(
    path: str | Path, what: str, names: Collection[str] | None = None
) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Header and arrays of a file. Nothing in it is executed.

    Args:
      path: the file.
      what: what it should be, for the error.
      names: which arrays to read and check; all by default.

    Raises:
      ValueError: it is not what `write_archive` wrote, or not any more.
      OSError: it cannot be opened.
    """
    with open(path, "rb") as raw:
        try:
            arrays = _members(raw, None if names is None else {*names, _HEADER})
            return _header(arrays.pop(_HEADER, None)), arrays
        except Exception as error:  # whatever a damaged file may cause
            raise ValueError(f"{path} is not {what}: {in_one_line(error)}") from error


def in_one_line(error: Exception) -> str:
    """What an error says, or what it is called, in a line that can be read."""
    text = " ".join(str(error).split()) or type(error).__name__
    return text if len(text) <= 200 else text[:197] + "..."


def _members(raw: IO[bytes], names: Collection[str] | None) -> dict[str, np.ndarray]:
    """The arrays of an archive by name, each checked against its checksum."""
    try:
        archive = zipfile.ZipFile(raw)
    except Exception as error:
        raise ValueError("it is no .npz archive, or a damaged one") from error
    arrays = {}
    with archive:
        for member in archive.infolist():
            name = member.filename.removesuffix(".npy")
            if names is not None and name not in names:
                continue
            try:
                data = archive.read(member)
            except Exception as error:
                raise ValueError(f"{name!r:.60} in it is damaged") from error
            try:
                arrays[name] = np.lib.format.read_array(io.BytesIO(data), allow_pickle=False)
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
