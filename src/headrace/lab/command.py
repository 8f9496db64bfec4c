"""`headrace lab`: argument parsing, nothing else. What it runs is in ``running`` and ``mine``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from headrace.lab.experiment import Clock, Setup, Size

lab = typer.Typer(
    help="The tables and figures of the papers from the running engine, and your own queries under all its policies.",
    no_args_is_help=True,
)


ByClock = Annotated[
    Clock, typer.Option("--clock", help="model: costs are parameters, the same each time; wall: they are measured")
]
Quick = Annotated[bool, typer.Option("--quick/--full", help="minutes, or the papers' sizes: hours")]
Seed = Annotated[int, typer.Option(help="of the streams that are drawn")]


@lab.command("list")
def list_() -> None:
    """All experiments."""
    from headrace.lab.running import list_experiments

    list_experiments(Console())


@lab.command()
def run(
    name: Annotated[str, typer.Argument(help="such as 000-figure-6; `headrace lab list` has all")],
    clock: ByClock = Clock.MODEL,
    quick: Quick = True,
    seed: Seed = 1,
    out: Annotated[Path | None, typer.Option(help="where its numbers and the report go", metavar="DIR")] = None,
) -> None:
    """One experiment: its claims, and with --out its plot."""
    from headrace.lab.running import run_one

    if not run_one(name, _setup(clock, quick, seed), out, Console()):
        raise typer.Exit(1)


@lab.command("all")
def all_(
    out: Annotated[Path, typer.Option(help="where numbers and the report go", metavar="DIR")],
    clock: ByClock = Clock.MODEL,
    quick: Quick = True,
    seed: Seed = 1,
    only: Annotated[
        list[str] | None, typer.Option(help="one, or those whose names begin so, such as 002-figure", metavar="NAME")
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="keep what --out has of this clock, size and seed")] = False,
) -> None:
    """All experiments, and one report. A run of hours may be made in pieces: --only, and --resume after a stop."""
    from headrace.lab.running import chosen_by, is_as_known, run_all

    chosen = chosen_by(only) if only else None
    if not is_as_known(run_all(_setup(clock, quick, seed), out, Console(), chosen, is_resumed=resume)):
        raise typer.Exit(1)


def _setup(clock: Clock, quick: bool, seed: int) -> Setup:
    return Setup(clock, Size.QUICK if quick else Size.FULL, seed)


@lab.command()
def mine(
    file: Annotated[Path, typer.Argument(metavar="FILE.sql", help="the queries, with their streams")],
    sample: Annotated[
        Path, typer.Option(help="recorded streams: DIR/<stream>/*.parquet (or csv, json)", metavar="DIR")
    ],
    out: Annotated[Path | None, typer.Option(help="where the page with the plots goes", metavar="DIR")] = None,
) -> None:
    """Which scheduler, plan and ordering approach serve your own queries best, by a sample of their streams."""
    from headrace.lab.running import run_mine

    run_mine(file, sample, out, Console())
