"""Starts Python workers while Spark is still planning: the first micro-batch finds them with all imports done."""

from __future__ import annotations

import importlib
import threading
from collections.abc import Iterable

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

WORKER_CONF = {"spark.sql.execution.pyspark.udf.simplifiedTraceback.enabled": "false"}
"""What Spark keeps Python workers apart by. The default differs between ``mapInArrow`` and ``transformWithState``: two
sets of processes would be started, each with all imports, where one serves both."""


def warm_up(spark: SparkSession, workers: int) -> None:
    """Begins it and returns at once."""
    threading.Thread(target=_warm_up, args=(spark, workers), name="headrace-warm-up", daemon=True).start()


def _warm_up(spark: SparkSession, workers: int) -> None:
    _load_state_store(spark)
    _start_workers(spark, workers)


def _load_state_store(spark: SparkSession) -> None:
    """The state store's native library is unpacked and loaded now, not in the first micro-batch's task."""
    try:
        spark._jvm.org.rocksdb.RocksDB.loadLibrary()
    except Py4JError:
        return  # the session was stopped meanwhile; the first micro-batch loads it, and says what is wrong


def _start_workers(spark: SparkSession, workers: int) -> None:
    try:
        apart = spark.newSession()
        for name, value in WORKER_CONF.items():
            apart.conf.set(name, value)
        apart.range(0, workers, 1, workers).mapInArrow(_imported, "id bigint").collect()
    except (PySparkException, Py4JError):
        return  # the session was stopped meanwhile; whatever else is wrong, the first micro-batch will say


def _imported(batches: Iterable[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
    importlib.import_module("headrace.spark.step")
    return batches
