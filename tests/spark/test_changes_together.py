"""Changes that several ask for: joined, made by the end of a micro-batch, or taken back."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from headrace.errors import HeadraceError, PlanError
from headrace.spark import changes as changes_module
from headrace.spark.changes import Change, Changes
from headrace.spark.query_set import QuerySet
from headrace.sql import read_script

SCRIPT = read_script(
    "CREATE STREAM t (k BIGINT, ts TIMESTAMP) WITH (connector = 'generator', time = 'ts');"
    "CREATE QUERY q AS SELECT k FROM t"
)


class Place:
    """A run's changes, without the run."""

    def __init__(self) -> None:
        self.changes = Changes(QuerySet(SCRIPT.queries))
        self.woken = 0
        self.is_over = False

    def _wake(self) -> None:
        self.woken += 1

    def ask(self, name: str) -> None:
        record = {"add": f"CREATE QUERY {name} AS SELECT k FROM t"}
        self.changes.ask(lambda queries: self._prepared(queries, record), self._wake, lambda: self.is_over)

    def _prepared(self, queries: QuerySet, record: dict[str, str]) -> Change:
        return Change(queries.after(record, SCRIPT.catalog), [record], None, None)  # type: ignore[arg-type]

    def wait_for(self, is_so: Callable[[], bool]) -> None:
        pause = threading.Event()
        for _ in range(1000):
            if is_so():
                return
            pause.wait(0.01)
        raise AssertionError


def test_what_is_asked_before_the_end_of_a_micro_batch_is_made_together() -> None:
    place = Place()
    with ThreadPoolExecutor(5) as askers:
        asked = [askers.submit(place.ask, f"g{number}") for number in range(5)]
        place.wait_for(lambda: len(place.changes.wanted.running) == 6)
        change = place.changes.take()
        assert change is not None
        assert len(change.records) == 5
        assert len(change.queries.running) == 6
        assert not any(one.done() for one in asked)
        change.fate.end(is_made=True)
        for one in asked:
            one.result(5)
    assert place.woken == 1
    assert place.changes.take() is None


def test_a_mistake_is_its_askers_alone() -> None:
    place = Place()
    with ThreadPoolExecutor(1) as askers:
        good = askers.submit(place.ask, "g")
        place.wait_for(lambda: len(place.changes.wanted.running) == 2)
        with pytest.raises(HeadraceError, match="there is a query g already"):
            place.ask("g")
        change = place.changes.take()
        assert change is not None
        change.fate.end(is_made=True)
        good.result(5)
    assert len(place.changes.wanted.running) == 2


def test_all_who_wait_in_vain_are_told_and_the_queries_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changes_module, "PATIENCE_S", 0.1)
    place = Place()
    with ThreadPoolExecutor(2) as askers:
        asked = [askers.submit(place.ask, f"g{number}") for number in range(2)]
        for one in asked:
            with pytest.raises(HeadraceError, match="the queries stay as they were"):
                one.result(10)
    assert len(place.changes.wanted.running) == 1
    assert place.changes.take() is None


def test_who_waits_for_a_change_that_was_begun_when_the_run_ended_is_told() -> None:
    place = Place()
    with ThreadPoolExecutor(1) as askers:
        asked = askers.submit(place.ask, "g")
        place.wait_for(lambda: len(place.changes.wanted.running) == 2)
        assert place.changes.take() is not None
        place.is_over = True
        with pytest.raises(HeadraceError, match="no micro-batch came to an end"):
            asked.result(10)


def test_a_callback_cannot_wait_for_itself() -> None:
    place = Place()
    with place.changes.routing(), pytest.raises(PlanError, match="from inside a callback"):
        place.ask("g")
