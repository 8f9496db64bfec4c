"""The queries of a run, which may change while it goes on."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.config import Settings
from headrace.errors import PlanError
from headrace.plan.explain import explain
from headrace.plan.graph_drawing import draw_graph
from headrace.plan.joinplans import check_method
from headrace.plan.shard_graph import running_graph, scheduled_graph
from headrace.plan.sharing import SharedPlan
from headrace.plan.tree_plans import check_trees
from headrace.spark.allocation_keeper import AllocationKeeper
from headrace.spark.changes import Change, Changes
from headrace.spark.checkpoint import GO_ON_MESSAGE, Checkpoint
from headrace.spark.grain import note_grain
from headrace.spark.graph_keeper import GraphKeeper
from headrace.spark.joins import JoinKeeper
from headrace.spark.ordering import OrderingKeeper
from headrace.spark.outlets import make_ready
from headrace.spark.query_set import QuerySet, Record, recorded
from headrace.spark.staging import claim

if TYPE_CHECKING:
    from headrace.spark.session import Engine


class LiveQueries:
    """Makes changes: plans the new set, makes its sinks ready, and hands it to the next micro-batch."""

    def __init__(
        self,
        engine: Engine,
        checkpoint: Checkpoint,
        out: Path,
        changes: Changes,
        joins: JoinKeeper,
        graph: GraphKeeper,
        ordering: OrderingKeeper,
        trees: AllocationKeeper,
    ) -> None:
        self._ordering = ordering
        self._trees = trees
        self._joins = joins
        self._graph = graph
        self._engine = engine
        self._checkpoint = checkpoint
        self._out = out
        self._changes = changes
        self.is_over: Callable[[], bool] = lambda: False

    def make(self, record: Record) -> None:
        """Does what a record says; returns when the next micro-batch will have it."""
        self._changes.ask(
            prepare=lambda queries: self._prepared(queries, record),
            wake=lambda: self._checkpoint.say(GO_ON_MESSAGE),
            is_over=self.is_over,
        )

    @property
    def queries(self) -> QuerySet:
        """As they are, or will be in a moment."""
        return self._changes.wanted

    @property
    def has_groups(self) -> bool:
        """Whether any query has aggregates: their last values are given when the streams end, whatever waits."""
        return any(query.grouping is not None for query in self.queries.running)

    def wake(self, now_s: float) -> None:
        """Has a micro-batch come without input, where a silent source is not to be waited for any longer."""
        if self._ordering.wakes(now_s):
            self._checkpoint.say(GO_ON_MESSAGE)

    def check(self, text: str) -> tuple[str, ...]:
        """Refuses what could not be added; the names of the queries that a text would add. Nothing changes."""
        after = self.queries.after({"add": text}, self._engine.catalog)
        plan = self._engine.plan_of(after.running)
        check_method(plan, self._engine.settings)
        check_trees(plan, self._engine.settings)
        return tuple(query.name for query in after.running if query not in self.queries.running)

    @property
    def settings(self) -> Settings:
        return self._engine.settings

    def plan(self) -> SharedPlan:
        return self._engine.plan_of(self.queries.running)

    @property
    def out(self) -> Path:
        """Where queries without INTO write."""
        return self._out

    def directories(self) -> dict[str, Path]:
        """Where each query's rows are written, of those whose rows are in files; paused ones too."""
        plan = self._engine.plan_of((*self.queries.running, *self.queries.paused))
        return self._engine.sinks(plan, self._out).directories

    def explain(self, text: str | None = None) -> str:
        """The plan; or what it would be with a text's queries, as far as they have to do with it."""
        if text is None:
            plan, shown = self.plan(), None
        else:
            script = self.queries.read(text, self._engine.catalog)
            known = self.queries.running
            new = tuple(one for one in script.queries if one not in known and one not in self.queries.paused)
            asked = (*new, *script.explained_queries)
            if not asked and not script.explained:
                raise PlanError("there is no query to explain: write CREATE QUERY name AS SELECT ...")
            plan = self._engine.plan_of((*(one for one in script.queries if one in known), *asked))
            shown = (*script.explained, *(one.name for one in asked))
        check_method(plan, self._engine.settings)
        joins = self._joins
        return explain(
            plan,
            self._engine.settings,
            shown,
            joins=joins.joins,
            grids=joins.known,
            facts=self._graph.facts(),
            ordering=self._ordering.stats(),
            trees=self._trees.plans(),
        )

    def draw(self, query: str | None = None) -> str:
        """The operators, with what was measured of them, as SVG; or the tree that a query's join runs by, with its
        allocation."""
        if query is None:
            plan = self.plan()
            return draw_graph(running_graph(plan), self._graph.facts(), scheduled_graph(plan))
        for group in self.plan().groups:
            names = {member.query.lower() for cls in group.classes for member in cls.members}
            drawn = self._trees.picture(group.signature) if query.lower() in names else None
            if drawn is not None:
                return drawn
        raise PlanError(
            f"query {query} runs by no tree: ON OVERLOAD ADAPT asks for one, or SET plan for three streams or more, "
            "from the next micro-batch on"
        )

    def _prepared(self, queries: QuerySet, record: Record) -> Change:
        after = queries.after(record, self._engine.catalog)
        plan = self._engine.plan_of(after.running)
        check_method(plan, self._engine.settings)
        check_trees(plan, self._engine.settings)
        sinks = self._engine.sinks(plan, self._out)
        there = {query.name for query in after.running if query in queries.running}
        for one in {path for query, path in sinks.directories.items() if query not in there}:
            claim(one, self._checkpoint.id)
        new = [one for query, one in sinks.outlets.items() if query not in there]
        make_ready(self._engine.spark, new, self._checkpoint.directory)
        note_grain(self._checkpoint.evaluation, plan, self._engine.settings)
        return Change(after, recorded(record, queries, after), self._engine.work(plan, sinks), sinks)
