"""Queries that come and go while a run goes on: asked for by any thread, made between two micro-batches.

      run.add / run.drop --ask--> Changes --take, at the end of a micro-batch--> orders for the next one
      headrace add / drop --a file in CHECKPOINT/requests--> the run's own thread --> run.add / run.drop

Owns: :class:`Change`, :class:`Changes`, and the two files. What was changed is written down in the checkpoint, so that
the next run on it has the same queries. Invariant: at most one change is being made; others wait for it.
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
from headrace.model import Catalog
from headrace.plan.queries import Query
from headrace.spark.orders import Work
from headrace.sql import read_script

PATIENCE_S = 120.0
"""How long a change may wait for a micro-batch to end."""


@dataclass(slots=True)
class Change:
    """The queries from the next micro-batch on. ``prepared`` is what the host made ready for them."""

    queries: tuple[Query, ...]
    record: dict[str, str]
    work: Work
    prepared: Any
    made: threading.Event = field(default_factory=threading.Event)


@dataclass(slots=True)
class Changes:
    """The change that is waiting to be made, if there is one."""

    _waiting: Change | None = None
    _turn: threading.Lock = field(default_factory=threading.Lock)
    _hand: threading.Lock = field(default_factory=threading.Lock)
    _routing: int | None = None
    """The thread that is routing a micro-batch now."""

    @contextmanager
    def routing(self) -> Iterator[None]:
        self._routing = threading.get_ident()
        try:
            yield
        finally:
            self._routing = None

    def ask(
        self,
        prepare: Callable[[], Change],
        wake: Callable[[], None],
        adopt: Callable[[Change], None],
        is_over: Callable[[], bool],
    ) -> None:
        """Waits until the change is made; ``wake`` brings a micro-batch about, ``adopt`` is called once it is made."""
        if self._routing == threading.get_ident():
            raise PlanError("queries cannot change from inside a callback: ask from another thread")
        with self._turn:
            change = prepare()
            self._waiting = change
            wake()
            deadline = time.monotonic() + PATIENCE_S
            while not change.made.wait(0.2):
                if (is_over() or time.monotonic() > deadline) and self._withdrawn(change):
                    raise HeadraceError("no micro-batch came to an end in time, so the queries stay as they were")
            adopt(change)

    def _withdrawn(self, change: Change) -> bool:
        """Whether the change could be taken back: it was not being made yet."""
        with self._hand:
            is_waiting = self._waiting is change
            self._waiting = None if is_waiting else self._waiting
            return is_waiting

    def take(self) -> Change | None:
        with self._hand:
            change, self._waiting = self._waiting, None
            return change


def added(text: str, catalog: Catalog, queries: tuple[Query, ...]) -> tuple[Query, ...]:
    """The queries with those of a text; it may only create and drop queries."""
    script = read_script(text, catalog, queries)
    if script.catalog != catalog:
        raise PlanError("streams cannot be declared while running: stop, add the stream, and use a new checkpoint")
    if script.settings:
        raise PlanError(f"setting {script.settings[0][0]} cannot change while running: stop, and start again with it")
    if script.queries == queries:
        raise PlanError("there is no query to add: write CREATE QUERY name AS SELECT ...")
    if not script.queries:
        raise PlanError("no query would be left: stop the run instead")
    return script.queries


def without(name: str, queries: tuple[Query, ...]) -> tuple[Query, ...]:
    left = tuple(query for query in queries if query.name.lower() != name.lower())
    if len(left) == len(queries):
        raise PlanError(f"there is no query {name}: the queries are {', '.join(query.name for query in queries)}")
    if not left:
        raise PlanError(f"{name} is the only query: stop the run instead")
    return left


# --- what was changed, for the next run


def write_down(file: Path, record: dict[str, str]) -> None:
    """On a line of its own, also after one that a crash cut off."""
    with file.open("a", encoding="utf-8") as lines:
        lines.write(f"\n{json.dumps(record)}\n")


def replayed(file: Path, catalog: Catalog, queries: tuple[Query, ...]) -> tuple[Query, ...]:
    """A program's queries with what was changed in earlier runs, as far as that is still possible: a query that the
    program has by now is the program's."""
    for line in file.read_text(encoding="utf-8").splitlines() if file.exists() else ():
        with suppress(json.JSONDecodeError, HeadraceError):  # cut off by a crash, or not possible any more
            record = json.loads(line)
            queries = added(record["add"], catalog, queries) if "add" in record else without(record["drop"], queries)
    return queries


# --- requests of other programs


@dataclass(frozen=True, slots=True)
class Request:
    """A file that asks for a change; the answer goes beside it."""

    path: Path
    record: dict[str, str]

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


def request(directory: Path, record: dict[str, str]) -> None:
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
