"""A Spark session on this machine, quiet: for the command line, and for an Engine that was given none."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from headrace.errors import HeadraceError


def local_session(log: Path | None = None) -> SparkSession:
    """A Spark session on this machine whose workers run this Python. What Spark and they print goes to ``log``."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    builder = (
        SparkSession.builder.master("local[*, 4]")  # a task that fails is tried again, as on a cluster
        .appName("headrace")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.sql.session.timeZone", "UTC")
    )
    try:
        with _printing_to(log):
            session = builder.getOrCreate()
    except PySparkException as error:
        raise HeadraceError(
            f"Spark did not start ({error}): it needs Java 17 or newer, on PATH or in JAVA_HOME"
        ) from None
    session.sparkContext.setLogLevel("ERROR")
    return session


@contextmanager
def _printing_to(log: Path | None) -> Iterator[None]:
    """Lets processes that are started meanwhile print to a file (or nowhere); this process gets its own back."""
    sys.stdout.flush()
    sys.stderr.flush()
    if log is not None:
        log.parent.mkdir(parents=True, exist_ok=True)
    target = os.open(log or os.devnull, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    before = [os.dup(stream) for stream in (1, 2)]
    try:
        for stream in (1, 2):
            os.dup2(target, stream)
        yield
    finally:
        for stream, kept in zip((1, 2), before, strict=True):
            os.dup2(kept, stream)
            os.close(kept)
        os.close(target)
