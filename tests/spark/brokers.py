"""A Kafka broker for the tests (``scripts/kafka``), and what they send to it and take from it."""

from __future__ import annotations

import datetime as dt
import json
import subprocess
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from streams import Row

SCRIPT = Path(__file__).parents[2] / "scripts" / "kafka"
UNREACHED = 3
NOTES: list[str] = []
"""What the script had to say, for the end of the tests' report."""


def script(*arguments: object) -> str:
    """What the script prints; the test is skipped where it cannot have its jars."""
    done = subprocess.run(
        [sys.executable, str(SCRIPT), *map(str, arguments)], capture_output=True, text=True, check=False, timeout=400
    )
    if done.returncode == UNREACHED:
        pytest.skip(f"no Kafka: {done.stderr.strip()}")
    assert done.returncode == 0, done.stderr
    NOTES.extend(line for line in done.stderr.splitlines() if line not in NOTES)
    return done.stdout


def connector_jars() -> Path:
    """The directory with the jars of Spark's connector."""
    told = dict(line.split(" ", 1) for line in script("fetch").splitlines())
    return Path(told["connector"])


@dataclass(frozen=True)
class Record:
    """A record that was read back."""

    key: str | None
    value: str
    headers: dict[str, str]


class Broker:
    """A running broker; its topics are made, filled and read."""

    def __init__(self, directory: Path) -> None:
        from kafka import KafkaProducer

        self.directory = directory
        self.servers = script("start", directory).strip()
        self._producer = KafkaProducer(bootstrap_servers=self.servers, acks="all", linger_ms=20)

    def close(self) -> None:
        self._producer.close()
        script("stop", self.directory)

    def create(self, topic: str, partitions: int) -> None:
        from kafka.admin import KafkaAdminClient, NewTopic

        admin = KafkaAdminClient(bootstrap_servers=self.servers)
        admin.create_topics([NewTopic(topic, partitions, 1)])
        admin.close()

    def send(self, topic: str, values: Iterable[tuple[int, bytes | None]], **given: Any) -> None:
        """Values to partitions, in order."""
        for partition, value in values:
            self._producer.send(topic, value=value, partition=partition, **given)
        self._producer.flush()

    def read(self, topic: str) -> list[Record]:
        """All that a topic has."""
        from kafka import KafkaConsumer, TopicPartition

        consumer = KafkaConsumer(bootstrap_servers=self.servers)
        places = [TopicPartition(topic, number) for number in sorted(consumer.partitions_for_topic(topic) or ())]
        ends = consumer.end_offsets(places)
        consumer.assign(places)
        consumer.seek_to_beginning(*places)
        found: list[Record] = []
        while any(consumer.position(place) < ends[place] for place in places):
            for records in consumer.poll(timeout_ms=500).values():
                found += [_record(one) for one in records]
        consumer.close()
        return found


def _record(one: Any) -> Record:
    headers = {name: value.decode() for name, value in one.headers}
    return Record(None if one.key is None else one.key.decode(), one.value.decode(), headers)


def as_json(rows: Sequence[Row]) -> list[bytes]:
    return [json.dumps(row, default=_iso).encode() for row in rows]


def as_csv(rows: Sequence[Row]) -> list[bytes]:
    return [
        ",".join(_iso(one) if isinstance(one, dt.datetime) else str(one) for one in row.values()).encode()
        for row in rows
    ]


def _iso(value: Any) -> str:
    return str(value.astimezone(dt.UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ"))
