"""Watching a run until it ends or is told to: the same for ``headrace run`` and ``headrace serve``.

Owns the end of a run: Ctrl-C or a terminate signal asks it to stop and is no failure; a failure of the pipeline is
raised to whoever started it, whatever else runs beside it; what serves it stops first.
"""

from __future__ import annotations

import threading
from dataclasses import asdict
from typing import TYPE_CHECKING

from rich.console import Console

from headrace.console.eventlog import EventLog
from headrace.console.live import LiveView
from headrace.console.service import Service
from headrace.console.stopping import stop_asked
from headrace.errors import HeadraceError

if TYPE_CHECKING:
    from headrace.spark.session import Run

WATCH_S = 1.0
"""Between two looks at a run."""


def watched(run: Run, console: Console, log: EventLog, service: Service | None = None) -> None:
    """Shows a run until it has ended; it has when this returns, however it does. What it tells goes to the log."""
    run.on_progress(lambda told: log.write("micro_batch", **(asdict(told) | {"duration_ms": dict(told.duration_ms)})))
    log.write("started", queries=[query.name for query in run.queries.running])
    if service is not None:
        service.start()
    try:
        with stop_asked() as asked:
            _watch(run, LiveView(console), log, asked)
            if asked.is_set():
                console.print("stopping; the same command goes on from here")
    except HeadraceError as error:
        log.write("failed", "error", message=str(error))
        raise
    finally:
        if service is not None:
            service.close()
        run.stop()
        log.write("stopped", batches=run.stats().batches)


def _watch(run: Run, view: LiveView, log: EventLog, asked: threading.Event) -> None:
    told = 0
    with view:
        while not asked.is_set() and not run.wait(WATCH_S):
            stats = run.stats()
            view.update(stats)
            for switch in stats.switches_after(told):
                log.write("join_order_switched", reason=switch)
            told = stats.switched
        view.update(run.stats())
