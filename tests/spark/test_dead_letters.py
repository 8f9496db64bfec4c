"""Rows that take part in nothing: counted, kept once with their reason, and no hindrance to the others."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from streams import Feed, Row, answers, assert_answers, at, cut, dead_letters, declare, readings

from headrace.spark.session import Engine
from headrace.stats import StreamStats

pytestmark = pytest.mark.spark

JOINED = (
    "CREATE QUERY q AS SELECT a.location_id, a.value, b.value AS h, a.ts AS a_ts, b.ts AS b_ts "
    "FROM temperature a, humidity b WHERE a.location_id = b.location_id WINDOW 10 s;"
    "CREATE QUERY hot AS SELECT a.value, b.value AS h FROM temperature a, humidity b "
    "WHERE a.location_id = b.location_id AND a.value > 50 WINDOW 30 s;"
)


def run_once(spark: SparkSession, program: str, out: Path) -> dict[str, StreamStats]:
    engine = Engine(spark)
    engine.sql(program)
    run = engine.start(out, once=True)
    assert run.wait(400)
    return {one.stream: one for one in run.stats().streams}


def reasons(out: Path) -> Counter[tuple[str, str]]:
    return Counter((letter["stream"], letter["reason"]) for letter in dead_letters(out))


def test_null_times_and_late_rows(spark: SparkSession, tmp_path: Path) -> None:
    a, b = Feed(tmp_path / "a"), Feed(tmp_path / "b")
    program = (
        declare("temperature", a, max_files_per_batch="1")
        + declare("humidity", b, max_files_per_batch="1", max_delay="5 seconds")
        + JOINED
    )

    def row(seconds: float | None, value: float = 60.0) -> Row:
        return {"location_id": 1, "value": value, "ts": None if seconds is None else at(seconds)}

    a.add([row(10), row(None), row(9), row(11)])  # late within its file
    a.add([row(10.5), row(12), {**row(13), "location_id": None}])  # late between files; a null key is neither
    a.add([row(14), row(None)])
    b.add([row(10), row(6), row(12), row(6.9)])  # 6 is in time, 6.9 is 5.1 s behind
    b.add([row(7), row(6.999), row(13), row(None, 1.0)])
    first = run_once(spark, program, tmp_path / "out")
    expected = answers(program, {"temperature": a.rows, "humidity": b.rows})
    assert expected["q"]
    assert_answers(tmp_path / "out", expected)
    assert (first["temperature"].tuples, first["temperature"].malformed, first["temperature"].late) == (9, 2, 2)
    assert (first["humidity"].tuples, first["humidity"].malformed, first["humidity"].late) == (8, 1, 2)
    counted = {
        ("temperature", "malformed"): 2,
        ("temperature", "late"): 2,
        ("humidity", "malformed"): 1,
        ("humidity", "late"): 2,
    }
    assert reasons(tmp_path / "out") == counted
    late = sorted(letter["row"]["ts"] for letter in dead_letters(tmp_path / "out") if letter["reason"] == "late")
    assert [one[17:23] for one in late] == ["06.900", "06.999", "09+00:", "10.500"]

    a.add([row(20), row(None)])
    b.add([row(20), row(9)])
    again = run_once(spark, program, tmp_path / "out")
    assert (again["temperature"].malformed, again["humidity"].late) == (1, 1)
    assert reasons(tmp_path / "out") == {**counted, ("temperature", "malformed"): 3, ("humidity", "late"): 3}
    assert_answers(tmp_path / "out", answers(program, {"temperature": a.rows, "humidity": b.rows}))


def test_corrupt_text_rows(spark: SparkSession, tmp_path: Path) -> None:
    a, b = Feed(tmp_path / "a", "json"), Feed(tmp_path / "b", "csv")
    program = declare("temperature", a, max_files_per_batch="1") + declare("humidity", b) + JOINED
    left, right = cut(readings(1, 60, 60), 2), cut(readings(2, 60, 60), 2)
    a.add(left[0])
    corrupt_json = ['{"location_id": 1, "val', "no json", '{"location_id": "one", "value": 1.0, "ts": "2026-01-31"}']
    a.add_text("\n".join([*corrupt_json, '{"location_id": 1, "value": 2.0}', ""]))
    a.add(left[1])
    b.add(right[0])
    corrupt_csv = ["x,1.0,2026-01-31T12:00:00Z", "1,1.0,yesterday", "1", "1,2.0,"]
    b.add_text("\n".join(["location_id,value,ts", *corrupt_csv, ""]))
    b.add(right[1])
    streams = run_once(spark, program, tmp_path / "out")
    assert_answers(tmp_path / "out", answers(program, {"temperature": a.rows, "humidity": b.rows}))
    assert (streams["temperature"].tuples, streams["temperature"].malformed) == (64, 4)
    assert (streams["humidity"].tuples, streams["humidity"].malformed) == (64, 4)
    assert reasons(tmp_path / "out") == {("temperature", "malformed"): 4, ("humidity", "malformed"): 4}
    texts = [letter["row"] for letter in dead_letters(tmp_path / "out")]
    assert [text for text in [*corrupt_json, *corrupt_csv[:3]] if text not in texts] == []


def test_whether_a_row_is_malformed_does_not_depend_on_the_queries(spark: SparkSession, tmp_path: Path) -> None:
    a, b = Feed(tmp_path / "a", "json"), Feed(tmp_path / "b", "csv", header=False)
    program = (
        declare("temperature", a)
        + declare("humidity", b)
        + "CREATE QUERY t AS SELECT value FROM temperature; CREATE QUERY h AS SELECT value FROM humidity;"
    )
    good = {"location_id": 1, "value": 1.0, "ts": at(0)}
    a.add([good])
    a.add_text('{"location_id": "one", "value": 2.0, "ts": "2026-01-31T12:00:01Z"}\n')
    b.add([good])
    b.add_text("one,2.0,2026-01-31T12:00:01Z\n1,3.0,2026-01-31T12:00:02Z,more\n")
    streams = run_once(spark, program, tmp_path / "out")
    assert (streams["temperature"].malformed, streams["humidity"].malformed) == (1, 2)
    assert_answers(tmp_path / "out", {"t": [(1.0,)], "h": [(1.0,)]})
