"""The command line as a user meets it, as far as no Spark is needed: each mistake is a message and an exit code."""

from __future__ import annotations

import io
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headrace import __version__
from headrace.cli import main
from headrace.console.serving import bound_socket
from headrace.errors import HeadraceError, SourceError
from headrace.spark import local, session

GOOD = "SELECT a.value, b.value AS h FROM temperature a, humidity b WHERE a.location_id = b.location_id WINDOW 10 s"
GOOD_TABLE = pa.table({"location_id": [1], "value": [20.5], "ts": pa.array([0], pa.timestamp("us", tz="UTC"))})

Command = Callable[..., tuple[int, str]]


@pytest.fixture
def headrace(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """Runs a command line; gives its exit code and what it said on standard error. Spark must not start."""

    def refuse(_log: Path | None = None, **_: object) -> None:
        pytest.fail("Spark was started")

    def run(*arguments: object) -> tuple[int, str]:
        monkeypatch.setattr(local, "local_session", refuse)
        monkeypatch.setattr(sys, "argv", ["headrace", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main()
        said = capsys.readouterr().err
        assert "Traceback" not in said
        return int(ended.value.code or 0), said

    return run


@pytest.fixture
def program(tmp_path: Path) -> Callable[..., Path]:
    """Writes a program over two directories of Parquet files."""

    def write(queries: str = GOOD, *, table: pa.Table = GOOD_TABLE, options: str = "") -> Path:
        for name in ("temperature", "humidity"):
            (tmp_path / name).mkdir(exist_ok=True)
        pq.write_table(table, tmp_path / "temperature" / "0.parquet")
        streams = "".join(
            f"CREATE STREAM {name} (location_id BIGINT, value DOUBLE, ts TIMESTAMP)\n"
            f"  WITH (connector = 'files', path = '{tmp_path / name}', time = 'ts'{options});\n"
            for name in ("temperature", "humidity")
        )
        file = tmp_path / "program.sql"
        file.write_text(streams + queries)
        return file

    return write


@pytest.mark.parametrize(
    ("query", "told"),
    [
        ("SELEC 1", "SELEC"),
        ("SELECT a.valu FROM temperature a", "did you mean value?"),
        ("SELECT a.value FROM temperature a WHERE a.value > 'hot'", "DOUBLE"),
        ("SELECT a.ts FROM temperature a, humidity b WHERE a.location_id = b.location_id", "WINDOW"),
        ("SELECT ts FROM wind", "wind"),
        ("SET shards = many; SELECT ts FROM temperature", "whole number from 1 to 4096"),
        ("SET shard = 2; SELECT ts FROM temperature", "shards"),
    ],
    ids=["syntax", "column", "type", "window", "stream", "value", "setting"],
)
def test_wrong_sql_is_shown_at_its_place(
    headrace: Command, program: Callable[..., Path], tmp_path: Path, query: str, told: str
) -> None:
    code, said = headrace("run", program(query), "--out", tmp_path / "out", "--once")
    assert code == 2
    assert told in said
    assert "at line 5, column" in said
    assert "^" in said
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--set", "shards"], "write NAME=VALUE"),
        (["--set", "shards=0"], "whole number from 1 to 4096"),
        (["--set", "colour=red"], "there is no setting colour"),
        (["--set", "trigger=soon"], "such as '2 seconds'"),
        (["--set", "cache_memory=lots"], "'512 MiB'"),
    ],
)
def test_wrong_setting_on_the_command_line(
    headrace: Command, program: Callable[..., Path], tmp_path: Path, arguments: list[str], told: str
) -> None:
    code, said = headrace("run", program(), "--out", tmp_path / "out", *arguments)
    assert code == 2
    assert told in said


@pytest.mark.parametrize("command", ["explain", "run"])
def test_method_that_needs_another_setting(
    headrace: Command, program: Callable[..., Path], tmp_path: Path, command: str
) -> None:
    file = program("SELECT a.ts FROM temperature a, humidity b WHERE a.location_id = b.location_id WINDOW 1 s")
    given = ["--out", str(tmp_path / "out")] if command == "run" else []
    code, err = headrace(command, str(file), "--set", "join_method=lazy", *given)
    assert code == 2
    assert "SET reevaluate = '1 second'" in err


def _goes_on_from(checkpoint: Path) -> None:
    """As if a run had taken in a micro-batch."""
    (checkpoint / "spark" / "offsets").mkdir(parents=True)
    (checkpoint / "spark" / "offsets" / "0").touch()


@pytest.mark.parametrize("place", ["default", "option", "setting"])
def test_run_that_goes_on_takes_the_files_it_took_before(
    program: Callable[..., Path], tmp_path: Path, place: str
) -> None:
    """A file that lacks a column is refused at the first start, and read as NULL if it came later."""
    engine = session.Engine()
    engine.sql(program(table=GOOD_TABLE.drop_columns(["value"])).read_text())
    checkpoint = tmp_path / "out" / "_checkpoint" if place == "default" else tmp_path / "checkpoint"
    if place == "setting":
        engine.set("checkpoint", str(checkpoint))
    given = checkpoint if place == "option" else None
    with pytest.raises(SourceError, match="has no column value"):
        engine.check(tmp_path / "out", given)
    _goes_on_from(checkpoint)
    engine.check(tmp_path / "out", given)


def test_run_that_goes_on_needs_its_directories(program: Callable[..., Path], tmp_path: Path) -> None:
    engine = session.Engine()
    engine.sql(program().read_text())
    _goes_on_from(tmp_path / "out" / "_checkpoint")
    (tmp_path / "humidity").rmdir()
    with pytest.raises(SourceError, match="there is no"):
        engine.check(tmp_path / "out")


@pytest.mark.parametrize("where", ["file", "file/below", "used"])
def test_demo_refuses_its_directory_before_spark_starts(headrace: Command, tmp_path: Path, where: str) -> None:
    (tmp_path / "file").write_text("not a directory")
    (tmp_path / "used").mkdir()
    (tmp_path / "used" / "something").touch()
    code, said = headrace("demo", "--out", tmp_path / where)
    assert code == 3
    assert ("is not empty" if where == "used" else "cannot write to") in said


def test_checkpoint_that_cannot_be_written_is_called_by_its_option(
    headrace: Command, program: Callable[..., Path], tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("not a directory")
    code, said = headrace("run", program(), "--out", tmp_path / "out", "--checkpoint", tmp_path / "file")
    assert code == 3
    assert f"cannot write to {tmp_path / 'file'}" in said
    assert "Give --checkpoint a directory" in said


@pytest.mark.parametrize("by", ["file", "stdin"])
def test_byte_order_mark_before_the_sql_is_passed_over(
    headrace: Command, program: Callable[..., Path], monkeypatch: pytest.MonkeyPatch, by: str
) -> None:
    text = "\N{ZERO WIDTH NO-BREAK SPACE}" + program().read_text()
    file = program()
    file.write_text(text, encoding="utf-8")
    monkeypatch.setattr(sys, "stdin", io.StringIO(text))
    assert headrace("explain", file if by == "file" else "-") == (0, "")


def test_wrong_setting_in_the_environment(
    headrace: Command, program: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADRACE_SHARDS", "two")
    code, said = headrace("run", program(), "--out", tmp_path / "out")
    assert code == 2
    assert "setting shards: 'two' is not allowed" in said


@pytest.mark.parametrize(
    ("table", "told"),
    [
        (GOOD_TABLE.drop_columns(["value"]), "has no column value (it has location_id, ts)"),
        (GOOD_TABLE.set_column(1, "value", pa.array(["warm"])), "is string, declared DOUBLE"),
        (GOOD_TABLE.set_column(2, "ts", pa.array([0])), "is int64, declared TIMESTAMP"),
    ],
    ids=["missing", "other_type", "time_as_number"],
)
def test_files_that_do_not_match_their_stream(
    headrace: Command, program: Callable[..., Path], tmp_path: Path, table: pa.Table, told: str
) -> None:
    code, said = headrace("run", program(table=table), "--out", tmp_path / "out", "--once")
    assert code == 3
    assert told in said
    assert "stream temperature" in said
    assert "0.parquet" in said


@pytest.mark.parametrize("options", ["", ", format = 'parquet'"])
def test_file_that_is_not_parquet(
    headrace: Command, program: Callable[..., Path], tmp_path: Path, options: str
) -> None:
    file = program(options=options)
    (tmp_path / "humidity" / "1.parquet").write_text("location_id,value,ts\n")
    code, said = headrace("run", file, "--out", tmp_path / "out", "--once")
    assert code == 3
    assert f"{tmp_path / 'humidity' / '1.parquet'} is not a Parquet file" in said


def test_missing_directory(headrace: Command, program: Callable[..., Path], tmp_path: Path) -> None:
    file = program()
    (tmp_path / "humidity").rmdir()
    code, said = headrace("run", file, "--out", tmp_path / "out", "--once")
    assert code == 3
    assert f"there is no {tmp_path / 'humidity'}" in said


def test_output_that_cannot_be_written(headrace: Command, program: Callable[..., Path], tmp_path: Path) -> None:
    file = program()
    code, said = headrace("run", file, "--out", file / "out", "--once")
    assert code == 3
    assert f"cannot write to {file / 'out'}" in said
    inside = f"{GOOD} INTO (connector = 'parquet', path = '{file}/deeper/results')"
    code, said = headrace("run", program(inside), "--out", tmp_path / "out", "--once")
    assert code == 3
    assert "cannot write to" in said


def test_two_queries_with_one_output(headrace: Command, program: Callable[..., Path], tmp_path: Path) -> None:
    into = f"INTO (connector = 'parquet', path = '{tmp_path / 'same'}')"
    code, said = headrace("run", program(f"{GOOD} {into}; {GOOD} {into}"), "--out", tmp_path / "out")
    assert code == 2
    assert "queries query_1 and query_2 both write to" in said


def test_output_column_that_names_directories(headrace: Command, program: Callable[..., Path], tmp_path: Path) -> None:
    code, said = headrace("run", program("SELECT value AS Micro_Batch FROM humidity"), "--out", tmp_path / "out")
    assert code == 2
    assert "has a column micro_batch" in said


@pytest.mark.parametrize("command", ["run", "explain"])
def test_program_that_is_not_there_or_not_text(headrace: Command, tmp_path: Path, command: str) -> None:
    out = ["--out", tmp_path / "out"] if command == "run" else []
    code, said = headrace(command, tmp_path / "none.sql", *out)
    assert (code, said.strip()) == (3, f"headrace: cannot read {tmp_path / 'none.sql'}: No such file or directory")
    binary = tmp_path / "binary.sql"
    binary.write_bytes(b"\xff\xfe\x00")
    code, said = headrace(command, binary, *out)
    assert code == 3
    assert "not UTF-8" in said
    code, said = headrace(command, tmp_path, *out)
    assert code == 3


def test_program_without_a_query(headrace: Command, program: Callable[..., Path], tmp_path: Path) -> None:
    code, said = headrace("run", program(""), "--out", tmp_path / "out")
    assert code == 2
    assert "there is no query to run" in said


def test_wrong_arguments(headrace: Command, program: Callable[..., Path]) -> None:
    assert headrace("run", program())[0] == 2
    assert headrace("walk")[0] == 2


def test_explain_prints_the_shared_plan(
    program: Callable[..., Path], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["headrace", "explain", str(program())])
    with pytest.raises(SystemExit) as ended:
        main()
    assert not ended.value.code
    assert "query_1" in capsys.readouterr().out


def test_it_is_a_module_and_tells_its_version() -> None:
    done = subprocess.run([sys.executable, "-m", "headrace", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == f"headrace {__version__}"


def test_the_command_lines_settings_win_over_the_files(
    headrace: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    seen: list[tuple[int, int]] = []

    def look(engine: session.Engine, *_: object) -> None:
        seen.append((engine.settings.shards, engine.settings.trigger_us))
        raise HeadraceError("enough seen")

    monkeypatch.setattr(session.Engine, "check", look)
    file = tmp_path / "queries.sql"
    file.write_text("SET shards = 2; SET trigger = '1 second';")
    assert headrace("run", file, "--out", tmp_path / "out", "--set", "shards=7") == (1, "headrace: enough seen\n")
    assert seen == [(7, 1_000_000)]


def test_a_plan_that_no_query_runs_by_is_refused(headrace: Command, program: Callable[..., Path]) -> None:
    plan = "SET plan = '(temperature humidity)'; "
    code, said = headrace("explain", program(plan + GOOD))
    assert code == 2
    assert "or leave SET plan out" in said
    assert headrace("explain", program(f"{plan}{GOOD} ON OVERLOAD ADAPT"))[0] == 0


def test_explain_draws_the_operators(headrace: Command, program: Callable[..., Path], tmp_path: Path) -> None:
    code, _ = headrace("explain", program(), "--graph", tmp_path / "graph.svg")
    assert code == 0
    assert (tmp_path / "graph.svg").read_text().startswith("<svg")


def test_explain_draws_aggregates_too(headrace: Command, tmp_path: Path) -> None:
    golden = Path(__file__).parent / "golden" / "explain"
    file = tmp_path / "aggregates.sql"
    file.write_text((golden / "streams.sql").read_text() + (golden / "aggregates.sql").read_text())
    code, _ = headrace("explain", file, "--graph", tmp_path / "graph.svg")
    assert code == 0
    drawn = (tmp_path / "graph.svg").read_text()
    assert ">aggregate " in drawn
    packed = [line for line in drawn.splitlines() if "<title>project " in line]
    assert packed
    assert all('fill="white"' in line for line in packed), "takes no turns"


@pytest.mark.parametrize(("name", "told"), [("graph.png", "ends in .svg"), ("no/where.svg", "cannot write")])
def test_a_drawing_that_cannot_be_made_is_refused(
    headrace: Command, program: Callable[..., Path], tmp_path: Path, name: str, told: str
) -> None:
    code, said = headrace("explain", program(), "--graph", tmp_path / name)
    assert code == 3
    assert told in said.replace("\n", " ")


# --- headrace serve


def test_a_service_that_others_could_reach_needs_a_token(
    headrace: Command, program: Callable[..., Path], tmp_path: Path
) -> None:
    code, said = headrace("serve", program(), "--out", tmp_path / "out", "--host", "0.0.0.0")
    assert code == 2
    assert "a token is required" in said
    (tmp_path / "token").write_text("too short\n")
    code, said = headrace("serve", program(), "--out", tmp_path / "out", "--token-file", tmp_path / "token")
    assert code == 2
    assert "at least 16" in said


def test_a_port_that_is_taken_is_told_before_spark_starts(
    headrace: Command, program: Callable[..., Path], tmp_path: Path
) -> None:
    with bound_socket("127.0.0.1", 0) as taken:
        port = taken.getsockname()[1]
        code, said = headrace("serve", program(), "--out", tmp_path / "out", "--port", port)
    assert code == 2
    assert f"cannot serve on 127.0.0.1, port {port}" in said


def test_without_the_extra_the_service_says_what_to_install(
    headrace: Command, program: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "headrace.console.web", raising=False)
    monkeypatch.setitem(sys.modules, "fastapi", None)
    code, said = headrace("serve", program(), "--out", tmp_path / "out")
    assert code == 2
    assert "pip install 'headrace[console]'" in said


def test_a_program_that_is_wrong_is_not_served(headrace: Command, program: Callable[..., Path], tmp_path: Path) -> None:
    code, said = headrace("serve", program(GOOD.replace("a.value", "a.valeu")), "--out", tmp_path / "out")
    assert code == 2
    assert "did you mean value?" in said
