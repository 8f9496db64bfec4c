"""EXPLAIN of the queries in ``golden/explain``; ``UPDATE_GOLDEN=1 pytest ...`` writes the texts anew."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from headrace.plan.explain import explain
from headrace.plan.sharing import SharedPlan, share
from headrace.sql import read_script

GOLDEN = Path(__file__).parent.parent / "golden" / "explain"
CATALOG = read_script((GOLDEN / "streams.sql").read_text()).catalog
NAMES = sorted(path.stem for path in GOLDEN.glob("*.sql") if path.stem != "streams")


def plan_of(name: str) -> SharedPlan:
    script = read_script((GOLDEN / f"{name}.sql").read_text(), CATALOG)
    return share(script.catalog, script.queries)


@pytest.mark.parametrize("name", NAMES)
def test_plan_reads_as_in_the_golden_file(name: str) -> None:
    text, golden = explain(plan_of(name), 4), GOLDEN / f"{name}.txt"
    if os.environ.get("UPDATE_GOLDEN"):
        golden.write_text(text)
    assert text == golden.read_text()


def test_only_the_groups_of_the_named_queries_are_shown() -> None:
    plan = plan_of("self_joins")
    shown = explain(plan, 1, [plan.queries[1]])
    assert shown.startswith("1 query in 1 group on 1 shard\n")
    assert "crossed" in shown
    assert "rising" not in shown


def test_no_line_is_empty_but_those_between_groups() -> None:
    for name in NAMES:
        text = explain(plan_of(name), 1)
        assert "\n\n\n" not in text
        assert text.count("\n\n") == len(plan_of(name).groups)
