"""A running pipeline: waiting for it, stopping it, asking it. Its failures are raised where it is waited for."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import StreamingQueryException
from pyspark.sql.streaming import StreamingQuery

from headrace.errors import HeadraceError
from headrace.spark.checkpoint import Checkpoint
from headrace.spark.failures import explained_failure
from headrace.spark.metrics import RunMetrics
from headrace.stats import RunStats

_GONE = (Py4JError, OSError)
"""What a call to Spark raises when its process has died."""


class Run:
    """A running pipeline."""

    def __init__(
        self,
        query: StreamingQuery,
        plan_text: str,
        metrics: RunMetrics,
        checkpoint: Checkpoint,
        leave: Callable[[], None],
        *,
        once: bool,
    ) -> None:
        self._query = query
        self._plan_text = plan_text
        self._metrics = metrics
        self._checkpoint = checkpoint
        self._leave = leave
        self._failure: Exception | None = None
        self._ended = threading.Event()
        self._stopping = False
        work = self._drain if once else self._follow
        self._thread = threading.Thread(target=self._guarded, args=(work,), name="headrace-run", daemon=True)
        self._thread.start()

    def _drain(self) -> None:
        """Takes all input there is, tells the shards that it has ended unless nothing waits for it, and stops."""
        self._query.processAllAvailable()
        if not self._stopping and self._metrics.waiting_rows() != 0:
            self._checkpoint.say_end()
            self._query.processAllAvailable()
        self._query.stop()

    def _follow(self) -> None:
        self._query.awaitTermination()

    def _guarded(self, work: Any) -> None:
        try:
            work()
        except (StreamingQueryException, Py4JJavaError) as error:
            self._failure = explained_failure(error, self._checkpoint.directory)
        except _GONE:
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
        with suppress(*_GONE):
            self._query.stop()
        self._ended.wait(60)

    def explain(self) -> str:
        return self._plan_text

    def stats(self) -> RunStats:
        return self._metrics.snapshot(time.time(), self._last_batch_ms())

    def _last_batch_ms(self) -> float:
        progress = None
        with suppress(*_GONE):
            progress = self._query.lastProgress
        return float(progress["durationMs"].get("triggerExecution", 0)) if progress else 0.0

    def history(self) -> list[dict[str, Any]]:
        """The last micro-batches: number, time in all, and time by stage (milliseconds)."""
        stages = self._metrics.stages()
        done = [one for one in self._query.recentProgress if one["batchId"] in stages]
        return [
            {
                "batch": one["batchId"],
                "rows": one["numInputRows"],
                "batch_ms": one["durationMs"].get("triggerExecution", 0),
                "spark_ms": dict(one["durationMs"]),
                "stage_ms": stages[one["batchId"]],
            }
            for one in done
        ]
