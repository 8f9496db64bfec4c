"""The queries of a run, which may change while it goes on."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.plan.explain import explain
from headrace.plan.joinplans import check_method
from headrace.plan.queries import Query
from headrace.spark.changes import Change, Changes, added, without
from headrace.spark.checkpoint import GO_ON_MESSAGE, Checkpoint
from headrace.spark.graph_keeper import GraphKeeper
from headrace.spark.joins import JoinKeeper
from headrace.spark.ordering import OrderingKeeper
from headrace.spark.staging import claim

if TYPE_CHECKING:
    from headrace.spark.session import Engine


class LiveQueries:
    """Adds and drops: plans the new set, makes its sinks ready, and hands it to the next micro-batch."""

    def __init__(
        self,
        engine: Engine,
        checkpoint: Checkpoint,
        queries: tuple[Query, ...],
        out: Path,
        changes: Changes,
        joins: JoinKeeper,
        graph: GraphKeeper,
        ordering: OrderingKeeper,
    ) -> None:
        self._ordering = ordering
        self._joins = joins
        self._graph = graph
        self._engine = engine
        self._checkpoint = checkpoint
        self._queries = queries
        self._out = out
        self._changes = changes
        self.is_over: Callable[[], bool] = lambda: False

    def add(self, text: str) -> None:
        self._ask(lambda: added(text, self._engine.catalog, self._queries), {"add": text})

    def drop(self, name: str) -> None:
        self._ask(lambda: without(name, self._queries), {"drop": name})

    def make(self, record: dict[str, str]) -> None:
        """What another program asked for."""
        if "add" in record:
            self.add(record["add"])
        else:
            self.drop(record["drop"])

    @property
    def has_groups(self) -> bool:
        """Whether any query has aggregates: their last values are given when the streams end, whatever waits."""
        return any(query.grouping is not None for query in self._queries)

    def explain(self) -> str:
        plan, joins = self._engine.plan_of(self._queries), self._joins
        told = {"joins": joins.joins, "grids": joins.known, "facts": self._graph.facts()}
        return explain(plan, self._engine.settings, **told, ordering=self._ordering.stats())  # type: ignore[arg-type]

    def wake(self, now_s: float) -> None:
        """Has a micro-batch come without input, where a silent source is not to be waited for any longer."""
        if self._ordering.wakes(now_s):
            self._checkpoint.say(GO_ON_MESSAGE)

    def _ask(self, wanted: Callable[[], tuple[Query, ...]], record: dict[str, str]) -> None:
        self._changes.ask(
            prepare=lambda: self._prepared(wanted(), record),
            wake=lambda: self._checkpoint.say(GO_ON_MESSAGE),
            adopt=self._adopt,
            is_over=self.is_over,
        )

    def _adopt(self, change: Change) -> None:
        self._queries = change.queries

    def _prepared(self, queries: tuple[Query, ...], record: dict[str, str]) -> Change:
        plan = self._engine.plan_of(queries)
        check_method(plan, self._engine.settings)
        sinks = self._engine.sinks(plan, self._out)
        for one in set(sinks.directories.values()):
            claim(one, self._checkpoint.id)
        return Change(queries, record, self._engine.work(plan, sinks), sinks)
