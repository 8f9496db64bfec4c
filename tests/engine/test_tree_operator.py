"""Trees of joins under a limit: what is probed, what is left out, what is too old, and what is kept all the same."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from engine_cases import WIDE, column, row
from local_host import LocalHost
from strategies import SECOND_US

from headrace.engine.arrow_types import arrow_schema
from headrace.engine.cutting import BlockCut
from headrace.engine.events import Event, ProbesAllowed, TimeTold
from headrace.engine.output import Cut
from headrace.engine.packing import Envelope, Kind
from headrace.engine.shard import Shard, ShardOptions
from headrace.engine.tree_join import Choice, TreeOptions, chosen
from headrace.engine.tree_operator import TreeOperator
from headrace.model import Catalog, QueryId, Stream, StreamId
from headrace.plan.functions import call
from headrace.plan.queries import Extent, Measure, Output, Overload, Query, Source, within_us
from headrace.plan.spare import Spare
from headrace.plan.trees import JoinTree, parse_tree

NAMES = "abcd"
CATALOG = Catalog(tuple(Stream(StreamId(name), WIDE, "ts") for name in NAMES))


def query(sources: str, window_s: int = 100, fresh_s: int | None = None) -> Query:
    """A join of these streams on k, with every source's id."""
    freshness = () if fresh_s is None else (Extent(Measure.TIME, fresh_s * SECOND_US),) * len(sources)
    return Query(
        QueryId("q"),
        tuple(Source(StreamId(name), name) for name in sources),
        tuple(call("=", column(0, "k"), column(side, "k")) for side in range(1, len(sources))),
        tuple(Output(f"{name}_id", column(side, "id")) for side, name in enumerate(sources)),
        within_us(window_s * SECOND_US, len(sources)),
        overload=Overload.ADAPT,
        freshness=freshness,
    )


class Told(LocalHost):
    """A host that tells shards the time, and what they may probe; nothing that came waits for another stream."""

    events: tuple[Event, ...] = ()

    def deliver(self, envelopes: list) -> None:  # type: ignore[type-arg]
        step = Shard.step

        def told(shard: Shard, events: Sequence[Event], *more: object) -> Iterator[object]:
            return step(shard, [*events, *self.events], *more)  # type: ignore[arg-type]

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Shard, "step", told)
            super().deliver([*envelopes, *(Envelope(shard, Kind.END) for shard in range(len(self.stores)))])

    def allow(self, *probes: float, spare: Spare | None = None) -> None:
        self.events = (ProbesAllowed(self.plan.groups[0].signature, probes, spare),)

    @property
    def tree(self) -> TreeOperator:
        (tree,) = self.shards[0].trees().values()
        return tree


def host(asked: Query, text: str, **options: object) -> Told:
    made = Told(CATALOG, [asked], restoring=bool(options.pop("restoring", False)))
    (group,) = made.plan.groups
    tree: JoinTree = parse_tree(text, [source.stream for source in asked.sources])
    made.options = ShardOptions(trees={group.signature: TreeOptions(tree, **options)})  # type: ignore[arg-type]
    made.change(CATALOG, [asked])
    return made


def send(to: LocalHost, at_us: int = 0, **rows: Sequence[tuple[float, int]]) -> None:
    """Rows (time in seconds, id), all of one key, that arrive at a time."""
    batches = {
        name: pa.RecordBatch.from_pylist([row(ts, number, 0) for ts, number in some], schema=arrow_schema(WIDE))
        for name, some in rows.items()
    }
    to.arrive(batches, at_us=at_us)  # type: ignore[arg-type]


def ids(of: Told) -> list[tuple[object, ...]]:
    return [tuple(one.values()) for one in of.rows("q")]


# --- allowances


@pytest.mark.parametrize(
    ("choice", "probing"), [(Choice.OLDEST, [0, 1]), (Choice.NEWEST, [4, 5]), (Choice.SPREAD, [1, 4])]
)
def test_of_six_tuples_two_probe(choice: Choice, probing: list[int]) -> None:
    tested = host(query("ab"), "(a b)", choice=choice)
    send(tested, b=[(0, 100)], a=[(0, 99)])
    tested.allow(2, 0)
    send(tested, a=[(1, number) for number in range(6)], b=[(1, 50)])
    assert [a for a, b in ids(tested) if b == 100 and a != 99] == probing


