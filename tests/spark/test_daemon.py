"""The process that workers are forked from: what shards need is there before the first fork."""

from __future__ import annotations

import subprocess
import sys

import pytest
from pyspark.sql import SparkSession

from headrace.spark.daemon import MODULES

ASKED = """
import gc, os, sys
from headrace.spark.daemon import prepare
before = set(sys.modules)
prepare()
print("headrace.spark.step" in before, "headrace.spark.step" in sys.modules, gc.get_freeze_count() > 10_000)
"""


def test_what_is_imported_counts_as_there_for_ever() -> None:
    told = subprocess.run([sys.executable, "-c", ASKED], capture_output=True, text=True, check=True, timeout=60)
    assert told.stdout.split() == ["False", "True", "True"]


@pytest.mark.spark
def test_a_new_worker_has_the_engine(spark: SparkSession) -> None:
    def missing(_: int) -> list[str]:
        return [name for name in MODULES if name not in sys.modules]

    assert spark.sparkContext.parallelize([0], 1).map(missing).collect() == [[]]
