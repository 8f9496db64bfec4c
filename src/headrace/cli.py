"""The command line: argument parsing, nothing else. What it runs is in ``spark.session``, ``demo`` and ``console``.

Exit codes: 0 done or stopped by the user; 1 the pipeline failed; 2 the SQL, a setting or an argument is wrong; 3 an
input or an output cannot be used; 4 the checkpoint does not fit; 70 a fault in Headrace itself.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from tempfile import mkdtemp
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from headrace import __version__
from headrace.config import Settings, from_environment
from headrace.errors import HeadraceError, SettingError, SourceError, setting_parts
from headrace.lab.command import lab
from headrace.plan.approaches import check_ordering
from headrace.plan.explain import explain as explain_plan
from headrace.plan.explain_joins import side_names
from headrace.plan.graph_drawing import draw_graph
from headrace.plan.joinplans import check_method, plan_joins
from headrace.plan.shard_graph import running_graph, scheduled_graph
from headrace.plan.sharing import SharedPlan
from headrace.plan.sinks import with_shared_sink
from headrace.plan.tree_drawing import draw_tree
from headrace.plan.tree_plans import check_plan_is_used, check_trees, plan_trees, shared_by
from headrace.sql import Places, Script, read_script

if TYPE_CHECKING:
    from headrace.console.eventlog import EventLog
    from headrace.spark.session import Engine, Run

app = typer.Typer(
    name="headrace",
    help="Many continuous SQL queries with sliding-window joins over shared streams, as one Spark streaming query.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.add_typer(lab, name="lab")

SqlFile = Annotated[
    Path, typer.Argument(metavar="FILE.sql", help="statements, separated by semicolons; - reads standard input")
]
Sets = Annotated[
    list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="a setting, stronger than SET in the file")
]


Out = Annotated[Path, typer.Option(help="where queries without INTO write: DIR/<query>/", metavar="DIR")]
CheckpointDir = Annotated[
    Path | None, typer.Option(help="where offsets and state are kept [default: DIR/_checkpoint]", metavar="DIR")
]
ForgetChanges = Annotated[
    bool, typer.Option("--forget-changes", help="only the file's queries: not what was changed live before")
]
Log = Annotated[
    str | None, typer.Option(help="a structured log, one JSON object a line; - for standard output", metavar="FILE")
]


@app.command()
def run(
    file: SqlFile,
    out: Out,
    checkpoint: CheckpointDir = None,
    once: Annotated[bool, typer.Option("--once", help="take all input there is, release everything, and stop")] = False,
    forget_changes: ForgetChanges = False,
    log: Log = None,
    settings: Sets = None,
) -> None:
    """Run all queries of a file as one Spark streaming query."""
    from headrace.console.watching import watched

    console = _console(log)
    engine = _checked_engine(file, out, checkpoint, settings, console)
    with _log_at(log) as events:
        started = _started(engine, out, checkpoint, console, once=once, forget_changes=forget_changes)
        watched(started, console, events)
    console.print(f"results are in {out}")


@app.command()
def serve(
    file: SqlFile,
    out: Out,
    host: Annotated[str, typer.Option(help="the address to serve on")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="the port; 0 for any that is free", min=0, max=65535)] = 8421,
    token: Annotated[
        str | None,
        typer.Option(
            help="what callers must show; required unless bound to loopback", envvar="HEADRACE_TOKEN", metavar="TEXT"
        ),
    ] = None,
    token_file: Annotated[Path | None, typer.Option(help="a file with the token", metavar="FILE")] = None,
    allow_any_sink: Annotated[
        bool,
        typer.Option("--allow-any-sink", help="queries of the API may write anywhere, not only below --out"),
    ] = False,
    checkpoint: CheckpointDir = None,
    forget_changes: ForgetChanges = False,
    log: Log = None,
    settings: Sets = None,
) -> None:
    """Run all queries of a file as a service: a REST API, a web console, metrics. Queries come and go while it runs."""
    try:
        from headrace.console.access import check_token
        from headrace.console.serving import WebServer, address_of, bound_socket
        from headrace.console.watching import watched
        from headrace.console.web import web_app
    except ImportError as error:
        raise SettingError(f"headrace serve needs the package {error.name}: pip install 'headrace[console]'") from None
    from headrace.console.service import Service

    shown = token if token_file is None else _read(token_file).strip()
    check_token(host, shown)
    console = _console(log)
    engine = _checked_engine(file, out, checkpoint, settings, console)
    with bound_socket(host, port) as taken, _log_at(log) as events:
        started = _started(engine, out, checkpoint, console, once=False, forget_changes=forget_changes)
        service = Service(started, events, allows_any_sink=allow_any_sink)
        with WebServer(web_app(service, shown), taken):
            console.print(f"console and API are at {address_of(taken)}", soft_wrap=True, highlight=False)
            watched(started, console, events, service)
        service.release()
    console.print(f"results are in {out}")


def _console(log: str | None) -> Console:
    """Standard output, for people; on standard error where machines read standard output."""
    return Console(stderr=log == "-")


def _checked_engine(
    file: Path, out: Path, checkpoint: Path | None, settings: list[str] | None, console: Console
) -> Engine:
    """The program, refused before Spark is started if it could not run."""
    from headrace.spark.session import Engine

    text = _read(file)
    script = read_script(text)
    with _places(script, settings).pointing():
        _print_explained(script, _settings(script, settings), console)
    engine = Engine()
    engine.sql(text)
    for name, value in _given(settings):
        engine.set(name, value)
    engine.check(out, checkpoint)
    return engine


def _started(
    engine: Engine, out: Path, checkpoint: Path | None, console: Console, *, once: bool, forget_changes: bool
) -> Run:
    with console.status("starting Spark"):
        engine.open_session(out / "_spark.log")
    where = checkpoint or engine.settings.checkpoint
    return engine.start(out, checkpoint=where, once=once, forget_changes=forget_changes, console=console)


def _log_at(log: str | None) -> AbstractContextManager[EventLog]:
    from headrace.console.eventlog import opened_log

    return opened_log(log)


OutOf = Annotated[Path, typer.Option("--out", help="the output directory of the running pipeline", metavar="DIR")]
CheckpointOf = Annotated[
    Path | None, typer.Option("--checkpoint", help="its checkpoint [default: DIR/_checkpoint]", metavar="DIR")
]


@app.command()
def add(file: SqlFile, out: OutOf, checkpoint: CheckpointOf = None) -> None:
    """Add the queries of a file to a running pipeline, without a restart."""
    _request({"add": _read(file)}, out, checkpoint)


@app.command()
def drop(
    query: Annotated[str, typer.Argument(help="the query's name")], out: OutOf, checkpoint: CheckpointOf = None
) -> None:
    """Drop a query of a running pipeline, without a restart."""
    _request({"drop": query}, out, checkpoint)


@app.command()
def pause(
    query: Annotated[str, typer.Argument(help="the query's name")], out: OutOf, checkpoint: CheckpointOf = None
) -> None:
    """Pause a query of a running pipeline: it costs nothing and gives nothing until it is resumed."""
    _request({"pause": query}, out, checkpoint)


@app.command()
def resume(
    query: Annotated[str, typer.Argument(help="the query's name")], out: OutOf, checkpoint: CheckpointOf = None
) -> None:
    """Let a paused query go on, from the tuples held then."""
    _request({"resume": query}, out, checkpoint)


def _request(record: dict[str, str], out: Path, checkpoint: Path | None) -> None:
    from headrace.spark.changes import request
    from headrace.spark.checkpoint import running_requests

    request(running_requests(checkpoint or out / "_checkpoint"), record)
    Console().print("done: from the next micro-batch on")


@app.command()
def explain(
    file: SqlFile,
    graph: Annotated[
        Path | None, typer.Option(help="draws the operators and the queues between them", metavar="FILE.svg")
    ] = None,
    settings: Sets = None,
) -> None:
    """Print the shared plan of a file's queries; nothing runs."""
    script = read_script(_read(file))
    chosen = _settings(script, settings)
    everything = (*script.queries, *script.explained_queries)
    if not everything:
        raise SourceError(f"{file} has no query to explain")
    with _places(script, settings).pointing():
        plan = shared_by(script.catalog, with_shared_sink(everything, chosen.shared_sink), chosen)
        check_method(plan, chosen)
        check_trees(plan, chosen)
        check_plan_is_used(plan, chosen)
        check_ordering(plan.queries, chosen)
    if graph is not None:
        _draw(plan, graph, chosen)
    sys.stdout.write(explain_plan(plan, chosen, script.explained or None))