def test_chosen_takes_all_where_all_may() -> None:
    assert chosen(np.array([2, 0, 1]), 5, Choice.SPREAD).tolist() == [0, 1, 2]


def test_tuples_that_do_not_probe_are_found_by_later_ones() -> None:
    """Every tuple is inserted: only the probe of the later one is missing."""
    tested = host(query("ab"), "(a b)")
    tested.allow(0, 0)
    send(tested, a=[(0, 1)], b=[(0, 2)])
    tested.events = ()
    send(tested, a=[(1, 3)], b=[(1, 4)])
    assert sorted(ids(tested)) == [(1, 4), (3, 2), (3, 4)]


def test_probes_left_out_are_counted() -> None:
    tested = host(query("abc"), "((a b) c)")
    send(tested, a=[(0, 1)], b=[(0, 2)], c=[(0, 3)])
    tested.allow(1, 0, 10, 0)
    send(tested, a=[(1, 4), (1, 5), (1, 6)], b=[(1, 7)], c=[(1, 8)])
    told = [(one.offered, one.probed, one.found) for one in tested.tree.tallies.values()]
    assert told == [(3, 1, 1), (1, 0, 0), (1, 1, 1), (1, 0, 0)]


def test_fractions_of_probes_add_up_over_steps() -> None:
    tested = host(query("ab"), "(a b)", restoring=True)
    send(tested, a=[(0, 0)], b=[(0, 100)])
    tested.allow(0.5, 0)
    for second in range(1, 9):
        send(tested, a=[(second, second)], b=[(second, 100 + second)])
    assert len({a for a, b in ids(tested) if b == 100 and a}) == 4


def test_what_a_step_does_not_use_is_left_to_the_next_up_to_a_half() -> None:
    tested = host(query("ab"), "(a b)")
    send(tested, b=[(0, 100)], a=[(0, 99)])
    probing = []
    for second, came in enumerate((0, 20, 20, 9, 20), 1):
        tested.allow(10, 0)
        send(tested, a=[(second, number) for number in range(came)], b=[(second, 50)])
        probing.append(tested.tree.tallies[tested.tree.tree.half_ways[0]].probed)
    assert probing == [0, 15, 10, 9, 11]


def test_blocks_of_a_step_share_its_allowance_by_the_tuples_that_it_is_for() -> None:
    """First those of one stream, then those of the other: all that is allowed is probed, and no more."""
    tested = host(query("ab"), "(a b)")
    tested.options = replace(tested.options, block=BlockCut(rows=1))
    tested.change(CATALOG, [query("ab")])
    for allowed in (4, 2):
        tested.allow(allowed, allowed)
        send(tested, a=[(1, number) for number in range(4)], b=[(2, number) for number in range(4)])
        assert [one.probed for one in tested.tree.tallies.values()] == [allowed, allowed]


@pytest.mark.parametrize(
    ("units", "probed"), [(0, [1, 0, 1, 0]), (6, [4, 0, 4, 0]), (7, [4, 0, 4, 1]), (99, [6, 0, 6, 1])]
)
def test_what_there_is_to_spare_is_for_whole_paths(units: float, probed: list[int]) -> None:
    """A tuple of a takes two units: it finds one of b, and what that makes is to probe c."""
    tested = host(query("abc"), "((a b) c)")
    send(tested, a=[(0, 1)], b=[(0, 2)], c=[(0, 3)])
    tested.allow(1, 0, 1, 0, spare=Spare(units, (2, 2, 1, 1), (1, 1, 1, 1)))
    send(tested, a=[(1, number) for number in range(6)], c=[(1, 9)])
    assert [one.probed for one in tested.tree.tallies.values()] == probed


