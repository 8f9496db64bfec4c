"""EXPLAIN of the queries in ``golden/explain``; ``UPDATE_GOLDEN=1 pytest ...`` writes the texts anew."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from headrace.config import Settings
from headrace.engine.policy import POLICIES
from headrace.plan.explain import POLICY_NAMES, explain
from headrace.plan.sharing import SharedPlan, share
from headrace.sql import Script, read_script

GOLDEN = Path(__file__).parent.parent / "golden" / "explain"
CATALOG = read_script((GOLDEN / "streams.sql").read_text()).catalog
NAMES = sorted(path.stem for path in GOLDEN.glob("*.sql") if path.stem != "streams")


FOUR_SHARDS = Settings(shards=4)


def script_of(name: str) -> Script:
    return read_script((GOLDEN / f"{name}.sql").read_text(), CATALOG)


def plan_of(name: str) -> SharedPlan:
    script = script_of(name)
    return share(script.catalog, script.queries)


@pytest.mark.parametrize("name", NAMES)
def test_plan_reads_as_in_the_golden_file(name: str) -> None:
    """With the settings that the file sets, on four shards."""
    settings = FOUR_SHARDS
    for given in script_of(name).settings:
        settings = settings.with_text(*given)
    text, golden = explain(plan_of(name), settings), GOLDEN / f"{name}.txt"
    if os.environ.get("UPDATE_GOLDEN"):
        golden.write_text(text)
    assert text == golden.read_text()


@pytest.mark.parametrize(
    ("given", "line"),
    [
        ({}, "order         maximum query throughput (MQT); no budget, so all is done at once"),
        ({"policy": "lwo"}, "order         largest window only (LWO); no budget, so all is done at once"),
        ({"policy": "SWF", "budget": "1 s"}, "order         smallest window first (SWF), 1 second a micro-batch"),
        ({"budget": "5000"}, "order         maximum query throughput (MQT), 5000 probes a micro-batch"),
        ({}, "method        index of sorted keys"),
        ({"join_method": "eager"}, "method        eager nested loops: new tuples first, whole windows scanned"),
    ],
)
def test_the_settings_that_decide_how_a_join_runs_are_shown(given: dict[str, str], line: str) -> None:
    settings = Settings()
    for name, text in given.items():
        settings = settings.with_text(name, text)
    assert f"\n  {line}\n" in explain(plan_of("bands"), settings)


def test_every_policy_has_a_name_to_show() -> None:
    for policy in POLICIES:
        assert policy.upper() in POLICY_NAMES[policy]


def test_only_the_groups_of_the_named_queries_are_shown() -> None:
    plan = plan_of("self_joins")
    shown = explain(plan, Settings(shards=1), [plan.queries[1]])
    assert shown.startswith("1 query in 1 group on 1 shard\n")
    assert "crossed" in shown
    assert "rising" not in shown


def test_no_line_is_empty_but_those_between_groups_and_operators() -> None:
    for name in NAMES:
        text = explain(plan_of(name), FOUR_SHARDS)
        assert "\n\n\n" not in text
        assert text.count("\n\n") == len(plan_of(name).groups) + 1
