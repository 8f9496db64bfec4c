"""A running pipeline: waiting for it, stopping it, asking it. Its failures are raised where it is waited for."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import StreamingQueryException
from pyspark.sql.streaming import StreamingQuery

from headrace.config import Settings
from headrace.errors import HeadraceError
from headrace.plan.sharing import SharedPlan
from headrace.spark.changes import requests_in
from headrace.spark.checkpoint import END_MESSAGE, Checkpoint
from headrace.spark.failures import explained_failure, is_impatience
from headrace.spark.live import LiveQueries
from headrace.spark.metrics import RunMetrics
from headrace.spark.progress import GONE, Progress
from headrace.spark.query_set import QuerySet, Record
from headrace.stats import RunStats, SparkStats

BEGINNINGS = 9
"""How often a streaming query is begun again."""
LISTEN_S = 0.5
"""How often requests of other programs are looked for."""


log = logging.getLogger("headrace.run")


class Run:
    """A running pipeline."""

    def __init__(
        self,
        query: StreamingQuery,
        live: LiveQueries,
        metrics: RunMetrics,
        checkpoint: Checkpoint,
        leave: Callable[[], None],
        *,
        once: bool,
        progress: Progress | None = None,
        again: Callable[[], StreamingQuery] | None = None,
    ) -> None:
        self._query = query
        self._again = again
        self._progress = progress or Progress("")
        self._live = live
        live.is_over = lambda: not self.is_active
        self._metrics = metrics
        self._checkpoint = checkpoint
        self._leave = leave
        self._failure: Exception | None = None
        self._ended = threading.Event()
        self._stopping = False
        work = self._drain if once else self._follow
        self._thread = threading.Thread(target=self._guarded, args=(work,), name="headrace-run", daemon=True)
        self._thread.start()
        self._listener = threading.Thread(target=self._listen, name="headrace-requests", daemon=True)
        self._listener.start()

    def _listen(self) -> None:
        """Takes requests of other programs while the run goes on, and sees to sources that are silent."""
        while not self._ended.wait(LISTEN_S):
            with suppress(OSError):  # the checkpoint may be going away
                self._live.wake(time.time())
            for one in requests_in(self._checkpoint.requests):
                try:
                    self._live.make(one.record)
                    one.answer(None)
                except HeadraceError as error:
                    one.answer(str(error))
                except Exception as error:  # noqa: BLE001 - a fault of ours, told to who asked; the run goes on
                    one.answer(f"a fault in Headrace: {error!r}")

    def add(self, sql: str) -> None:
        """Adds the queries of a text (CREATE QUERY, DROP QUERY), without a restart; returns when the next micro-batch
        will have them. A new query begins with the tuples held then."""
        self._make({"add": sql})

    def drop(self, name: str) -> None:
        """Drops a query, without a restart; what only it needed is let go."""
        self._make({"drop": name})

    def pause(self, name: str) -> None:
        """Takes a query out of the plan until it is resumed: meanwhile it costs nothing and gives no results."""
        self._make({"pause": name})

    def resume(self, name: str) -> None:
        """Lets a paused query go on, as a new one would begin: with the tuples held then."""
        self._make({"resume": name})

    def _make(self, record: Record) -> None:
        self._check_active()
        self._live.make(record)

    @property
    def queries(self) -> QuerySet:
        """The queries that run, and those that are paused; changes that are being made are made."""
        return self._live.queries

    @property
    def settings(self) -> Settings:
        return self._live.settings

    @property
    def last_batch(self) -> int | None:
        """The number of the last micro-batch that was published by this run."""
        return self._metrics.last_batch

    def plan(self) -> SharedPlan:
        """How the queries share joins."""
        return self._live.plan()

    def check(self, sql: str) -> tuple[str, ...]:
        """Refuses a text that ``add`` would refuse; the names of the queries it would add."""
        return self._live.check(sql)

    @property
    def out(self) -> Path:
        """Where queries without INTO write."""
        return self._live.out

    @property
    def checkpoint(self) -> Path:
        """Where offsets, state and changes are kept."""
        return self._checkpoint.directory

    def directories(self) -> dict[str, Path]:
        """Where the rows of each query are, of those whose rows are in files."""
        return self._live.directories()

    def _check_active(self) -> None:
        if not self.is_active:
            raise HeadraceError("the run has ended: start it again to change its queries")

    def _drain(self) -> None:
        """Takes all input there is, tells the shards that it has ended unless nothing waits for it, and stops."""
        self._query.processAllAvailable()
        if not self._stopping and (self._metrics.unfinished_rows() != 0 or self._live.has_groups):
            self._checkpoint.say(END_MESSAGE)
            self._query.processAllAvailable()
        self._query.stop()

    def _follow(self) -> None:
        self._query.awaitTermination()

    def _begun(self, work: Callable[[], None]) -> None:
        """Does the work; a query that Spark gave up before its first micro-batch, for want of patience, is begun again,
        as the same command would."""
        for left in range(BEGINNINGS, -1, -1):
            try:
                work()
                return
            except (StreamingQueryException, Py4JJavaError) as error:
                is_first = self._metrics.last_batch is None and not self._stopping
                if self._again is None or not left or not is_first or not is_impatience(error):
                    raise
                log.info("the machine is so busy that Spark gave up waiting for a Python process: begun again")
                self._query = self._again()

    def _guarded(self, work: Callable[[], None]) -> None:
        try:
            self._begun(work)
        except (StreamingQueryException, Py4JJavaError) as error:
            self._failure = explained_failure(error, self._checkpoint.directory)
        except GONE:
            self._failure = HeadraceError(
                "Spark's process has ended of a sudden, perhaps for want of memory: the same command goes on from here"
            )
        except Exception as error:  # noqa: BLE001 - handed to the caller of wait(), whichever thread that is
            self._failure = error
        finally:
            self._leave()
            self._ended.set()

    @property
    def is_active(self) -> bool:
        return not self._ended.is_set()

    def wait(self, timeout_s: float | None = None) -> bool:
        """Waits for the end; True when it has come. A failure of the pipeline is raised here."""
        ended = self._ended.wait(timeout_s)
        if ended:
            self._thread.join()
            if self._failure is not None and not self._stopping:
                raise self._failure
        return ended

    def stop(self) -> None:
        """Ends the run; a micro-batch under way is done again by the next run on the checkpoint."""
        self._stopping = self.is_active  # a run that failed before is not stopped, but told of
        with suppress(*GONE):
            self._query.stop()
        self._ended.wait(60)

    def explain(self, sql: str | None = None) -> str:
        """The shared plan as text; with ``sql``, the part of it that its queries would be in."""
        return self._live.explain(sql)

    def draw(self, query: str | None = None) -> str:
        """The operators and the queues between them, as an SVG picture; with ``query``, the tree of joins that a query
        with ON OVERLOAD ADAPT runs by, with the probes that it is allowed now."""
        return self._live.draw(query)

    def stats(self) -> RunStats:
        return self._metrics.snapshot(time.time(), self._last_batch_ms(), self._progress.latest)

    def on_progress(self, told: Callable[[SparkStats], object]) -> None:
        """Has a function called with each micro-batch, as Spark's listener tells of it, in the listener's thread."""
        self._progress.listeners.append(told)

    def _last_batch_ms(self) -> float:
        progress = None
        with suppress(*GONE):
            progress = self._query.lastProgress
        return float(progress["durationMs"].get("triggerExecution", 0)) if progress else 0.0

    def history(self) -> list[dict[str, Any]]:
        """The last micro-batches: number, time in all and by stage (milliseconds; the slowest shard's, and each
        shard's), the responses of each query (how many, their sum and the longest, in milliseconds), the tuples left
        waiting for their turn, the bytes in operators' queues."""
        records = self._metrics.records()
        done = [one for one in self._query.recentProgress if one["batchId"] in records]
        return [
            {
                "batch": one["batchId"],
                "rows": one["numInputRows"],
                "batch_ms": one["durationMs"].get("triggerExecution", 0),
                "spark_ms": dict(one["durationMs"]),
                "stage_ms": records[one["batchId"]].stage_ms,
                "shards_ms": records[one["batchId"]].shards_ms,
                "responses": records[one["batchId"]].responses,
                "backlog_rows": records[one["batchId"]].backlog_rows,
                "probes": records[one["batchId"]].probes,
                "queue_bytes": records[one["batchId"]].queue_bytes,
            }
            for one in done
        ]
