"""Defers Ctrl-C during work that must not be left half done."""

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType


@contextlib.contextmanager
def deferred_interrupts() -> Iterator[None]:
    """Hold back an interrupt (SIGINT) until the block is done, then raise it.

    A large package whose import or compilation is interrupted stays half loaded for the rest of the
    process: it then fails with every call, or ends the process.
    Outside the main thread nothing is needed: interrupts are raised in the main thread only.
    """
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or before is None:
        yield
        return
    held: list[tuple[int, FrameType | None]] = []
    signal.signal(signal.SIGINT, lambda number, frame: held.append((number, frame)))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        if held and callable(before):
            before(*held[0])
        elif held and before == signal.SIG_DFL:
            signal.raise_signal(signal.SIGINT)  # ends the process, as it would have before
