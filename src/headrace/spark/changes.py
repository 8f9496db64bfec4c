"""Queries that come and go while a run goes on: asked for by any thread, made between two micro-batches.

      run.add / drop / pause / resume --ask--> Changes --take, at the end of a micro-batch--> orders for the next one
      headrace add / drop ... --a file in CHECKPOINT/requests--> the run's own thread --> run.add / drop ...

Owns: :class:`Change`, :class:`Changes`, and the files by which other programs ask. What is asked for before the end of
a micro-batch is made together: each is planned on top of those before it, so that fifty who ask wait for one
micro-batch, not for fifty. Invariant: at most one change is waiting, and it is based on the latest that was made or is
being made.
"""

from __future__ import annotations

import json
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from headrace.errors import HeadraceError, PlanError, StateError
from headrace.spark.orders import Work
from headrace.spark.query_set import QuerySet, Record

PATIENCE_S = 120.0
"""How long a change may wait for a micro-batch to end."""


@dataclass(slots=True)
class Fate:
    """How a change ends, for all who wait for it."""

    is_made: bool = False
    ended: threading.Event = field(default_factory=threading.Event)

    def end(self, *, is_made: bool) -> None:
        self.is_made = is_made
        self.ended.set()


@dataclass(slots=True)
class Change:
    """The queries from the next micro-batch on. ``prepared`` is what the host made ready for them; ``records`` is what
    was asked for, in order."""

    queries: QuerySet
    records: list[Record]
    work: Work
    prepared: Any
    fate: Fate = field(default_factory=Fate)


@dataclass(slots=True)
class Changes:
    """The queries as they will be once all is made that was asked for, and the change that is waiting to be made, if
    there is one."""

    wanted: QuerySet
    _running: QuerySet = field(init=False)
    """As of the last change that was taken."""
    _waiting: Change | None = None
    _turn: threading.Lock = field(default_factory=threading.Lock)
    _hand: threading.Lock = field(default_factory=threading.Lock)
    _routing: int | None = None
    """The thread that is routing a micro-batch now."""

    def __post_init__(self) -> None:
        self._running = self.wanted

    @contextmanager
    def routing(self) -> Iterator[None]:
        self._routing = threading.get_ident()
        try:
            yield
        finally:
            self._routing = None

    def ask(self, prepare: Callable[[QuerySet], Change], wake: Callable[[], None], is_over: Callable[[], bool]) -> None:
        """Waits until the change is made. ``prepare`` makes it of the queries there will be; ``wake`` brings a
        micro-batch about."""
        if self._routing == threading.get_ident():
            raise PlanError("queries cannot change from inside a callback: ask from another thread")
        with self._turn:
            fate, is_first = self._joined(prepare(self.wanted))
        if is_first:
            wake()
        deadline = time.monotonic() + PATIENCE_S
        while not fate.ended.wait(0.2) and not is_over():
            if time.monotonic() > deadline:
                self._withdraw(fate)
        if not fate.is_made:
            raise HeadraceError("no micro-batch came to an end in time, so the queries stay as they were")

    def _joined(self, change: Change) -> tuple[Fate, bool]:
        """Puts a change with those that wait; its fate, and whether none did. It was planned on top of them, and of one
        that was taken meanwhile."""
        with self._hand:
            is_first = self._waiting is None
            if self._waiting is not None:
                change.records[:0] = self._waiting.records
                change.fate = self._waiting.fate
            self._waiting, self.wanted = change, change.queries
        return change.fate, is_first

    def _withdraw(self, fate: Fate) -> None:
        """Takes the change back, with all that was joined with it, unless it is being made already."""
        with self._turn, self._hand:
            if self._waiting is not None and self._waiting.fate is fate:
                self._waiting, self.wanted = None, self._running
                fate.end(is_made=False)

    def take(self) -> Change | None:
        with self._hand:
            change, self._waiting = self._waiting, None
            if change is not None:
                self._running = change.queries
            return change


# --- requests of other programs


@dataclass(frozen=True, slots=True)
class Request:
    """A file that asks for a change; the answer goes beside it."""

    path: Path
    record: Record

    def answer(self, error: str | None) -> None:
        aside = self.path.with_name(f".{self.path.name}")
        aside.write_text(json.dumps({"error": error}))
        self.path.unlink(missing_ok=True)
        aside.rename(self.path.with_suffix(".answer"))


def requests_in(directory: Path) -> Iterator[Request]:
    """The requests that wait, in the order of their names, which are times."""
    for path in sorted(directory.glob("*.request")):
        with suppress(FileNotFoundError, json.JSONDecodeError):  # taken back, or not ours
            yield Request(path, json.loads(path.read_text()))


def request(directory: Path, record: Record) -> None:
    """Asks the run that has this directory, and waits for its answer."""
    path = directory / f"{time.time_ns()}-{uuid.uuid4().hex}.request"
    aside = directory / f".{path.name}"
    aside.write_text(json.dumps(record))
    aside.rename(path)
    answer = path.with_suffix(".answer")
    deadline = time.monotonic() + PATIENCE_S + 30
    try:
        while not answer.exists():
            if time.monotonic() > deadline:
                raise StateError(f"no run answered: is one running on the checkpoint {directory.parent}?")
            time.sleep(0.1)
    finally:
        path.unlink(missing_ok=True)
    error = json.loads(answer.read_text())["error"]
    answer.unlink()
    if error is not None:
        raise PlanError(error)
