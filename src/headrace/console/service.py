"""A running pipeline as a service: what it is asked for, what it remembers for those who look at it.

      web  --ask-->  Service  --add, drop, pause, resume, explain, check-->  run
                        ^--a look a second: statistics, curves

Owns :class:`Service`: the samples of the last minutes, the list of what was changed, and which thread does what.
Changes wait for a micro-batch, so they have threads of their own: whoever reads never waits for whoever changes. The
run is anything with the few methods of :class:`ServedRun`. State survives a restart because the run keeps it: nothing
that matters is only here.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Protocol

from headrace.config import Settings
from headrace.console.eventlog import EventLog
from headrace.console.results import PublishedRows
from headrace.console.sink_places import SinkPlaces, SinkRefusedError
from headrace.console.timeline import Timeline
from headrace.errors import HeadraceError, SqlError
from headrace.plan.picture import PlanPicture, picture_of
from headrace.plan.queries import Query
from headrace.plan.sharing import SharedPlan
from headrace.plan.sinks import QUERY_COLUMN
from headrace.spark.query_set import QuerySet
from headrace.stats import QueryStats, RunStats

LOOK_S = 1.0
"""Between two looks at the run."""
ASKERS = 64
"""Changes that may wait for a micro-batch at once; more wait for one of these."""
READERS = 8
REMEMBERED = 200
"""Changes that are remembered for the console."""


class ServedRun(Protocol):
    """What the service needs of a run."""

    @property
    def is_active(self) -> bool: ...
    @property
    def queries(self) -> QuerySet: ...
    @property
    def settings(self) -> Settings: ...
    @property
    def last_batch(self) -> int | None: ...
    @property
    def out(self) -> Path: ...
    @property
    def checkpoint(self) -> Path: ...
    def add(self, sql: str) -> None: ...
    def drop(self, name: str) -> None: ...
    def pause(self, name: str) -> None: ...
    def resume(self, name: str) -> None: ...
    def check(self, sql: str) -> tuple[str, ...]: ...
    def explain(self, sql: str | None = None) -> str: ...
    def draw(self, query: str | None = None) -> str: ...
    def plan(self) -> SharedPlan: ...
    def stats(self) -> RunStats: ...
    def directories(self) -> dict[str, Path]: ...


class UnknownQueryError(HeadraceError):
    """There is no query of that name."""


class NoRowsError(HeadraceError):
    """The query's rows are not where they could be read back."""


@dataclass(frozen=True, slots=True)
class ServedQuery:
    """A query as the service tells of it."""

    name: str
    is_paused: bool
    text: str
    columns: tuple[str, ...]
    sink: str
    stats: QueryStats | None


@dataclass(frozen=True, slots=True)
class ChangeMade:
    """What was done, when (seconds since the epoch), to which query."""

    at_s: float
    what: str
    query: str


