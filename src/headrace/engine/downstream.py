"""The operators after a group's join, with their queues: select-project for each class, an aggregate where it folds.

      join --an item a turn--> [ | | ] select-project --> results, or --> [ | ] aggregate
           --an item a turn--> [ | | ] aggregate                  where nothing is left to be asked before

Owns :class:`Downstream`. An item is what one turn of the join made for one class: perhaps nothing on this shard, but an
item all the same where another may have found something, so that all shards take the same turns; its weight is what
a shard may have found on the average.
A scan's condition moves before the shuffle, or back, when other queries come or go, and earlier versions left a join's
filters over one side to the operators, too: what waits has passed them, and may lack what they read, or has not. So
rows are asked for all conditions of their class that they have the columns for.
Invariants: a queue is first in, first out, so that every query's results stay in order; an aggregate counts a time as
known only when nothing of it waits here. Cost: that of filtering and projecting what is taken; what is left in a queue
at the end of a step is stored once.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from headrace.engine.aggregating import FoldOperator
from headrace.engine.arrival_times import counted_times
from headrace.engine.arrow_types import arrow_schema
from headrace.engine.blocks import ARRIVED, EARLY_MARK
from headrace.engine.evaluate import evaluate, filter_mask
from headrace.engine.events import DropSegment, Effect, EmitCount, EmitRows
from headrace.engine.folded_rows import FoldedRows
from headrace.engine.group_folds import FoundRows
from headrace.engine.segments import int64s_of
from headrace.engine.turn_items import RawRows, Stage, TurnItem, item_from_json, item_to_json, names_queued
from headrace.engine.window import SegmentSource, Serial
from headrace.model import QueryId
from headrace.plan.deferring import raw_name
from headrace.plan.expressions import ColumnRef, Expression, columns_of
from headrace.plan.joingraph import on_side
from headrace.plan.opgraph import OperatorKind, OperatorName
from headrace.plan.sharing import Delivery, OutputClass

ONE_FOR_ONE: Mapping[OperatorName, float] = {}
NEWEST, SINCE = "__newest", "__since"
"""Columns of what is to be folded: a result's timestamp, and its since."""


@dataclass(slots=True)
class WorkDone:
    """What an operator took and gave in a turn. ``weight``: what it took, as all shards weigh it; ``copies_out`` and
    ``bytes_out``: in the queues of all that read it; ``offered``: how many rows each of them got, where not all get the
    same."""

    weight: float = 0.0
    rows_in: float = 0
    rows_out: int = 0
    bytes_in: float = 0
    bytes_out: int = 0
    copies_out: int = 0
    offered: dict[OperatorName, int] = field(default_factory=dict)


