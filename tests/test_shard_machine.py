"""A shard lives through anything: arrivals, budgets, ends, restores, other queries; then the answers are right.

Two queries stay from the first step to the last: theirs must be the reference's rows. The others come and go.
"""

from __future__ import annotations

from collections import Counter

import engine_cases as cases
import outcomes
from engine_cases import Row, Way, examples
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from local_host import LocalHost

from headrace import reference
from headrace.model import Catalog, StreamId
from headrace.plan.queries import Query


class ShardMachine(RuleBasedStateMachine):
    """A host with one or several shards, and all that arrived."""

    catalog: Catalog
    staying: list[Query]
    host: LocalHost
    arrived: dict[StreamId, list[Row]]
    now: dict[StreamId, int]
    plain: bool
    """Whether all went on undisturbed on one shard: then the rows are in the reference's order."""

    def __init__(self) -> None:
        super().__init__()
        self.coming: list[Query] = []

    @initialize(data=st.data(), way=cases.ways(shards=(1, 2)))
    def begin(self, data: st.DataObject, way: Way) -> None:
        self.catalog = data.draw(cases.catalogs(most=2))
        self.staying = data.draw(cases.query_lists(self.catalog, 2, "stays"))
        self.host = LocalHost(self.catalog, self.staying, shards=way.shards, options=way.options, probes=way.probes)
        self.arrived = {stream.name: [] for stream in self.catalog.streams}
        self.now = dict.fromkeys(self.arrived, 0)
        self.plain = way.shards == 1

    @rule(which=st.integers(0, 1), data=st.data())
    def arrive_on_one_stream(self, which: int, data: st.DataObject) -> None:
        name = self.catalog.streams[which].name
        self._arrive({name: self._rows(name, data)})

    @rule(data=st.data())
    def arrive_on_both_streams(self, data: st.DataObject) -> None:
        self._arrive({name: self._rows(name, data) for name in self.arrived})

    @rule(which=st.integers(0, 1), seconds=st.sampled_from((3, 50, 1000)))
    def time_passes(self, which: int, seconds: int) -> None:
        self.now[self.catalog.streams[which].name] += seconds

    @rule()
    def go_on_without_input(self) -> None:
        self.host.go_on()

    @rule(probes=st.sampled_from((None, 1, 3, 10)), backlog_rows=st.sampled_from((None, 5)))
    def work_with_another_budget(self, probes: int | None, backlog_rows: int | None) -> None:
        self.host.probes, self.host.backlog_rows = probes, backlog_rows

    @rule(approach=st.sampled_from(((False,), (True,), (True, False))))
    def keep_order_in_another_way(self, approach: tuple[bool, ...]) -> None:
        """Sync-Filter, Filter-Order, or one after the other, as Adaptive may choose."""
        self.host.filter_order = approach

    @rule()
    def catch_up(self) -> None:
        cases.go_on_to_the_end(self.host)

    @rule()
    def end(self) -> None:
        """Rows that arrive after it may be older than those it released: from here on, only the rows count."""
        self.host.end()
        self.plain = False

    @rule()
    def restart(self) -> None:
        running = [shard.manifest() for shard in self.host.shards]
        self.host.change(self.catalog, self.staying + self.coming)
        assert [shard.manifest() for shard in self.host.shards] == running

    @rule(data=st.data())
    def change_the_other_queries(self, data: st.DataObject) -> None:
        self.coming = data.draw(cases.query_lists(self.catalog, 3, "comes")) if data.draw(st.booleans()) else []
        self.host.change(self.catalog, self.staying + self.coming)
        self.plain = False

    def _rows(self, name: StreamId, data: st.DataObject) -> list[Row]:
        rows = data.draw(cases.rows_from(self.now[name], len(self.arrived[name]), 6))
        times = [row["ts"] for row in rows if row["ts"] is not None]
        self.now[name] = max([self.now[name], *(cases.seconds_of(time) for time in times)])
        return rows

    def _arrive(self, chunks: dict[StreamId, list[Row]]) -> None:
        cases.arrive(self.host, chunks)
        for name, rows in chunks.items():
            self.arrived[name] += rows

    @invariant()
    def shards_are_valid(self) -> None:
        if hasattr(self, "host"):
            for shard in self.host.shards:
                shard.validate()
            outcomes.assert_shards_wait_alike(self.host)

    @invariant()
    def rows_so_far_are_right(self) -> None:
        for query in getattr(self, "staying", ()):
            wanted = outcomes.shown(reference.answer(query, self.catalog, self.arrived))
            rows = outcomes.got(self.host, query)
            assert Counter(rows) <= Counter(wanted)
            if self.plain:
                assert rows == wanted[: len(rows)]

    def teardown(self) -> None:
        if not hasattr(self, "host"):
            return
        self.host.end()
        outcomes.assert_store_holds_what_is_needed(self.host)
        for query in self.staying:
            wanted = reference.answer(query, self.catalog, self.arrived)
            assert outcomes.same_rows(outcomes.got(self.host, query), wanted)


TestShardMachine = ShardMachine.TestCase
TestShardMachine.settings = examples(25)
