"""The operator graph of a plan: what is shared, what it is called, and its paths."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import pytest

from headrace.errors import PlanError
from headrace.model import BIGINT, DOUBLE, QueryId
from headrace.plan.aggregates import Aggregate, Fold, Grouping
from headrace.plan.capacities import OperatorFacts
from headrace.plan.explain_graph import graph_lines
from headrace.plan.expressions import ColumnRef
from headrace.plan.graph_building import operator_graph
from headrace.plan.graph_drawing import draw_graph
from headrace.plan.opgraph import OperatorGraph, OperatorKind, OperatorName, OperatorNode
from headrace.plan.sharing import share
from headrace.sql import read_script

STREAMS = """
CREATE STREAM t (k BIGINT, x DOUBLE, note STRING, ts TIMESTAMP) WITH (connector = 'files', path = 't', time = 'ts');
CREATE STREAM h (k BIGINT, x DOUBLE, ts TIMESTAMP) WITH (connector = 'files', path = 'h', time = 'ts');
"""
CATALOG = read_script(STREAMS).catalog
HOT = "SELECT a.x, b.x AS y FROM t a, h b WHERE a.k = b.k AND a.x > 30 AND b.x > 70 WINDOW {}"


def graph_of(**selects: str) -> OperatorGraph:
    script = ";".join(f"CREATE QUERY {name} AS {select}" for name, select in selects.items())
    return operator_graph(share(CATALOG, read_script(script, CATALOG).queries))


def kinds(graph: OperatorGraph) -> list[str]:
    return [one.kind.value for one in graph.operators]


def test_a_join_query_is_two_leaves_a_join_and_what_is_left() -> None:
    graph = graph_of(q=HOT.format("1 MINUTE"))
    assert kinds(graph) == ["select-project", "select-project", "join", "select-project"]
    assert graph.sources == ("t", "h")
    assert graph.leaves == graph.names[:2]
    left, right, join, last = graph.names
    assert graph.paths == ((left, join, last), (right, join, last))


def test_queries_that_differ_in_their_window_share_every_operator() -> None:
    graph = graph_of(q=HOT.format("1 MINUTE"), r=HOT.format("1 HOUR"))
    assert len(graph.names) == 4
    assert [graph.uses(name) for name in graph.names] == [2, 2, 2, 2]


def test_two_groups_share_a_leaf_that_does_the_same() -> None:
    graph = graph_of(
        q="SELECT a.x FROM t a, h b WHERE a.k = b.k AND a.x > 3 WINDOW 1 s",
        r="SELECT a.x FROM t a, h b WHERE a.x = b.x AND a.x > 3 WINDOW 1 s",
    )
    by_name = graph.by_name
    (leaf,) = [name for name in graph.leaves if graph.uses(name) == 2 and "t" in by_name[name].inputs]
    assert len(graph.consumers[leaf]) == 2


def test_an_input_that_does_nothing_has_no_operator() -> None:
    graph = graph_of(q="SELECT a.k, a.x, b.k AS l, b.x AS y, a.note FROM t a, h b WHERE a.k = b.k WINDOW 1 s")
    assert kinds(graph) == ["join", "select-project"]
    assert graph.leaves == graph.names[:1]


def test_an_operator_keeps_its_name_when_another_query_moves_its_condition() -> None:
    alone = graph_of(q=HOT.format("1 MINUTE"))
    other = graph_of(q=HOT.format("1 MINUTE"), r="SELECT a.k FROM t a, h b WHERE a.k = b.k WINDOW 1 s")
    assert alone.names[-2:] == tuple(name for name in other.names if name in alone.names)


def test_graphs_are_put_together_by_what_their_operators_do() -> None:
    one, other = graph_of(q=HOT.format("1 MINUTE")), graph_of(r=HOT.format("1 HOUR"), s="SELECT x FROM t WHERE x > 9")
    both = one.with_graph(other)
    assert {name: both.uses(name) for name in one.names} == dict.fromkeys(one.names, 2)
    assert set(both.names) == {*one.names, *other.names}
    assert set(both.queries) == {"q", "r", "s"}


def grouped_graph_of(select: str) -> OperatorGraph:
    """A graph of one query, of whose results aggregates are made."""
    plan = share(CATALOG, read_script(f"CREATE QUERY q AS {select}", CATALOG).queries)
    total = Aggregate(Fold.SUM, ColumnRef(0, "x", DOUBLE))
    grouping = Grouping((ColumnRef(1, "k", BIGINT),), (total, Aggregate(Fold.DISTINCT, ColumnRef(1, "x", DOUBLE))))
    return operator_graph(plan, lambda _: grouping)


def test_a_class_with_aggregates_has_an_operator_more() -> None:
    graph = grouped_graph_of("SELECT a.x FROM t a, h b WHERE a.k = b.k AND a.x > b.x WINDOW 1 s")
    *_, below, aggregate = graph.operators
    assert (aggregate.kind, aggregate.inputs) == (OperatorKind.AGGREGATE, (below.name,))
    assert aggregate.text == "SUM(t.x), COUNT(DISTINCT h.x) by h.k"
    assert (below.delivers, aggregate.delivers) == ((), ("q",))


@pytest.mark.parametrize("condition", ["", "AND a.x > 3 "])
def test_an_aggregate_reads_its_join_where_nothing_is_left_to_be_asked(condition: str) -> None:
    """Section 4.1 of paper 003: short paths."""
    graph = grouped_graph_of(f"SELECT a.x FROM t a, h b WHERE a.k = b.k {condition}WINDOW 1 s")
    *_, join, aggregate = graph.operators
    assert (join.kind, aggregate.kind) == (OperatorKind.JOIN, OperatorKind.AGGREGATE)
    assert aggregate.inputs == (join.name,)


def test_a_graph_that_cannot_be_is_refused() -> None:
    a, b = OperatorName("a"), OperatorName("b")
    last = OperatorNode(b, OperatorKind.SELECT, "", (a,), (QueryId("q"),))
    leaf = OperatorNode(a, OperatorKind.SELECT, "", ("s",))
    with pytest.raises(PlanError, match="stands before"):
        OperatorGraph((last, leaf))
    with pytest.raises(PlanError, match="no use"):
        OperatorGraph((leaf,))
    with pytest.raises(PlanError, match="two operators"):
        OperatorGraph((leaf, leaf, last))


# --- shown


def test_explain_tells_operators_uses_paths_and_segments() -> None:
    graph = graph_of(q=HOT.format("1 MINUTE"), r=HOT.format("1 HOUR"))
    text = "\n".join(graph_lines(graph))
    assert "operators: 4 over 2 streams, 4 shared" in text
    assert "for 2 queries" in text
    assert "capacities are guessed until operators have run under a budget" in text
    assert "paths: 2\n  1 > 3 > 4  " in text
    assert "selectivity" not in text


def test_explain_has_capacities_once_they_are_measured() -> None:
    graph = graph_of(q=HOT.format("1 MINUTE"))
    facts = {name: OperatorFacts(0.001, 0.5, 64, 32) for name in graph.names}
    lines = list(graph_lines(graph, facts))
    assert "        selectivity 0.50, 1,000 tuples/s, 64 -> 32 bytes, frees 48,000 bytes/s" in lines
    assert "        selectivity 0.50, 1,000 tuples/s, 64 -> 32 bytes, frees 64,000 bytes/s" in lines  # the last one
    assert "  1 > 3 > 4  571 tuples/s, frees 36,571 bytes/s" in lines
    assert not any("guessed" in line for line in lines)


def test_the_drawing_has_a_box_for_every_operator_and_marks_shared_ones() -> None:
    graph = graph_of(
        q=HOT.format("1 MINUTE"), r=HOT.format("1 HOUR"), s="SELECT x FROM t WHERE x > 9 AND note <> '<&>'"
    )
    root = ET.fromstring(draw_graph(graph))
    texts = [one.text or "" for one in root.iter("{http://www.w3.org/2000/svg}text")]
    for name in graph.names:
        assert any(text.startswith(name) for text in texts)
    assert sum(text.endswith("  x2") for text in texts) == 4
    assert {"t", "h", "q, r", "s"} <= set(texts)
