"""Mistakes that show only when a program is seen as a whole: pointed at where a text has them, else told plainly."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import cast

import pytest
from pyspark.sql import SparkSession
from rich.console import Console

from headrace.cli import main
from headrace.config import Settings
from headrace.errors import PlanError, SqlError
from headrace.spark import local
from headrace.spark.checkpoint import open_checkpoint
from headrace.spark.labels import shard_labels
from headrace.spark.query_set import write_down
from headrace.spark.session import Engine

STREAMS = "".join(
    f"CREATE STREAM {name} (k BIGINT, x DOUBLE, ts TIMESTAMP) WITH (connector = 'generator', time = 'ts');\n"
    for name in "stu"
)
PAIR = "FROM s a, t b WHERE a.k = b.k WINDOW 1 s"
THREE = "FROM s a, t b, u c WHERE a.k = b.k AND b.k = c.k WINDOW 1 s"
SCANNED = "FROM s a, t b, u c WHERE a.k = b.k AND a.x + b.x + c.x > 0 WINDOW 1 s"
SHARED = "INTO (connector = 'parquet', shared = 'all')"

WHOLE = {
    "method without a stretch": (
        f"SET join_method = 'lazy';\nCREATE QUERY q AS SELECT a.x {PAIR};",
        "setting join_method: lazy joins tuples of a stretch of time together",
        (4, "'lazy'"),
        "say how long it is, such as SET reevaluate = '1 second', or take eager, naive, index or hybrid",
    ),
    "method with a stretch": (
        f"SET join_method = 'eager'; SET reevaluate = '1 second';\nCREATE QUERY q AS SELECT a.x {PAIR};",
        "setting join_method: eager joins tuples at once",
        (4, "'eager'"),
        "take lazy, or SET reevaluate = '0 seconds'",
    ),
    "method that does not fit a query": (
        f"CREATE QUERY q AS SELECT a.x {SCANNED};\nSET join_method = index;",
        "to find its tuples by, from some other",
        (5, "index"),
        "take hybrid",
    ),
    "tree that no query runs by": (
        f"SET plan = '(s t)';\nCREATE QUERY q AS SELECT a.x {PAIR};",
        "by which queries over three streams or more run",
        (4, "'(s t)'"),
        "end a query with ON OVERLOAD ADAPT (without a budget it leaves nothing out), or leave SET plan out",
    ),
    "tree of other streams": (
        f"SET plan = '((s t) v)';\nCREATE QUERY q AS SELECT a.x {THREE} ON OVERLOAD ADAPT;",
        "plan '((s t) v)': 'v' is not one of s, t, u",
        (4, "'((s t) v)'"),
        "write '((s t) u)', say",
    ),
    "tree of other streams, for a query that defers": (
        f"SET plan = '((s t) v)';\nCREATE QUERY q AS SELECT a.x {THREE};",
        "plan '((s t) v)': 'v' is not one of s, t, u",
        (4, "'((s t) v)'"),
        "write '((s t) u)', say",
    ),
    "allocator of one join": (
        f"SET allocator = jda;\nCREATE QUERY q AS SELECT a.x {THREE} ON OVERLOAD ADAPT;",
        "allocator jda is for a join of two streams, and one joins s, t, u",
        (4, "jda"),
        "use jda_m or jaqpot",
    ),
    "allocator of one join, before EXPLAIN": (
        f"SET allocator = jda;\nCREATE QUERY q AS SELECT a.x {THREE} ON OVERLOAD ADAPT;\nEXPLAIN q",
        "allocator jda is for a",
        (4, "jda"),
        "use jda_m or jaqpot",
    ),
    "shared sink with a column query": (
        f"CREATE QUERY q AS\nSELECT x AS query FROM s {SHARED}",
        "query q has a column query, as the shared sink all calls the column that says whose a row is",
        (4, "q"),
        "give it another name with AS",
    ),
    "shared sink of other columns": (
        f"SELECT x FROM s {SHARED};\nCREATE QUERY other AS SELECT k FROM s {SHARED}",
        "queries query_1 and other share the sink all, but column 1 is x DOUBLE in query_1 and k BIGINT in other",
        (5, "other"),
        "make them the same, or give one of the queries another sink",
    ),
    "shared sink of an explained query": (
        f"CREATE QUERY q AS SELECT x FROM s {SHARED}; EXPLAIN SELECT k FROM s {SHARED}",
        "queries q and explain_1 share the sink all",
        (4, f"SELECT k FROM s {SHARED}"),
        "make them the same, or give one of the queries another sink",
    ),
}
"""What ``explain`` refuses too: text, message, line and culprit, hint."""

STARTED = {
    "two ways to evaluate": (
        "SET reevaluate = '1 second';\nSET evaluate = 'eager';\nSELECT x FROM s",
        "setting evaluate: eager is whenever anything changes, and reevaluate is every 1 second",
        (5, "'eager'"),
        "set one of them",
    ),
    "blocks of rows": (
        "SET block = '5 rows';\nSELECT x FROM s",
        "setting block: 5 rows cannot be cut alike on 2 shards",
        (4, "'5 rows'"),
        "write a stretch of time, such as '100 ms', or SET shards = 1",
    ),
    "one path for two": (
        "SELECT x FROM s INTO (connector = 'parquet', path = '/nowhere/x');\n"
        "SELECT k FROM s INTO (connector = 'parquet', path = '/nowhere/x')",
        "queries query_1 and query_2 both write to /nowhere/x",
        (5, "SELECT k FROM s INTO (connector = 'parquet', path = '/nowhere/x')"),
        "give one of them another path",
    ),
    "column of directories": (
        "CREATE QUERY q AS SELECT x AS micro_batch FROM s",
        "query q has a column micro_batch, which names its directories",
        (4, "q"),
        "give it another name with AS",
    ),
    "jars that are not there": (
        "SET jars = '/nowhere/gone.jar';\nSELECT x FROM s",
        "setting jars: there is no /nowhere/gone.jar",
        (4, "'/nowhere/gone.jar'"),
        "write a directory of jars, or files parted by commas",
    ),
}
"""What only a start refuses."""
BEFORE_REPLAY = {name: case for name, case in WHOLE.items() if name != "tree that no query runs by"}
"""Whether a tree is used is known only with the queries of earlier runs."""

UNEXPLAINED = {name: case for name, case in WHOLE.items() if "EXPLAIN" not in case[0]}
"""An engine explains when it is asked, whatever its text says."""


def shown(text: str, at: tuple[int, str]) -> str:
    """Where an error points, as it is shown."""
    number, culprit = at
    line = text.splitlines()[number - 1]
    before = line.index(culprit) if len(culprit) > 1 else line.index(f" {culprit} ") + 1
    caret = " " * (len(f"{number} | ") + before) + "^" * len(culprit)
    return f"\n  at line {number}, column {before + 1}:\n{number} | {line}\n{caret}\n  hint: "


def refused(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    """What the command line says of a wrong program, before it starts Spark."""

    def refuse(_log: Path | None = None, **_: object) -> None:
        pytest.fail("Spark was started")

    monkeypatch.setattr(local, "local_session", refuse)
    monkeypatch.setattr(sys, "argv", ["headrace", *map(str, arguments)])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    return capsys.readouterr().err


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "program.sql"


@pytest.mark.parametrize(("text", "message", "at", "hint"), WHOLE.values(), ids=WHOLE)
def test_explain_points_at_it(
    file: Path,
    text: str,
    message: str,
    at: tuple[int, str],
    hint: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    file.write_text(STREAMS + text)
    said = refused(monkeypatch, capsys, "explain", file)
    assert message in said.splitlines()[0]
    assert said.endswith(f"{shown(STREAMS + text, at)}{hint}\n")


@pytest.mark.parametrize(
    ("text", "message", "at", "hint"), [*BEFORE_REPLAY.values(), *STARTED.values()], ids=[*BEFORE_REPLAY, *STARTED]
)
def test_run_points_at_it(
    file: Path,
    text: str,
    message: str,
    at: tuple[int, str],
    hint: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    file.write_text(STREAMS + text)
    said = refused(monkeypatch, capsys, "run", file, "--out", file.parent / "out")
    assert message in said.splitlines()[0]
    assert said.endswith(f"{shown(STREAMS + text, at)}{hint}\n")


def test_serve_points_at_it(file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    text, _, at, hint = WHOLE["method without a stretch"]
    file.write_text(STREAMS + text)
    said = refused(monkeypatch, capsys, "serve", file, "--out", file.parent / "out", "--port", 0)
    assert said.endswith(f"{shown(STREAMS + text, at)}{hint}\n")


@pytest.mark.parametrize("command", ["run", "explain"])
def test_setting_of_the_command_line_is_not_pointed_at_in_the_file(
    file: Path, command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file.write_text(f"{STREAMS}SET join_method = 'hybrid';\nCREATE QUERY q AS SELECT a.x {PAIR}")
    out = ("--out", file.parent / "out") if command == "run" else ()
    said = refused(monkeypatch, capsys, command, file, *out, "--set", "JOIN_METHOD=lazy")
    assert said == (
        "headrace: setting join_method: lazy joins tuples of a stretch of time together: say how long it is, such as "
        "SET reevaluate = '1 second', or take eager, naive, index or hybrid\n"
    )


# --- from Python


class NoSpark:
    """A session that a program is refused before it is used."""


def engine_with(*texts: str, settings: Settings | None = None) -> Engine:
    engine = Engine(cast(SparkSession, NoSpark()), settings or Settings())
    for text in texts:
        engine.sql(text)
    return engine


@pytest.mark.parametrize(("text", "message", "at", "hint"), UNEXPLAINED.values(), ids=UNEXPLAINED)
def test_start_and_explain_of_an_engine_point_at_it(
    tmp_path: Path, text: str, message: str, at: tuple[int, str], hint: str
) -> None:
    for ask in (lambda engine: engine.start(tmp_path / "out"), Engine.explain):
        with pytest.raises(SqlError) as caught:
            ask(engine_with(STREAMS + text))
        assert message in caught.value.message
        assert str(caught.value).endswith(f"{shown(STREAMS + text, at)}{hint}")


def test_each_text_of_an_engine_has_its_own_lines(tmp_path: Path) -> None:
    engine = engine_with(STREAMS, f"CREATE QUERY q AS SELECT a.x {PAIR}", "SET join_method =\n'lazy'")
    with pytest.raises(SqlError) as caught:
        engine.start(tmp_path / "out")
    assert "at line 2, column 1:\n2 | 'lazy'\n    ^^^^^^\n" in str(caught.value)


def test_settings_given_in_python_have_no_place(tmp_path: Path) -> None:
    program = f"{STREAMS} CREATE QUERY q AS SELECT a.x {PAIR};"
    given = engine_with(program, settings=Settings(join_method="lazy"))
    changed = engine_with(f"{program} SET join_method = 'hybrid'")
    changed.set("join_method", "lazy")
    for engine in (given, changed):
        with pytest.raises(PlanError, match=r"^setting join_method: lazy joins .* together: say how long it is"):
            engine.start(tmp_path / "out")


def test_of_two_parts_the_one_in_the_text_is_pointed_at(tmp_path: Path) -> None:
    text = f"{STREAMS}CREATE QUERY q AS SELECT a.x {SCANNED}"
    with pytest.raises(SqlError) as caught:
        engine_with(text, settings=Settings(join_method="index")).start(tmp_path / "out")
    assert str(caught.value).endswith(f"{shown(text, (4, 'q'))}take hybrid")


def test_endless_stream_and_homeless_query_are_pointed_at(tmp_path: Path) -> None:
    text = "CREATE STREAM s (ts TIMESTAMP) WITH (connector = 'generator', time = 'ts');\nSELECT ts FROM s"
    with pytest.raises(SqlError, match="stream s never ends") as caught:
        engine_with(text).start(tmp_path / "out", once=True)
    assert shown(text, (1, "s")) in str(caught.value)
    with pytest.raises(SqlError, match="query query_1 has nowhere to write to") as caught:
        engine_with(text).start()
    assert shown(text, (2, "SELECT ts FROM s")) in str(caught.value)


def test_query_that_was_changed_live_is_not_pointed_at_in_the_program(tmp_path: Path) -> None:
    """Its text is another by now."""
    program = f"{STREAMS} CREATE QUERY q AS SELECT x FROM s; CREATE QUERY r AS SELECT x FROM s"
    engine = engine_with(program)
    opened = open_checkpoint(tmp_path / "_checkpoint", engine.catalog.streams, shard_labels(2))
    write_down(opened.changes, [{"drop": "q"}, {"add": "CREATE QUERY q AS SELECT x AS micro_batch FROM s"}])
    with pytest.raises(PlanError, match=r"^query q has a column micro_batch"):
        engine.start(tmp_path, console=Console(quiet=True))
