"""Kafka, a real broker: topics are joined, the pipeline is killed and goes on, and readers have what DuckDB says.

One program reads all the topics, because each start of Spark takes its time: it is killed, more is sent, and it goes on
to the end (:class:`Story`); the tests look at what became of it. The jars of broker and connector come from Maven
Central; where they cannot be had these tests are skipped, and say so.
"""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from brokers import NOTES, Broker, as_csv, as_json, connector_jars
from commands import Command
from streams import Row, answers, assert_in_order, dead_letters, output, readings

pytest.importorskip("kafka", reason="no Kafka client for Python: pip install 'headrace[dev]'")
pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    started = Broker(tmp_path_factory.mktemp("kafka"))
    yield started
    started.close()


@pytest.fixture(scope="module")
def jars() -> Path:
    return connector_jars()


@pytest.fixture(autouse=True)
def noted(jars: Path, record_property: Callable[[str, object], None]) -> None:  # noqa: ARG001 - they are fetched first
    for note in NOTES:
        record_property("note", note)


STREAMS = """
CREATE STREAM temperature (location_id BIGINT, value DOUBLE, ts TIMESTAMP) WITH (connector = 'kafka',
  servers = '{servers}', topic = 'temperature', partitions = 3, max_records_per_batch = 60);
CREATE STREAM humidity (location_id BIGINT, value DOUBLE, ts TIMESTAMP) WITH (connector = 'kafka',
  servers = '{servers}', topic = 'humidity', format = 'csv', partitions = 2, max_records_per_batch = 60);
CREATE STREAM uneven (location_id BIGINT, value DOUBLE, ts TIMESTAMP) WITH (connector = 'kafka',
  servers = '{servers}', topic = 'uneven', max_records_per_batch = 10);
"""
QUERIES = """
CREATE QUERY near AS SELECT a.location_id, a.value, b.value AS h, a.ts AS a_ts, b.ts AS b_ts
FROM temperature a, humidity b WHERE a.location_id = b.location_id WINDOW 5 s
INTO (connector = 'kafka', servers = '{servers}', topic = 'alerts');
CREATE QUERY far AS SELECT a.location_id, a.value, b.value AS h, a.ts AS a_ts, b.ts AS b_ts
FROM temperature a, humidity b WHERE a.location_id = b.location_id AND a.value > 50 WINDOW 60 s
INTO (connector = 'kafka', servers = '{servers}', topic = 'alerts', key_column = 'location_id');
CREATE QUERY warm AS SELECT location_id, value FROM temperature WHERE value > 20
INTO (connector = 'kafka', servers = '{servers}', format = 'csv');
CREATE QUERY evened AS SELECT location_id, value, ts FROM uneven;
"""
STARTS = {"all": "earliest", "since": "2026-02-02 02:40:03", "placed": '{"lines": {"0": 5, "1": -2}}'}
RAW = """
CREATE STREAM {name} (k BIGINT, line STRING, ts TIMESTAMP) WITH (connector = 'kafka', topic = 'lines',
  servers = '{servers}', format = 'raw', key_column = 'k', timestamp_column = 'ts', start = '{start}');
CREATE QUERY q_{name} AS SELECT * FROM {name};
"""
LINES_FROM_S = 1_770_000_000


@dataclass(frozen=True)
class Story:
    """A program that was killed and went on to the end: where it wrote, and what its topics had."""

    out: Path
    rows: dict[str, list[Row]]
    evened_before_the_kill: int


@pytest.fixture(scope="module")
def story(broker: Broker, jars: Path, tmp_path_factory: pytest.TempPathFactory) -> Story:
    directory = tmp_path_factory.mktemp("story")
    program, out = directory / "program.sql", directory / "out"
    raw = "".join(RAW.format(name=name, servers=broker.servers, start=start) for name, start in STARTS.items())
    text = f"SET shards = 3; SET jars = '{jars}';" + (STREAMS + QUERIES).format(servers=broker.servers) + raw
    program.write_text(text)
    for topic, partitions in (("temperature", 3), ("humidity", 2), ("uneven", 2), ("lines", 2)):
        broker.create(topic, partitions)
    a, b, uneven = readings(1, 300, 200), readings(2, 300, 200), readings(5, 60, 60)
    for second in range(6):
        moment_ms = (LINES_FROM_S + second) * 1000
        broker.send("lines", [(0, f"line {second}".encode())], key=b"7", timestamp_ms=moment_ms)
    broker.send("uneven", [(0, value) for value in as_json(uneven[30:])])
    _send(broker, a[:200], b[:200])
    _run_and_kill(program, out)
    evened = len(output(out / "evened")) if (out / "evened").exists() else 0
    broker.send("temperature", [(0, b'{"location_id": "north"}'), (1, None), (2, b"\xff\xfe")], key=b"k")
    broker.send("humidity", [(1, b"1,wet,2026-01-31T12:00:00Z")])
    broker.send("uneven", [(1, value) for value in as_json(uneven[:30])])
    _send(broker, a[200:], b[200:])
    _run_once(program, out)
    return Story(out, {"temperature": a, "humidity": b, "uneven": uneven}, evened)


