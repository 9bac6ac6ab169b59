"""Computations off the event loop: one at a time for a visitor, the newest request first."""

import asyncio
import logging
import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol

from dlbjax.lab.settings import InputError

MOST_SECONDS = 30.0  # of a request
_PATIENCE = 0.4  # seconds that an older request is given, so that a drag shows pictures on its way
_WAIT = 0.1  # seconds between two looks at a computation

# For all visitors; more than there are cores, so that a few long requests do not hold up the others.
_pool = ThreadPoolExecutor(2 * (os.cpu_count() or 1), thread_name_prefix="lab")
_log = logging.getLogger("dlbjax")


class StaleError(Exception):
    """Raised in a computation whose outcome nobody waits for."""


class Ticket:
    """One request while it is computed: its progress, and whether it is still wanted."""

    def __init__(self, is_stale: Callable[["Ticket"], bool]) -> None:
        self._is_stale = is_stale
        self._lock = threading.Lock()
        self._cancelled = False
        self.began: float | None = None
        self.total = self.done = 0  # rounds of all runs

    def begin(self) -> None:
        """Note that the computation starts, after waiting for others."""
        self.began = time.perf_counter()
        self.check()

    def cancel(self) -> None:
        """Let the computation end at its next tick: nobody looks at the page."""
        self._cancelled = True

    def expect(self, rounds: int) -> None:
        """Note that so many more rounds are to be simulated."""
        self.total += rounds

    def tick(self, rounds: int) -> None:
        """Note that so many rounds were simulated; leave a computation that has to end."""
        with self._lock:  # the workers of a pass are threads
            self.done += rounds
        self.check()

    def check(self) -> None:
        """Raise `StaleError` where the request is stale, `InputError` where its time is up."""
        if self._cancelled or self._is_stale(self):
            raise StaleError
        if self.seconds > MOST_SECONDS:
            raise InputError(
                "rounds",
                f"this takes more than {MOST_SECONDS:.0f} s, the limit; choose fewer runs or rounds",
            )

    @property
    def seconds(self) -> float:
        """How long the computation has been running."""
        return 0.0 if self.began is None else time.perf_counter() - self.began


class Report(Protocol):
    """What is done with a request, on the event loop."""

    def progress(self, ticket: Ticket) -> None:
        """The computation goes on."""

    def show(self, outcome: Any, ticket: Ticket) -> None:
        """The computation is complete."""

    def reject(self, error: InputError) -> None:
        """The request cannot be computed."""


class Queue:
    """The requests of one visitor: one is computed, the newest waits, those in between are dropped."""

    def __init__(self, report: Report) -> None:
        self._report = report
        self._waiting: Callable[[Ticket], Any] | None = None
        self._task: asyncio.Task[None] | None = None
        self._closed = False

    def put(self, compute: Callable[[Ticket], Any]) -> None:
        """Ask for a computation; called on the event loop."""
        if self._closed:
            return
        self._waiting = compute
        if self._task is None or self._task.done():
            self._task = asyncio.ensure_future(self._work())

    def close(self) -> None:
        """Let the computation that is running end at its next tick, and start no other."""
        self._closed, self._waiting = True, None

    async def _work(self) -> None:
        while self._waiting is not None:
            compute, self._waiting = self._waiting, None
            ticket = Ticket(self._is_stale)
            future = asyncio.get_running_loop().run_in_executor(_pool, _carry_out, compute, ticket)
            while not (await asyncio.wait([future], timeout=_WAIT))[0]:
                if not self._closed:
                    self._report.progress(ticket)
            try:
                outcome = future.result()
            except StaleError:
                continue
            except Exception as error:
                if not self._closed:
                    self._report.reject(_as_input_error(error))
            else:
                if not self._closed:
                    self._report.show(outcome, ticket)

    def _is_stale(self, ticket: Ticket) -> bool:
        return self._closed or (self._waiting is not None and ticket.seconds > _PATIENCE)


def _carry_out(compute: Callable[[Ticket], Any], ticket: Ticket) -> Any:
    ticket.begin()
    return compute(ticket)


def _as_input_error(error: Exception) -> InputError:
    if isinstance(error, InputError):
        return error
    if not isinstance(error, ValueError | ArithmeticError | MemoryError):
        _log.error("the lab could not compute a view", exc_info=error)
    return InputError("", str(error) or type(error).__name__)
