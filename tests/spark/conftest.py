"""One small Spark session for every test that needs one."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator

import brokers
import pytest
from pyspark.sql import SparkSession


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Says which connector the Kafka tests had, if it is not that of the installed Spark."""
    for note in brokers.NOTES:
        terminalreporter.write_line(note)


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # workers must find headrace too
    session = (
        SparkSession.builder.master("local[2]")
        .appName("headrace-tests")
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
