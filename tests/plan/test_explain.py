"""EXPLAIN of the queries in ``golden/explain``; ``UPDATE_GOLDEN=1 pytest ...`` writes the texts anew."""

from __future__ import annotations

import os
import re
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from pathlib import Path

import pytest

from headrace.config import Settings
from headrace.engine.policy import POLICIES
from headrace.engine.strategies import STRATEGIES, StrategyMemory, StrategyOptions, Waiting
from headrace.plan.capacities import OperatorFacts, release_capacities
from headrace.plan.deferring import deferred_group
from headrace.plan.explain import POLICY_NAMES, explain
from headrace.plan.graph_drawing import draw_graph
from headrace.plan.opgraph import OperatorKind
from headrace.plan.path_segments import segments_of, simplified_segments
from headrace.plan.shard_graph import running_graph, scheduled_graph, shard_graph
from headrace.plan.sharing import SharedPlan, share
from headrace.sql import Script, read_script

GOLDEN = Path(__file__).parent.parent / "golden" / "explain"
CATALOG = read_script((GOLDEN / "streams.sql").read_text()).catalog
SVG = "{http://www.w3.org/2000/svg}"
NAMES = sorted(path.stem for path in GOLDEN.glob("*.sql") if path.stem != "streams")


FOUR_SHARDS = Settings(shards=4)


def script_of(name: str) -> Script:
    return read_script((GOLDEN / f"{name}.sql").read_text(), CATALOG)


def plan_of(name: str) -> SharedPlan:
    script = script_of(name)
    return share(script.catalog, script.queries, dict(script.settings).get("plan"))


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


def many_queries(count: int, keys: Sequence[str] = ("location_id",)) -> SharedPlan:
    """So many queries with filters of their own over each of the joins by these keys."""
    queries = "".join(
        f"CREATE QUERY {key}{number} AS SELECT a.value FROM temperature a, humidity b "
        f"WHERE a.{key} = b.{key} AND a.value > b.value + {number} WINDOW 1 MINUTE;"
        for key in keys
        for number in range(count)
    )
    return share(CATALOG, read_script(queries, CATALOG).queries)


@pytest.mark.parametrize(
    ("count", "keys", "operators", "hidden"),
    [
        (40, ("location_id",), 43, 0),
        (60, ("location_id", "value", "ts"), 185, 52),
        (1000, ("location_id",), 3, 0),
    ],
)
def test_a_hundred_operators_are_shown_and_of_more_the_shared_ones_and_how_many_there_are(
    count: int, keys: tuple[str, ...], operators: int, hidden: int
) -> None:
    """A thousand classes run in one operator with their join."""
    _, graph = explain(many_queries(count, keys), FOUR_SHARDS).split("operator graph: ")
    assert f"operators: {operators} over 2 streams, {2 + len(keys)} shared" in graph
    assert re.findall(r"and (\d+) more", graph) == ([str(hidden)] * 3 if hidden else [])
    listed = set(re.findall(r"^  (\d+) +[a-z]", graph, re.MULTILINE))
    ways = re.findall(r"^  (\d+(?: > \d+)*)  \S+ tuples/s", graph, re.MULTILINE)
    assert ways
    assert {number for way in ways for number in way.split(" > ")} <= listed


def test_before_the_first_tuple_capacities_are_guessed_and_later_measured() -> None:
    plan = plan_of("aggregates")
    graph = running_graph(plan)
    assert "guessed until operators have run under a budget" in explain(plan, FOUR_SHARDS)
    facts = {name: OperatorFacts(0.001, 0.5, 64, 32) for name in graph.names if name not in graph.leaves}
    text = explain(plan, FOUR_SHARDS, facts=facts)
    assert "selectivity 0.50, 1,000 tuples/s, 64 -> 32 bytes" in text
    assert "capacities of 3 operators are guessed: not measured" in text
    assert "queues" not in text


def test_a_results_size_is_that_of_one_and_all_queues_that_it_goes_to_count_as_memory() -> None:
    plan = plan_of("aggregates")
    (join,) = (one.name for one in running_graph(plan).operators if one.kind is OperatorKind.JOIN)
    text = explain(plan, FOUR_SHARDS, facts={join: OperatorFacts(0.001, 0.5, 64, 32, copies=3.0)})
    assert "64 -> 32 bytes, each in 3 queues, frees 16,000 bytes/s" in text


