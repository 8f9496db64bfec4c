"""The documentation builds as a web site, whole and self-contained; the dashboard asks for metrics that there are."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

from headrace.console.prometheus import metrics_text
from headrace.stats import (
    GraphStats,
    HalfWayStats,
    OperatorStats,
    OrderingStats,
    QueryStats,
    RunStats,
    ShardStats,
    SparkStats,
    StreamStats,
    TreeStats,
    WindowStats,
)

ROOT = Path(__file__).parents[1]

EVERYTHING = RunStats(
    queries=(QueryStats("q", 1, 1.0, 1.0, 1.0, 1.0, 1.0),),
    streams=(StreamStats("s", 1, 1.0, 0, 0, 1.0, 1.0),),
    shards=(ShardStats(0),),
    windows=(WindowStats("g", "1 s", 0),),
    stage_ms=(("join", 1.0),),
    batch=1,
    probes_allowed=1,
    graph=GraphStats("fifo", "static", 1, operators=(OperatorStats("o", selectivity=1.0, service_us=1.0),)),
    spark=SparkStats(1, duration_ms=(("addBatch", 1.0),)),
    ordering=(OrderingStats("g", "sync-filter", 0, 0, 0.1, 1.0, 1.0, 0.1, 1.0),),
    trees=(TreeStats("g", "(a b)", "jaqpot", (HalfWayStats("a into b"),)),),
)


def test_the_site_builds_without_a_warning_and_asks_nothing_of_other_hosts(tmp_path: Path) -> None:
    built = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path)],
        cwd=ROOT, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert built.returncode == 0, built.stderr
    page = (tmp_path / "index.html").read_text()
    assert re.findall(r'<(?:script|link|img)[^>]*(?:src|href)="(?:https?:)?//[^"]*', page) == []


def test_the_dashboard_asks_for_metrics_that_there_are() -> None:
    dashboard = json.loads((ROOT / "deploy" / "grafana" / "headrace.json").read_text())
    asked = {target["expr"] for panel in dashboard["panels"] for target in panel.get("targets", [])}
    names = {name for one in asked for name in re.findall(r"headrace_\w+", one)}
    page = metrics_text(EVERYTHING, age_s=1.0, extra=[("changes", "x", 1)])
    told = set(re.findall(r"^(headrace_\w+)", page, re.MULTILINE))
    assert names
    assert names - told == set()


def test_documented_metrics_exist() -> None:
    told = metrics_text(EVERYTHING, age_s=1.0, extra=[("changes", "x", 1)])
    for name in re.findall(r"`(headrace_\w+)`", (ROOT / "docs" / "operations.md").read_text()):
        assert f"\n{name}" in f"\n{told}", name
