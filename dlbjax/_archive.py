"""Files that hold a header and arrays: .npz archives, written whole and checked as they are read."""

import json
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

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
            with zipfile.ZipFile(raw) as archive:
                if damaged := archive.testzip():
                    raise ValueError(f"{damaged} in it is damaged")
            raw.seek(0)
            with np.load(raw, allow_pickle=False) as file:
                arrays = {name: file[name] for name in file}
            header = json.loads(str(arrays.pop(_HEADER)))
            if header["format"] != _FORMAT:
                raise ValueError(f"its format is {header['format']}, this version reads {_FORMAT}")
        except Exception as error:  # whatever a damaged file may cause
            raise ValueError(f"{path} is not {what}: {error or type(error).__name__}") from error
    return header, arrays
