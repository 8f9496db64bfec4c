"""The one streaming query: pack -> shard -> route, for all registered queries.

      sources --mapInArrow: pack--> envelopes --groupBy(shard): transformWithState--> reports --foreachBatch--> sinks
      control --mapInArrow-------->

Owns: how the DataFrames are put together, and what happens with a micro-batch's reports (``Router``); everything else
is in the shard. Invariant: sources are in catalog order with the control stream last, so that offsets fit.
"""

from __future__ import annotations

import json
import logging
import pickle
import shutil
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import reduce
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf
from rich.console import Console
from rich.table import Table

from headrace.engine.events import EmitCount, EmitRows
from headrace.engine.histories import Points
from headrace.engine.packing import dead_letters_from
from headrace.engine.segments import pack_batch, unpack_batch
from headrace.model import QueryId, Schema
from headrace.plan.explain import window_text
from headrace.plan.sharing import SharedPlan
from headrace.plan.sinks import shared_sinks
from headrace.spark.allocation_keeper import AllocationKeeper
from headrace.spark.changes import Changes
from headrace.spark.checkpoint import GO_ON_MESSAGE, Checkpoint
from headrace.spark.combine import CombineHost, Sent, from_report
from headrace.spark.ddl import ddl
from headrace.spark.envelopes import DEAD, ENVELOPE_DDL, PANES, REACHED, REPORT_DDL, ROWS, STAGED, TOLD, Report
from headrace.spark.fresh_rows import without_stale
from headrace.spark.graph_keeper import GraphKeeper
from headrace.spark.joins import JoinKeeper
from headrace.spark.metrics import BatchFacts, RunMetrics, WithheldFacts
from headrace.spark.ordering import OrderingKeeper
from headrace.spark.orders import Work
from headrace.spark.outlets import Outlet, placed, unpacked, with_places, write_out
from headrace.spark.pacing import Pacer
from headrace.spark.pack import controller, packer
from headrace.spark.processor import ShardProcessor
from headrace.spark.query_set import write_down
from headrace.spark.staging import STAGING, StagedPart, StageWriter, batch_name, publish
from headrace.spark.step import HostOptions
from headrace.spark.withholding import Withholding

log = logging.getLogger("headrace.queries")

Callback = Callable[[str, DataFrame, int], object]
"""A sink in Python: (query, its rows of the micro-batch, the micro-batch's number)."""

DEAD_LETTERS_DIRECTORY = "_dead_letters"


def pipeline(work: Work, frames: Sequence[DataFrame], control: DataFrame, options: HostOptions) -> DataFrame:
    """The reports of all shards, as one streaming DataFrame."""
    first = pickle.dumps(work)
    packed = [
        frame.mapInArrow(packer(first, options.orders, stream, options.labels), ENVELOPE_DDL)
        for stream, frame in zip(work.plan.catalog.streams, frames, strict=True)
    ]
    packed.append(control.mapInArrow(controller(options.labels), ENVELOPE_DDL))
    envelopes = reduce(DataFrame.unionAll, packed)
    return envelopes.groupBy("shard").transformWithStateInPandas(
        statefulProcessor=ShardProcessor(work, options),
        outputStructType=REPORT_DDL,
        outputMode="append",
        timeMode="none",
    )


@dataclass(frozen=True, slots=True)
class Sinks:
    """Where each query's rows go; a query is in exactly one of these, or is only counted."""

    out: Path
    directories: dict[str, Path]
    consoles: dict[str, Schema]
    callbacks: dict[str, tuple[Schema, Callback]]
    console_rows: int
    outlets: dict[str, Outlet] = field(default_factory=dict)

    @property
    def called(self) -> frozenset[str]:
        """The queries whose rows come whole, to be read by Spark."""
        return frozenset((*self.callbacks, *self.outlets))

    def fitting(self, work: Work) -> frozenset[str]:
        """Of those, the queries that a micro-batch's plan has with the columns they have now. One that an earlier run
        began is done again by that run's plan: rows of a query that was changed since are not written."""
        schemas = {query: one.schema for query, one in self.outlets.items()}
        schemas |= {query: schema for query, (schema, _) in self.callbacks.items()}
        called = work.called & schemas.keys()
        planned = sinks_by_query(work.plan) if called else {}
        return frozenset(query for query in called if planned.get(QueryId(query)) == schemas[query])


