"""The other processes of a `jax.distributed` job, watched while this one computes.

Every process leaves a note at the job's coordinator (process 0) every few seconds and reads those of
the others. One that reports a failure, or that falls silent in the middle of a call, ends the call
everywhere, with a message that says so. JAX by itself says nothing for 100 seconds and then aborts
all processes; it aborts them at once where the coordinator's connection breaks, before any Python
code can run, so that the last words for that case are left with a small child process.
"""

import atexit
import contextlib
import json
import logging
import os
import subprocess
import sys
import threading
import time
from types import TracebackType
from typing import Any

import jax
from jax._src import distributed  # no public name leads to the coordinator's key-value store
from jax.experimental.multihost_utils import process_allgather

BEAT = 2.0  # seconds between two notes
SILENCE = 30.0  # seconds without a new note after which a process counts as lost
GRACE = 15.0  # seconds to end in good order once one is lost

_FOLDER = "dlbjax/notes/"
_LAST_WORDS = """
import socket, sys
plain, uncoordinated, address = sys.argv[1:]
if not sys.stdin.readline():
    host, port = address.rsplit(":", 1)
    try:
        socket.create_connection((host.strip("[]"), int(port)), 5).close()
    except OSError:
        plain = uncoordinated
    sys.stderr.write(plain + "\\n")
"""


class Notes:
    """What the processes of a job tell each other, kept up to date by two threads until they end.

    One thread talks to the coordinator, and may hang with it. The other judges, by a clock that stands
    still while this process is suspended, and ends the process if nothing else does.
    """

    def __init__(self) -> None:
        self.client: Any = distributed.global_state.client
        self.rank = distributed.global_state.process_id  # 0 coordinates, whatever a backend counts
        self.count = distributed.global_state.num_processes
        self.call = 0  # how many calls were begun here, in the same order everywhere
        self.inside = False
        self.exchanging = False  # in JAX's hands, which only an exit frees from
        self.arrived = 0  # the last call whose results are ready to be gathered here
        self.left = False
        self.report: tuple[int, str, bool] | None = (
            None  # the last call that failed, why, if by a loss
        )
        self.trouble: str | None = None
        self.lost = False
        self.advice = ""
        self.last_words: LastWords | None = None
        self._clock = self._answered = self._since = self._troubled = 0.0
        self._lock = threading.Lock()
        self._heard: dict[int, dict[str, Any]] = {}
        self._changed: dict[int, float] = {}
        self._stir, self._closed = threading.Event(), threading.Event()
        self._talker = threading.Thread(target=self._talk, name="dlbjax-notes", daemon=True)
        self._talker.start()
        threading.Thread(target=self._watch, name="dlbjax-watch", daemon=True).start()
        atexit.register(self._leave)  # runs before JAX's own, which waits for all processes

    def name(self, rank: int) -> str:
        """A process as messages call it."""
        return f"process {rank} of {self.count}"

    def begin(self, advice: str) -> None:
        """Enter a call."""
        with self._lock:
            self.advice, self.call = advice, self.call + 1
            self._answered = self._since = self._clock
            for rank in list(self._changed):
                self._changed[rank] = self._clock
            self.trouble = self.trouble if self.lost else None
            self.inside = True
        self._stir.set()

    def arrive(self) -> None:
        """Say that the results of this call are ready."""
        self.arrived, self._since = self.call, self._clock
        self._stir.set()

    def fail(self, why: str) -> None:
        """Say that this call cannot end well."""
        self.report = (self.call, why, self.lost)
        self._stir.set()

    def lose(self, why: str) -> None:
        """Note that a process is gone, so that this one cannot take its leave of it either."""
        self.lost, self.trouble = True, why
        self.fail(why)

    def end(self) -> None:
        """Leave a call."""
        self.inside = False
        self._stir.set()

    def all_arrived(self) -> bool:
        """Whether every process has its results of this call ready."""
        ready = [
            note["arrived"] >= self.call and not self._failed(note)
            for note in list(self._heard.values())
        ]
        return len(ready) == self.count and all(ready)

    def _failed(self, note: dict[str, Any]) -> bool:
        """Whether who wrote the note failed in this call; it may have failed in the next one since."""
        if note["report"] is None:
            return False
        call = note["report"][0]
        return call == self.call or (call > self.call and not self.exchanging)

    def _talk(self) -> None:
        beat = 0
        while True:
            beat, closed = beat + 1, self._closed.is_set()
            try:
                self._exchange(beat)
            except Exception:  # counts as no answer
                self._stir.wait(min(1.0, BEAT))
            if closed:
                return
            waiting = self.inside and self.arrived == self.call and not self.all_arrived()
            pause = (self._clock - self._since) / 10 if waiting else BEAT
            self._stir.wait(min(BEAT, max(0.05, pause)))
            self._stir.clear()

    def _exchange(self, beat: int) -> None:
        note = {name: getattr(self, name) for name in ("inside", "arrived", "left", "report")}
        text = json.dumps(note | {"beat": beat})
        self.client.key_value_set(f"{_FOLDER}{self.rank}", text, allow_overwrite=True)
        for key, value in self.client.key_value_dir_get(_FOLDER):
            rank, heard = int(key.rsplit("/", 1)[1]), json.loads(value)
            if heard != self._heard.get(rank):
                self._changed[rank], self._heard[rank] = self._clock, heard  # in this order
        self._answered = self._clock

    def _watch(self) -> None:
        before = time.monotonic()
        while not self._closed.wait(BEAT / 4):
            now = time.monotonic()
            self._clock += min(now - before, BEAT)
            before = now
            with self._lock:
                if self.inside and self.trouble is None:
                    self._judge()
                    self._troubled = self._clock
            helpless = self.inside and self.trouble and (self.lost or self.exchanging)
            if helpless and self._clock - self._troubled > GRACE:
                self._end_by_force()

    def _judge(self) -> None:
        if self._clock - self._answered > SILENCE:
            self.lose(
                f"{self.name(0)}, which coordinates all, was lost: no answer for {SILENCE:g} s"
            )
        for rank, note in list(self._heard.items()):
            if rank == self.rank:
                continue
            if self._failed(note):
                _, why, lost = note["report"]
                if lost:
                    self.lose(why)
                else:
                    self.trouble = why
            elif note["left"] and note["arrived"] < self.call:
                self.trouble = f"{self.name(rank)} ended before this call did"
            elif note["inside"] and self._silent(rank):
                self.lose(f"{self.name(rank)} was lost: no sign of life for {SILENCE:g} s")

    def _silent(self, rank: int) -> bool:
        return self._answered - self._changed[rank] > SILENCE

    def _end_by_force(self) -> None:
        if self.last_words:
            self.last_words.withdraw()
        sys.stderr.write(f"dlbjax: {self.trouble}. {self.advice}\n")
        sys.stderr.flush()
        os._exit(1)

    def _leave(self) -> None:
        self.left = True
        if self.lost:
            self._linger()
            logging.shutdown()
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(1)  # JAX would wait for the lost process, then abort
        self.close()

    def close(self) -> None:
        """Say no more. No thread must be in JAX's code when the interpreter ends."""
        self._closed.set()
        self._stir.set()
        self._talker.join(5)

    def _linger(self) -> None:
        """As the coordinator, give the others the time to hear what happened; JAX aborts them after."""
        self._stir.set()
        end = time.monotonic() + (2 * GRACE if self.rank == 0 else 0)  # some end by force after one
        while time.monotonic() < end and not all(
            note["left"] or rank == self.rank or self._clock - self._changed[rank] > 3 * BEAT
            for rank, note in list(self._heard.items())
        ):
            time.sleep(0.1)