class Downstream:
    """The operators of one group's classes. ``classes``: as the plan has them; ``raw``: as the join gives them;
    ``since``: from which epoch on each query is served, by identity; ``epoch``: the one that is now."""

    def __init__(
        self,
        classes: Sequence[OutputClass],
        raw: Sequence[OutputClass],
        names: Sequence[tuple[OperatorName, ...]],
        folds: Mapping[int, FoldOperator],
        since: Mapping[str, int],
        epoch: int,
    ) -> None:
        self._classes = classes
        self._epoch = epoch
        self._folds = folds
        self.stages: dict[OperatorName, Stage] = {}
        self._first: dict[int, OperatorName] = {}
        self._together: dict[OperatorName, list[int]] = {}
        """Of operators that are not here, as their classes can do without: whose they would be."""
        self._left_kept: dict[str, Any] = {}
        self._left: list[tuple[int, bool, TurnItem]] = []
        """What waited before those: of which class, and whether it is to be folded only."""
        self._apart: set[int] = set()
        self._class_of: dict[QueryId, int] = {}
        self._since: dict[QueryId, int] = {}
        for number, cls in enumerate(raw):
            self._class_of |= {member.query: number for member in cls.members}
            self._since |= {member.query: since[member.identity] for member in cls.members}
            if cls.deferred is not None:
                self._apart.add(number)
            for name in self._set_up(number, cls, names[number]):
                self._together.setdefault(name, []).append(number)
        self._conditions = [_conditions_of(cls) for cls in classes]
        self._dropped: list[str] = []
        self._passed_over: set[OperatorName] = set()
        """Aggregates that are given nothing of what is worked off now."""

    def _set_up(self, number: int, cls: OutputClass, names: Sequence[OperatorName]) -> Sequence[OperatorName]:
        """Sets up a class's operators; gives those that it would have and has not, as it can do without."""
        if cls.deferred is None:
            return names
        first, *last = names
        if last and not cls.deferred:
            self._first[number] = last[0]
            self.stages[last[0]] = Stage(number, folds=True)
            return (first,)
        if first not in self.stages:
            self._first[number] = first
            self.stages[first] = Stage(number)
        self.stages[first].then += last
        self.stages |= {name: Stage(number, folds=True) for name in last}
        return ()

    # --- queues

    def put(
        self,
        weight: float,
        came: int,
        known_us: int,
        emitted: Sequence[EmitRows],
        found: Sequence[FoundRows],
        parts: Mapping[OperatorName, float] = ONE_FOR_ONE,
        due: Collection[QueryId] | None = None,
    ) -> WorkDone:
        """An item for every class that a turn of the join may have made something for: one that folds, or has a query
        that is ``due`` (None: all are), the same on all shards. ``parts``: about how many rows each operator gets for
        one that it weighed. What was made is as many results as the class with the most of them has."""
        rows: dict[int, list[RawRows]] = {}
        for one in emitted:
            number = self._class_of[one.queries[0]]
            rows.setdefault(number, []).append(RawRows(one.batch, one.queries, one.part))
        for folded in (one for one in found if one.number in self._first):
            rows.setdefault(folded.number, []).append(_to_fold(folded))
        done = WorkDone(weight, offered=dict.fromkeys(self._first.values(), 0))
        asked = None if due is None else {*rows, *self._folds, *(self._class_of[query] for query in due)}
        for number, name in self._first.items():
            if asked is not None and number not in asked:
                continue
            item = TurnItem(weight * parts.get(name, 1.0), came, known_us, self._epoch, rows.get(number, []))
            self.stages[name].put(item)
            done.offered[name] = sum(one.batch.num_rows for one in item.rows)
            done.bytes_out += item.size_bytes
        done.rows_out, done.copies_out = max(done.offered.values(), default=0), sum(done.offered.values())
        return done

    def takes(self, emission: EmitRows) -> bool:
        """Whether an operator here is to go on with this; what was finished before its class had operators is not."""
        return _is_raw(emission) and self._class_of.get(emission.queries[0]) in self._apart

    def held_back_us(self, number: int) -> int | None:
        """Until when all of a class's results have been folded, where some wait to be."""
        last = next((name for name, stage in self.stages.items() if stage.folds and stage.number == number), None)
        waiting = [stage for name, stage in self.stages.items() if name == last or last in stage.then]
        return min((item.known_us for stage in waiting for item in stage.items), default=None)

    # --- turns

    def run(self, name: OperatorName, selectivity: float) -> Iterator[Effect | WorkDone]:
        """One operator takes the first item of its queue; at the end, what that was. What an aggregate gives comes with
        its evaluation."""
        stage = self.stages[name]
        item = stage.take()
        self._dropped += [rows.name for rows in item.rows if rows.name is not None]
        done = WorkDone(item.weight, _count(item.rows))
        done.bytes_in = sum(one.batch.nbytes for one in item.rows)
        if stage.folds:
            for one in item.rows:
                self._fold(stage.number, one)
        else:
            made = [self._selected(stage.number, one) for one in item.rows]
            done.rows_out = sum(one.num_rows for one in made)
            readers = max(1, len(stage.then))
            done.copies_out, done.bytes_out = readers * done.rows_out, readers * sum(one.nbytes for one in made)
            yield from self._given(stage, item, made, selectivity)
        yield done

    def fold_waiting(self, asked: Collection[int], new: Collection[int]) -> Iterator[Effect]:
        """Has all that waits for these classes' aggregates folded; new ones get nothing of it."""
        self._left = [one for one in self._left if one[0] not in new]
        yield from self.finish()
        mine = {name: stage for name, stage in self.stages.items() if stage.folds and stage.number in asked}
        self._passed_over = {name for name, stage in mine.items() if stage.number in new}
        readers = [name for name, stage in self.stages.items() if mine.keys() & stage.then]
        for name in (*readers, *mine):
            while self.stages[name].items:
                for one in self.run(name, 1.0):
                    assert isinstance(one, WorkDone), "what is to be folded is given to nobody else"
        self._passed_over = set()

    def _given(
        self, stage: Stage, item: TurnItem, made: Sequence[pa.RecordBatch], selectivity: float
    ) -> Iterator[Effect]:
        """What a select-project made: on to the aggregate, or out."""
        pairs = [(one, batch) for one, batch in zip(item.rows, made, strict=True) if batch.num_rows]
        for name in (one for one in stage.then if one not in self._passed_over):
            rows = [RawRows(batch, complete_us=one.complete_us) for one, batch in pairs]
            self.stages[name].put(TurnItem(item.weight * selectivity, item.came, item.known_us, item.epoch, rows))
        if stage.then:
            return
        for one, batch in pairs:
            yield from self._out(stage.number, self._served(stage.number, item, one.queries), batch, one.part)

    def _out(self, number: int, queries: tuple[QueryId, ...], batch: pa.RecordBatch, part: int) -> Iterator[Effect]:
        """Rows of a class with their arrivals, to those who read them."""
        if not queries or not batch.num_rows:
            return
        times = np.unique(int64s_of(batch, ARRIVED), return_inverse=True)
        arrived = counted_times(*times, [batch.num_rows])[0]
        if self._classes[number].delivery is Delivery.COUNT:
            yield EmitCount(queries, batch.num_rows, arrived)
        else:
            yield EmitRows(queries, batch.drop_columns([ARRIVED]), arrived, part)

    def _served(self, number: int, item: TurnItem, queries: Sequence[QueryId]) -> tuple[QueryId, ...]:
        """Of the queries that an item's rows are for, those that are still there: another one of the same name, with
        another window perhaps, came later."""
        mine = (query for query in queries if self._class_of.get(query) == number)
        return tuple(query for query in mine if self._since[query] <= item.epoch)

    # --- classes that are kept together with the join now

    def finished(self, emission: EmitRows) -> Iterator[Effect]:
        """What is emitted for a class that has no operators here: as it is, or what was kept for operators."""
        if not _is_raw(emission):
            yield emission
            return
        number = self._class_of[emission.queries[0]]
        rows = self._selected(number, RawRows(emission.batch))
        yield from self._out(number, emission.queries, rows, emission.part)

    def finish(self) -> Iterator[Effect]:
        """All that waited before operators that are no more, though their queries are."""
        self._dropped += names_queued(self._left_kept)
        left, self._left, self._left_kept = self._left, [], {}
        for number, is_passed, item in left:
            for one in item.rows:
                rows = one.batch if is_passed else self._selected(number, one)
                if self._classes[number].delivery is not Delivery.FOLDED:
                    yield from self._out(number, self._served(number, item, one.queries), rows, one.part)
                elif rows.num_rows:
                    self._fold(number, RawRows(rows, complete_us=one.complete_us))

    def _selected(self, number: int, rows: RawRows) -> pa.RecordBatch:
        """The rows that pass a class's filters, as its select list has them, with their arrivals; where they are folded
        next, as they are."""
        cls, batch = self._classes[number], rows.batch
        there = frozenset(batch.schema.names)
        conditions = [one for one, read in self._conditions[number] if read <= there]
        mask = filter_mask(conditions, _columns(batch), batch.num_rows)
        if mask is not None:
            batch = batch.filter(mask)
        if cls.delivery is Delivery.FOLDED:
            return batch
        outputs = () if cls.delivery is Delivery.COUNT else cls.outputs
        made = [evaluate(output.expression, _columns(batch), batch.num_rows) for output in outputs]
        whole = [one.combine_chunks() if isinstance(one, pa.ChunkedArray) else one for one in made]
        if whole and EARLY_MARK in batch.schema.names:  # the last output says which rows came before their time
            whole[-1] = batch.column(EARLY_MARK)
        schema = pa.schema([]) if cls.delivery is Delivery.COUNT else arrow_schema(cls.schema)
        schema = schema.append(pa.field(ARRIVED, pa.int64()))
        return pa.RecordBatch.from_arrays([*whole, batch.column(ARRIVED)], schema=schema)

    def _fold(self, number: int, rows: RawRows) -> None:
        batch, fold = rows.batch, self._folds[number]
        stays = fold.stays_of(int64s_of(batch, NEWEST), int64s_of(batch, SINCE), rows.complete_us)
        fold.add(FoldedRows(_columns(batch), batch.num_rows), stays, int(int64s_of(batch, ARRIVED).max()))

    # --- keeping

    def size_items(self) -> list[int]:
        """How many items wait before each operator."""
        return [len(stage.items) for stage in self.stages.values()]

    @property
    def size_bytes(self) -> dict[OperatorName, int]:
        """What waits before each operator, here."""
        return {name: sum(item.size_bytes for item in stage.items) for name, stage in self.stages.items()}

    def settle(self, serial: Serial) -> Iterator[Effect]:
        """Stores what waits and is not stored yet, and lets go of what was taken."""
        yield from (DropSegment(name) for name in self._dropped)
        self._dropped = []
        for stage in self.stages.values():
            yield from stage.keep(serial)

    def to_json(self) -> dict[str, Any]:
        return {
            name: [item_to_json(item) for item in stage.items] for name, stage in self.stages.items() if stage.items
        } | self._left_kept

    def from_json(self, kept: Mapping[str, Any], source: SegmentSource) -> list[str]:
        """Takes up the queues that were; gives the segments of those whose operators are gone."""
        orphans: list[str] = []
        for name, items in kept.items():
            stage = self.stages.get(OperatorName(name))
            if stage is None and name in self._together:
                self._take_left(OperatorName(name), items, source)
                continue
            if stage is None:
                orphans += [rows[0] for item in items for rows in item[3]]
                continue
            for item in items:
                stage.put(item_from_json(item, source))
        return orphans

    def _take_left(self, name: OperatorName, items: Sequence[Any], source: SegmentSource) -> None:
        """What waited before an operator that is no more."""
        self._left_kept[name] = items
        is_passed = not name.startswith(OperatorKind.SELECT_PROJECT.value)
        for number in self._together[name]:
            self._left += [(number, is_passed, item_from_json(item, source)) for item in items]


def _columns(batch: pa.RecordBatch) -> Callable[[ColumnRef], pa.Array]:
    return lambda ref: batch.column(raw_name(ref))


def _conditions_of(cls: OutputClass) -> list[tuple[Expression, frozenset[str]]]:
    """All conditions of a class, those that inputs apply now too, with the columns that they read."""
    pushed = [on_side(one, side) for side, some in enumerate(cls.pushed) for one in some]
    return [(one, frozenset(map(raw_name, columns_of(one)))) for one in (*cls.filters, *pushed)]


def _is_raw(emission: EmitRows) -> bool:
    """Whether these are columns for operators to come."""
    return ARRIVED in emission.batch.schema.names


def _count(rows: Sequence[RawRows]) -> int:
    return sum(one.batch.num_rows for one in rows)


def _to_fold(found: FoundRows) -> RawRows:
    arrived_us = np.full(len(found.newest_us), found.arrived_us)
    marks = [pa.array(values) for values in (found.newest_us, found.since_us, arrived_us)]
    names = [*found.rows.schema.names, NEWEST, SINCE, ARRIVED]
    batch = pa.RecordBatch.from_arrays([*found.rows.columns, *marks], names=names)
    return RawRows(batch, complete_us=found.complete_us)
