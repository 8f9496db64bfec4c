"""A Spark session, quiet: for the command line, and for an Engine that was given none.

It is on this machine unless a master is named. Under spark-submit all that it says stays as it is: master, jars, names.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pyspark
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from headrace.errors import HeadraceError

LOCAL = "local[*, 4]"
"""All of this machine; a task that fails is tried again, as on a cluster."""
PREPARED = {"spark.python.daemon.module": "headrace.spark.daemon"}
"""Python workers that need not import the engine at their first task; a session that was made elsewhere can have it
too."""
_STANDING_IN = (
    f" If it has no Kafka connector of Spark {pyspark.__version__} yet, take the one that stands in for it: "
    "python -m headrace.spark.fetching kafka-jars, then the same command with --set jars=kafka-jars"
)
_UTC = {"spark.sql.session.timeZone": "UTC"}
_QUIET = {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false"}
_LOOPBACK = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}


def local_session(
    log: Path | None = None, *, master: str | None = None, conf: Mapping[str, str] | None = None
) -> SparkSession:
    """A Spark session on this machine, or on that master, whose workers run this Python. What Spark and they print goes
    to ``log``. ``conf`` is its configuration besides what each one has."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder
    told = dict(_UTC)
    if not is_submitted():
        master = master or LOCAL
        told |= {**PREPARED, **_QUIET, **(conf or {})}
        if master.startswith("local"):
            os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
            told |= _LOOPBACK
        builder = builder.master(master).appName("headrace")
    for name, value in told.items():
        builder = builder.config(name, value)
    try:
        with _printing_to(log):
            session = builder.getOrCreate()
    except (PySparkException, Py4JError) as error:
        raise HeadraceError(not_started(error, told, log)) from None
    session.sparkContext.setLogLevel("ERROR")
    return session


def is_submitted() -> bool:
    """Whether spark-submit started this program, and with it Spark."""
    return "PYSPARK_GATEWAY_PORT" in os.environ


def not_started(error: Exception, told: Mapping[str, str], log: Path | None) -> str:
    """What to tell a user of a session that could not be made, with this configuration."""
    where = f" (all of it is in {log})" if log is not None else ""
    packages = told.get("spark.jars.packages")
    if packages and (log is None or "unresolved dependenc" in log.read_text(errors="replace").lower()):
        return (
            f"Spark could not fetch {packages} from Maven Central{where}: let it be reached, name other versions with "
            "SET packages = '...', or give jars that are there with SET jars = 'DIR'."
            + _STANDING_IN
            * ("kafka" in packages)
        )
    first = str(error).strip().splitlines()[0]
    return f"Spark did not start ({first}){where}: it needs Java 17 or newer, on PATH or in JAVA_HOME"


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