ATTEMPTS = 3
SLOW_START = "failed to connect back"
"""Spark gives a Python process ten seconds to start, which a busy machine may not do; the same command goes on then."""


def _run_and_kill(program: Path, out: Path) -> None:
    """Runs it until two micro-batches are committed, and kills it."""
    commits = out / "_checkpoint" / "spark" / "commits"
    said = ""
    for _ in range(ATTEMPTS):
        with Command(program, out) as run:
            if run.wait_for(lambda: len(list(commits.glob("[0-9]*"))) > 1, 300):
                return
            _, _, said = run.finish()
            assert SLOW_START in said, said
    pytest.fail(said)


def _run_once(program: Path, out: Path) -> None:
    """Runs it until it has taken all there is."""
    for _ in range(ATTEMPTS):
        with Command(program, out, "--once") as run:
            code, _, said = run.finish(300)
        if code == 0:
            return
        assert SLOW_START in said, said
    pytest.fail(said)


def _send(broker: Broker, a: list[dict[str, Any]], b: list[dict[str, Any]]) -> None:
    broker.send("temperature", [(number % 3, value) for number, value in enumerate(as_json(a))])
    broker.send("humidity", [(number % 2, value) for number, value in enumerate(as_csv(b))])


def _row(value: str) -> tuple[Any, ...]:
    told = json.loads(value)
    return (*list(told.values())[:3], *(dt.datetime.fromisoformat(told[name]) for name in ("a_ts", "b_ts")))


def test_a_killed_join_of_topics_goes_on_and_readers_who_drop_repeats_have_the_right_rows(
    broker: Broker, story: Story
) -> None:
    expected = answers("".join([STREAMS, QUERIES]).format(servers=broker.servers), story.rows)
    records = broker.read("alerts")
    for query in ("near", "far"):
        mine = [one for one in records if one.headers["headrace-query"] == query]
        rows = {one.headers["headrace-id"]: one.value for one in mine}
        assert all(rows[one.headers["headrace-id"]] == one.value for one in mine), "a repeat is the same row"
        assert sorted(map(_row, rows.values())) == sorted(expected[query]), query
    assert all(one.key == one.headers["headrace-id"] for one in records if one.headers["headrace-query"] == "near")
    assert {one.key for one in records if one.headers["headrace-query"] == "far"} <= {str(key) for key in range(8)}
    warm = {one.key: one.value for one in broker.read("warm")}
    assert sorted(warm.values()) == sorted(f"{key},{value}" for key, value in expected["warm"])


def test_records_that_cannot_be_read_are_dead_letters_and_no_others_are(story: Story) -> None:
    letters = [(one["stream"], one["reason"], one["row"]) for one in dead_letters(story.out)]
    assert sorted(letters) == [
        ("humidity", "malformed", "1,wet,2026-01-31T12:00:00Z"),
        ("temperature", "malformed", "(no value)"),
        ("temperature", "malformed", '{"location_id": "north"}'),
        ("temperature", "malformed", "\ufffd\ufffd"),
    ]


def test_raw_values_have_the_records_key_and_timestamp_from_the_start_that_is_asked_for(story: Story) -> None:
    moments = [dt.datetime.fromtimestamp(LINES_FROM_S + second, dt.UTC) for second in range(6)]
    lines = [(7, f"line {second}", moment) for second, moment in enumerate(moments)]
    assert sorted(output(story.out / "q_all")) == lines
    assert sorted(output(story.out / "q_since")) == lines[3:]
    assert sorted(output(story.out / "q_placed")) == lines[5:]


def test_a_partition_that_is_heard_of_later_and_is_behind_is_not_late(story: Story) -> None:
    """Nobody said how many there are: all that the topic has are waited for. The dead letters have none of it."""
    assert story.evened_before_the_kill == 0
    assert sorted(row[-1] for row in output(story.out / "evened")) == [row["ts"] for row in story.rows["uneven"]]
    assert_in_order(story.out / "evened", 2)


def test_a_topic_that_is_not_there_is_refused(broker: Broker, jars: Path, tmp_path: Path) -> None:
    broker.create("readings", 1)
    (tmp_path / "program.sql").write_text(
        f"SET jars = '{jars}'; CREATE STREAM s (v STRING, ts TIMESTAMP) WITH (connector = 'kafka', "
        f"servers = '{broker.servers}', topic = 'reading'); CREATE QUERY q AS SELECT * FROM s;"
    )
    with Command(tmp_path / "program.sql", tmp_path / "out") as run:
        code, _, said = run.finish()
    assert (code, said.strip()) == (
        3,
        f"headrace: stream s: there is no topic reading at {broker.servers}: did you mean readings?",
    )