def test_what_explain_calls_an_operator_a_shard_does_too() -> None:
    for name in NAMES:
        plan = plan_of(name)
        groups = {group: deferred_group(group) for group in plan.groups}
        assert set(shard_graph(groups).names) <= set(running_graph(plan).names)
        assert set(running_graph(plan).queries) <= set(plan.queries)


@pytest.mark.parametrize(
    ("strategy", "title"), [("path", "paths"), ("segment", "segments"), ("simplified", "simplified segments")]
)
def test_paths_and_segments_are_those_that_a_strategy_chooses_among(strategy: str, title: str) -> None:
    """What is done before the shards takes no turns: no path begins there, and no segment is cut there."""
    plan = plan_of("aggregates")
    running, scheduled = running_graph(plan), scheduled_graph(plan)
    # An aggregate frees a little less than what is before it: that is a segment's end, but not a simplified one's.
    facts = {
        one.name: OperatorFacts(4.5e-6 if one.kind is OperatorKind.AGGREGATE else 1e-6, 1.0, 64, 48)
        for one in running.operators
    }
    units = STRATEGIES[strategy](scheduled, facts, StrategyOptions(), StrategyMemory()).units(Waiting(0.0, {}, 0.0))
    places = {name: str(place) for place, name in enumerate(running.names, 1)}
    chosen = {" > ".join(places[name] for name in one.operators) for one in units if one.is_whole}
    _, told = explain(plan, FOUR_SHARDS, facts=facts).split(f"\n{title}: ")
    listed = re.match(r"[^\n]*\n((?:  [^\n]*\n)*)", told)
    assert listed is not None
    assert {line.split("  ")[1] for line in listed.group(1).splitlines()} == chosen


def test_the_drawing_has_the_segments_that_explain_tells_of() -> None:
    plan = plan_of("aggregates")
    running, scheduled = running_graph(plan), scheduled_graph(plan)
    facts = {
        one.name: OperatorFacts(4.5e-6 if one.kind is OperatorKind.JOIN else 1e-6, 1.0, 64, 48)
        for one in running.operators
    }
    root = ET.fromstring(draw_graph(running, facts, scheduled))
    colours = {
        (one.findtext(f"{SVG}title") or "").split("\n")[0].split("  x")[0]: one.get("fill")
        for one in root.iter(f"{SVG}rect")
    }
    segments = segments_of(scheduled, release_capacities(scheduled, facts), simplified_segments)
    expected: dict[str, int] = {}
    for number, segment in enumerate(segments):
        for name in segment:
            expected.setdefault(name, number)
    assert len(segments) > 1
    assert {name for name in running.names if colours[name] == "white"} == set(running.names) - set(scheduled.names)
    assert len(set(expected.values())) == len({(number, colours[name]) for name, number in expected.items()})
    assert len({colours[name] for name in expected}) > 1


def test_only_the_groups_of_the_named_queries_are_shown() -> None:
    plan = plan_of("self_joins")
    shown = explain(plan, Settings(shards=1), [plan.queries[1]])
    assert shown.startswith("1 query in 1 group on 1 shard\n")
    assert "crossed" in shown
    assert "rising" not in shown


def test_uses_are_told_of_all_queries_whichever_are_shown() -> None:
    """Two joins read what one selection leaves of a stream."""
    streams = "".join(
        f"CREATE STREAM {name} (k BIGINT, n BIGINT, ts TIMESTAMP) WITH (connector = 'generator');" for name in "abc"
    )
    script = read_script(
        streams + "CREATE QUERY x AS SELECT a.n FROM a, b WHERE a.k = b.k AND a.n > 5 WINDOW 1 s;"
        "CREATE QUERY y AS SELECT a.n FROM a, c WHERE a.k = c.k AND a.n > 5 WINDOW 1 s;"
    )
    plan = share(script.catalog, script.queries)
    for shown in (None, [plan.queries[0]]):
        text = explain(plan, FOUR_SHARDS, shown)
        assert re.findall(r"select-project \w+, of a, for (\d) quer", text) == ["2"]
        assert re.findall(r"over \d streams, (\d+) shared", text) == ["1"]


def test_no_line_is_empty_but_those_between_groups_and_operators() -> None:
    for name in NAMES:
        text = explain(plan_of(name), FOUR_SHARDS)
        assert "\n\n\n" not in text
        assert text.count("\n\n") == len(plan_of(name).groups) + 1