def test_what_an_unmade_probe_below_would_find_is_not_found_above() -> None:
    tested = host(query("abc"), "((a b) c)")
    tested.allow(0, 0, 100, 100)
    send(tested, a=[(0, 1)], b=[(0, 2)], c=[(0, 3)])
    tested.events = ()
    send(tested, a=[(1, 4)], b=[(1, 5)], c=[(1, 6)])
    assert not [one for one in ids(tested) if one[:2] == (1, 2)]
    assert [one for one in ids(tested) if one[0] == 4]


def test_a_restart_with_another_tree_makes_states_that_the_next_step_keeps() -> None:
    """As on Spark, that step begins with what the last one before the restart kept."""
    tested = host(query("abc"), "((a b) c)", restoring=True)
    send(tested, a=[(0, 1)], b=[(0, 2)], c=[(0, 3)])
    (signature,) = tested.options.trees
    tested.options = ShardOptions(trees={signature: TreeOptions(parse_tree("(a (b c))", ["a", "b", "c"]))})
    tested.change(CATALOG, [query("abc")])
    send(tested, a=[(1, 4)], b=[], c=[])
    send(tested, a=[(2, 5)], b=[], c=[])
    assert sorted(ids(tested)) == [(1, 2, 3), (4, 2, 3), (5, 2, 3)]


# --- freshness


def test_no_result_has_a_tuple_that_arrived_before_the_freshness() -> None:
    tested = host(query("abc", fresh_s=10), "((a b) c)")
    send(tested, 0, a=[(0, 1)], b=[(0, 2)], c=[(0, 3)])
    send(tested, 8 * SECOND_US, a=[(1, 4)], b=[(1, 5)], c=[(1, 6)])
    send(tested, 12 * SECOND_US, a=[(2, 7)], b=[(2, 8)], c=[(2, 9)])
    came_s = {1: 0, 2: 0, 3: 0, 4: 8, 5: 8, 6: 8, 7: 12, 8: 12, 9: 12}
    late = [one for one in ids(tested) if any(number in (7, 8, 9) for number in one)]  # type: ignore[comparison-overlap]
    assert late
    assert all(came_s[number] >= 2 for one in late for number in one)  # type: ignore[index]
    assert len(ids(tested)) == 1 + 7 + 7


def test_what_is_too_old_to_probe_was_not_left_out() -> None:
    """With unlimited probes none is left out, however late results are released."""
    tested = host(query("ab", fresh_s=10), "(a b)")
    tested.events = (TimeTold(20 * SECOND_US),)
    send(tested, 0, a=[(0, 1), (0, 2)], b=[(0, 3)])
    assert [(one.offered, one.stale, one.left_out) for one in tested.tree.tallies.values()] == [(2, 2, 0), (1, 1, 0)]
    tested.events = ()
    tested.allow(1, 1)
    send(tested, 19 * SECOND_US, a=[(1, 4), (1, 5)], b=[(1, 6)])
    assert [(one.offered, one.left_out) for one in tested.tree.tallies.values()] == [(2, 1), (1, 0)]


def test_the_default_freshness_is_the_window() -> None:
    tested = host(query("ab", window_s=5), "(a b)")
    send(tested, 0, a=[(0, 1)], b=[(0, 2)])
    send(tested, 6 * SECOND_US, a=[(1, 3)], b=[(1, 4)])
    assert ids(tested) == [(1, 2), (3, 4)]


def test_time_that_is_told_counts() -> None:
    """A result is released when the host says, not when its newest tuple arrived."""
    tested = host(query("ab", fresh_s=10), "(a b)")
    send(tested, 0, a=[(0, 1)], b=[(0, 2)])
    tested.events = (TimeTold(20 * SECOND_US),)
    send(tested, 12 * SECOND_US, a=[(1, 3)], b=[(1, 4)])
    assert ids(tested) == [(1, 2), (3, 4)]


def test_a_release_that_was_expected_late_once_makes_no_later_one_late() -> None:
    tested = host(query("ab", fresh_s=10), "(a b)")
    tested.events = (TimeTold(30 * SECOND_US),)
    send(tested, 5 * SECOND_US, a=[(0, 1)])
    tested.events = (TimeTold(13 * SECOND_US),)
    send(tested, 12 * SECOND_US, a=[(1, 2)], b=[(1, 3)])
    assert sorted(ids(tested)) == [(1, 3), (2, 3)]


