"""A user's own queries on a recorded sample: what is chosen, and what is said where the sample does not do."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from rich.console import Console

from headrace.config import Settings
from headrace.errors import SourceError
from headrace.lab.mine import METHODS, POLICIES, grids_of, mine, pictures_of, recorded
from headrace.lab.running import run_mine
from headrace.lab.storing import read_run
from headrace.plan.sharing import SharedPlan, share
from headrace.sql import read_script

PROGRAM = "".join(
    f"CREATE STREAM {name} (k BIGINT, v DOUBLE, ts TIMESTAMP) WITH (connector = 'files', path = '{name}', time = 'ts');"
    for name in ("a", "b")
) + (
    "CREATE QUERY small AS SELECT a.v FROM a, b WHERE a.k = b.k WINDOW 1 s;"
    "CREATE QUERY large AS SELECT a.v FROM a, b WHERE a.k = b.k WINDOW 10 s;"
)


def plan() -> SharedPlan:
    script = read_script(PROGRAM)
    return share(script.catalog, tuple(script.queries))


def record(sample: Path, name: str, rows: int = 300, **other: pa.Array) -> None:
    chance = np.random.default_rng(len(name))
    times = np.sort(chance.integers(0, 20_000_000, rows)) + 1_700_000_000_000_000
    columns = {"k": chance.integers(0, 10, rows), "v": chance.random(rows)}
    (sample / name).mkdir(parents=True)
    table = pa.table({**columns, "ts": pa.array(times, pa.timestamp("us", tz="UTC")), **other})
    pq.write_table(table, sample / name / "part.parquet")


def test_everything_is_tried_and_what_is_best_can_be_set(tmp_path: Path) -> None:
    for name in ("a", "b"):
        record(tmp_path, name)
    found = mine(plan(), tmp_path)
    assert set(found.responses_s) == set(POLICIES)
    assert set(found.spent_s) == set(METHODS)
    assert found.rows == {"a": 300, "b": 300}
    assert all(one["small"] > 0 for one in found.responses_s.values())
    assert list(found.joins) == ["a x b"]
    settings = Settings()
    for told in found.settings():
        name, value = told.removeprefix("SET ").rstrip(";").split(" = ")
        settings = settings.with_text(name, value.strip("'"))
    assert settings.policy in POLICIES
    assert settings.strategy in found.strategies
    assert len(pictures_of(found)) == 3 + len(grids_of(found))


def test_a_stream_that_was_not_recorded_is_named(tmp_path: Path) -> None:
    record(tmp_path, "a")
    with pytest.raises(SourceError, match=r"stream b: the sample has no .*record some of each stream"):
        mine(plan(), tmp_path)


def test_rows_that_do_not_fit_the_declaration_are_refused(tmp_path: Path) -> None:
    record(tmp_path, "a", k=pa.array(["x"] * 300))
    record(tmp_path, "b")
    with pytest.raises(SourceError, match=r"stream a: cannot read .* as it is declared"):
        mine(plan(), tmp_path)


def test_rows_without_an_event_time_are_left_out_and_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.lab.mine.INTERVALS", 3)
    record(tmp_path, "a", rows=200)
    record(tmp_path, "b", rows=200)
    file = tmp_path / "a" / "part.parquet"
    table = pq.read_table(file)
    times = table.column("ts").to_pylist()
    untimed = pa.array(
        [None if row % 10 == 0 else time for row, time in enumerate(times)], table.schema.field("ts").type
    )
    pq.write_table(table.set_column(table.schema.get_field_index("ts"), "ts", untimed), file)
    found = mine(plan(), tmp_path)
    assert found.rows == {"a": 180, "b": 200}
    assert found.untimed == {"a": 20}


@pytest.mark.parametrize(
    "text",
    ["2024-01-01T00:00:01.4", "2024-01-01 00:00:01.400", "2024-01-01T00:00:01.4Z", "2024-01-01T02:00:01.4+02:00"],
)
def test_times_in_json_are_utc_where_they_name_no_zone(tmp_path: Path, text: str) -> None:
    (tmp_path / "a.json").write_text(f'{{"k": 1, "v": 0.5, "ts": "{text}"}}\n{{"k": 1, "v": 0.5, "ts": null}}\n')
    stream = read_script(PROGRAM).catalog.streams[0]
    (_, _, times), left_out = recorded(stream, tmp_path)
    assert (times.tolist(), left_out) == ([1704067201400000], 1)


def test_a_stream_without_any_event_time_is_refused(tmp_path: Path) -> None:
    record(tmp_path, "a", rows=5, ts=pa.array([None] * 5, pa.timestamp("us", tz="UTC")))
    record(tmp_path, "b")
    with pytest.raises(SourceError, match=r"stream a: no row in .* has an event time \(ts\)"):
        mine(plan(), tmp_path)


def test_a_file_that_is_not_text_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "queries.sql"
    file.write_bytes(b"CREATE \xff")
    with pytest.raises(SourceError, match=r"queries.sql: it is not UTF-8 text"):
        run_mine(file, tmp_path, None, Console(file=io.StringIO()))


@pytest.mark.parametrize("stored", [b"{", b"[]", b"{}", b'{"versions": 1}', b"\xff"])
def test_a_broken_record_of_a_run_is_refused(tmp_path: Path, stored: bytes) -> None:
    assert read_run(tmp_path) == {}
    (tmp_path / "run.json").write_bytes(stored)
    with pytest.raises(SourceError, match=r"run.json is not what this version stores"):
        read_run(tmp_path)


THREE = PROGRAM[: PROGRAM.index("CREATE QUERY")] + (
    "CREATE STREAM c (k BIGINT, v DOUBLE, ts TIMESTAMP) WITH (connector = 'files', path = 'c', time = 'ts');"
    "CREATE QUERY q AS SELECT a.v FROM a, b, c WHERE a.k = b.k AND b.k = c.k WINDOW 2 s"
)


@pytest.mark.parametrize(("clause", "first"), [(";", "as the engine has it"), (" ON OVERLOAD ADAPT;", "((")])
def test_orders_and_trees_of_a_join_of_three_are_tried(tmp_path: Path, clause: str, first: str) -> None:
    for name in ("a", "b", "c"):
        record(tmp_path, name, 60)
    script = read_script(THREE + clause)
    found = mine(share(script.catalog, tuple(script.queries)), tmp_path)
    (times,) = found.plans
    assert times.own.startswith(first)
    assert len(times.spent_s) == (3 if times.is_tree else 6)
    assert all(spent_s > 0 for spent_s in times.spent_s.values())
    told = [row for grid in grids_of(found) if grid.title == "Orders and trees" for row in grid.rows]
    assert [row[1] for row in told] == list(times.spent_s)
    assert sum(row[3].startswith("best") for row in told) == 1
    assert any("Orders of" in one.title or "Trees of" in one.title for one in pictures_of(found))
    times.spent_s = {name: 1.0 + (name == times.own) for name in times.spent_s}
    assert (f"SET plan = '{times.best}';" in found.settings()) is times.is_tree
