"""The public way in: :class:`Engine` takes streams and SQL, ``start`` gives a :class:`Run`.

    engine = Engine(spark)
    engine.stream("clicks", clicks_df, time="ts")
    engine.sql("CREATE QUERY pairs AS SELECT ... FROM clicks a, views b WHERE a.user = b.user WINDOW 10 SECONDS")
    run = engine.start(out="results")
    run.stats(); run.explain(); run.stop()

Owns: settings in their order of strength, the Spark session's configuration, and the life of the streaming query.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery
from pyspark.sql.types import StructType
from rich.console import Console

from headrace.config import Settings, from_environment, parse_duration
from headrace.engine.arrow_types import data_type
from headrace.engine.cutting import BlockCut
from headrace.engine.dispatching import Scheduling
from headrace.engine.output import Cut
from headrace.engine.shard import ShardOptions
from headrace.errors import PlanError, SettingError, SourceError, query_parts, setting_parts, stream_parts
from headrace.model import Catalog, Column, QueryId, Schema, Stream, StreamId, format_duration
from headrace.plan.approaches import check_ordering
from headrace.plan.explain import explain
from headrace.plan.joinplans import check_method
from headrace.plan.queries import Query
from headrace.plan.sharing import Delivery, SharedPlan, delivery_of
from headrace.plan.sinks import sink_of, with_shared_sink
from headrace.plan.tree_plans import check_kept_trees, check_plan_is_used, check_trees, shared_by
from headrace.spark import local
from headrace.spark.allocation_keeper import AllocationKeeper
from headrace.spark.cache import SegmentCache, cache_root
from headrace.spark.changes import Changes
from headrace.spark.checkpoint import Checkpoint, has_begun, open_checkpoint
from headrace.spark.formats import ENDLESS
from headrace.spark.grain import check_grain, note_grain
from headrace.spark.graph_keeper import GraphKeeper
from headrace.spark.joins import JoinKeeper, read_grids
from headrace.spark.kafka import with_partitions
from headrace.spark.labels import shard_labels
from headrace.spark.live import LiveQueries
from headrace.spark.metrics import RunMetrics
from headrace.spark.ordering import OrderingKeeper
from headrace.spark.orders import Work
from headrace.spark.outlets import CONNECTORS, make_ready, of_queries
from headrace.spark.pacing import Pacer
from headrace.spark.packages import formats_of, jars_conf
from headrace.spark.pipeline import Callback, Router, Sinks, pipeline, sinks_by_query, windows_of
from headrace.spark.progress import Progress
from headrace.spark.query_set import replayed
from headrace.spark.run import Run
from headrace.spark.sources import check_files, check_path, source_frame
from headrace.spark.staging import BATCH_COLUMN, STAGING, check_writable, claim
from headrace.spark.step import HostOptions
from headrace.spark.warmup import WORKER_CONF, warm_up
from headrace.sql import Places, Script, read_script

__all__ = ["Engine", "Run"]

_QUERY_CONF = {
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    "spark.sql.streaming.noDataMicroBatches.enabled": "false",
    "spark.sql.streaming.minBatchesToRetain": "10",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "200000",
    **WORKER_CONF,
}
"""What the streaming query needs of Spark; put in place while it starts, then restored."""


class Engine:
    """Streams and queries, ready to be started as one Spark streaming query."""

    def __init__(self, spark: SparkSession | None = None, settings: Settings | None = None) -> None:
        self._spark = spark
        self._settings = settings if settings is not None else from_environment()
        self._catalog = Catalog()
        self._queries: tuple[Query, ...] = ()
        self._places = Places()
        self._frames: dict[StreamId, DataFrame] = {}
        self._callbacks: dict[str, Callback] = {}

    @property
    def spark(self) -> SparkSession:
        """The session; a local one is made when none was given."""
        if self._spark is None:
            self.open_session()
        assert self._spark is not None
        return self._spark

    def open_session(self, log: Path | None = None) -> None:
        """Makes a session to run on, with the jars that the program's connectors need; ``log`` gets what Spark
        prints."""
        with self._places.pointing():
            conf = jars_conf(self._settings, formats_of(self._catalog, self._queries))
        self._spark = local.local_session(log, master=self._settings.master, conf=conf)

    def use(self, spark: SparkSession) -> None:
        """The session to run on, when it was not given at first."""
        self._spark = spark

    @property
    def settings(self) -> Settings:
        return self._settings

    @property
    def catalog(self) -> Catalog:
        return self._catalog

    def set(self, name: str, value: str) -> None:
        """Changes a setting, as SET does."""
        self._settings = self._settings.with_text(name, value)
        self._places = self._places.without(setting_parts(name.lower()))

    def check(self, out: str | Path | None, checkpoint: str | Path | None = None) -> None:
        """Refuses what could not run, before Spark is started: no query, unreadable sources, unwritable outputs. Where
        a run goes on, files are taken as they are while it runs."""
        if not self._queries:
            raise PlanError("there is no query to run: write CREATE QUERY name AS SELECT ...")
        with self._places.pointing():
            _check_settings(self._settings)
        goes_on = out is not None and has_begun(self._checkpoint_directory(Path(out), checkpoint))
        for stream in self._catalog.streams:
            check_path(stream)
            if not goes_on:
                check_files(stream)
        plan = self._fitting_plan()
        if out is not None:
            with self._places.pointing():
                sinks = self.sinks(plan, Path(out))
            for one in {sinks.out, *(path.parent for path in sinks.directories.values())}:
                check_writable(one)
            check_writable(self._checkpoint_directory(Path(out), checkpoint), "--checkpoint")

    def stream(
        self,
        name: str,
        df: DataFrame,
        *,
        time: str,
        max_delay: str = "0 seconds",
        idle_timeout: str | None = None,
        partition: str | None = None,
        partitions: int | None = None,
    ) -> None:
        """Registers any streaming DataFrame as a stream; ``time`` is its event-time column, ``partition`` the column
        that tells its sources apart, which may lag each other."""
        if not df.isStreaming:
            raise SourceError(f"stream {name} is not a streaming DataFrame: make it with spark.readStream")
        schema = _schema_of(name, df.schema)
        options = (("connector", "dataframe"),)
        idle_us = None if idle_timeout is None else parse_duration(idle_timeout)
        parted = (idle_us, partition, partitions)
        stream = Stream(StreamId(name), schema, time, parse_duration(max_delay), options, *parted)
        self._catalog = self._catalog.with_stream(stream)
        self._frames[stream.name] = df

    def sql(self, text: str) -> Script:
        """Takes statements; what they declare is added to what is there."""
        script = read_script(text, self._catalog, self._queries)
        self._catalog, self._queries = script.catalog, script.queries
        for name, value in script.settings:
            self.set(name, value)
        self._places = self._places.with_later(script.places)
        return script

    def sink(self, query: str, callback: Callback) -> None:
        """Sends a query's rows to a function ``(query, DataFrame, batch)``, called for every micro-batch."""
        if query not in {one.name for one in self._queries}:
            raise PlanError(f"there is no query {query} to send to a callback")
        self._callbacks[query] = callback

    def plan(self) -> SharedPlan:
        with self._places.pointing():
            return self.plan_of(self._queries)

    def _fitting_plan(self) -> SharedPlan:
        """The plan, refused if the settings do not fit it."""
        plan = self.plan()
        with self._places.pointing():
            check_method(plan, self._settings)
            check_trees(plan, self._settings)
        return plan

    def plan_of(self, queries: Sequence[Query]) -> SharedPlan:
        """The plan of these queries; those without INTO go to the shared sink, if one is set."""
        written = with_shared_sink(queries, self._settings.shared_sink, self._callbacks)
        return shared_by(self._catalog, written, self._settings)

    def explain(self, queries: Sequence[QueryId] | None = None) -> str:
        """The shared plan as text."""
        plan = self._fitting_plan()
        with self._places.pointing():
            check_plan_is_used(plan, self._settings)
            check_ordering((one.name for one in self._queries), self._settings)
        return explain(plan, self._settings, queries)

    def start(
        self,
        out: str | Path | None = None,
        *,
        checkpoint: str | Path | None = None,
        once: bool = False,
        forget_changes: bool = False,
        console: Console | None = None,
    ) -> Run:
        """Starts everything as one streaming query. ``once``: takes the input there is, releases all, and stops.
        ``forget_changes``: queries that were added or dropped live in earlier runs are as this program has them."""
        settings = self._settings
        with self._places.pointing():
            if once:
                _check_ends(self._catalog)
            directory = _output_directory(out, self.plan(), self._callbacks)
        self.check(directory, checkpoint)
        where = self._checkpoint_directory(directory, checkpoint)
        opened = open_checkpoint(where, self._catalog.streams, shard_labels(settings.shards))
        with ExitStack() as leaving:  # nothing but results and the checkpoint stays behind, also if it cannot start
            leaving.callback(os.close, opened.hold())
            leaving.callback(self._cache(opened).clear)
            if forget_changes:
                opened.changes.unlink(missing_ok=True)
            self._catalog = with_partitions(self.spark, self._catalog)
            queries = replayed(opened.changes, self._catalog, self._queries)
            console = console or Console()
            if queries.running != self._queries:
                console.print(
                    "queries added, dropped or paused live before are as they were then (--forget-changes: not)"
                )
            _clear(opened.requests)
            changed = query_parts(*(one.name for one in queries.running if one not in self._queries))
            with self._places.without(changed).pointing():
                plan = self.plan_of(queries.running)
                check_plan_is_used(plan, settings)
                check_ordering((one.name for one in (*self._queries, *queries.running)), settings)
                check_kept_trees(plan, read_grids(opened.grids))
                check_grain(opened.evaluation, plan, settings)
                sinks = self.sinks(plan, directory)
            leaving.callback(shutil.rmtree, sinks.out / STAGING, ignore_errors=True)
            for one in set(sinks.directories.values()):
                claim(one, opened.id)
            make_ready(self.spark, sinks.outlets.values(), opened.directory)
            warm_up(self.spark, min(settings.shards, self.spark.sparkContext.defaultParallelism))
            names = tuple(stream.name for stream in self._catalog.streams)
            metrics = RunMetrics(plan.queries, names, windows_of(plan), settings.shards, time.time())
            changes = Changes(queries)
            joins = JoinKeeper(settings, opened.grids)
            joins.adopt(plan)
            metrics.tell_orders(joins.orders(), ())
            graph = GraphKeeper(settings, opened.orders.facts(opened.next_batch()))
            graph.adopt(plan)
            told = opened.orders.ordering(opened.next_batch())
            ordering = OrderingKeeper(settings, self._catalog, time.time(), replace(told, idle=frozenset()))
            ordering.adopt(plan)
            metrics.tell_ordering(ordering.stats(), ())
            trees = AllocationKeeper(settings, joins)
            trees.adopt(plan)
            metrics.tell_trees(trees.stats(), ())
            keepers = (joins, graph, ordering, trees)
            progress = Progress(_query_name(opened))
            leaving.callback(progress.follow(self.spark))

            def begin() -> StreamingQuery:
                return self._start_query(plan, sinks, opened, metrics, console, changes, *keepers, once=once)

            note_grain(opened.evaluation, plan, settings)
            query = begin()
            live = LiveQueries(self, opened, directory, changes, *keepers)
            return Run(query, live, metrics, opened, leaving.pop_all().close, once=once, progress=progress, again=begin)

    def _checkpoint_directory(self, out: Path, given: str | Path | None) -> Path:
        return Path(given or self._settings.checkpoint or out / "_checkpoint")

    def _cache(self, checkpoint: Checkpoint) -> SegmentCache:
        return SegmentCache(cache_root(self._settings.cache_dir), checkpoint.id, self._settings.cache_bytes)

    def work(self, plan: SharedPlan, sinks: Sinks) -> Work:
        """What tasks are told of a plan."""
        settings = self._settings
        block = BlockCut() if settings.block is None else BlockCut(settings.block.span_us, settings.block.rows)
        cut = Cut.WINDOWS if settings.shards == 1 else Cut.BANDS
        return Work(
            plan,
            staged=frozenset(sinks.directories),
            called=sinks.called,
            shard=ShardOptions(
                cut,
                settings.merge_fanout,
                settings.policy,
                settings.join_method,
                block,
                settings.reevaluate_us,
                scheduling=_scheduling(settings),
                is_eager=settings.evaluate == "eager",
                forwards=settings.shards > 1,
                hold_bytes=settings.hold_memory_bytes,
            ),
            probes=Pacer(settings.budget).first_probes(),
            backlog_limit=settings.backlog_limit,
        )

    def sinks(self, plan: SharedPlan, out: Path) -> Sinks:
        """Where the queries of a plan write."""
        return _sinks(plan, out, self._callbacks, self._settings.console_rows)

    def _start_query(
        self,
        plan: SharedPlan,
        sinks: Sinks,
        opened: Checkpoint,
        metrics: RunMetrics,
        console: Console,
        changes: Changes,
        joins: JoinKeeper,
        graph: GraphKeeper,
        ordering: OrderingKeeper,
        trees: AllocationKeeper,
        *,
        once: bool,
    ) -> StreamingQuery:
        settings = self._settings
        shutil.rmtree(sinks.out / STAGING, ignore_errors=True)
        options = HostOptions(
            labels=opened.labels,
            cache=self._cache(opened),
            orders=opened.orders,
            out=str(sinks.out.absolute()),
            compression=settings.compression,
            console_rows=settings.console_rows,
        )
        work = trees.applied(joins.applied(self.work(plan, sinks)))
        opened.orders.give_work(opened.next_batch(), work)
        opened.orders.give_ordering(opened.next_batch(), ordering.chosen)
        opened.orders.give_allowed(opened.next_batch(), trees.allowed())
        first_us = time.time_ns() // 1000
        with _configured(self.spark, {**_QUERY_CONF, "spark.sql.shuffle.partitions": str(settings.shards)}):
            frames = [self._frame(stream, first_us) for stream in self._catalog.streams]
            control = self.spark.readStream.format("text").option("cleanSource", "delete").load(str(opened.control))
            reports = pipeline(work, frames, control, options)
            pacer = Pacer(settings.budget)
            keepers = (joins, graph, ordering, trees)
            router = Router(sinks, opened, metrics, console, pacer, changes, work, *keepers, settings.compression)
            writer = reports.writeStream.foreachBatch(router)
            interval = f"{0 if once else settings.trigger_us} microseconds"
            return (
                writer.option("checkpointLocation", str(opened.spark))
                .queryName(_query_name(opened))
                .trigger(processingTime=interval)
                .start()
            )

    def _frame(self, stream: Stream, first_us: int) -> DataFrame:
        given = self._frames.get(stream.name)
        if given is None:
            return source_frame(self.spark, stream, self._settings, first_us)
        return given.select(*(f"`{name}`" for name in stream.schema.names))


