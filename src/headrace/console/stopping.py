"""Ctrl-C and a terminate signal, while a run is watched.

A signal handler runs in the middle of whatever the program does. Spark's own one then makes another call to the JVM
inside the call that it interrupted, which ends in tracebacks. Here a signal only asks: whoever watches the run looks
between two calls. A later signal does not wait; one that comes right after the first is the same one, sent to the
process and to its group.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

SAME_S = 0.5
"""Signals so close together are one."""


@contextmanager
def stop_asked() -> Iterator[threading.Event]:
    """The event is set by the first signal; a later one raises KeyboardInterrupt."""
    asked = threading.Event()
    patient_until_s = 0.0

    def ask(_signal: int, _frame: FrameType | None) -> None:
        nonlocal patient_until_s
        if not asked.is_set():
            patient_until_s = time.monotonic() + SAME_S
            asked.set()
        elif time.monotonic() > patient_until_s:
            raise KeyboardInterrupt

    before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
