"""Queries that are added, dropped, paused and resumed, and what the next run on the checkpoint makes of it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from headrace.errors import PlanError, SqlError
from headrace.spark.query_set import QuerySet, Record, recorded, replayed, undone, write_down
from headrace.sql import read_script

STREAM = "CREATE STREAM t (k BIGINT, ts TIMESTAMP) WITH (connector = 'generator', time = 'ts');"
PROGRAM = read_script(f"{STREAM} CREATE QUERY a AS SELECT k FROM t; CREATE QUERY b AS SELECT k FROM t WHERE k > 1;")
CATALOG = PROGRAM.catalog
BEGIN = QuerySet(PROGRAM.queries)


def text(name: str) -> str:
    return f"CREATE QUERY {name} AS SELECT k FROM t WHERE k > 5"


def names(queries: QuerySet) -> tuple[list[str], list[str]]:
    return [query.name for query in queries.running], [query.name for query in queries.paused]


def after(*records: Record) -> QuerySet:
    queries = BEGIN
    for record in records:
        queries = queries.after(record, CATALOG)
    return queries


def test_a_paused_query_is_known_but_does_not_run() -> None:
    assert names(after({"pause": "A"})) == (["b"], ["a"])
    assert names(after({"pause": "a"}, {"resume": "a"})) == (["b", "a"], [])
    assert names(after({"pause": "a"}, {"drop": "a"})) == (["b"], [])
    assert names(after({"pause": "a"}, {"add": text("c")})) == (["b", "c"], ["a"])
    assert names(after({"pause": "a"}, {"add": "DROP QUERY a"})) == (["b"], [])


@pytest.mark.parametrize(
    ("records", "told"),
    [
        ([{"pause": "c"}], "there is no query c: the queries are a, b"),
        ([{"pause": "a"}, {"pause": "a"}], "query a is paused already"),
        ([{"resume": "a"}], "query a is not paused"),
        ([{"pause": "a"}, {"pause": "b"}], "b is the only query that runs"),
        ([{"pause": "a"}, {"drop": "b"}], "b is the only query that runs"),
        ([{"add": "DROP QUERY a; DROP QUERY b"}], "none would run: stop the run instead"),
        ([{"add": "SET shards = 3"}], "setting shards cannot change while running"),
        ([{"add": STREAM.replace("STREAM t", "STREAM u")}], "streams cannot be declared while running"),
    ],
)
def test_what_cannot_be_done_is_refused(records: list[Record], told: str) -> None:
    with pytest.raises(PlanError, match=told):
        after(*records)


def test_the_name_of_a_paused_query_is_taken() -> None:
    with pytest.raises(SqlError, match="there is a query a already"):
        after({"pause": "a"}, {"add": text("a")})


def test_a_query_knows_its_text() -> None:
    assert after({"add": f"{text('c')};"}).running[-1].text == text("c")
    assert after({"add": "SELECT k FROM t"}).running[-1].text == "CREATE QUERY query_1 AS SELECT k FROM t"


ADDED = {"add": text("c"), "query": "c"}


@pytest.mark.parametrize(
    ("records", "left"),
    [
        ([ADDED, {"drop": "C"}], []),
        ([ADDED, {"pause": "c"}, {"drop": "c"}], []),
        ([{"pause": "a"}, {"resume": "a"}], []),
        ([{"drop": "a"}, {"drop": "b"}], [{"drop": "a"}, {"drop": "b"}]),
        ([{"drop": "c"}, ADDED], [{"drop": "c"}, ADDED]),
        ([{"drop": "c"}, ADDED, {"drop": "c"}], [{"drop": "c"}]),
        ([{"pause": "a"}, {"drop": "a"}], [{"drop": "a"}]),
        ([ADDED, {"add": "two at once"}, {"drop": "c"}], [ADDED, {"add": "two at once"}, {"drop": "c"}]),
    ],
)
def test_what_is_undone_leaves_no_record(records: list[Record], left: list[Record]) -> None:
    assert undone(records) == left


def test_a_text_that_only_adds_is_a_record_for_each_query() -> None:
    def records(record: Record, before: QuerySet = BEGIN) -> list[Record]:
        return recorded(record, before, before.after(record, CATALOG))

    other = {"add": text("d"), "query": "d"}
    assert records({"add": text("c")}) == [ADDED]
    assert records({"add": f"{text('c')};\n{text('d')};"}) == [ADDED, other]
    for record in ({"add": f"DROP QUERY a; {text('c')}"}, {"add": "DROP QUERY a"}, {"pause": "a"}, {"drop": "a"}):
        assert records(record) == [record]
    assert records({"resume": "a"}, after({"pause": "a"})) == [{"resume": "a"}]


def test_the_next_run_has_what_was_changed(tmp_path: Path) -> None:
    file = tmp_path / "changes.jsonl"
    for number in range(100):
        write_down(file, [{"add": text(f"g{number}"), "query": f"g{number}"}])
        write_down(file, [{"drop": f"g{number}"}])
    assert file.read_text() == ""
    write_down(file, [ADDED, {"pause": "a"}])
    with file.open("a") as lines:
        lines.write('{"drop": "b')  # cut off by a crash
    write_down(file, [{"drop": "b"}])
    assert names(replayed(file, CATALOG, PROGRAM.queries)) == (["c"], ["a"])


def test_a_query_that_the_program_has_by_now_is_the_programs(tmp_path: Path) -> None:
    """Its drop is not the end of what was added live, and holds for the program's."""
    file = tmp_path / "changes.jsonl"
    write_down(file, [ADDED])
    program = read_script(f"{STREAM} {text('c')}; CREATE QUERY a AS SELECT k FROM t")
    assert replayed(file, program.catalog, program.queries).running == program.queries
    write_down(file, [{"drop": "c"}])
    assert names(replayed(file, program.catalog, program.queries)) == (["a"], [])


