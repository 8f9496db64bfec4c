"""The statistics as Prometheus reads them."""

from __future__ import annotations

import re
from dataclasses import dataclass, fields
from pathlib import Path

from fake_run import FakeRun

from headrace.console.prometheus import KNOWN, metrics_text
from headrace.stats import QueryStats, RunStats

LINE = re.compile(r'^headrace_[a-z0-9_]+(\{[a-z0-9_]+="(\\.|[^"\\])*"(,[a-z0-9_]+="(\\.|[^"\\])*")*\})? -?[0-9.e+-]+$')


def test_every_line_is_well_formed_and_every_metric_is_described_once(tmp_path: Path) -> None:
    text = metrics_text(FakeRun(tmp_path).stats(), paused=1, extra=[("changes", "Changes.", 7)])
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    assert [line for line in lines if not LINE.match(line)] == []
    helps = [line.split()[2] for line in text.splitlines() if line.startswith("# HELP")]
    assert len(helps) == len(set(helps))
    assert {re.split(r"[{ ]", line)[0] for line in lines} == set(helps)
    assert "headrace_changes_total 7" in lines
    assert 'headrace_query_response_seconds{quantile="0.99",query="near"} 0.21' in lines


def test_labels_are_escaped() -> None:
    text = metrics_text(RunStats(queries=(QueryStats('a"b\\c', 1),)))
    assert 'query="a\\"b\\\\c"' in text


@dataclass(frozen=True)
class Held:
    stream: str
    held_tuples: int


@dataclass(frozen=True)
class Load:
    ratio: float


@dataclass(frozen=True)
class MoreStats(RunStats):
    """Statistics of a Headrace that does more."""

    ordered: tuple[Held, ...] = ()
    load: Load | None = None


def test_sections_that_are_not_known_by_name_are_told_too() -> None:
    text = metrics_text(MoreStats(ordered=(Held("a", 3), Held("b", 4)), load=Load(0.5)))
    assert 'headrace_ordered_held_tuples{stream="b"} 4' in text
    assert "headrace_load_ratio 0.5" in text


def test_names_that_are_known_exist() -> None:
    assert {one.name for one in fields(RunStats)} >= KNOWN
