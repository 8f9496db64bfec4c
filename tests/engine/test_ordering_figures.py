"""Paper 004's Figures 3 (Sync-Filter) and 4 (Filter-Order): what is produced when, for the streams of Figure 1(C).

A tuple's number is its time in seconds, its letter its key. Stream S is delayed: a8 comes at 11 and a12 at 12, when b9
and c10 of stream T have been there since 9 and 10. The window is 6 seconds. Processing a tuple takes tp, so a row of a
trace is produced when so many tuples have been processed since the arrival that set it off.
"""

from __future__ import annotations

from dataclasses import dataclass

import engine_cases as cases
import pytest

from headrace.engine.budget import ProbeBudget
from headrace.engine.cutting import BlockCut
from headrace.engine.events import EmitRows, OrderingChosen
from headrace.engine.output import Cut
from headrace.engine.packing import EVENTS
from headrace.engine.shard import Shard, ShardOptions
from headrace.model import Catalog, QueryId, Stream, StreamId
from headrace.plan.functions import call
from headrace.plan.queries import Output, Query, Source, within_us
from headrace.plan.sharing import share

S, T = StreamId("s"), StreamId("t")
CATALOG = Catalog((Stream(S, cases.WIDE, "ts"), Stream(T, cases.WIDE, "ts")))
KEYS = {"a": 1, "b": 2, "c": 3, "d": 4}
WINDOW_S = 6
SEEN = ((S, "d", 2), (T, "a", 1), (S, "c", 4), (T, "a", 5), (S, "b", 6))
"""What both streams have brought by the time 6, in order."""
ARRIVALS = ((9, T, "b", 9), (10, T, "c", 10), (11, S, "a", 8), (12, S, "a", 12))
"""When, on which stream, and the tuple."""
QUERY = Query(
    QueryId("q"),
    (Source(S, "s"), Source(T, "t")),
    (call("=", cases.column(0, "k"), cases.column(1, "k")),),
    tuple(Output(name, cases.column(i, "id")) for i, name in enumerate(("s", "t"))),
    within_us(WINDOW_S * cases.SECOND_US),
)


@dataclass(frozen=True)
class Produced:
    """A result, by its tuples' numbers, and when: an arrival, and so many tp later."""

    result: tuple[int, int]
    at_s: int
    processed: int

    @property
    def newest(self) -> int:
        return max(self.result)


class Trace:
    """The join, fed one tuple at a time."""

    def __init__(self, *, filter_order: bool) -> None:
        self.plan = share(CATALOG, (QUERY,))
        self.shard = Shard(self.plan, ShardOptions(Cut.WINDOWS, block=BlockCut(rows=1)))
        groups = frozenset(group.signature for group in self.plan.groups)
        self._chosen = OrderingChosen(groups if filter_order else frozenset())
        self.produced: list[Produced] = []
        for number, (stream, letter, second) in enumerate(SEEN):
            self.arrive(second, stream, letter, second, number)
        self.produced.clear()

    def arrive(self, at_s: int, stream: StreamId, letter: str, second: int, order: int) -> None:
        host = cases.host_for(cases.Case(CATALOG, {}, (QUERY,)), cases.Way())
        packed = cases.packed(host, stream, [cases.row(second, second, k=KEYS[letter])], order)
        budget = ProbeBudget()
        events = [one.event(self.plan) for one in packed if one.kind in EVENTS]
        for effect in self.shard.step([*events, self._chosen], budget):
            if isinstance(effect, EmitRows):
                found = [tuple(row.values()) for row in effect.batch.to_pylist()]
                self.produced += [Produced(one, at_s, budget.spent) for one in found]

    def run(self) -> list[Produced]:
        for number, (at_s, stream, letter, second) in enumerate(ARRIVALS, len(SEEN)):
            self.arrive(at_s, stream, letter, second, number)
        return self.produced


def delay_tp(produced: list[Produced]) -> tuple[int, int]:
    """The total delay of the results: seconds, and tp."""
    return sum(one.at_s - one.newest for one in produced), sum(one.processed for one in produced)


def test_sync_filter_holds_tuples_back_and_processes_them_one_after_the_other() -> None:
    """Figure 3: (a8, a5) at 11 + tp, (b6, b9) at 12 + tp, (c4, c10) at 12 + 2 tp."""
    assert Trace(filter_order=False).run() == [
        Produced((8, 5), 11, 1),
        Produced((6, 9), 12, 1),
        Produced((4, 10), 12, 2),
    ]


def test_filter_order_has_them_ready_when_the_other_stream_comes() -> None:
    """Figure 4: (a8, a5) at 11 + tp; (b6, b9) and (c4, c10) were found at 9 and 10 and leave at 12."""
    assert Trace(filter_order=True).run() == [
        Produced((8, 5), 11, 1),
        Produced((6, 9), 12, 0),
        Produced((4, 10), 12, 0),
    ]


def test_the_total_delay_of_filter_order_is_less_by_three_times_the_processing_of_a_tuple() -> None:
    sync, early = (delay_tp(Trace(filter_order=one).run()) for one in (False, True))
    assert early == (sync[0], sync[1] - 3)


def test_results_that_are_held_are_counted_and_come_back_after_a_restart() -> None:
    trace = Trace(filter_order=True)
    for number, (at_s, stream, letter, second) in enumerate(ARRIVALS[:2], len(SEEN)):
        trace.arrive(at_s, stream, letter, second, number)
    assert trace.shard.held_results == 2
    assert trace.produced == []


@pytest.mark.parametrize("back", [2, 3])
def test_on_the_way_back_the_hold_buffer_is_emptied_first(back: int) -> None:
    """Steps E to L: after the switch tuples wait for each other again, and what is held leaves in order."""
    trace = Trace(filter_order=True)
    for number, (at_s, stream, letter, second) in enumerate(ARRIVALS, len(SEEN)):
        if number == len(SEEN) + back:
            trace._chosen = OrderingChosen()
        trace.arrive(at_s, stream, letter, second, number)
    assert [one.result for one in trace.produced] == [(8, 5), (6, 9), (4, 10)]
    assert trace.shard.held_results == 0
