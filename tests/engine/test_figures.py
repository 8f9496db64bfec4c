"""Paper 000's Figures 2 (LWO), 3 (SWF) and 4 (MQT): the order of scans, and what each query gets, and when.

Streams A and B hold a1 a3 .. a9 and b0 b2 .. b10 when a11 and b12 come; a tuple's number is its time in seconds. Blocks
are of one tuple, and a micro-batch has a budget of one probe, so each takes exactly one turn. A line of a trace is one
turn: its number, the tuple and the (partial) window it scans, the paper's clock after it (in tp, the time to look at
one tuple of the other stream), and what the queries are given then.

Two things differ from the drawings, in when rows come and not in which. A query gets a tuple's results when the tuple
has scanned the query's window, all at once and older partners first, as ``semantics.md`` orders ties. So Figure 3's
step 2 does not give (a11, b8) to Q2 and Q3 early: with Q2's window scanned there may be older partners to come before
it. And the rows of one turn come when it ends: where MQT decides to take two windows at once, neither's queries wait.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from textwrap import dedent

import engine_cases as cases
import pytest
from local_host import LocalHost

from headrace.engine import policy as policies
from headrace.engine.cutting import BlockCut
from headrace.engine.operators import GroupOperator
from headrace.engine.output import Cut
from headrace.engine.policy import POLICIES
from headrace.engine.shard import ShardOptions
from headrace.model import Catalog, QueryId, Stream, StreamId
from headrace.plan.functions import call
from headrace.plan.queries import Output, Query, Source, within_us

A, B = StreamId("a"), StreamId("b")
CATALOG = Catalog((Stream(A, cases.WIDE, "ts"), Stream(B, cases.WIDE, "ts")))
OLD = {A: (1, 3, 5, 7, 9), B: (0, 2, 4, 6, 8, 10)}
NEW = {A: 11, B: 12}
STARS, CIRCLES, OTHERS = 1, 2, {A: 3, B: 4}
"""Figures 2 and 3 draw tuples that join with one symbol: a11 b8 b4 b0, and b12 a9 a5 a1. The others join nothing."""


def symbol(stream: StreamId, second: int) -> int:
    if (stream, second) in {(A, 11), (B, 8), (B, 4), (B, 0)}:
        return STARS
    return CIRCLES if (stream, second) in {(B, 12), (A, 9), (A, 5), (A, 1)} else OTHERS[stream]


def query(number: int, window_s: int) -> Query:
    return Query(
        QueryId(f"Q{number}"),
        (Source(A, "a"), Source(B, "b")),
        (call("=", cases.column(0, "k"), cases.column(1, "k")),),
        tuple(Output(f"{name}{i}", cases.column(i, name)) for name in ("ts", "id") for i in (0, 1)),
        within_us(window_s * cases.SECOND_US),
    )


def moved(second: float) -> cases.Row:
    """A tuple without a key: it joins nothing and is not held, and tells that its stream has come so far."""
    return cases.row(second, 0, k=None)


@dataclass
class Trace:
    """A run of the example, turn by turn."""

    host: LocalHost
    windows_s: tuple[int, ...]
    all_join: bool
    done: dict[str, int] = field(default_factory=dict)
    clock: int = 0
    lines: list[str] = field(default_factory=list)

    def tuple_of(self, stream: StreamId, second: int) -> cases.Row:
        return cases.row(second, second, k=1 if self.all_join else symbol(stream, second))

    def begin(self) -> None:
        """The old tuples come, and are done with."""
        self.host.probes = None
        chunks = {name: [self.tuple_of(name, second) for second in OLD[name]] for name in (A, B)}
        cases.arrive(self.host, {A: [*chunks[A], moved(10.5)], B: chunks[B]})
        self.host.probes = 1
        for rows in self.host.results.values():
            rows.clear()
        assert not self.host.is_behind

    def turn(self, chunks: dict[StreamId, list[cases.Row]] | None = None) -> None:
        """A micro-batch, of one turn."""
        given = {name: len(self.host.rows(name)) for name in self.host.results}
        if chunks is None:
            self.host.go_on()
        else:
            new = [f"{name}{row['id']}" for name, rows in chunks.items() for row in rows if row["k"] is not None]
            self.done.update(dict.fromkeys(new, 0))
            cases.arrive(self.host, chunks)
        ((name, before, after),) = self._progress()
        self.done[name] = after
        self.clock += self._looked_at(name, before, after)
        pairs = {name: self._pairs(name, first) for name, first in given.items()}
        told = "; ".join(f"{name} {' '.join(rows)}" for name, rows in pairs.items() if rows)
        upto, since = (f"w{number}" if number else "0" for number in (after, before))
        self.lines.append(f"{len(self.lines) + 1}  {name} {since}-{upto} @{self.clock}  {told}".rstrip())

    def _progress(self) -> list[tuple[str, int, int]]:
        """The tuples that have scanned further in this step: from where, and how far."""
        waiting = {named(block): self.operator.completed(block) for block in self.operator.pending}
        now = {name: waiting.get(name, len(self.windows_s)) for name in self.done}
        return [(name, before, now[name]) for name, before in self.done.items() if now[name] > before]

    @property
    def operator(self) -> GroupOperator:
        (operator,) = self.host.shards[0]._operators.values()
        return operator

    def _looked_at(self, name: str, before: int, after: int) -> int:
        """How many tuples of the other stream a partial window holds."""
        second, other = int(name[1:]), B if name[0] == "a" else A
        ends = (-1, *self.windows_s)
        ages = [second - one for one in (*OLD[other], NEW[other]) if one < second]
        return sum(ends[before] < age <= ends[after] for age in ages)

    def _pairs(self, name: str, first: int) -> list[str]:
        return [f"a{row['id0']}b{row['id1']}" for row in self.host.rows(name)[first:]]


def named(block: object) -> str:
    """The one tuple of a block."""
    (name,) = (
        f"{stream}{number}"
        for stream, new in zip("ab", block.rounds[0].inputs, strict=True)  # type: ignore[attr-defined]
        if new is not None
        for number in new.segment.batch.column("id").to_pylist()
    )
    return name


def traced(policy: str, method: str, restoring: bool, windows_s: tuple[int, ...], *, all_join: bool = False) -> Trace:
    options = ShardOptions(Cut.WINDOWS, policy=policy, method=method, block=BlockCut(rows=1))
    queries = [query(number, window_s) for number, window_s in enumerate(windows_s, 1)]
    trace = Trace(LocalHost(CATALOG, queries, options=options, restoring=restoring), windows_s, all_join)
    trace.begin()
    return trace


def both_at_once(trace: Trace) -> str:
    """a11 and b12 come in one micro-batch."""
    trace.turn({A: [trace.tuple_of(A, 11), moved(13)], B: [trace.tuple_of(B, 12)]})
    return to_the_end(trace)


def one_after_the_other(trace: Trace) -> str:
    """b12 comes when a11 has had a turn."""
    trace.turn({A: [trace.tuple_of(A, 11), moved(11.5)], B: [moved(11.2)]})
    trace.turn({A: [moved(13)], B: [trace.tuple_of(B, 12)]})
    return to_the_end(trace)


def to_the_end(trace: Trace) -> str:
    while trace.host.is_behind:
        trace.turn()
    return "\n".join(trace.lines) + "\n"


def golden(text: str) -> str:
    return dedent(text).lstrip("\n")


every_way = pytest.mark.parametrize(
    ("method", "restoring"), [(method, restoring) for method in ("hybrid", "eager") for restoring in (False, True)]
)
FIGURES_2_AND_3 = (4, 8, 12)
FIGURE_4 = (4, 6, 12)
"""2w, 3w and 6w, with w of 2 seconds: one tuple of each stream."""


@every_way
def test_figure_2_lwo_completes_a11_before_b12_begins(method: str, restoring: bool) -> None:
    """So Q1 waits 12 tp for its pair with b12, of which 6 are a11's larger windows."""
    expected = golden("""
        1  a11 0-w3 @6  Q1 a11b8; Q2 a11b4 a11b8; Q3 a11b0 a11b4 a11b8
        2  b12 0-w3 @12  Q1 a9b12; Q2 a5b12 a9b12; Q3 a1b12 a5b12 a9b12
    """)
    for come in (both_at_once, one_after_the_other):
        assert come(traced("lwo", method, restoring, FIGURES_2_AND_3)) == expected


