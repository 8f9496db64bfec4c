"""Sources that are passed over (``idle_timeout``): which are when, and which rows are late by it.

      micro-batch   a: 1 2 3   b: 1      b is idle: it is passed to 3      b: 2 is late, b: 3 takes part

Which sources are idle is drawn for each micro-batch: any of those that a stream has, some that have just brought rows,
some that were never heard of. Late is what is older than its stream had reached before the micro-batch; of the other
rows the reference takes what is in order within its source.
"""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import engine_cases as cases
from engine_cases import Case, Row, Way
from hypothesis import strategies as st
from local_host import LocalHost

from headrace import reference
from headrace.engine.progressing import Idle
from headrace.model import Catalog, Stream, StreamId
from headrace.reference_functions import micros

Late: TypeAlias = frozenset[tuple[StreamId, int]]
"""Rows, by stream and number."""

Reached: TypeAlias = Mapping[str, tuple[int | None, bool]]
"""How far streams have come, and whether they are idle."""

HOLD_BYTES = (1, 300, 2**26)
"""What held results may weigh in memory: no more than one, some, all."""


def sources_of(stream: Stream) -> list[tuple[StreamId, str | None]]:
    """A stream's sources as a shard is told of them, and those that were never heard of."""
    names = ("true", "false", "") if stream.partition is not None else ("",)
    return [(stream.name, name) for name in (*names, None)]


def all_of(catalog: Catalog) -> Idle:
    return frozenset(source for stream in catalog.streams for source in sources_of(stream))


def idle_sets(catalog: Catalog) -> st.SearchStrategy[Idle]:
    """Single sources, whole streams, all of them, or none."""
    whole = [frozenset(sources_of(stream)) for stream in catalog.streams]
    streams = st.sets(st.sampled_from(whole), min_size=1).map(
        lambda some: frozenset[tuple[StreamId, str | None]]().union(*some)
    )
    singles = st.frozensets(st.sampled_from(sorted(all_of(catalog), key=str)), max_size=4)
    return st.one_of(st.just(frozenset()), st.just(frozenset()), singles, streams)


@dataclass(frozen=True)
class Idling:
    """For one micro-batch after the other, round and round: the sources that are idle in it, and how many micro-batches
    without input there are after it, in which they still are."""

    idle: tuple[Idle, ...]
    pauses: tuple[int, ...]


def idlings(catalog: Catalog) -> st.SearchStrategy[Idling]:
    idle = st.lists(idle_sets(catalog), min_size=1, max_size=6).map(tuple)
    return st.builds(Idling, idle, st.lists(st.integers(0, 1), min_size=1, max_size=3).map(tuple))


@st.composite
def ways(draw: st.DrawFn, shards: Sequence[int] = (1, 3)) -> Way:
    """Any way of running, or one on which work is always left; what is held may weigh next to nothing."""
    way = draw(st.one_of(cases.ways(shards), cases.busy_ways(shards)))
    return replace(way, options=replace(way.options, hold_bytes=draw(st.sampled_from(HOLD_BYTES))))


@dataclass
class Run:
    """A case that was run while sources were idle, and the rows that were late by it."""

    host: LocalHost
    passed: set[tuple[StreamId, int]] = field(default_factory=set)

    def wanted(self, case: Case) -> Case:
        """The case without the rows that were late because their stream had been passed."""
        rows = {
            name: [row for row in some if (name, row["id"]) not in self.passed] for name, some in case.arrivals.items()
        }
        return replace(case, arrivals=rows)

    def dead_letters(self, case: Case) -> Counter[tuple[str, str, int]]:
        """All rows that are rejected, where every stream is read whole."""
        expected = Counter((str(name), "late", number) for name, number in self.passed)
        rest = self.wanted(case)
        for name, intake in reference.accepted(case.catalog, rest.arrivals).items():
            for reason, seqs in (("late", intake.late), ("malformed", intake.malformed)):
                expected.update((str(name), reason, int(str(rest.arrivals[name][seq]["id"]))) for seq in seqs)
        return expected


def late_rows(reached: Reached, chunks: Mapping[StreamId, Sequence[Row]]) -> Iterator[tuple[StreamId, int]]:
    """The rows that are older than what their stream had reached."""
    for name, rows in chunks.items():
        reached_us, _ = reached[name]
        for row in rows:
            time, number = row["ts"], row["id"]
            assert isinstance(number, int)
            if reached_us is not None and isinstance(time, dt.datetime) and micros(time) < reached_us:
                yield name, number


def assert_passed_no_further(case: Case, host: LocalHost, before: Reached) -> None:
    """An idle stream is where it was, or as far as the one furthest behind of those that it is joined with in a query;
    just after their newest time, if all are idle."""
    (shard, *_), now = host.shards, host.shards[0].reached()
    for name in (one for one, (_, is_idle) in now.items() if is_idle):
        bounds = [before[name][0]]
        for query in case.queries:
            streams = {one.stream for one in query.sources}
            going = [now[one][0] for one in streams if not now[one][1]]
            newest_us = [one for one in map(shard.progress.newest, streams) if one is not None]
            if name in streams and None not in going:
                bounds.append(min((one for one in going if one is not None), default=max(newest_us, default=0) + 1))
        reached_us, known = now[name][0], [one for one in bounds if one is not None]
        assert reached_us is None or reached_us <= max(known)


def run(case: Case, way: Way, idling: Idling) -> Run:
    """The case up to where all sources are idle and nothing is left to do; its input does not end."""
    found = Run(cases.host_for(case, way))
    host = found.host
    for number, chunks in enumerate(cases.micro_batches(case, way)):
        host.idle = idling.idle[number % len(idling.idle)]
        before = host.shards[0].reached()
        found.passed.update(late_rows(before, chunks))
        cases.arrive(host, chunks)
        assert_passed_no_further(case, host, before)
        for _ in range(idling.pauses[number % len(idling.pauses)]):
            before = host.shards[0].reached()
            host.go_on()
            assert_passed_no_further(case, host, before)
        assert all(shard.reached() == host.shards[0].reached() for shard in host.shards)
    host.idle = all_of(case.catalog)
    host.go_on()
    cases.go_on_to_the_end(host)
    return found
