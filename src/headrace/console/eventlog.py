"""The structured log: what happens, one JSON object a line, for machines that gather logs.

    {"time": "2026-03-01T12:00:00.123+00:00", "level": "info", "event": "micro_batch", "batch": 41, "batch_ms": 412.0}

Owns how a line looks and which of Python's log records become one; every line has ``time``, ``level`` and ``event``. A
line is written whole, by one thread at a time, and flushed. A file is opened for appending, so that a restart goes on.
"""

from __future__ import annotations

import datetime as dt
import json
import logging
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, TextIO

from headrace.errors import SinkError

STANDARD_OUTPUT = "-"


class EventLog:
    """Lines to a stream; without one, nowhere."""

    def __init__(self, lines: TextIO | None = None) -> None:
        self._lines = lines
        self._writing = threading.Lock()

    def write(self, event: str, level: str = "info", **told: Any) -> None:
        if self._lines is None:
            return
        now = dt.datetime.now(dt.UTC).isoformat(timespec="milliseconds")
        line = json.dumps({"time": now, "level": level, "event": event, **told}, default=str)
        with self._writing:
            self._lines.write(f"{line}\n")
            self._lines.flush()


@contextmanager
def opened_log(where: str | None) -> Iterator[EventLog]:
    """The log at a path, ``-`` for standard output, None for none; what Headrace and the web server log goes there too
    while it is open."""
    if where is None:
        yield EventLog()
    elif where == STANDARD_OUTPUT:
        with _gathered(EventLog(sys.stdout)) as log:
            yield log
    else:
        with _appending(Path(where)) as lines, _gathered(EventLog(lines)) as log:
            yield log


def _appending(path: Path) -> TextIO:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        return path.open("a", encoding="utf-8")
    except OSError as error:
        raise SinkError(f"cannot write the log {path}: {error.strerror}") from None


class _gathered(logging.Handler):  # noqa: N801 - used as a function
    """Brings the log records of Headrace and of the web server to a log, while it is entered."""

    NAMES = ("headrace", "uvicorn.error")

    def __init__(self, log: EventLog) -> None:
        super().__init__(logging.INFO)
        self._log = log
        self._before: dict[str, int] = {}

    def __enter__(self) -> EventLog:
        for name in self.NAMES:
            logger = logging.getLogger(name)
            self._before[name] = logger.level
            logger.addHandler(self)
            logger.setLevel(logging.INFO)
        return self._log

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for name, level in self._before.items():
            logging.getLogger(name).removeHandler(self)
            logging.getLogger(name).setLevel(level)

    def emit(self, record: logging.LogRecord) -> None:
        told = {"logger": record.name, "message": record.getMessage()}
        if record.exc_info:
            told["trace"] = logging.Formatter().formatException(record.exc_info)
        self._log.write("message", record.levelname.lower(), **told)