class LastWords:
    """A child process that speaks for this one if it is ended too suddenly to speak for itself."""

    def __init__(self, notes: Notes) -> None:
        me, advice = notes.name(notes.rank), notes.advice
        plain = f"dlbjax: {me} was ended by the system, or by JAX (see above). {advice}"
        lost = f"{notes.name(0)}, which coordinates all, was lost, and JAX ended {me} with it"
        address = distributed.global_state.coordinator_address or ":0"
        command = [sys.executable, "-I", "-S", "-c", _LAST_WORDS]
        words = [plain, f"dlbjax: {lost}. {advice}" if notes.rank else plain, address]
        self._child = subprocess.Popen(
            command + words,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            process_group=0,  # Ctrl-C is not for it
        )

    def withdraw(self) -> None:
        """Let it end without a word."""
        try:
            self._child.communicate(b"\n", timeout=5)
        except (OSError, ValueError, subprocess.TimeoutExpired):
            self._child.kill()


_notes: Notes | None = None


def _shared() -> Notes | None:
    """The notes of this process, made anew where `jax.distributed` was; none without it."""
    global _notes
    client = distributed.global_state.client
    if _notes is not None and _notes.client is not client:
        _notes.close()
        _notes = None
    if _notes is None and client is not None:
        _notes = Notes()
    return _notes


def _in_short(error: BaseException) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())[:500]


class Watch:
    """One call that all processes take part in, in the same order; a context manager.

    What is raised inside it is reported to the others, which end their call as well.

    Args:
        checkpoint: Where this process keeps what it has computed, for the message; none if nowhere.
    """

    def __init__(self, checkpoint: str | os.PathLike[str] | None = None) -> None:
        again = f"start all {jax.process_count()} processes again"
        self._advice = (
            f"What was computed up to the last checkpoint is kept ({os.fspath(checkpoint)}): {again}, "
            "with the same call, to go on from there."
            if checkpoint is not None
            else f"Nothing was kept, as the call has no checkpoint=: {again}."
        )
        self._notes = _shared()

    def __enter__(self) -> "Watch":
        if self._notes:
            self._notes.begin(self._advice)
            with contextlib.suppress(OSError, ValueError):  # where no child can be had
                self._notes.last_words = LastWords(self._notes)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if not self._notes:
            return
        if error is not None and self._notes.trouble is None:
            self._notes.fail(f"{self._notes.name(self._notes.rank)} failed with {_in_short(error)}")
        self._notes.end()
        if self._notes.last_words:
            self._notes.last_words.withdraw()
            self._notes.last_words = None

    def check(self) -> None:
        """Raise RuntimeError if another process failed or is lost; costs nothing."""
        if self._notes and self._notes.trouble is not None:
            raise RuntimeError(f"{self._notes.trouble}. {self._advice}")

    def gather(self, tree: Any) -> Any:
        """The results of all processes, stacked, once all are ready; leaves (processes, …)."""
        if not self._notes:
            return self._exchange(tree)
        self._notes.arrive()
        while not self._notes.all_arrived():
            self.check()
            time.sleep(0.02)
        self._notes.exchanging = True
        try:
            return self._exchange(tree)
        except jax.errors.JaxRuntimeError as error:
            self._notes.lose(f"the results could not be exchanged ({_in_short(error)})")
            self.check()
        finally:
            self._notes.exchanging = False

    @staticmethod
    def _exchange(tree: Any) -> Any:
        with jax.enable_x64(True):
            return process_allgather(tree)