class Router:
    """Brings a micro-batch's reports to the sinks, counts it, and gives the next one its orders. Called by Spark, once
    or (after a crash) again."""

    def __init__(
        self,
        sinks: Sinks,
        checkpoint: Checkpoint,
        metrics: RunMetrics,
        console: Console,
        pacer: Pacer,
        changes: Changes,
        work: Work,
        joins: JoinKeeper,
        graph: GraphKeeper,
        ordering: OrderingKeeper,
        trees: AllocationKeeper,
        compression: str,
    ) -> None:
        self._trees = trees
        self._graph = graph
        self._ordering = ordering
        self._combine = CombineHost(checkpoint.combined)
        self._compression = compression
        self._work = work
        self._joins = joins
        self._sinks = sinks
        self._checkpoint = checkpoint
        self._metrics = metrics
        self._console = console
        self._pacer = pacer
        self._changes = changes

    def __call__(self, reports: DataFrame, batch: int) -> None:
        began_s = time.time()
        is_read_again = bool(self._sinks.called)
        if is_read_again:
            reports = reports.persist()
        try:
            with self._changes.routing():
                self._route(reports, batch, began_s)
        finally:
            if is_read_again:
                reports.unpersist()

    def _route(self, reports: DataFrame, batch: int, began_s: float) -> None:
        shipped = sf.col("kind") == ROWS
        if self._sinks.called:
            kept_away = shipped & _for_any(self._sinks.called) & ~_for_any(self._sinks.consoles)
            rows = reports.where(~kept_away).collect()
        else:
            rows = reports.collect()
        work = self._checkpoint.orders.work(batch, pickle.dumps(self._work))
        told = tuple((row.shard, json.loads(row.detail)) for row in rows if row.kind == TOLD)
        withheld = Withholding(work.plan, told)
        combined = self._combined(batch, work, [from_report(row) for row in rows if row.kind in (PANES, REACHED)])
        staged = [
            (row.shard, StagedPart(row.detail, tuple(row.queries), row.rows)) for row in rows if row.kind == STAGED
        ]
        publish(batch, [*withheld.parts(staged), *combined.staged], self._sinks.directories)
        withheld.done(self._sinks.directories)
        self._keep_dead_letters(batch, [bytes(row.payload) for row in rows if row.kind == DEAD])
        fitting = self._sinks.fitting(work)
        for query in sorted((work.called & self._sinks.called) - fitting):
            log.warning("%s has other columns now: its rows of micro-batch %d are left out", query, batch)
        for query, (schema, callback) in self._sinks.callbacks.items():
            withheld.judge([query])
            is_fitting = query in fitting
            shipped = reports.where(_rows_of(query) if is_fitting else sf.lit(False))
            mine = shipped.mapInArrow(unpacked(withheld.released_us(query)), ddl(schema))
            callback(query, combined.added_to(mine, query) if is_fitting else mine, batch)
            withheld.done([query])
        self._write_out(reports, batch, withheld, combined, fitting)
        withheld.judge(work.plan.queries)
        withheld.done(work.plan.queries)
        self._print(batch, [*(row for row in rows if row.kind == ROWS), *combined.reports], withheld)
        shutil.rmtree(self._sinks.out / STAGING / batch_name(batch), ignore_errors=True)
        allowed = self._checkpoint.orders.probes(batch) or self._pacer.first_probes()
        published_s = time.time()
        stale = WithheldFacts(withheld.left_out(), withheld.late())
        facts = BatchFacts(batch, began_s, published_s, withheld.released(), allowed, combined.arrived, stale)
        self._metrics.add(facts)
        self._order_next(batch, facts)

    def _write_out(
        self, reports: DataFrame, batch: int, withheld: Withholding, combined: Combined, fitting: frozenset[str]
    ) -> None:
        """Lets Spark write the rows of those queries that have any."""
        withheld.judge(self._sinks.outlets)
        having = {query for _, one in withheld.released() for query in one["arrived"]} | combined.arrived.keys()

        def rows_of(outlet: Outlet) -> DataFrame:
            mine = reports.where(_rows_of(outlet.query))
            rows = mine.mapInArrow(placed(withheld.released_us(outlet.query)), outlet.placed_ddl())
            return combined.added_to(rows, outlet.query, are_placed=True)

        outlets = [one for query, one in self._sinks.outlets.items() if query in having & fitting]
        write_out(outlets, rows_of, batch, self._checkpoint.id[:8])
        withheld.done(self._sinks.outlets)

    def _combined(self, batch: int, work: Work, sent: list[Sent]) -> Combined:
        """The rows of groups that span shards, under the plan of this micro-batch."""
        points = Points(work.shard.reevaluate_us, work.shard.is_eager)
        staging = self._sinks.out / STAGING / batch_name(batch)
        shared = {query: sink for query, sink in shared_sinks(work.plan.sinks).items() if query in work.staged}
        writer = StageWriter(staging, len(self._checkpoint.labels), self._compression, shared)
        found = Combined(len(self._checkpoint.labels))
        for effect in self._combine.run(batch, work.plan, points, sent):
            found.add(effect, work, writer)
        found.staged = writer.close()
        return found

    def _order_next(self, batch: int, facts: BatchFacts) -> None:
        """What the next micro-batch may spend and which queries it has; and a reason for it, if work is waiting."""
        orders = self._checkpoint.orders
        if self._pacer.is_timed:
            slowest_us, left_us = self._trees.deferring(facts)
            probes = self._pacer.next_probes(facts.probes, facts.probes_allowed or 0, slowest_us, left_us)
            orders.give_probes(batch + 1, probes)
        if self._graph.learn(facts.graph(), facts.published_s):
            orders.give_facts(batch + 1, self._graph.given())
        self._metrics.tell_graph(self._graph.stats(is_throttled=facts.is_throttled))
        change = self._changes.take()
        is_other = self._joins.learn(facts)
        is_passing = self._ordering.learn(facts)
        if change is not None:
            self._work, is_other = change.work, True
            self._joins.adopt(change.work.plan)
            self._graph.adopt(change.work.plan)
            self._ordering.adopt(change.work.plan)
            self._trees.adopt(change.work.plan)
        if self._trees.learn(facts) or change is not None:
            orders.give_allowed(batch + 1, self._trees.allowed())
            self._metrics.tell_trees(self._trees.stats(), self._trees.take_moves())
        if is_other:
            orders.give_work(batch + 1, self._trees.applied(self._joins.applied(self._work)))
            self._metrics.tell_orders(self._joins.orders(), self._joins.take_switches())
        if change is not None:
            write_down(self._checkpoint.changes, change.records)
            self._sinks = change.prepared
            self._metrics.change(change.work.plan.queries, windows_of(change.work.plan))
            change.fate.end(is_made=True)
        if facts.told:
            orders.give_sources(batch + 1, facts.known())
        if is_passing or change is not None:
            orders.give_ordering(batch + 1, self._ordering.chosen)
        self._metrics.tell_ordering(self._ordering.stats(), self._ordering.take_switches())
        if facts.is_behind or is_passing:
            self._checkpoint.say(GO_ON_MESSAGE)
        orders.forget_before(batch)

    def _keep_dead_letters(self, batch: int, payloads: Iterable[bytes]) -> None:
        """One file of JSON lines a micro-batch, renamed into place."""
        lines = [line for payload in payloads for line in dead_letters_from(unpack_batch(payload))]
        if not lines:
            return
        directory = self._sinks.out / DEAD_LETTERS_DIRECTORY
        directory.mkdir(parents=True, exist_ok=True)
        name = f"{self._checkpoint.id[:8]}-{batch_name(batch)}"
        aside = directory / f".{name}"
        aside.write_text("".join(f"{line}\n" for line in lines))
        aside.rename(directory / f"{name}.jsonl")

    def _print(self, batch: int, rows: Sequence[Any], withheld: Withholding) -> None:
        for query, schema in self._sinks.consoles.items():
            mine = [row for row in rows if query in row.queries]
            total, released_us = sum(row.rows for row in mine) - withheld.stale_rows(query), withheld.released_us(query)
            if not total:
                continue
            table = Table(*schema.names, title=f"{query}: {total} rows in micro-batch {batch}", title_justify="left")
            batches = [without_stale(unpack_batch(bytes(row.payload)), released_us) for row in mine]
            shown = [one for batch in batches for one in batch.to_pylist()]
            for one in shown[: self._sinks.console_rows]:
                table.add_row(*(str(value) for value in one.values()))
            self._console.print(table)


