"""Shards are spread evenly over Spark's partitions."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from headrace.spark.labels import shard_labels, spark_hash

pytestmark = pytest.mark.spark


def test_the_hash_is_sparks(spark: SparkSession) -> None:
    rows = spark.range(0, 500).selectExpr("id", "hash(cast(id AS int)) AS placed").collect()
    assert {row.id: row.placed for row in rows} == {number: spark_hash(number) for number in range(500)}


@pytest.mark.parametrize("shards", [1, 2, 3, 7, 16])
def test_every_shard_has_a_partition_of_its_own(spark: SparkSession, shards: int) -> None:
    labels = spark.createDataFrame([(label,) for label in shard_labels(shards)], "label int")
    places = [row.place for row in labels.selectExpr(f"pmod(hash(label), {shards}) AS place").collect()]
    assert sorted(places) == list(range(shards))
