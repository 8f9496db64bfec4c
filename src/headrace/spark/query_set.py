"""The queries of a run, and what may be done to them while it goes on: add, drop, pause, resume.

      program's queries --add, drop, pause, resume--> QuerySet        asked for live, written down as records
      program's queries --records of earlier runs---> QuerySet        replayed by the next run on the checkpoint

Owns :class:`QuerySet` and the records. A paused query is in no plan: it costs nothing and gives nothing, and when it is
resumed it begins as a new one does, with the tuples held then. Invariants: names are unique among those that run and
those that are paused; at least one runs. Cost of a record: the records there are, which are no more than the queries
they are about, because an add and a later drop of what it added leave none.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

from headrace.errors import HeadraceError, PlanError, SqlError
from headrace.model import Catalog
from headrace.plan.queries import Query
from headrace.sql import Script, read_script

Record: TypeAlias = dict[str, Any]
"""``{"add": text}``, ``{"drop": name}``, ``{"pause": name}`` or ``{"resume": name}``; an add of one query and nothing
else has its name in ``"query"``."""

log = logging.getLogger("headrace.queries")

WORDS = ("add", "drop", "pause", "resume")
_UNDOING = (("add", "drop"), ("pause", "resume"))
"""Two things done to a query, one after the other, that are as if neither had been."""


@dataclass(frozen=True, slots=True)
class QuerySet:
    """The queries that run, and those that are paused."""

    running: tuple[Query, ...]
    paused: tuple[Query, ...] = ()

    def after(self, record: Record, catalog: Catalog) -> QuerySet:
        """What a record makes of it; refused with what to do instead."""
        found = self.changed(record, catalog)
        if not found.running:
            left = f"{self.running[0].name} is the only query that runs" if len(self.running) == 1 else "none would run"
            raise PlanError(f"{left}: stop the run instead")
        return found

    def changed(self, record: Record, catalog: Catalog) -> QuerySet:
        """The same, but maybe without any query that runs: more records may be to come."""
        if "add" in record:
            return self._with_text(record["add"], catalog)
        if "drop" in record:
            return self._without(record["drop"])
        return self._with_paused(record["pause"]) if "pause" in record else self._with_resumed(record["resume"])

    def read(self, text: str, catalog: Catalog) -> Script:
        """A text as statements over these queries; it may only create and drop queries."""
        script = read_script(text, catalog, (*self.running, *self.paused))
        if script.catalog != catalog:
            raise PlanError("streams cannot be declared while running: stop, add the stream, and use a new checkpoint")
        if script.settings:
            raise PlanError(
                f"setting {script.settings[0][0]} cannot change while running: stop, and start again with it"
            )
        return script

    def _with_text(self, text: str, catalog: Catalog) -> QuerySet:
        """With the queries of a text; a paused one that it drops is gone."""
        script = self.read(text, catalog)
        if script.queries == (*self.running, *self.paused):
            raise PlanError("there is no query to add: write CREATE QUERY name AS SELECT ...")
        paused = tuple(query for query in self.paused if any(query is one for one in script.queries))
        running = tuple(query for query in script.queries if not any(query is one for one in paused))
        return QuerySet(running, paused)

    def _without(self, name: str) -> QuerySet:
        query = self._known(name)
        running, paused = (tuple(one for one in some if one is not query) for some in (self.running, self.paused))
        return QuerySet(running, paused)

    def _with_paused(self, name: str) -> QuerySet:
        query = self._known(name)
        if query in self.paused:
            raise PlanError(f"query {query.name} is paused already")
        return QuerySet(tuple(one for one in self.running if one is not query), (*self.paused, query))

    def _with_resumed(self, name: str) -> QuerySet:
        query = self._known(name)
        if query in self.running:
            raise PlanError(f"query {query.name} is not paused")
        return replace(
            self, running=(*self.running, query), paused=tuple(one for one in self.paused if one is not query)
        )

    def _known(self, name: str) -> Query:
        everything = (*self.running, *self.paused)
        found = next((query for query in everything if query.name.lower() == name.lower()), None)
        if found is None:
            raise PlanError(f"there is no query {name}: the queries are {', '.join(one.name for one in everything)}")
        return found


def recorded(record: Record, before: QuerySet, after: QuerySet) -> list[Record]:
    """What is written down of a record: a text that only adds is an add for each of its queries, so that each holds,
    is undone, or holds no longer by itself; another text stays as it is."""
    new = [query for query in after.running if query not in before.running]
    is_all = (*before.running, *new) == after.running and before.paused == after.paused
    if "add" not in record or not is_all:
        return [record]
    return [{"add": query.text, "query": query.name} for query in new]


# --- what was changed, for the next run


def write_down(file: Path, records: list[Record]) -> None:
    """Adds to the records: each on a line of its own, also after one that a crash cut off. What is undone goes."""
    there = list(_records(file))
    left = undone([*there, *records])
    if left == [*there, *records]:
        with file.open("a", encoding="utf-8") as lines:
            lines.write("".join(f"\n{json.dumps(record)}\n" for record in records))
    else:
        _replace(file, left)


def _replace(file: Path, records: list[Record]) -> None:
    aside = file.with_name(f".{file.name}")
    aside.write_text("".join(f"{json.dumps(record)}\n" for record in records), encoding="utf-8")
    aside.rename(file)


def undone(records: list[Record]) -> list[Record]:
    """The records without those that later ones undo, and without these.

    >>> undone([{"add": "CREATE ...", "query": "q"}, {"pause": "q"}, {"drop": "other"}, {"drop": "q"}])
    [{'drop': 'other'}]
    """
    left: list[Record] = []
    for record in records:
        word, name = _about(record)
        place = _last_about(left, name)
        if place is not None and word == "drop" and _about(left[place])[0] == "pause":
            del left[place]
            place = _last_about(left, name)
        if place is not None and (_about(left[place])[0], word) in _UNDOING:
            del left[place]
        else:
            left.append(record)
    return left


def _about(record: Record) -> tuple[str, str]:
    """What is done, and to which query ("" if that is not one alone)."""
    word = next(one for one in WORDS if one in record)
    return word, str(record.get("query", "") if word == "add" else record[word]).lower()


def _last_about(records: list[Record], name: str) -> int | None:
    """The place of the last record that is about a query; None also where a text did more than add one, since."""
    for place in range(len(records) - 1, -1, -1):
        _, other = _about(records[place])
        if other == name and name:
            return place
        if not other:
            return None
    return None


def replayed(file: Path, catalog: Catalog, queries: tuple[Query, ...]) -> QuerySet:
    """A program's queries with what was changed in earlier runs, as far as that is still possible: a query that the
    program has by now is the program's. Records that hold no longer are put aside, and said.

    What ran in between may have left no record (a query that was added, and dropped when another had come), so that at
    times nothing runs here; only in the end something must."""
    records = list(_records(file))
    found, lost = _redone(records, lambda before, record: before.changed(record, catalog), queries)
    if not found.running:
        found, lost = _redone(records, lambda before, record: before.after(record, catalog), queries)
    for place, error in lost.items():
        _put_aside(file, records[place], error)
    if lost:
        _replace(file, [record for place, record in enumerate(records) if place not in lost])
    return found


def _redone(
    records: list[Record], make: Callable[[QuerySet, Record], QuerySet], queries: tuple[Query, ...]
) -> tuple[QuerySet, dict[int, HeadraceError]]:
    """What records make of some queries, and the places of those that are refused, with the reason."""
    found = QuerySet(queries)
    lost: dict[int, HeadraceError] = {}
    for place, record in enumerate(records):
        try:
            found = make(found, record)
        except HeadraceError as error:
            lost[place] = error
    return found, lost


def _put_aside(file: Path, record: Record, error: HeadraceError) -> None:
    """Keeps a record that is not possible any more, with the reason, where it can be looked up."""
    reason = error.message if isinstance(error, SqlError) else str(error)
    aside = file.with_name(f"{file.stem}.aside{file.suffix}")
    with aside.open("a", encoding="utf-8") as lines:
        lines.write(f"{json.dumps({**record, 'reason': reason})}\n")
    word, name = _about(record)
    log.warning("what was changed live is not possible any more (%s %s): %s; it is in %s", word, name, reason, aside)


def _records(file: Path) -> Iterator[Record]:
    """What is in a file, but for what a crash cut off."""
    for line in file.read_text(encoding="utf-8").splitlines() if file.exists() else ():
        with suppress(json.JSONDecodeError):
            record = json.loads(line)
            if isinstance(record, dict) and any(word in record for word in WORDS):
                yield record
