"""Archives (.npz) of a header and arrays, written atomically and checked as they are read."""

import json
import math
import os
import zipfile
import zlib
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np

from dlbjax.common.files import open_regular, write_atomically

_HEADER = "dlbjax"  # the member that holds the header, as JSON
_FORMAT = 1
_LIMIT = 2**30  # bytes of the arrays in a file; more only where the file itself is large


def write_archive(
    path: str | Path, header: Mapping[str, Any], arrays: Mapping[str, np.ndarray], *, compress: bool
) -> None:
    """Write a JSON-serialisable header and arrays to a file atomically."""
    text = json.dumps({"format": _FORMAT, **header})
    write = np.savez_compressed if compress else np.savez
    with write_atomically(path) as file:
        write(file, allow_pickle=False, **{_HEADER: np.array(text), **arrays})


def read_archive(
    path: str | Path, what: str, names: Collection[str] | None = None, limit: int | None = None
) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Read header and arrays of a file, without executing anything in it.

    Sizes are checked before anything is read: a small file can be made to decompress to any size.

    Args:
      path: the file.
      what: what the file should be, for the error message.
      names: which arrays to read and check; all by default.
      limit: bytes that its arrays may have together, by default 1 GiB, or 8 times those of the file where
        that is more.

    Raises:
      ValueError: `write_archive` did not write the file, it is damaged, or too large.
      OSError: it cannot be opened.
    """
    with open(open_regular(path), "rb") as raw:
        try:
            size = os.fstat(raw.fileno()).st_size
            most = max(_LIMIT, 8 * size) if limit is None else limit
            arrays = _members(raw, None if names is None else {*names, _HEADER}, most)
            return _header(arrays.pop(_HEADER, None)), arrays
        except Exception as error:  # a damaged file may raise anything
            raise ValueError(f"{path} is not {what}: {in_one_line(error)}") from error


def in_one_line(error: Exception) -> str:
    """The message of an error, or its type if it has none, shortened to one line."""
    text = " ".join(str(error).split()) or type(error).__name__
    return text if len(text) <= 200 else text[:197] + "..."


def _members(raw: IO[bytes], names: Collection[str] | None, limit: int) -> dict[str, np.ndarray]:
    """Read the arrays of an archive by name and check each against its checksum."""
    try:
        archive = zipfile.ZipFile(raw)
    except Exception as error:
        raise ValueError("it is not an .npz archive, or it is damaged") from error
    with archive:
        chosen = {}
        for member in archive.infolist():
            name = member.filename.removesuffix(".npy")
            if names is None or name in names:
                if name in chosen:
                    raise ValueError(f"it holds {name!r:.60} twice")
                chosen[name] = member
        total = sum(member.file_size for member in chosen.values())
        if total > limit:
            raise ValueError(
                f"its arrays would take {total:,} bytes, more than the limit of {limit:,}; `dlbjax.load` "
                "takes a larger limit for files you trust"
            )
        return {name: _array(archive, name, member) for name, member in chosen.items()}


def _array(archive: zipfile.ZipFile, name: str, member: zipfile.ZipInfo) -> np.ndarray:
    """One array, of as many bytes as the archive says."""
    try:
        with archive.open(member) as file:
            _check_size(file, member.file_size)
        with archive.open(member) as file:
            array = np.lib.format.read_array(file, allow_pickle=False)
            file.read()  # to the end, where the checksum is compared
            return array
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError) as error:
        raise ValueError(f"{name!r:.60} in it is damaged") from error
    except Exception as error:
        raise ValueError(f"{name!r:.60} in it is not an array of numbers or text") from error


def _check_size(file: IO[bytes], size: int) -> None:
    """Reject a shape that does not have `size` bytes before an array of that shape is made."""
    version = np.lib.format.read_magic(file)
    read = {
        (1, 0): np.lib.format.read_array_header_1_0,
        (2, 0): np.lib.format.read_array_header_2_0,
    }
    shape, _, dtype = read[version](file)
    if dtype.hasobject or file.tell() + math.prod(shape) * dtype.itemsize != size:
        raise ValueError("its shape does not fit its size")


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
