"""How many partitions a topic's stream is waited for, and refused options; no broker and no Spark are started."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.errors import IllegalArgumentException

from headrace.errors import SinkError, SourceError
from headrace.model import Catalog
from headrace.spark import kafka
from headrace.sql import read_script

TOPICS = {"readings": 3, "alerts": 2}


class JavaSet(set[str]):
    """As much of java.util.HashSet as is used."""


class FakeAdmin:
    """A broker with some topics."""

    def listTopics(self) -> Any:  # noqa: N802 - Kafka's name
        return SimpleNamespace(names=lambda: SimpleNamespace(get=lambda: set(TOPICS)))

    def describeTopics(self, topics: JavaSet) -> Any:  # noqa: N802 - Kafka's name
        sized = {name: SimpleNamespace(size=lambda count=TOPICS[name]: count) for name in topics}
        told = {name: SimpleNamespace(partitions=lambda found=one: found) for name, one in sized.items()}
        return SimpleNamespace(allTopicNames=lambda: SimpleNamespace(get=lambda: told))


class FakeReader:
    """Spark's reader, which takes no such options."""

    def option(self, *_: object) -> FakeReader:
        return self

    def options(self, **_: object) -> FakeReader:
        return self

    format = option

    def load(self) -> Any:
        raise IllegalArgumentException("Kafka option 'auto.offset.reset' is not supported.")


@pytest.fixture
def spark(monkeypatch: pytest.MonkeyPatch) -> Any:
    @contextmanager
    def admin(*_: object) -> Iterator[FakeAdmin]:
        yield FakeAdmin()

    monkeypatch.setattr(kafka, "_admin", admin)
    monkeypatch.setattr(kafka, "check_format", lambda *_: None)
    jvm = SimpleNamespace(java=SimpleNamespace(util=SimpleNamespace(HashSet=JavaSet)))
    return SimpleNamespace(_jvm=jvm, readStream=FakeReader())


def catalog(options: str) -> Catalog:
    text = "CREATE STREAM s (k BIGINT, ts TIMESTAMP) WITH (connector = 'kafka', servers = 'here:9092', time = 'ts', "
    return read_script(f"{text}{options});").catalog


@pytest.mark.parametrize(
    ("options", "partitions"),
    [
        ("topic = 'readings'", 3),
        ("topic = 'readings,alerts'", 5),
        ("topic = 'readings', partitions = 2", 2),
        ("topic = 'readings', partition = 'k'", None),
    ],
)
def test_a_topic_is_waited_for_whole_unless_something_else_is_said(
    spark: Any, options: str, partitions: int | None
) -> None:
    (stream,) = kafka.with_partitions(spark, catalog(options)).streams
    assert stream.partitions == partitions


def test_streams_of_other_connectors_stay_as_they_are(spark: Any) -> None:
    files = read_script("CREATE STREAM s (ts TIMESTAMP) WITH (connector = 'files', path = 'x', time = 'ts');").catalog
    assert kafka.with_partitions(spark, files) == files


def test_a_topic_that_is_not_there_is_refused(spark: Any) -> None:
    with pytest.raises(SourceError, match=r"there is no topic reading at here:9092: did you mean readings\?"):
        kafka.with_partitions(spark, catalog("topic = 'reading'"))


def test_an_option_that_spark_does_not_take_is_refused_in_words(spark: Any) -> None:
    (stream,) = catalog("topic = 'readings', option.kafka.auto.offset.reset = 'latest'").streams
    with pytest.raises(SourceError, match=r"stream s: Spark cannot read Kafka so: Kafka option 'auto.offset.reset'"):
        kafka.kafka_frame(spark, stream)


def test_a_serializer_for_a_sink_is_refused_before_anything_is_written(spark: Any) -> None:
    into = (("connector", "kafka"), ("servers", "here:9092"), ("option.kafka.key.serializer", "x"))
    with pytest.raises(SinkError, match=r"query q: option\.kafka\.key\.serializer cannot be given"):
        kafka.ready_topics(spark, "q", into)
