"""Ctrl-C and a terminate signal, while a run is watched.

A signal handler runs in the middle of whatever the program does. Spark's own one then makes another call to the JVM
inside the call that it interrupted, which ends in tracebacks. Here a signal only asks: whoever watches the run looks
between two calls. A second signal does not wait.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def stop_asked() -> Iterator[threading.Event]:
    """The event is set by the first signal; the second raises KeyboardInterrupt."""
    asked = threading.Event()

    def ask(_signal: int, _frame: FrameType | None) -> None:
        if asked.is_set():
            raise KeyboardInterrupt
        asked.set()

    before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
