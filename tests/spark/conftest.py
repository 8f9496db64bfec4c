"""One small Spark session for every test that needs one."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from headrace.spark.local import PREPARED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """What tests had to note, such as a connector that is not the installed Spark's; also from other processes."""
    reports = [one for some in terminalreporter.stats.values() for one in some if hasattr(one, "user_properties")]
    notes = [str(text) for one in reports for name, text in one.user_properties if name == "note"]
    for note in dict.fromkeys(notes):
        terminalreporter.write_line(note)


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # workers must find headrace too
    session = (
        SparkSession.builder.master("local[2]")
        .appName("headrace-tests")
        .config(map=PREPARED)
        .config("spark.ui.enabled", "false")
        .config("spark.driver.memory", "1g")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.streaming.metricsEnabled", "false")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()