@every_way
def test_figure_3_swf_switches_between_a11_and_b12_window_by_window(method: str, restoring: bool) -> None:
    """Steps 1, 3, 5, 7, 9 and 11 of the figure are the scans, and the step after each is its release."""
    expected = golden("""
        1  a11 0-w1 @2  Q1 a11b8
        2  b12 0-w1 @4  Q1 a9b12
        3  a11 w1-w2 @6  Q2 a11b4 a11b8
        4  b12 w1-w2 @8  Q2 a5b12 a9b12
        5  a11 w2-w3 @10  Q3 a11b0 a11b4 a11b8
        6  b12 w2-w3 @12  Q3 a1b12 a5b12 a9b12
    """)
    for come in (both_at_once, one_after_the_other):
        assert come(traced("swf", method, restoring, FIGURES_2_AND_3)) == expected


@every_way
def test_figure_4_mqt_takes_a11_on_to_w2_before_b12_begins(method: str, restoring: bool) -> None:
    """All tuples join. MaxQT(w1, w3) of a11 is more than MaxQT(0, w1) of b12; MaxQT(0, w2) of b12, then, more than
    MaxQT(w2, w3) of a11. That b12 goes on to w2 is known when it begins: (a9, b12) and (a11, b12) are given to Q2 with
    Q1, not later: the paper's early release."""
    expected = golden("""
        1  a11 0-w2 @3  Q1 a11b8 a11b10; Q2 a11b6 a11b8 a11b10
        2  b12 0-w2 @6  Q1 a9b12 a11b12; Q2 a7b12 a9b12 a11b12
        3  a11 w2-w3 @9  Q3 a11b0 a11b2 a11b4 a11b6 a11b8 a11b10
        4  b12 w2-w3 @12  Q3 a1b12 a3b12 a5b12 a7b12 a9b12 a11b12
    """)
    for come in (both_at_once, one_after_the_other):
        assert come(traced("mqt", method, restoring, FIGURE_4, all_join=True)) == expected


