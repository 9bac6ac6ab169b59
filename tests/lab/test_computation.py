"""The queue of a visitor: the newest request wins, older ones end between chunks."""

import asyncio
import threading
import time

import pytest

from dlbjax.lab import computation
from dlbjax.lab.computation import Queue
from dlbjax.lab.settings import InputError


class Notes:
    """A report that writes down what it is given."""

    def __init__(self):
        self.shown, self.errors, self.seen = [], [], 0

    def progress(self, ticket):
        self.seen += 1

    def show(self, outcome, ticket):
        self.shown.append(outcome)

    def reject(self, error):
        self.errors.append(error)


def chunks(name, count, pause=0.02, done=None):
    def compute(ticket):
        ticket.expect(count)
        for _ in range(count):
            time.sleep(pause)
            ticket.tick(1)
            if done is not None:
                done.append(name)
        return name

    return compute


async def until(condition, seconds=10.0):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        await asyncio.sleep(0.01)


def test_the_newest_of_many_requests_wins_and_an_older_one_ends_between_chunks():
    async def drive():
        notes, done = Notes(), []
        queue = Queue(notes)
        queue.put(chunks("long", 1000, done=done))
        await until(lambda: len(done) > 3)
        for i in range(20):
            queue.put(chunks(i, 1))
        await until(lambda: notes.shown)
        assert notes.shown == [19]
        assert notes.seen > 0
        steps = len(done)
        assert steps < 100
        await asyncio.sleep(0.1)
        assert len(done) == steps
        assert not notes.errors

    asyncio.run(drive())


def test_a_short_request_is_shown_though_another_waits():
    async def drive():
        notes = Notes()
        queue = Queue(notes)
        queue.put(chunks("first", 2))
        await asyncio.sleep(0.01)
        queue.put(chunks("second", 1))
        await until(lambda: len(notes.shown) == 2)
        assert notes.shown == ["first", "second"]

    asyncio.run(drive())


def test_errors_are_reported_and_the_next_request_is_computed():
    def wrong(ticket):
        raise InputError("sigma", "no")

    def broken(ticket):
        raise FloatingPointError("overflow")

    async def drive():
        notes = Notes()
        queue = Queue(notes)
        for compute in (wrong, broken):
            queue.put(compute)
            await until(lambda: queue._task.done())
        queue.put(chunks("after", 1))
        await until(lambda: notes.shown == ["after"])
        assert [(error.field, str(error)) for error in notes.errors] == [
            ("sigma", "no"),
            ("", "overflow"),
        ]

    asyncio.run(drive())


def test_time_is_limited(monkeypatch):
    monkeypatch.setattr(computation, "MOST_SECONDS", 0.2)

    async def drive():
        notes = Notes()
        Queue(notes).put(chunks("long", 1000))
        await until(lambda: notes.errors)
        assert "the limit" in str(notes.errors[0])

    asyncio.run(drive())


def test_what_nobody_waits_for_ends():
    async def drive():
        notes, done = Notes(), []
        queue = Queue(notes)
        queue.put(chunks("long", 1000, done=done))
        await until(lambda: len(done) > 2)
        queue.close()
        queue.put(chunks("after", 1))
        await until(lambda: queue._task.done())
        assert (notes.shown, notes.errors) == ([], [])
        assert len(done) < 50

    asyncio.run(drive())


@pytest.mark.parametrize("visitors", [10])
def test_visitors_do_not_block_each_other_or_the_loop(visitors):
    async def drive():
        everyone = [Notes() for _ in range(visitors)]
        for notes in everyone:
            Queue(notes).put(chunks("mine", 5))
        late = 0.0
        while not all(notes.shown for notes in everyone):
            begin = time.monotonic()
            await asyncio.sleep(0.01)
            late = max(late, time.monotonic() - begin)
        assert late < 0.5
        assert threading.active_count() < 50

    asyncio.run(drive())


def test_a_request_that_is_cancelled_ends_and_the_next_is_computed():
    class Leaving(Notes):
        def progress(self, ticket):
            ticket.cancel()

    async def drive():
        notes, done = Leaving(), []
        queue = Queue(notes)
        queue.put(chunks("long", 1000, done=done))
        await until(lambda: queue._task.done())
        assert (notes.shown, notes.errors) == ([], [])
        queue.put(chunks("after", 1))
        await until(lambda: notes.shown == ["after"])

    asyncio.run(drive())