def aside(file: Path) -> list[Record]:
    return [json.loads(line) for line in file.with_name("changes.aside.jsonl").read_text().splitlines()]


def test_what_holds_no_longer_is_kept_with_the_reason_and_said(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "changes.jsonl"
    lost = {"add": "CREATE QUERY d AS SELECT gone FROM t", "query": "d"}
    write_down(file, [lost, ADDED, {"pause": "nobody"}])
    assert names(replayed(file, CATALOG, PROGRAM.queries)) == (["a", "b", "c"], [])
    reasons = ["there is no column gone", "there is no query nobody: the queries are a, b, c"]
    assert aside(file) == [lost | {"reason": reasons[0]}, {"pause": "nobody", "reason": reasons[1]}]
    assert [one.levelname for one in caplog.records] == ["WARNING"] * 2
    for reason, one in zip(reasons, caplog.records, strict=True):
        assert reason in one.getMessage()
        assert str(file.with_name("changes.aside.jsonl")) in one.getMessage()
    caplog.clear()
    assert names(replayed(file, CATALOG, PROGRAM.queries)) == (["a", "b", "c"], [])
    assert (len(aside(file)), caplog.records) == (2, []), "said once"


def test_what_was_dropped_or_paused_stays_so_when_what_ran_meanwhile_was_dropped_too(tmp_path: Path) -> None:
    """All of the program's queries went while c ran; c went when d had come, and left no record."""
    for number, word in enumerate(("drop", "pause")):
        file = tmp_path / f"changes-{number}.jsonl"
        records = [{"add": text("c")}, {word: "a"}, {word: "b"}, {"add": text("d")}, {"drop": "c"}]
        queries = BEGIN
        for record in records:
            now = queries.after(record, CATALOG)
            write_down(file, recorded(record, queries, now))
            queries = now
        assert names(replayed(file, CATALOG, PROGRAM.queries)) == names(queries)


def test_a_drop_of_all_that_the_program_has_by_now_does_not_hold(tmp_path: Path) -> None:
    file = tmp_path / "changes.jsonl"
    write_down(file, [{"drop": "a"}])
    program = read_script(f"{STREAM} CREATE QUERY a AS SELECT k FROM t")
    assert names(replayed(file, program.catalog, program.queries)) == (["a"], [])
    assert aside(file) == [{"drop": "a", "reason": "a is the only query that runs: stop the run instead"}]


def test_of_two_queries_that_were_added_the_one_that_the_program_lacks_stays(tmp_path: Path) -> None:
    file = tmp_path / "changes.jsonl"
    both = {"add": f"{text('c')}; {text('d')}"}
    write_down(file, recorded(both, BEGIN, BEGIN.after(both, CATALOG)))
    program = read_script(f"{STREAM} CREATE QUERY c AS SELECT k FROM t")
    found = replayed(file, program.catalog, program.queries)
    assert names(found) == (["c", "d"], [])
    assert found.running[0] is program.queries[0]
    assert [one["query"] for one in aside(file)] == ["c"]