def _draw(plan: SharedPlan, file: Path, settings: Settings) -> None:
    """The operators; and beside them, in files of their own, the trees of joins."""
    if file.suffix.lower() != ".svg":
        raise SourceError(f"--graph {file}: only SVG is drawn; name a file that ends in .svg")
    try:
        file.write_text(draw_graph(running_graph(plan), scheduled=scheduled_graph(plan)), encoding="utf-8")
        trees = plan_trees(plan, settings, plan_joins(plan, settings))
        grown = [group for group in plan.groups if group.is_tree]
        for number, group in enumerate(grown, 1):
            drawn = draw_tree(trees[group.signature].allocation, side_names(group))
            file.with_suffix(f".tree-{number}.svg").write_text(drawn, encoding="utf-8")
    except OSError as error:
        raise SourceError(f"cannot write {file}: {error.strerror}") from None


@app.command()
def demo(
    out: Annotated[
        Path | None,
        typer.Option(help="where results and the plot go: new or empty [default: a temporary one]", metavar="DIR"),
    ] = None,
    seconds: Annotated[float, typer.Option(help="how long it runs", min=1)] = 60,
) -> None:
    """Watch seven windows share one join: temperature and humidity sensors of a data centre."""
    from headrace.demo import check_own, run_demo
    from headrace.spark.session import Engine

    directory = out or Path(mkdtemp(prefix="headrace-demo-"))
    check_own(directory)
    console = Console()
    engine = Engine()
    with console.status("starting Spark"):
        engine.open_session()
    run_demo(engine, directory, seconds, console)