def test_stale_tuples_in_between_are_let_go() -> None:
    tested = host(query("abc", fresh_s=10), "((a b) c)")
    send(tested, 0, a=[(0, 1)], b=[(0, 2)], c=[(0, 3)])
    send(tested, 1 * SECOND_US, a=[(1, 4)], b=[(1, 5)], c=[(1, 6)])
    assert tested.tree.state_rows()[0, 1] > 0
    tested.events = (TimeTold(60 * SECOND_US),)
    tested.go_on()
    assert tested.tree.state_rows()[0, 1] == 0
    assert tested.tree.lost > 0


def test_a_freshness_of_rows_is_counted_in_the_whole_stream() -> None:
    asked = replace(
        query("ab"),
        windows=(Extent(Measure.ROWS, 100),) * 2,
        freshness=(Extent(Measure.ROWS, 2), Extent(Measure.ROWS, 100)),
    )
    tested = host(asked, "(a b)")
    send(tested, a=[(0, 0), (1, 1), (2, 2), (3, 3)], b=[(4, 10)])
    assert sorted(ids(tested)) == [(2, 10), (3, 10)]


# --- states in between


def test_a_state_measured_in_tuples_keeps_the_newest() -> None:
    """The paper's model: joined tuples stay until newer ones displace them, however old."""
    tested = host(query("abc", fresh_s=1000), "((a b) c)", state_rows={(0, 1): 1}, is_enforced=False)
    send(tested, a=[(0, 1)], b=[(0, 2)], c=[(0, 3)])
    send(tested, a=[(1, 4)], b=[(1, 5)], c=[(1, 6)])
    tested.allow(0, 0, 0, 100)
    send(tested, a=[(900, 7)], b=[(900, 8)], c=[(900, 9), (901, 10)])
    assert [one for one in ids(tested) if one[2] in (9, 10)] == [(4, 5, 9), (4, 5, 10)]


def test_what_is_found_in_a_state_measured_in_tuples_does_not_depend_on_blocks() -> None:
    """Also within a block a probe meets the newest that were made before it, and no more."""
    rows = [("a", 1), ("b", 2), ("c", 3), ("a", 4), ("b", 5), ("c", 6), ("a", 7), ("b", 8), ("c", 9), ("b", 10)]
    found = []
    for size in (len(rows), 4, 1):
        tested = host(query("abc", fresh_s=1000), "((a b) c)", state_rows={(0, 1): 2}, is_enforced=False)
        for begin in range(0, len(rows), size):
            some = [(name, (number, number)) for name, number in rows[begin : begin + size]]
            send(tested, **{one: [row for name, row in some if name == one] for one in "abc"})
        found.append(sorted(ids(tested)))
        assert tested.tree.state_rows()[0, 1] == 2
    assert found[0] == found[1] == found[2]
    assert [one[:2] for one in found[0] if one[2] == 9 and one[1] < 10] == [(4, 8), (7, 8)]  # type: ignore[operator]


@pytest.mark.parametrize("rows", [{(0, 1): 2}, {}], ids=["count", "window"])
def test_a_state_that_was_measured_otherwise_is_made_anew(rows: dict[tuple[int, ...], int]) -> None:
    """What ``retention`` was before says nothing of how long a joined tuple stays now."""
    asked = query("abc", window_s=50, fresh_s=1000)
    tested = host(asked, "((a b) c)", state_rows={} if rows else {(0, 1): 2})
    for second in (1_000, 1_001, 1_002):
        send(tested, a=[(second, second)], b=[(second, second)], c=[(second, second)])
    tested.options = ShardOptions(
        trees={tested.plan.groups[0].signature: replace(tested.tree.tree_options, state_rows=rows)}
    )
    tested.change(CATALOG, [asked])
    send(tested, c=[(1_003, 3)])
    assert len([one for one in ids(tested) if one[2] == 3]) == (2 if rows else 9)


