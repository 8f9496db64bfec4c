"""What Spark itself tells of the streaming query: a StreamingQueryListener, and the last micro-batch it told of.

      Spark's listener bus --onQueryProgress--> Progress.tell --> latest, and whoever asked to be called

Owns :class:`Progress`. The listener hears of every streaming query of the session and keeps to the one of its name.
Nothing here may raise: an error would reach Spark's bus. Cost: one call from the JVM for each micro-batch.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQueryListener

from headrace.stats import SparkStats

GONE = (Py4JError, OSError)
"""What a call to Spark raises when its process has died."""

log = logging.getLogger("headrace.progress")


@dataclass(slots=True)
class Progress:
    """The streaming query of this name, as Spark tells of it."""

    name: str
    latest: SparkStats | None = None
    listeners: list[Callable[[SparkStats], object]] = field(default_factory=list)

    def follow(self, spark: SparkSession) -> Callable[[], None]:
        """Listens from now on; gives what ends it."""
        listener = _Listener(self)
        spark.streams.addListener(listener)

        def leave() -> None:
            with suppress(*GONE):
                spark.streams.removeListener(listener)

        return leave

    def tell(self, progress: Any) -> None:
        """Takes in a ``StreamingQueryProgress``."""
        if progress.name != self.name:
            return
        self.latest = stats_of(progress)
        for told in tuple(self.listeners):
            told(self.latest)


def stats_of(progress: Any) -> SparkStats:
    return SparkStats(
        batch=progress.batchId,
        input_rows=progress.numInputRows,
        input_rows_per_s=_finite(progress.inputRowsPerSecond),
        processed_rows_per_s=_finite(progress.processedRowsPerSecond),
        state_keys=sum(one.numRowsTotal for one in progress.stateOperators),
        state_bytes=sum(one.memoryUsedBytes for one in progress.stateOperators),
        duration_ms=tuple(sorted((name, float(spent)) for name, spent in progress.durationMs.items())),
    )


def _finite(rate: float) -> float:
    """A rate; Spark has none for a micro-batch that came at once.

    >>> _finite(float("nan")), _finite(float("inf")), _finite(2.5)
    (0.0, 0.0, 2.5)
    """
    return rate if rate - rate == 0.0 else 0.0


class _Listener(StreamingQueryListener):  # type: ignore[misc]
    def __init__(self, progress: Progress) -> None:
        self._progress = progress

    def onQueryStarted(self, event: Any) -> None:
        """Nothing is known yet."""

    def onQueryProgress(self, event: Any) -> None:
        try:
            self._progress.tell(event.progress)
        except Exception:
            log.warning("a listener failed", exc_info=True)

    def onQueryIdle(self, event: Any) -> None:
        """The last numbers hold."""

    def onQueryTerminated(self, event: Any) -> None:
        """Whoever waits for the run is told there."""
