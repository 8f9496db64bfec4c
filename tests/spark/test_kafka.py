"""Kafka, a real broker: topics are joined, the pipeline is killed and goes on, and readers have what DuckDB says.

The jars of broker and connector come from Maven Central; where they cannot be had these tests are skipped, and say so.
"""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from brokers import NOTES, Broker, as_csv, as_json, connector_jars
from commands import Command
from streams import answers, assert_in_order, dead_letters, output, readings

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


QUERIES = """
CREATE QUERY near AS SELECT a.location_id, a.value, b.value AS h, a.ts AS a_ts, b.ts AS b_ts
FROM temperature a, humidity b WHERE a.location_id = b.location_id WINDOW 5 s
INTO (connector = 'kafka', servers = '{servers}', topic = 'alerts');
CREATE QUERY far AS SELECT a.location_id, a.value, b.value AS h, a.ts AS a_ts, b.ts AS b_ts
FROM temperature a, humidity b WHERE a.location_id = b.location_id AND a.value > 50 WINDOW 60 s
INTO (connector = 'kafka', servers = '{servers}', topic = 'alerts', key_column = 'location_id');
CREATE QUERY warm AS SELECT location_id, value FROM temperature WHERE value > 20
INTO (connector = 'kafka', servers = '{servers}', format = 'csv');
"""


def test_a_killed_join_of_topics_goes_on_and_readers_who_drop_repeats_have_the_right_rows(
    broker: Broker, jars: Path, tmp_path: Path
) -> None:
    broker.create("temperature", 3)
    broker.create("humidity", 2)
    a, b = readings(1, 300, 200), readings(2, 300, 200)
    program = tmp_path / "program.sql"
    text = (
        f"SET shards = 3; SET jars = '{jars}';"
        "CREATE STREAM temperature (location_id BIGINT, value DOUBLE, ts TIMESTAMP) WITH (connector = 'kafka', "
        f"servers = '{broker.servers}', topic = 'temperature', partitions = 3, max_records_per_batch = 60);"
        "CREATE STREAM humidity (location_id BIGINT, value DOUBLE, ts TIMESTAMP) WITH (connector = 'kafka', "
        f"servers = '{broker.servers}', topic = 'humidity', format = 'csv', partitions = 2, "
        "max_records_per_batch = 60);" + QUERIES.format(servers=broker.servers)
    )
    program.write_text(text)
    _send(broker, a[:200], b[:200])
    _run_and_kill(program, tmp_path / "out")
    broker.send("temperature", [(0, b'{"location_id": "north"}'), (1, None), (2, b"\xff\xfe")], key=b"k")
    broker.send("humidity", [(1, b"1,wet,2026-01-31T12:00:00Z")])
    _send(broker, a[200:], b[200:])
    _run_once(program, tmp_path / "out")
    expected = answers(text, {"temperature": a, "humidity": b})
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
    letters = [(one["stream"], one["reason"], one["row"]) for one in dead_letters(tmp_path / "out")]
    assert sorted(letters) == [
        ("humidity", "malformed", "1,wet,2026-01-31T12:00:00Z"),
        ("temperature", "malformed", "(no value)"),
        ("temperature", "malformed", '{"location_id": "north"}'),
        ("temperature", "malformed", "\ufffd\ufffd"),
    ]


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


def test_raw_values_have_the_records_key_and_timestamp_from_the_start_that_is_asked_for(
    broker: Broker, jars: Path, tmp_path: Path
) -> None:
    broker.create("lines", 2)
    for second in range(6):
        broker.send("lines", [(0, f"line {second}".encode())], key=b"7", timestamp_ms=1_770_000_000_000 + second * 1000)
    starts = {"all": "earliest", "since": "2026-02-02 02:40:03", "placed": '{"lines": {"0": 5, "1": -2}}'}
    text = f"SET jars = '{jars}';" + "".join(
        f"CREATE STREAM {name} (k BIGINT, line STRING, ts TIMESTAMP) WITH (connector = 'kafka', topic = 'lines', "
        f"servers = '{broker.servers}', format = 'raw', key_column = 'k', timestamp_column = 'ts', start = '{start}');"
        f"CREATE QUERY q_{name} AS SELECT * FROM {name};"
        for name, start in starts.items()
    )
    (tmp_path / "program.sql").write_text(text)
    _run_once(tmp_path / "program.sql", tmp_path / "out")
    moments = [dt.datetime.fromtimestamp(1_770_000_000 + second, dt.UTC) for second in range(6)]
    lines = [(7, f"line {second}", moment) for second, moment in enumerate(moments)]
    assert sorted(output(tmp_path / "out" / "q_all")) == lines
    assert sorted(output(tmp_path / "out" / "q_since")) == lines[3:]
    assert sorted(output(tmp_path / "out" / "q_placed")) == lines[5:]


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


def test_a_partition_that_is_heard_of_later_and_is_behind_is_not_late(
    broker: Broker, jars: Path, tmp_path: Path
) -> None:
    """Nobody said how many there are: all that the topic has are waited for."""
    broker.create("uneven", 2)
    rows = readings(5, 60, 60)
    program = tmp_path / "program.sql"
    program.write_text(
        f"SET jars = '{jars}'; CREATE STREAM uneven (location_id BIGINT, value DOUBLE, ts TIMESTAMP) WITH "
        f"(connector = 'kafka', servers = '{broker.servers}', topic = 'uneven', max_records_per_batch = 5);"
        "CREATE QUERY q AS SELECT location_id, value, ts FROM uneven;"
    )
    broker.send("uneven", [(0, value) for value in as_json(rows[30:])])
    _run_and_kill(program, tmp_path / "out")
    assert not (tmp_path / "out" / "q").exists() or not output(tmp_path / "out" / "q")
    broker.send("uneven", [(1, value) for value in as_json(rows[:30])])
    _run_once(program, tmp_path / "out")
    assert dead_letters(tmp_path / "out") == []
    assert sorted(row[-1] for row in output(tmp_path / "out" / "q")) == [row["ts"] for row in rows]
    assert_in_order(tmp_path / "out" / "q", 2)