def test_joined_tuples_leave_with_the_first_of_their_tuples() -> None:
    tested = host(query("abc", window_s=5, fresh_s=1000), "((a b) c)")
    send(tested, a=[(0, 1)], b=[(0, 2)], c=[(0, 3)])
    send(tested, a=[(4, 4)], b=[(4, 5)], c=[(4, 6)])
    assert tested.tree.state_rows()[0, 1] == 4
    for second in (20, 40):
        send(tested, a=[(second, 7)], b=[(second, 8)], c=[(second, 9)])
    assert tested.tree.state_rows()[0, 1] <= 1


def test_a_window_that_goes_leaves_no_result_that_only_it_had() -> None:
    """Joined tuples that were kept for a larger window are no results of the smaller one."""
    small, large = query("abc", window_s=5, fresh_s=1000), query("abc", window_s=50, fresh_s=1000)
    tested = Told(CATALOG, [small, replace(large, name=QueryId("large"))])
    send(tested, a=[(0, 1)], b=[(0, 2)], c=[(0, 3)])
    send(tested, a=[(4, 4)], b=[(4, 5)], c=[(4, 6)])
    tested.change(CATALOG, [small])
    send(tested, c=[(8, 7), (30, 8)])
    assert [one for one in ids(tested) if one[2] in (7, 8)] == [(4, 5, 7)]


# --- trees that were given, of joins that leave nothing out


def deferring(window_s: int = 100, name: str = "q") -> Query:
    return replace(query("abc", window_s), name=QueryId(name), overload=Overload.DEFER)


def waiting(*queries: Query, probes: int | None = None) -> LocalHost:
    """A host whose joins of a, b and c run by a tree; with a budget, blocks of one row wait for their turns."""
    options = ShardOptions(Cut.WINDOWS, block=BlockCut(rows=1))
    return LocalHost(CATALOG, queries, options=options, probes=probes, tree="((a b) c)")


def test_what_a_block_makes_in_between_is_there_when_its_turn_comes_late() -> None:
    """Streams are far ahead when a block's turn comes; what it is to meet in S(a b) has been kept for it."""
    tested = waiting(deferring(window_s=5), probes=1)
    send(tested, a=[(0, 1)], b=[(1, 2)], c=[(4, 3)])
    for second in (50, 51, 52):
        send(tested, a=[(second, 0)], b=[(second, 0)], c=[(second, 0)])
        assert tested.is_behind
    tested.end()
    assert tuple(tested.rows("q")[0].values()) == (1, 2, 3)


def test_tuples_that_nobody_waited_for_are_in_the_states_in_between() -> None:
    """The query that blocks were made for is gone before their turn; one that came later meets what they make."""
    tested = waiting(deferring(), probes=1)
    send(tested, a=[(0, 1), (0.5, 10), (0.6, 11)], b=[(1, 2)], c=[(1, 9)])
    send(tested, a=[(3, 4)], b=[(3, 5)], c=[(3, 6)])
    assert tested.is_behind
    tested.change(CATALOG, [deferring(name="later")])
    send(tested, a=[(4, 7)], b=[(4, 8)], c=[(5, 3)])
    tested.end()
    assert (1, 2, 3) in [tuple(one.values()) for one in tested.rows("later")]


def test_a_larger_window_meets_what_smaller_ones_did_not_keep_in_between() -> None:
    tested = waiting(deferring(window_s=4))
    send(tested, a=[(0, 1)], b=[(3, 2)], c=[(3, 9)])
    send(tested, a=[(3.5, 0)], b=[(3.5, 0)], c=[(3.5, 0)])
    tested.change(CATALOG, [deferring(window_s=4), deferring(window_s=8, name="wide")])
    send(tested, a=[(7, 4)], b=[(7, 5)], c=[(7, 3)])
    tested.end()
    assert (1, 2, 3) in [tuple(one.values()) for one in tested.rows("wide")]
    assert (1, 2, 3) not in [tuple(one.values()) for one in tested.rows("q")]
