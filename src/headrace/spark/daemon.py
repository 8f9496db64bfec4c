"""The process that Spark's Python workers are forked from, with all that shards need imported already.

      spark.python.daemon.module = headrace.spark.daemon

Without it every worker imports the engine, pandas and Arrow for itself, at its first task. Here that is done once;
workers share the memory of it. What is there by then is left out of their garbage collections, of which Spark has one
after each task. Threads do not live through a fork, so none may be needed that is started before: numpy's algebra is
held to one thread (a worker has one core), and Arrow starts its own when they are first used.
"""

from __future__ import annotations

import gc
import importlib
import os

MODULES = (
    "pyspark.worker",
    "pyspark.sql.pandas.serializers",
    "pyspark.sql.streaming.stateful_processor_api_client",
    "headrace.spark.pack",
    "headrace.spark.processor",
    "headrace.spark.step",
)


def prepare() -> None:
    """Imports what workers need; from now on it counts as there for ever."""
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    for name in MODULES:
        importlib.import_module(name)
    gc.collect()
    gc.freeze()


if __name__ == "__main__":
    from pyspark.daemon import manager

    prepare()
    manager()
