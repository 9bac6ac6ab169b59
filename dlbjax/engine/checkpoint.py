"""Checkpoints: the state of all runs on the disk, so that a killed call resumes where it was.

A checkpoint holds pieces: some runs of one group, all equally far, with the state of the pass. Which runs
share a piece depends on how they were spread over workers and means nothing for their numbers. Workers
offer their snapshots, between two calls of the compiled program, and when all have done so the file is
replaced as a whole.
"""

import threading
import time
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from dlbjax.common.archive import read_archive, write_archive
from dlbjax.common.files import remove_leftovers
from dlbjax.engine.identity import check_identity
from dlbjax.engine.plan import Group
from dlbjax.engine.run import Progress, Snapshot

_SHARE = 0.01  # of a worker's time that may go into writing

Key = tuple[int, int]  # number of a group, and the first of some runs of it


class Checkpoint:
    """A file with the progress of a call."""

    def __init__(self, path: Path, identity: Mapping[str, Any], every: float):
        """A checkpoint of a call; the file is neither read nor written yet.

        Args:
          path: the file. If there is one, it must be of the same call.
          identity: of the call, fit for JSON.
          every: seconds between two writes; more where writing would take over one per cent.
        """
        self.path, self._identity, self._every = path, dict(identity), every
        self._pieces: dict[Key, Progress] = {}
        self._active: set[Key] = set()  # pieces that a worker has begun and not finished
        self._fresh: set[Key] = set()  # those of them taken since the last write
        self._lock = threading.Lock()
        self._due = time.monotonic() + every

    def read(self, groups: list[Group], seeds: int) -> list[tuple[int, Progress]]:
        """The pieces in the file: number of the group, and progress.

        Where there is no file it makes one without pieces: a place that cannot be written is noticed
        before hours are spent.

        Args:
          groups: of the call.
          seeds: how many there are.

        Raises:
          ValueError: the file is damaged, or belongs to another call. It is left as it is.
        """
        remove_leftovers(self.path)
        try:
            header, arrays = read_archive(self.path, "a checkpoint")
        except FileNotFoundError:
            self._write()
            return []
        if header.get("kind") != "Checkpoint":
            raise ValueError(
                f"{self.path} holds a {header.get('kind')} of dlbjax, not a checkpoint; it was left as it "
                "is. Give another path"
            )
        check_identity(
            f"{self.path} is a checkpoint of another call,", header.get("identity", {}),
            self._identity, "It was left as it is; give another path, or remove it",
        )  # fmt: skip
        try:
            return self._take(header["pieces"], arrays, groups, seeds)
        except (KeyError, TypeError, ValueError, IndexError) as error:
            raise ValueError(
                f"{self.path} is a damaged checkpoint: {error}. It was left as it is; remove it to start "
                "from the beginning"
            ) from error

    def _take(
        self, pieces: list[dict[str, int]], arrays: Mapping[str, np.ndarray], groups: list[Group],
        seeds: int,
    ) -> list[tuple[int, Progress]]:  # fmt: skip
        taken = []
        seen = [np.zeros(len(group.policies) * seeds, bool) for group in groups]
        for i, piece in enumerate(pieces):
            number, segments, mine = piece["group"], piece["segments"], arrays[f"{i}/runs"]
            if (mine.ndim, mine.dtype.kind) != (1, "i") or seen[number][mine].any():
                raise ValueError(
                    f"the runs of piece {i} are no numbers, or belong to another one, too"
                )
            seen[number][mine] = True
            if piece["rounds"] != groups[number].completed(segments):
                raise ValueError(
                    f"piece {i} stands at segment {segments} and round {piece['rounds']}, which do not "
                    "belong together"
                )
            prefix = f"{i}/recorded/"
            progress = Progress(
                runs=mine,
                segments=segments,
                rounds=piece["rounds"],
                carry=[arrays[f"{i}/carry/{j}"] for j in range(piece["leaves"])],
                recorded={n[len(prefix) :]: a for n, a in arrays.items() if n.startswith(prefix)},
            )
            taken.append((number, progress))
        self._pieces = {(number, int(p.runs[0])): p for number, p in taken}
        return taken

    def begin(self, key: Key) -> None:
        """A worker has begun some runs."""
        with self._lock:
            self._active.add(key)

    def offer(self, key: Key, snapshot: Snapshot, finished: bool, urgent: bool) -> None:
        """Take the snapshot of some runs if it is time; the last worker to offer one writes the file."""
        due = time.monotonic() >= self._due and key not in self._fresh
        if not (finished or urgent or due):
            return
        progress = snapshot.progress()
        with self._lock:
            self._pieces[key] = progress
            self._fresh.add(key)
            if finished:
                self._active.remove(key)
            if time.monotonic() >= self._due and self._active <= self._fresh:
                self._try_to_write()

    def write(self) -> None:
        """Write what was taken since the last time, due or not."""
        with self._lock:
            if self._fresh:
                self._try_to_write()

    def _try_to_write(self) -> None:
        """Write; a disk that is full for a while does not end a computation of days."""
        try:
            self._write()
        except OSError as error:
            self._due = time.monotonic() + max(self._every, 1.0)
            warnings.warn(
                f"the checkpoint {self.path} could not be written ({error.strerror}); what it held before "
                "is kept, and it is tried again",
                stacklevel=2,
            )

    def _write(self) -> None:
        begin = time.monotonic()
        pieces, arrays = [], {}
        for i, ((number, _), progress) in enumerate(
            sorted(self._pieces.items(), key=lambda p: p[0])
        ):
            pieces.append(
                {
                    "group": number,
                    "segments": progress.segments,
                    "rounds": progress.rounds,
                    "leaves": len(progress.carry),
                }
            )
            arrays[f"{i}/runs"] = progress.runs
            arrays |= {f"{i}/carry/{j}": leaf for j, leaf in enumerate(progress.carry)}
            arrays |= {f"{i}/recorded/{name}": seen for name, seen in progress.recorded.items()}
        header = {"kind": "Checkpoint", "identity": self._identity, "pieces": pieces}
        write_archive(self.path, header, arrays, compress=False)
        self._fresh.clear()
        now = time.monotonic()
        self._due = now + max(self._every, (now - begin) / _SHARE)
