"""What windows mean, however they are written; their errors are in ``golden/errors/windows.txt``."""

from __future__ import annotations

import pytest

from headrace.plan.queries import Extent, Measure, Query, within_us
from headrace.sql import read_script

STREAMS = """CREATE STREAM t (k BIGINT, v DOUBLE, ts TIMESTAMP) WITH (connector = 'files', path = 't', time = 'ts');
CREATE STREAM h (k BIGINT, v DOUBLE, ts TIMESTAMP) WITH (connector = 'files', path = 'h', time = 'ts');
"""
CATALOG = read_script(STREAMS).catalog


def bound(text: str) -> Query:
    (query,) = read_script(text, CATALOG).queries
    return query


def of_time(seconds: float) -> Extent:
    return Extent(Measure.TIME, round(seconds * 1_000_000))


def of_rows(count: int) -> Extent:
    return Extent(Measure.ROWS, count)


UNITS = [
    ("1 min", 60_000_000), ("10 mins", 600_000_000), ("1 MINUTE", 60_000_000), ("1.5 Hours", 5_400_000_000),
    (".5 s", 500_000), ("0 seconds", 0), ("250 ms", 250_000), ("7 microseconds", 7), ("2 d", 172_800_000_000),
    ("1min", 60_000_000), ("'90 sec'", 90_000_000), ("1 hr", 3_600_000_000), ("3 us", 3),
    ("10 \N{MICRO SIGN}s", 10), ("10 \N{GREEK SMALL LETTER MU}s", 10), ("'10\N{MICRO SIGN}s'", 10),
]  # fmt: skip


@pytest.mark.parametrize(("written", "microseconds"), UNITS)
def test_window_in_any_unit(written: str, microseconds: int) -> None:
    query = bound(f"SELECT a.v FROM t a, h b WHERE a.k = b.k WINDOW {written}")
    assert query.windows == within_us(microseconds)


@pytest.mark.parametrize(("written", "microseconds"), UNITS)
def test_range_in_any_unit(written: str, microseconds: int) -> None:
    assert bound(f"SELECT v FROM t [RANGE {written}]").windows == within_us(microseconds, sources=1)


@pytest.mark.parametrize("written", ["5 ROWS", "5 rows", "5 Tuples", "5 ROW", "5rows", "05 ROWS"])
def test_window_of_rows_is_for_every_stream(written: str) -> None:
    assert bound(f"SELECT a.v FROM t a, h b WHERE a.k = b.k WINDOW {written}").windows == (of_rows(5), of_rows(5))


@pytest.mark.parametrize("written", ["[ROWS 5]", "[rows 5]", "[ROW 5]", "[Tuples 5]", "[\n  ROWS -- so many\n  5 ]"])
def test_rows_of_one_stream(written: str) -> None:
    assert bound(f"SELECT v FROM t {written}").windows == (of_rows(5),)


@pytest.mark.parametrize(
    "streams",
    [
        "t a [RANGE 10 SECONDS], h b [ROWS 100]",
        "t [RANGE 10 SECONDS] a, h [ROWS 100] b",
        "t[RANGE 10 SECONDS] AS a, `h` AS `b`[ROWS 100]",
        "t AS a [RANGE '10 seconds'] CROSS JOIN h b [TUPLES 100]",
        "t a [RANGE 10 SECONDS] INNER JOIN h b [ROWS 100] ON TRUE",
    ],
)
def test_each_stream_has_the_window_behind_its_name_or_alias(streams: str) -> None:
    query = bound(f"SELECT a.v FROM {streams} WHERE a.k = b.k")
    assert query.windows == (of_time(10), of_rows(100))
    assert [(source.stream, source.alias) for source in query.sources] == [("t", "a"), ("h", "b")]


@pytest.mark.parametrize(
    ("streams", "windows"),
    [
        ("t a [ROWS 7], h b", (of_rows(7), of_time(60))),
        ("t a, h b [ROWS 7]", (of_time(60), of_rows(7))),
        ("t a JOIN h b [RANGE 2 s] ON a.k = b.k", (of_time(60), of_time(2))),
    ],
)
def test_stream_without_its_own_takes_the_window_at_the_end(streams: str, windows: tuple[Extent, ...]) -> None:
    assert bound(f"SELECT a.v FROM {streams} WHERE a.k = b.k WINDOW 1 MINUTE").windows == windows


def test_both_roles_of_a_self_join_have_their_windows() -> None:
    assert bound("SELECT a.v FROM t a [ROWS 1], t b [ROWS 2]").windows == (of_rows(1), of_rows(2))


def test_streams_without_aliases_have_windows() -> None:
    query = bound("SELECT t.v FROM t [ROWS 1], h [ROWS 2] WHERE t.k = h.k INTO (connector = 'console')")
    assert query.windows == (of_rows(1), of_rows(2))


def test_single_stream_needs_no_window() -> None:
    assert bound("SELECT v FROM t").windows == ()
    assert bound("SELECT v FROM t WINDOW 3 ROWS").windows == (of_rows(3),)


@pytest.mark.parametrize("joined", ["a, t b WHERE a.v < b.v", "a JOIN t b ON a.v <> b.v", "a, t b", "a CROSS JOIN t b"])
def test_join_needs_no_equality(joined: str) -> None:
    assert bound(f"SELECT a.v FROM h {joined} WINDOW 1 s").windows == within_us(1_000_000)


def test_largest_numbers_of_rows() -> None:
    assert bound("SELECT v FROM t WINDOW 1000000000 ROWS").windows == (of_rows(1_000_000_000),)


def test_rows_and_range_are_names_elsewhere() -> None:
    stream = "CREATE STREAM rows (`range` INT, ts TIMESTAMP) WITH (connector = 'generator');"
    (query,) = read_script(stream + "SELECT x.`range` AS `rows` FROM rows x [ROWS 2] WHERE x.`range` > 1").queries
    assert query.windows == (of_rows(2),)


@pytest.mark.parametrize("first", ["[RANGE 1 MINUTE] FRESHNESS 2 MINUTES", "FRESHNESS 2 MINUTES [RANGE 1 MINUTE]"])
def test_window_and_freshness_in_either_order(first: str) -> None:
    query = bound(f"SELECT a.v FROM t AS a {first} JOIN h b [ROWS 5] ON a.k = b.k ON OVERLOAD ADAPT")
    assert query.windows == (of_time(60), of_rows(5))
    assert query.freshness == (of_time(120), None)