@every_way
def test_figure_4s_example_under_the_other_policies(method: str, restoring: bool) -> None:
    """The turns that MQT is compared with: b12's wait for Q1 is 12 tp under LWO, 4 under SWF and 6 under MQT; over all
    queries MQT's is the least."""
    assert both_at_once(traced("lwo", method, restoring, FIGURE_4, all_join=True)) == golden("""
        1  a11 0-w3 @6  Q1 a11b8 a11b10; Q2 a11b6 a11b8 a11b10; Q3 a11b0 a11b2 a11b4 a11b6 a11b8 a11b10
        2  b12 0-w3 @12  Q1 a9b12 a11b12; Q2 a7b12 a9b12 a11b12; Q3 a1b12 a3b12 a5b12 a7b12 a9b12 a11b12
    """)
    assert both_at_once(traced("swf", method, restoring, FIGURE_4, all_join=True)) == golden("""
        1  a11 0-w1 @2  Q1 a11b8 a11b10
        2  b12 0-w1 @4  Q1 a9b12 a11b12
        3  a11 w1-w2 @5  Q2 a11b6 a11b8 a11b10
        4  b12 w1-w2 @6  Q2 a7b12 a9b12 a11b12
        5  a11 w2-w3 @9  Q3 a11b0 a11b2 a11b4 a11b6 a11b8 a11b10
        6  b12 w2-w3 @12  Q3 a1b12 a3b12 a5b12 a7b12 a9b12 a11b12
    """)


@pytest.mark.parametrize("policy", POLICIES)
def test_with_an_unlimited_budget_there_is_nothing_to_schedule(policy: str) -> None:
    trace = traced(policy, "index", False, FIGURES_2_AND_3)
    trace.host.probes = None
    cases.arrive(trace.host, {A: [trace.tuple_of(A, 11), moved(13)], B: [trace.tuple_of(B, 12)]})
    assert not trace.host.is_behind
    assert [len(trace.host.rows(f"Q{number}")) for number in (1, 2, 3)] == [2, 4, 6]


@pytest.mark.parametrize("restoring", [False, True])
def test_the_matrix_is_made_anew_only_when_the_set_of_queries_changes(
    monkeypatch: pytest.MonkeyPatch, restoring: bool
) -> None:
    """Also where the shard is restored for every step, as on Spark."""
    policies.policy_for.cache_clear()
    made = []
    best = policies.max_query_throughput
    monkeypatch.setattr(policies, "max_query_throughput", lambda levels: made.append(levels) or best(levels))
    trace = traced("mqt", "index", restoring, FIGURE_4)
    both_at_once(trace)
    assert [len(levels) for levels in made] == [3]
    trace.host.change(CATALOG, [query(number, 4) for number in (1, 2)])
    trace.host.go_on()
    assert [[level.queries for level in levels] for levels in made[1:]] == [[2]]