def _query_name(checkpoint: Checkpoint) -> str:
    """What Spark calls the streaming query, in its listeners and its own pages too."""
    return f"headrace-{checkpoint.id[:8]}"


def _schema_of(name: str, schema: StructType) -> Schema:
    from pyspark.sql.pandas.types import to_arrow_schema

    columns = []
    for one in to_arrow_schema(schema, timezone="UTC"):
        try:
            columns.append(Column(one.name, data_type(one.type)))
        except (PlanError, KeyError, ValueError):
            raise SourceError(
                f"column {one.name} of stream {name} is {one.type}, which Headrace does not take: cast or drop it"
            ) from None
    return Schema(tuple(columns))


def _scheduling(settings: Settings) -> Scheduling | None:
    """How operators take turns; None: there is no budget, and what comes goes through all of them at once."""
    if settings.budget is None:
        return None
    return Scheduling(settings.strategy, settings.fairness, max(1, settings.queue_memory_bytes // settings.shards))


def _clear(directory: Path) -> None:
    """Removes requests that no run answered, and answers that nobody read."""
    for path in directory.iterdir():
        path.unlink(missing_ok=True)


def _check_settings(settings: Settings) -> None:
    """Refuses settings that contradict each other, and blocks that shards could not cut alike."""
    if settings.evaluate == "eager" and settings.reevaluate_us:
        raise SettingError(
            f"setting evaluate: eager is whenever anything changes, and reevaluate is every "
            f"{format_duration(settings.reevaluate_us)}",
            "set one of them",
            setting_parts("evaluate", "reevaluate"),
        )
    if settings.block is not None and settings.block.rows is not None and settings.shards > 1:
        raise SettingError(
            f"setting block: {settings.block} cannot be cut alike on {settings.shards} shards",
            "write a stretch of time, such as '100 ms', or SET shards = 1",
            setting_parts("block", "shards"),
        )


def _check_ends(catalog: Catalog) -> None:
    """Refuses to take all of a stream that has no end."""
    for stream in catalog.streams:
        if stream.option("connector") == "generator" and stream.option("duration") is None:
            raise SettingError(
                f"stream {stream.name} never ends, so not all of it can be taken",
                "give it a duration, such as duration = '1 minute', or run without --once",
                stream_parts(stream.name),
            )
        if stream.option("connector") == "spark" and str(stream.option("format")).lower() in ENDLESS:
            raise SettingError(
                f"stream {stream.name} never ends, so not all of it can be taken",
                "run without --once",
                stream_parts(stream.name),
            )


def _output_directory(out: str | Path | None, plan: SharedPlan, callbacks: dict[str, Callback]) -> Path:
    if out is not None:
        return Path(out).absolute()
    homeless = [query for query, into in plan.sinks if query not in callbacks and not into]
    if homeless:
        raise SettingError(
            f"query {homeless[0]} has nowhere to write to",
            "give out=DIR, an INTO clause or a callback",
            query_parts(homeless[0]),
        )
    return Path(tempfile.mkdtemp(prefix="headrace-out-"))


def _sinks(plan: SharedPlan, out: Path, callbacks: dict[str, Callback], console_rows: int) -> Sinks:
    schemas = sinks_by_query(plan)
    directories: dict[str, Path] = {}
    owners: dict[Path, tuple[str | None, str]] = {}
    consoles: dict[str, Schema] = {}
    for query, into in plan.sinks:
        connector = dict(into).get("connector", "parquet")
        if query in callbacks or delivery_of(into) is Delivery.COUNT:
            continue
        if connector in CONNECTORS:
            continue
        if connector == "console":
            consoles[query] = schemas[query]
        else:
            sink = sink_of(into)
            directories[query] = path = Path(dict(into).get("path") or out / (sink or query)).absolute()
            owner, taken = owners.setdefault(path, (sink, query))
            if taken != query and (sink is None or owner != sink):
                raise PlanError(
                    f"queries {taken} and {query} both write to {path}",
                    "give one of them another path",
                    query_parts(query, taken),
                )
            _check_columns(query, schemas[query])
    called = {query: (schemas[QueryId(query)], callback) for query, callback in callbacks.items() if query in schemas}
    outlets = of_queries(schemas, [one for one in plan.sinks if one[0] not in callbacks])
    return Sinks(out, directories, consoles, called, console_rows, outlets)


def _check_columns(query: str, schema: Schema) -> None:
    if schema.find(BATCH_COLUMN):
        raise PlanError(
            f"query {query} has a column {BATCH_COLUMN}, which names its directories",
            "give it another name with AS",
            query_parts(query),
        )


@contextmanager
def _configured(spark: SparkSession, settings: dict[str, str]) -> Iterator[None]:
    """Spark's configuration while a query starts; the session's own comes back afterwards."""
    before = {name: spark.conf.get(name, None) for name in settings}
    for name, value in settings.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, value)
