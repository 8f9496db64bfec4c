"""Statements, names and the state they leave."""

from __future__ import annotations

import pytest

from headrace.errors import SqlError
from headrace.model import BIGINT, TIMESTAMP, Catalog
from headrace.sql import read_script

TEMPERATURE = """CREATE STREAM temperature (location_id BIGINT, value DOUBLE, ts TIMESTAMP)
  WITH (connector = 'files', format = 'parquet', path = 'data/temperature', time = 'ts');
"""


def test_empty_text_changes_nothing() -> None:
    script = read_script("  -- nothing here\n /* nor\n here */ ;; ")
    assert (script.catalog, script.queries, script.settings) == (Catalog(), (), ())


def test_stream_keeps_columns_time_and_sorted_options() -> None:
    (stream,) = read_script(TEMPERATURE).catalog.streams
    assert next((column.name, column.type) for column in stream.schema) == ("location_id", BIGINT)
    assert (stream.name, stream.time, stream.max_delay_us) == ("temperature", "ts", 0)
    assert stream.options == (("connector", "files"), ("format", "parquet"), ("path", "data/temperature"))


def test_only_timestamp_column_is_the_time() -> None:
    (stream,) = read_script("create stream s (k int, At timestamp) with (connector = generator)").catalog.streams
    assert stream.time == "At"
    assert stream.schema.columns[1].type == TIMESTAMP


@pytest.mark.parametrize(
    ("written", "microseconds"),
    [("'2 seconds'", 2_000_000), ("500 ms", 500_000), ("'1.5 sec'", 1_500_000), ("'0 s'", 0)],
)
def test_max_delay_is_a_duration_and_no_option(written: str, microseconds: int) -> None:
    text = f"CREATE STREAM s (k INT, ts TIMESTAMP) WITH (MAX_DELAY = {written}, connector = 'generator', Rate = 5)"
    (stream,) = read_script(text).catalog.streams
    assert stream.max_delay_us == microseconds
    assert stream.options == (("connector", "generator"), ("rate", "5"))


def test_bare_selects_are_numbered_and_last_semicolon_is_optional() -> None:
    script = read_script(TEMPERATURE + "SELECT ts FROM temperature; CREATE QUERY q AS SELECT ts FROM temperature;"
                         "select ts from temperature")  # fmt: skip
    assert [query.name for query in script.queries] == ["query_1", "q", "query_2"]


def test_script_goes_on_from_the_catalog_and_queries_given() -> None:
    first = read_script(TEMPERATURE + "SELECT ts FROM temperature")
    second = read_script("SELECT value FROM Temperature; DROP QUERY query_1", first.catalog, first.queries)
    assert second.catalog == first.catalog
    assert [query.name for query in second.queries] == ["query_2"]
    assert second.dropped == ("query_1",)


def test_settings_are_kept_in_order() -> None:
    script = read_script("SET shards = 4; set TRIGGER = 5 seconds; SET checkpoint = '/tmp/x'; SET shards = 8")
    assert script.settings == (("shards", "4"), ("trigger", "5 seconds"), ("checkpoint", "/tmp/x"), ("shards", "8"))


def test_explain_alone_names_all_queries_before_it() -> None:
    text = TEMPERATURE + "CREATE QUERY a AS SELECT ts FROM temperature; CREATE QUERY b AS SELECT ts FROM temperature; "
    assert read_script(text + "EXPLAIN").explained == ("a", "b")
    assert read_script(text + "EXPLAIN B; EXPLAIN QUERY a").explained == ("b", "a")
    assert read_script(text + "EXPLAIN; DROP QUERY a").explained == ("b",)


def test_explained_select_is_bound_but_not_run() -> None:
    script = read_script(TEMPERATURE + "EXPLAIN SELECT ts FROM temperature; EXPLAIN SELECT value FROM temperature;")
    assert script.queries == ()
    assert [query.name for query in script.explained_queries] == ["explain_1", "explain_2"]


def test_dropped_name_can_be_used_again() -> None:
    text = (
        TEMPERATURE
        + "CREATE QUERY q AS SELECT ts FROM temperature; DROP QUERY Q; CREATE QUERY q AS SELECT * FROM temperature"
    )
    script = read_script(text)
    assert script.dropped == ("q",)
    assert len(script.queries[0].outputs) == 3


def test_statement_sees_only_what_stands_before_it() -> None:
    with pytest.raises(SqlError, match="there is no stream temperature"):
        read_script("SELECT ts FROM temperature;" + TEMPERATURE)


def test_place_counts_lines_of_the_whole_text() -> None:
    with pytest.raises(SqlError) as caught:
        read_script(TEMPERATURE + "\n-- a comment; with a semicolon\nSELECT ts\n  FROM temperature\n WHERE\tvalu > 1;")
    assert (caught.value.place.line, caught.value.place.column, caught.value.place.width) == (7, 8, 4)


def test_place_is_right_with_windows_line_ends_and_wide_letters() -> None:
    text = TEMPERATURE.replace("\n", "\r\n") + "SELECT 'größe 😀' AS x,\r\n nothing FROM temperature"
    with pytest.raises(SqlError) as caught:
        read_script(text)
    assert (caught.value.place.line, caught.value.place.column) == (4, 2)


def test_into_options_are_sorted_and_lower_case() -> None:
    (query,) = read_script(
        TEMPERATURE + "SELECT ts FROM temperature INTO (PATH = 'out', Connector = 'Parquet')"
    ).queries
    assert query.into == (("connector", "parquet"), ("path", "out"))
