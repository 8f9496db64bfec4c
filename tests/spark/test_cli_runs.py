"""The command line on real Spark: what goes wrong while it runs, and how it is stopped."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from commands import Command
from pyspark.sql import SparkSession
from streams import Feed, answers, assert_answers, cut, declare, readings

from headrace.cli import main
from headrace.spark import local, session

pytestmark = pytest.mark.spark

QUERY = (
    "CREATE QUERY q AS SELECT a.location_id, a.value, b.value AS h FROM temperature a, humidity b "
    "WHERE a.location_id = b.location_id WINDOW 30 s;"
)


class Place:
    """Two feeds, and a program over them."""

    def __init__(self, directory: Path) -> None:
        self.a = Feed(directory / "a")
        self.b = Feed(directory / "b")
        self.out = directory / "out"
        self.text = (
            declare("temperature", self.a, max_files_per_batch="1")
            + declare("humidity", self.b, max_files_per_batch="1")
            + QUERY
        )
        self.program = directory / "program.sql"
        self.program.write_text(self.text)
        self.left = cut(readings(1, 120, 120), 4)
        self.right = cut(readings(2, 120, 120), 4)

    def feed(self, files: slice) -> None:
        self.a.add_all(self.left[files])
        self.b.add_all(self.right[files])

    def assert_answered(self) -> None:
        expected = answers(self.text, {"temperature": self.a.rows, "humidity": self.b.rows})
        assert expected["q"]
        assert_answers(self.out, expected)

    def batches(self) -> int:
        return len(list(self.out.glob("q/micro_batch=*")))


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


Told = Callable[..., tuple[int, str, str]]


@pytest.fixture
def headrace(spark: SparkSession, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Told:
    """Runs a command line in this process, on the tests' Spark; gives exit code, standard output and error."""

    def run(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(local, "local_session", lambda _log=None, **_: spark)
        monkeypatch.setattr(sys, "argv", ["headrace", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main()
        told = capsys.readouterr()
        return int(ended.value.code or 0), told.out, told.err

    return run


def test_run_once_tells_where_results_are(headrace: Told, place: Place) -> None:
    place.feed(slice(0, 4))
    code, told, _ = headrace("run", place.program, "--out", place.out, "--once", "--set", "shards=3")
    assert code == 0
    assert f"results are in {place.out}" in told.replace("\n", "")
    place.assert_answered()


def test_checkpoint_that_does_not_fit(headrace: Told, place: Place, tmp_path: Path) -> None:
    place.feed(slice(0, 1))
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "todo.txt").write_text("mine")
    arguments = ("run", place.program, "--out", place.out, "--once")
    code, _, said = headrace(*arguments, "--checkpoint", tmp_path / "notes")
    assert code == 4
    assert "is not a checkpoint of Headrace" in said
    assert [file.name for file in (tmp_path / "notes").iterdir()] == ["todo.txt"]
    assert headrace(*arguments)[0] == 0
    code, _, said = headrace(*arguments, "--set", "shards=5")
    assert code == 4
    assert "was made with 2 shards, not 5" in said
    code, _, said = headrace(*arguments, "--checkpoint", tmp_path / "new")
    assert code == 3
    assert "results of another run" in said
    place.assert_answered()


@pytest.mark.parametrize("kind", ["other_type", "not_parquet"])
def test_bad_file_that_arrives_while_running_is_named(headrace: Told, place: Place, kind: str) -> None:
    """Nothing is lost: without the file, the next run goes on."""
    place.feed(slice(0, 2))
    bad = place.a.place(f"{place.a.files:04d}.parquet", _write_strings if kind == "other_type" else _write_text)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(session, "check_files", lambda _stream: None)  # as if it had come after the check
        code, _, said = headrace("run", place.program, "--out", place.out, "--once")
    assert code == 3, said
    assert "Traceback" not in said
    assert bad.name in said
    assert "move it away, then start again" in said
    assert len(said.strip().splitlines()) == 1
    assert place.batches() >= 1
    bad.unlink()
    place.feed(slice(2, 4))
    code, _, said = headrace("run", place.program, "--out", place.out, "--once")
    assert code == 0, said
    place.assert_answered()


def test_csv_file_whose_header_is_in_another_order_stops_the_run(headrace: Told, tmp_path: Path) -> None:
    """Columns are taken by position: nothing is swapped in silence, and without the file the next run goes on."""
    feed = Feed(tmp_path / "csv", "csv").add_all(cut(readings(3, 40, 20), 2))
    text = declare("readings", feed) + "CREATE QUERY everything AS SELECT * FROM readings;"
    program, out = tmp_path / "program.sql", tmp_path / "out"
    program.write_text(text)
    arguments = ("run", program, "--out", out, "--once")
    assert headrace(*arguments)[0] == 0
    bad = feed.add_text("value,location_id,ts\n2,1,2026-02-02T00:00:00.000000Z\n")
    code, _, said = headrace(*arguments)
    assert code == 3, said
    assert f"{bad.name} does not have the declared columns in order" in said
    assert len(said.strip().splitlines()) == 1
    bad.unlink()
    code, _, said = headrace(*arguments)
    assert code == 0, said
    assert_answers(out, answers(text, {"readings": feed.rows}))


def test_restart_takes_a_file_that_the_run_took(headrace: Told, place: Place) -> None:
    """A later Parquet file that lacks a column is read as NULL, and is no reason to refuse the next run."""
    place.feed(slice(0, 2))
    arguments = ("run", place.program, "--out", place.out, "--once")
    assert headrace(*arguments)[0] == 0
    times = pa.array([0], pa.timestamp("us", tz="UTC"))
    place.a.place(f"{place.a.files:04d}.parquet", lambda path: pq.write_table(pa.table({"ts": times}), path))
    for _ in range(2):
        code, _, said = headrace(*arguments)
        assert code == 0, said


def _write_text(path: Path) -> None:
    path.write_text("no Parquet")


def _write_strings(path: Path) -> None:
    times = pa.array([0], pa.timestamp("us", tz="UTC"))
    pq.write_table(pa.table({"location_id": ["one"], "value": [1.0], "ts": times}), path)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["interrupt", "terminate"])
def test_signal_ends_a_run_and_the_next_goes_on(headrace: Told, place: Place, number: signal.Signals) -> None:
    place.feed(slice(0, 2))
    with Command(place.program, place.out) as command:
        assert command.wait_for(lambda: place.batches() >= 1)
        if number is signal.SIGINT:
            os.killpg(command.process.pid, number)  # as a terminal does: to all of them
        else:
            command.send(number)
        code, told, said = command.finish()
    assert (code, said) == (0, "")
    assert "results are in" in told
    place.feed(slice(2, 4))
    assert headrace("run", place.program, "--out", place.out, "--once")[0] == 0
    place.assert_answered()


def test_failure_prints_one_line_and_sparks_story_goes_to_a_file(place: Place) -> None:
    place.feed(slice(0, 1))
    with Command(place.program, place.out) as command:
        assert command.wait_for(lambda: (place.out / "_checkpoint" / "spark" / "commits" / "0").exists())
        bad = place.a.place("0001.parquet", lambda path: path.write_text("no Parquet"))
        code, told, said = command.finish()
    assert code == 3
    assert "results are in" not in told
    assert bad.name in said
    assert len(said.strip().splitlines()) == 1
    assert (place.out / "_spark.log").read_text()
    assert (place.out / "_checkpoint" / "failure.log").read_text()
