"""``docs/sql.md`` is true: its examples are read, its tables are complete."""

from __future__ import annotations

import re
from pathlib import Path

from headrace.errors import SqlError, UnsupportedError
from headrace.plan.connectors import SINKS, SOURCES, describe
from headrace.sql import read_script
from headrace.sql.calls import CALLABLE

TEXT = (Path(__file__).parent.parent.parent / "docs" / "sql.md").read_text()


def test_examples_are_read_from_top_to_bottom() -> None:
    script = read_script("\n".join(re.findall(r"```sql\n(.*?)```", TEXT, re.DOTALL)))
    many = ["storm", "mast_readings", "rising", "near_line", "at_once", "gusts"]
    grouped = ["hot_and_wet_places", "peaks", "unsteady", "present"]
    outside = ["large_orders", "small_orders"]
    names = ["hot_and_wet", "query_1", "query_2", "sudden", *outside, *many, *grouped, "query_3"]
    assert [query.name for query in script.queries] == names


def test_refused_examples_are_refused() -> None:
    streams = re.findall(r"```sql\n(.*?)```", TEXT, re.DOTALL)[0]
    catalog = read_script(streams).catalog
    section = TEXT.partition("## What is refused")[2]
    refused = re.findall(r"^\| `(SELECT .*?)` \|", section, re.MULTILINE)
    assert len(refused) > 10
    for text in refused:
        try:
            read_script(text, catalog)
        except UnsupportedError:
            continue
        raise AssertionError(f"accepted: {text}")


def test_error_shown_is_the_error_given() -> None:
    streams = re.findall(r"```sql\n(.*?)```", TEXT, re.DOTALL)[0]
    (shown,) = re.findall(r"```text\n(.*?)\n```", TEXT, re.DOTALL)
    source = re.search(r"1 \| (.*)", shown)
    assert source is not None
    try:
        read_script(source.group(1), read_script(streams).catalog)
    except SqlError as error:
        given = str(error)
    assert given == shown


def test_connector_tables_are_those_of_the_code() -> None:
    assert describe(SOURCES) in TEXT
    assert describe(SINKS) in TEXT


def test_every_function_is_listed() -> None:
    functions = TEXT.partition("## Functions")[2].partition("\n## ")[0]
    missing = [name for name in CALLABLE if not re.search(rf"\b{name.upper()}\b", functions)]
    assert missing == []


def test_examples_of_the_kafka_page_are_read() -> None:
    page = (Path(__file__).parent.parent.parent / "docs" / "kafka.md").read_text()
    script = read_script("\n".join(re.findall(r"```sql\n(.*?)```", page, re.DOTALL)))
    assert [query.name for query in script.queries] == ["first_steps", "large"]
