"""Runs experiments and says how they went: progress while they run, a line for each, the report at the end.

Exit codes of the commands: 0 all claims hold but those that are known not to (``departures``); 1 another does not; 2
there is no such experiment, or not by that clock.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from difflib import get_close_matches
from html import escape
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from headrace.errors import SettingError, SourceError
from headrace.lab.catalogue import EXPERIMENTS
from headrace.lab.experiment import Claim, Experiment, Setup
from headrace.lab.mine import grids_of, mine, pictures_of
from headrace.lab.report import FAILS, HOLDS, UNEXPLAINED, page, pictures_html, tally, write_report
from headrace.lab.storing import Result, read_result, read_run, result_of, versions, write, write_result, write_run
from headrace.plan.sharing import share
from headrace.sql import read_script


def experiment_named(name: str) -> Experiment:
    if name in EXPERIMENTS:
        return EXPERIMENTS[name]
    near = get_close_matches(name, EXPERIMENTS, n=1, cutoff=0.4)
    asked = f"did you mean {near[0]}? " if near else ""
    raise SettingError(f"there is no experiment {name}: {asked}`headrace lab list` has all of them")


def list_experiments(console: Console) -> None:
    table = Table(box=None, pad_edge=False)
    for column in ("name", "what", "numbers from", "clocks"):
        table.add_column(column)
    for one in EXPERIMENTS.values():
        table.add_row(one.name, one.title, _grounds(one), ", ".join(clock.value for clock in one.clocks))
    console.print(table)


def _grounds(experiment: Experiment) -> str:
    return "; by the wall clock ".join(dict.fromkeys(experiment.ground_by(one).value for one in experiment.clocks))


def run_one(name: str, setup: Setup, out: Path | None, console: Console) -> bool:
    """Runs an experiment and says what came out; gives whether it is as known."""
    experiment = experiment_named(name)
    if setup.clock not in experiment.clocks:
        known = " or ".join(clock.value for clock in experiment.clocks)
        raise SettingError(f"{name} does not run by the {setup.clock.value} clock: use --clock {known}")
    with console.status(f"running {name}"):
        result = result_of(experiment, setup)
    _show(result, console)
    if out is not None:
        write_result(result, out)
        report_stored(out)
        console.print(f"the report is {out / 'report.html'}")
    return is_as_known([result])


def chosen_by(parts: Sequence[str]) -> list[Experiment]:
    """The experiments that are called so, or whose names begin so where none is."""
    found: set[str] = set()
    for part in parts:
        mine = {part} if part in EXPERIMENTS else {name for name in EXPERIMENTS if name.startswith(part)}
        if not mine:
            raise SettingError(f"no experiment's name begins with {part}: `headrace lab list` has all of them")
        found |= mine
    return [one for one in EXPERIMENTS.values() if one.name in found]


def run_all(
    setup: Setup,
    out: Path,
    console: Console,
    chosen: Sequence[Experiment] | None = None,
    *,
    is_resumed: bool = False,
) -> list[Result]:
    """Runs all experiments that the clock is for, or the chosen ones, one after the other, and writes the report of all
    that are stored. Resumed, it keeps the stored results of this setup: a run of hours may be made in pieces."""
    wanted = [one for one in chosen or EXPERIMENTS.values() if setup.clock in one.clocks]
    if not wanted:
        raise SettingError(f"none of them runs by the {setup.clock.value} clock: `headrace lab list` has their clocks")
    began = time.monotonic()
    results: list[Result] = []
    kept = {one.name: stored_of(one, setup, out) for one in wanted} if is_resumed else {}
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("", total=len(wanted))
        for experiment in wanted:
            progress.update(task, description=experiment.name)
            since, stored = time.monotonic(), kept.get(experiment.name)
            results.append(stored or result_of(experiment, setup))
            if stored is None:
                write_result(results[-1], out)
            told = "kept" if stored else f"{time.monotonic() - since:.1f} s"
            progress.console.print(_line(results[-1], told))
            progress.advance(task)
    write_run(out, {"versions": versions()})
    if chosen is not None:
        results = report_stored(out)
    else:
        write_report(results, read_run(out), out)
    held, claims = tally(results)
    for result in results:
        for claim in result.claims:
            if not claim.holds:
                console.print(f"{_verdict(claim)} {result.experiment.name}: {_told(claim)}", highlight=False)
    took_s = time.monotonic() - began
    console.print(f"{held} of {claims} claims hold, in {took_s:.0f} s; the report is {out / 'report.html'}")
    new = sum(not (claim.holds or claim.is_known) for result in results for claim in result.claims)
    if new:
        console.print(f"[red]{new} that do not hold are not among the known departures[/]")
    return results


def is_as_known(results: Sequence[Result]) -> bool:
    """Whether all claims hold but those that are known not to."""
    return all(claim.holds or claim.is_known for result in results for claim in result.claims)


def stored_of(experiment: Experiment, setup: Setup, out: Path) -> Result | None:
    """What is stored of this experiment with this clock, size and seed; what another version stored is not."""
    try:
        result = read_result(experiment, out)
    except SourceError:
        return None
    return result if result is not None and result.setup == setup else None


def report_stored(out: Path) -> list[Result]:
    """The report of all results that are stored there."""
    stored = [read_result(experiment, out) for experiment in EXPERIMENTS.values()]
    results = [one for one in stored if one is not None]
    write_report(results, read_run(out) or {"versions": versions()}, out)
    return results


def _line(result: Result, took: str) -> str:
    held = sum(claim.holds for claim in result.claims)
    colour = "green" if held == len(result.claims) else "yellow" if is_as_known([result]) else "red"
    return f"[{colour}]{held} of {len(result.claims)}[/] {result.experiment.name} [dim]{took}[/]"


def _show(result: Result, console: Console) -> None:
    console.print(f"[bold]{result.experiment.title}[/]\n{result.experiment.shows}\n", highlight=False)
    for claim in result.claims:
        console.print(f"{_verdict(claim)}  {_told(claim)}", highlight=False)


def _verdict(claim: Claim) -> str:
    if claim.holds:
        return f"[green]{HOLDS}[/]"
    return f"[{'yellow' if claim.is_known else 'red'}]{FAILS}[/]"


def _told(claim: Claim) -> str:
    why = "" if claim.holds else f"\n    {claim.why or UNEXPLAINED}"
    return f"{claim.says}: expected {claim.expected}, found {claim.found}{why}"


def run_mine(file: Path, sample: Path, out: Path | None, console: Console) -> None:
    """Tries a user's queries on a sample of their streams, and says what serves them best."""
    try:
        script = read_script(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise SourceError(f"cannot read {file}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise SourceError(f"cannot read {file}: it is not UTF-8 text") from None
    if not script.queries:
        raise SourceError(f"{file} has no CREATE QUERY to try")
    if not sample.is_dir():
        raise SourceError(f"there is no directory {sample}: record some of each stream into {sample}/<stream>/")
    with console.status("trying policies, methods and approaches"):
        found = mine(share(script.catalog, tuple(script.queries)), sample)
    rows = ", ".join(f"{name} {count:,}" for name, count in found.rows.items())
    console.print(f"{len(found.queries)} queries on {found.seconds:,.0f} s of streams ({rows} rows)", highlight=False)
    for name, left_out in found.untimed.items():
        console.print(f"left out: {left_out:,} rows of {name} without an event time", highlight=False)
    for grid in grids_of(found):
        table = Table(*grid.head, title=grid.title)
        for row in grid.rows:
            table.add_row(*row)
        console.print(table)
    console.print("What serves them best:\n  " + "\n  ".join(found.settings()), highlight=False, markup=False)
    if out is not None:
        told = f"<h1>{escape(file.name)}: what serves it best</h1><pre>{escape(chr(10).join(found.settings()))}</pre>"
        write(out / "mine.html", page(f"Headrace: {file.name}", told + pictures_html(pictures_of(found))))
        console.print(f"the plots are in {out / 'mine.html'}")
