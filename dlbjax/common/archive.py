"""Archives (.npz) of a header and arrays, written atomically and checked as they are read."""

import io
import json
import zipfile
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np

from dlbjax.common.files import write_atomically

_HEADER = "dlbjax"  # the member that holds the header, as JSON
_FORMAT = 1


def write_archive(
    path: str | Path, header: Mapping[str, Any], arrays: Mapping[str, np.ndarray], *, compress: bool
) -> None:
    """Write a JSON-serialisable header and arrays to a file atomically."""
    text = json.dumps({"format": _FORMAT, **header})
    write = np.savez_compressed if compress else np.savez
    with write_atomically(path) as file:
        write(file, allow_pickle=False, **{_HEADER: np.array(text), **arrays})


def read_archive(
    path: str | Path, what: str, names: Collection[str] | None = None
) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Read header and arrays of a file, without executing anything in it.

    Args:
      path: the file.
      what: what the file should be, for the error message.
      names: which arrays to read and check; all by default.

    Raises:
      ValueError: `write_archive` did not write the file, or it is damaged.
      OSError: it cannot be opened.
    """
    with open(path, "rb") as raw:
        try:
            arrays = _members(raw, None if names is None else {*names, _HEADER})
            return _header(arrays.pop(_HEADER, None)), arrays
        except Exception as error:  # a damaged file may raise anything
            raise ValueError(f"{path} is not {what}: {in_one_line(error)}") from error


def in_one_line(error: Exception) -> str:
    """The message of an error, or its type if it has none, shortened to one line."""
    text = " ".join(str(error).split()) or type(error).__name__
    return text if len(text) <= 200 else text[:197] + "..."


def _members(raw: IO[bytes], names: Collection[str] | None) -> dict[str, np.ndarray]:
    """Read the arrays of an archive by name and check each against its checksum."""
    try:
        archive = zipfile.ZipFile(raw)
    except Exception as error:
        raise ValueError("it is not an .npz archive, or it is damaged") from error
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
                raise ValueError(
                    f"{name!r:.60} in it is not an array of numbers or text"
                ) from error
    return arrays


def _header(member: np.ndarray | None) -> dict[str, Any]:
    if member is None or member.shape or member.dtype.kind != "U":
        raise ValueError("it has no header")
    try:
        header = json.loads(str(member))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"its header is not JSON: {error}") from error
    if not isinstance(header, dict):
        raise ValueError(f"its header must be an object; got {header!r:.60}")
    if header.get("format") != _FORMAT:
        raise ValueError(
            f"its format is {header.get('format')!r:.60}; this version reads {_FORMAT}"
        )
    return header