@dataclass(slots=True)
class Combined:
    """What the second stage gave in a micro-batch, on its way to the sinks; it counts as one more shard."""

    shard: int
    staged: list[StagedPart] = field(default_factory=list)
    reports: list[Report] = field(default_factory=list)
    arrived: dict[str, list[tuple[int, int]]] = field(default_factory=dict)
    _called: dict[str, list[pa.RecordBatch]] = field(default_factory=dict)

    def add(self, effect: EmitRows | EmitCount, work: Work, writer: StageWriter) -> None:
        for query in effect.queries:
            self.arrived.setdefault(query, []).extend(effect.arrived)
        if isinstance(effect, EmitCount):
            return
        if any(query in work.staged for query in effect.queries):
            writer.write(effect)
        shipped = tuple(query for query in effect.queries if query not in work.staged)
        for called in work.called.intersection(shipped):
            self._called.setdefault(called, []).append(effect.batch)
        if shipped:
            payload = pack_batch(effect.batch).to_pybytes()
            self.reports.append(Report(ROWS, writer.shard, shipped, effect.batch.num_rows, "", payload))

    def added_to(self, rows: DataFrame, query: str, *, are_placed: bool = False) -> DataFrame:
        """Rows that Spark reads, with those of the second stage."""
        if query not in self._called:
            return rows
        seen: dict[int, int] = {}
        mine = [with_places(one, self.shard, seen) if are_placed else one for one in self._called[query]]
        return rows.unionAll(rows.sparkSession.createDataFrame(pa.Table.from_batches(mine)))


def _for_any(queries: Iterable[str]) -> Column:
    """Whether a report is for one of these queries."""
    return sf.arrays_overlap("queries", sf.array(*map(sf.lit, [*queries, ""])))


def _rows_of(query: str) -> Column:
    """Whether a report has rows of this query."""
    return (sf.col("kind") == ROWS) & sf.array_contains("queries", query)


def windows_of(plan: SharedPlan) -> dict[str, tuple[str, ...]]:
    """Each join group's windows as texts, from the smallest."""
    joins = [group for group in plan.groups if group.is_join]
    return {one.signature: tuple(window_text(one.measures, sizes) for sizes in one.windows) for one in joins}


def sinks_by_query(plan: SharedPlan) -> dict[QueryId, Schema]:
    """Each query's output columns."""
    classes = [cls for group in plan.groups for cls in group.classes]
    schemas = {member.query: cls.schema for cls in classes for member in cls.members if cls.folding is None}
    finals = [final for cls in classes if cls.folding is not None for final in cls.folding.finals]
    return schemas | {query: final.schema for final in finals for query in final.queries}