class Service:
    """One pipeline, asked by many. Queries that come in this way write below the run's output directory only, and to
    brokers that the program names, unless ``allows_any_sink``."""

    def __init__(self, run: ServedRun, log: EventLog | None = None, *, allows_any_sink: bool = False) -> None:
        self.run = run
        self._places = None if allows_any_sink else SinkPlaces(run.out, run.checkpoint)
        self.log = log or EventLog()
        self.timeline = Timeline()
        self.changes: deque[ChangeMade] = deque(maxlen=REMEMBERED)
        self.changes_made = 0
        self.closing = threading.Event()
        self.askers = ThreadPoolExecutor(ASKERS, "headrace-ask")
        self.readers = ThreadPoolExecutor(READERS, "headrace-read")
        self._latest = run.stats()
        self._looked_s = time.monotonic()
        self._looking = threading.Thread(target=self._look, name="headrace-look", daemon=True)

    def start(self) -> None:
        self._looking.start()

    def close(self) -> None:
        """Ends what streams; requests that are being answered still are."""
        self.closing.set()
        self._looking.join(10)

    def release(self) -> None:
        """Lets the threads go, once nobody asks any more."""
        self.askers.shutdown(wait=False)
        self.readers.shutdown(wait=False)

    def _look(self) -> None:
        while not self.closing.wait(LOOK_S):
            try:
                self.take_sample(time.time())
            except Exception as error:  # noqa: BLE001 - the next look may go well; meanwhile it is in the log
                self.log.write("look_failed", "error", message=repr(error))

    def take_sample(self, now_s: float) -> None:
        """Looks at the run and remembers."""
        self._latest = self.run.stats()
        self._looked_s = time.monotonic()
        self.timeline.add(now_s, self._latest)

    # --- what is asked

    @property
    def stats(self) -> RunStats:
        """As of the last look."""
        return self._latest

    @property
    def look_age_s(self) -> float:
        """How long ago that was."""
        return time.monotonic() - self._looked_s

    def check(self, sql: str) -> tuple[str, ...]:
        """Refuses a text that could not be added; the names of the queries that it would add."""
        names = self.run.check(sql)
        if self._places is not None:
            catalog, known = self.run.plan().catalog, self.run.queries
            there = (*known.running, *known.paused)
            new = [query for query in known.read(sql, catalog).queries if query not in there]
            self._places.check(new, there, catalog.streams, self.run.directories().values())
        return names

    def add(self, sql: str) -> tuple[str, ...]:
        """Adds a text's queries; their names."""
        try:
            names = self.check(sql)
        except SinkRefusedError as error:
            self.log.write("change_refused", "warning", what="add", query=error.query, message=str(error))
            raise
        dropped = self._dropped_by(sql)
        told = tuple((what, ", ".join(some)) for what, some in (("add", names), ("drop", dropped)) if some)
        self._change(told, lambda: self.run.add(sql))
        return names

    def _dropped_by(self, sql: str) -> tuple[str, ...]:
        """The queries that a text drops, and does not make anew."""
        known = self.run.queries
        left = {query.name.lower() for query in known.read(sql, self.run.plan().catalog).queries}
        return tuple(one.name for one in (*known.running, *known.paused) if one.name.lower() not in left)

    def drop(self, name: str) -> str:
        return self._change_one("drop", name, self.run.drop)

    def pause(self, name: str) -> str:
        return self._change_one("pause", name, self.run.pause)

    def resume(self, name: str) -> str:
        return self._change_one("resume", name, self.run.resume)

    def _change_one(self, what: str, name: str, make: Callable[[str], None]) -> str:
        """Changes a query; its name as it was written when it was made."""
        known = self._known(name).name
        self._change(((what, known),), lambda: make(known))
        return known

    def _change(self, told: Sequence[tuple[str, str]], make: Callable[[], None]) -> None:
        """Makes a change, which is ``told`` as (what, query)."""
        began = time.monotonic()
        try:
            make()
        except HeadraceError as error:
            for what, query in told:
                self.log.write("change_refused", "warning", what=what, query=query, message=_message(error))
            raise
        for what, query in told:
            self.changes_made += 1
            self.changes.append(ChangeMade(time.time(), what, query))
            self.log.write("query_changed", what=what, query=query, waited_ms=round((time.monotonic() - began) * 1000))

    def queries(self) -> list[ServedQuery]:
        known, stats = self.run.queries, {one.query: one for one in self.stats.queries}
        running = [_served(query, stats.get(query.name), is_paused=False) for query in known.running]
        return [*running, *(_served(query, None, is_paused=True) for query in known.paused)]

    def query(self, name: str) -> ServedQuery:
        for one in self.queries():
            if one.name.lower() == name.lower():
                return one
        raise UnknownQueryError(f"there is no query {name}")

    def has(self, name: str) -> bool:
        """Whether a query is there. One that is asked to go is until the last micro-batch with it is published, which
        the statistics tell."""
        known = self.run.queries
        names = (*(one.name for one in (*known.running, *known.paused)), *(one.query for one in self.stats.queries))
        return name in names

    def picture(self) -> PlanPicture:
        return picture_of(self.run.plan())

    def rows(self, name: str) -> PublishedRows:
        """Where the rows of a query are."""
        query = self._known(name)
        directory = self.run.directories().get(query.name)
        if directory is None:
            raise NoRowsError(
                f"query {query.name} writes to {_sink(query)}, not to files: its rows cannot be read back here"
            )
        return PublishedRows(directory, query.name, query.schema.find(QUERY_COLUMN) is not None)

    def settings(self) -> dict[str, str]:
        """The run's settings, as texts."""
        chosen = self.run.settings
        return {
            public: "" if (value := getattr(chosen, one.name)) is None else one.metadata["show"](value)
            for public, one in zip(Settings.names(), fields(Settings), strict=True)
        }

    def _known(self, name: str) -> Query:
        known = self.run.queries
        for query in (*known.running, *known.paused):
            if query.name.lower() == name.lower():
                return query
        raise UnknownQueryError(f"there is no query {name}")


def _served(query: Query, stats: QueryStats | None, *, is_paused: bool) -> ServedQuery:
    return ServedQuery(
        query.name, is_paused, query.text, tuple(str(column) for column in query.schema), _sink(query), stats
    )


def _sink(query: Query) -> str:
    return dict(query.into).get("connector", "parquet")


def _message(error: HeadraceError) -> str:
    return error.message if isinstance(error, SqlError) else str(error)


def told_error(error: HeadraceError) -> dict[str, Any]:
    """A refusal for a program: the message and, of SQL, the place and the hint."""
    told: dict[str, Any] = {"message": _message(error)}
    if isinstance(error, SqlError):
        place = error.place
        told |= {"hint": error.hint, "line": place.line, "column": place.column, "length": place.width}
    return told