@app.callback(invoke_without_command=True)
def version(show: Annotated[bool, typer.Option("--version", help="print the version", is_eager=True)] = False) -> None:
    if show:
        typer.echo(f"headrace {__version__}")
        raise typer.Exit


def _read(file: Path) -> str:
    if str(file) == "-":
        return sys.stdin.read().removeprefix("\N{ZERO WIDTH NO-BREAK SPACE}")
    try:
        return file.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise SourceError(f"cannot read {file}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise SourceError(f"cannot read {file}: it is not UTF-8 text") from None


def _settings(script: Script, given: list[str] | None) -> Settings:
    """The environment's settings, then the file's, then the command line's."""
    settings = from_environment()
    for name, value in script.settings:
        settings = settings.with_text(name, value)
    for name, value in _given(given):
        settings = settings.with_text(name, value)
    return settings


def _places(script: Script, given: list[str] | None) -> Places:
    """Where the file has what it decides: not settings that the command line gives too."""
    return script.places.without(setting_parts(*(name.lower() for name, _ in _given(given))))


def _given(given: list[str] | None) -> Iterator[tuple[str, str]]:
    """The command line's own settings."""
    for one in given or []:
        name, equals, value = one.partition("=")
        if not equals:
            raise SettingError(f"--set {one}: write NAME=VALUE, such as --set shards=4")
        yield name.strip(), value.strip()


def _print_explained(script: Script, settings: Settings, console: Console) -> None:
    if script.explained or script.explained_queries:
        everything = (*script.queries, *script.explained_queries)
        plan = shared_by(script.catalog, with_shared_sink(everything, settings.shared_sink), settings)
        console.print(explain_plan(plan, settings, script.explained), markup=False, highlight=False)


def main(command: Callable[[], object] = app) -> None:
    """Runs a command; what a user did wrong is a message and an exit code, never a traceback."""
    try:
        command()
    except HeadraceError as error:
        Console(stderr=True, soft_wrap=True).print(f"headrace: {error}", markup=False, highlight=False)
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
