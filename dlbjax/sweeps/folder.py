"""The bytes of a store, in a local folder or at any address that fsspec knows."""

import os
from pathlib import Path

from dlbjax.common.files import as_path, write_atomically
from dlbjax.common.hints import optional


class Folder:
    """A folder by path or by address, such as s3://bucket/runs.zarr."""

    def __init__(self, address: str | Path):
        as_path("path", address)  # rejects what is none
        fsspec = optional("fsspec", "sweeps")
        self._system, self._root = fsspec.core.url_to_fs(os.fspath(address))
        self._root = self._root.rstrip("/")
        self.is_local = "file" in self._system.protocol
        self.address = self._root if self.is_local else os.fspath(address).rstrip("/")

    def read(self, path: str) -> bytes | None:
        """The content of a file, None if there is no such file."""
        try:
            return self._system.cat_file(f"{self._root}/{path}")
        except (FileNotFoundError, NotADirectoryError):
            return None

    def write(self, path: str, content: bytes) -> None:
        """Write a file as a whole; readers see the old content or the new one."""
        if not self.is_local:
            self._system.pipe_file(f"{self._root}/{path}", content)
            return
        target = Path(self._root, path)
        target.parent.mkdir(parents=True, exist_ok=True)
        with write_atomically(target) as file:
            file.write(content)

    def find(self, path: str = "") -> set[str]:
        """Files below a path, by their path from here."""
        self._system.invalidate_cache()
        found = self._system.find(f"{self._root}/{path}".rstrip("/"))
        return {name[len(self._root) + 1 :] for name in found}

    def remove(self, *paths: str) -> None:
        """Remove files, or folders with all that is in them, where there are such."""
        for path in paths:
            self._system.invalidate_cache()
            if self._system.exists(f"{self._root}/{path}"):
                self._system.rm(f"{self._root}/{path}", recursive=True)
