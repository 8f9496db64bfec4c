"""The statistics as Prometheus reads them."""

from __future__ import annotations

import re
from dataclasses import dataclass, fields
from pathlib import Path

from fake_run import FakeRun

from headrace.console.prometheus import KNOWN, metrics_text
from headrace.stats import QueryStats, RunStats

LINE = re.compile(
    r'^headrace_[a-z0-9_]+(\{[a-z0-9_]+="(\\.|[^"\\])*"(,[a-z0-9_]+="(\\.|[^"\\])*")*\})? (-?[0-9.e+-]+|\+Inf)$'
)


def test_every_line_is_well_formed_and_every_metric_is_described_once(tmp_path: Path) -> None:
    text = metrics_text(FakeRun(tmp_path).stats(), paused=1, extra=[("changes", "Changes.", 7)])
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    assert [line for line in lines if not LINE.match(line)] == []
    helps = [line.split()[2] for line in text.splitlines() if line.startswith("# HELP")]
    assert len(helps) == len(set(helps))
    assert {re.split(r"[{ ]", line)[0] for line in lines} == set(helps)
    assert "headrace_changes_total 7" in lines
    assert 'headrace_query_response_seconds{quantile="0.99",query="near"} 0.21' in lines


def test_overload_freshness_and_who_is_behind_are_told(tmp_path: Path) -> None:
    lines = metrics_text(FakeRun(tmp_path).stats(), age_s=1.5).splitlines()
    for what, value in (
        ("left_out_probes_total", 4000),
        ("stale_tuples_total", 7),
        ("purged_tuples_total", 5),
        ("late_micro_batches_total", 2),
        ("infeasible", 1),
        ("service_rate", 300),
    ):
        assert f'headrace_tree_{what}{{group="a(k) = b(k) = c(k)"}} {value}' in lines
    assert 'headrace_tree_service_rate{group="d(k) = e(k)"} +Inf' in lines
    assert "# TYPE headrace_tree_left_out_probes_total counter" in lines
    assert 'headrace_half_way_probed{group="a(k) = b(k) = c(k)",half_way="a into b"} 300' in lines
    assert 'headrace_stream_behind_seconds{stream="humidity"} 1.5' in lines
    assert 'headrace_stream_idle{stream="humidity"} 1' in lines
    assert "headrace_statistics_age_seconds 1.5" in lines
    assert not any(line.startswith("headrace_trees") for line in lines)


def test_times_are_in_seconds_and_an_approach_is_a_value_not_a_label(tmp_path: Path) -> None:
    text = metrics_text(FakeRun(tmp_path).stats())
    assert re.findall(r"^headrace_\w+_(?:ms|us|s)\b", text, re.MULTILINE) == []
    group = 'group="temperature(location_id) = humidity(location_id)"'
    assert f"headrace_ordering_filter_order{{{group}}} 1" in text
    assert f'headrace_ordering_response_seconds{{{group},how="measured"}} 0.24' in text
    assert "approach=" not in text


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
