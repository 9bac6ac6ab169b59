"""Ctrl-C: honoured every time, also where Python loses the exception."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_active: list[threading.Event] = []  # the event of the outermost block, in the main thread


@contextmanager
def interrupts() -> Iterator[threading.Event]:
    """Yield an event that Ctrl-C sets; leave the block with a KeyboardInterrupt once it is set.

    Python raises KeyboardInterrupt wherever the main thread happens to be. Within a finaliser or a callback
    of the garbage collector, and JAX has one, it is printed and dropped, and the call would go on to its
    end. Handlers that others have installed are left alone.
    """
    is_main = threading.current_thread() is threading.main_thread()
    if is_main and _active:
        yield _active[0]
        return
    pressed, default = threading.Event(), signal.default_int_handler
    if not is_main or signal.getsignal(signal.SIGINT) is not default:
        yield pressed
        return

    def handle(number: int, frame: FrameType | None) -> None:
        pressed.set()
        default(number, frame)

    _active.append(pressed)
    signal.signal(signal.SIGINT, handle)
    try:
        yield pressed
    except Exception:
        if pressed.is_set():
            raise KeyboardInterrupt from None
        raise
    finally:
        signal.signal(signal.SIGINT, default)
        _active.clear()
    if pressed.is_set():
        raise KeyboardInterrupt
