"""A group's operator in one shard: waiting rows in, blocks through the join (or straight through), results out.

Owns: :class:`InputState` (what one input holds) and :class:`GroupOperator`. The operator is told how far progress has
come; it releases what is due, asks the policy which block scans which windows next, and expires what nothing can reach.
Invariant: after ``advance`` no waiting row is at or before progress, and every held row is within the largest window of
something that may still come, or shares its part with one that is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest

import numpy as np
import pyarrow as pa

from headrace.engine.events import Effect, EmitCount, EmitRows
from headrace.engine.join import Block, Matches, NewRows, Reach, Space, count_pairs, make_block, scan
from headrace.engine.output import Cut, Emission, emissions, filtered, serves, weighted_arrivals
from headrace.engine.policy import JoinPolicy
from headrace.engine.segments import KEY, Layout, Segment
from headrace.engine.waiting import Released, WaitingRows
from headrace.engine.window import Collected, Serial, WindowStore
from headrace.model import TypeKind
from headrace.plan.expressions import ColumnRef
from headrace.plan.sharing import Delivery, Group, Input, KeyForm, expression_text


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """How far a stream, or all streams of a group, have come: an event time, and the stream that is next at it."""

    ts_us: int
    position: int


def layout_of(input: Input, key_form: KeyForm) -> Layout:
    """A BIGINT or TIMESTAMP column that is the key serves as the key's number, in batches that carry it anyway."""
    if key_form is KeyForm.EXACT and len(input.keys) == 1:
        (key,) = input.keys
        if isinstance(key, ColumnRef) and key.type.kind in (TypeKind.BIGINT, TypeKind.TIMESTAMP):
            return Layout(input.time, key.name)
    return Layout(input.time, KEY)


@dataclass(slots=True)
class InputState:
    """One input of a group in one shard."""

    input: Input
    position: int
    collected: Collected
    waiting: WaitingRows
    window: WindowStore

    @staticmethod
    def empty(group: Group, index: int, position: int, serial: Serial, fanout: int) -> InputState:
        input = group.inputs[index]
        collected = Collected(input.schema.names, tuple(expression_text(one) for one in input.pushed))
        layout = layout_of(input, group.key_form)
        return InputState(
            input, position, collected, WaitingRows(input.time, serial), WindowStore(layout, fanout, serial)
        )

    def drain(self) -> Iterator[Effect]:
        yield from self.waiting.drain()
        yield from self.window.drain()

    def release(self, upto: Place) -> list[Released]:
        return self.waiting.release(upto.ts_us, inclusive=self.position <= upto.position)


class GroupOperator:
    """One group's running state in one shard."""

    def __init__(self, group: Group, inputs: Sequence[InputState], policy: JoinPolicy, cut: Cut) -> None:
        self.group = group
        self.inputs = tuple(inputs)
        self._policy = policy
        self._cut = cut

    def accept(self, index: int, batch: pa.RecordBatch, arrived_us: int) -> None:
        """Takes rows of one input, in arrival order."""
        state = self.inputs[index]
        state.waiting.add(batch, arrived_us, state.collected)

    def advance(self, progress: Place | None, reached_us: Sequence[int | None]) -> Iterator[Effect]:
        """Processes what is due at ``progress``. ``reached_us``: by input, what no future tuple is older than."""
        if progress is not None:
            rounds = zip_longest(*(state.release(progress) for state in self.inputs))
            for part, released in enumerate(rounds):
                for emission in self._process(released):
                    yield replace(emission, part=part) if isinstance(emission, EmitRows) else emission
        if self.group.is_join:
            self._expire(reached_us)
        for state in self.inputs:
            yield from state.drain()

    def _process(self, released: Sequence[Released | None]) -> Iterator[Emission]:
        if not self.group.is_join:
            yield from self._select(released[0])
            return
        block = make_block(released, [state.window.layout for state in self.inputs])
        yield from self._join(block)
        for state, new in zip(self.inputs, block.inputs, strict=True):
            if new is not None:
                state.window.insert(new.segment, new.collected)
                state.window.compact()

    def _select(self, released: Released | None) -> Iterator[Emission]:
        """A single stream's rows, filtered and projected."""
        if released is None:
            return
        rows = np.arange(len(released.ts_us))
        new = NewRows(Segment(released.batch, rows, released.ts_us), rows, released.collected)
        spaces = (Space((), new, self.inputs[0].input.time),)
        for cls in self.group.classes:
            yield from emissions(cls, Matches(rows, rows, rows), spaces, released.arrived_us, self._cut)

    def _join(self, block: Block) -> Iterator[Emission]:
        """Takes one block through the windows, in the policy's turns."""
        windows = self.group.windows_us
        held = zip(self.inputs, block.inputs, strict=True)
        shared = [Space(state.window.runs, new, state.input.time) for state, new in held]
        spaces = (shared[self.group.sides[0]], shared[self.group.sides[1]])
        completed = 0
        while completed < len(windows):
            turn = self._policy.next_turn([completed], len(windows))
            reach = Reach(windows[turn.upto - 1], windows[completed - 1] if completed else None)
            yield from (
                self._count(block, spaces, reach) if self._only_counts(spaces) else self._scan(block, spaces, reach)
            )
            completed = turn.upto

    def _scan(self, block: Block, spaces: tuple[Space, Space], reach: Reach) -> Iterator[Emission]:
        for found in scan(spaces, reach):
            matches = filtered(found, spaces, self.group.verified)
            if len(self.group.windows_us) > 1:
                matches = matches.with_ages(spaces)
            for cls in self.group.classes:
                yield from emissions(cls, matches, spaces, block.arrived_us, self._cut)

    def _only_counts(self, spaces: tuple[Space, Space]) -> bool:
        """Whether lengths of ranges are all that is asked for."""
        counted = all(cls.delivery is Delivery.COUNT and not cls.filters for cls in self.group.classes)
        usable = counted and all(
            serves(cls, side, collected) and not cls.unchecked(side, collected.pushed)
            for cls in self.group.classes
            for side, space in enumerate(spaces)
            for collected in set(space.collections)
        )
        return usable and not self.group.verified

    def _count(self, block: Block, spaces: tuple[Space, Space], reach: Reach) -> Iterator[Emission]:
        """Counts each window that the reach completes; a window's count includes the smaller windows'."""
        after_us = -1 if reach.after_us is None else reach.after_us
        windows_us = [window_us for window_us in self.group.windows_us if after_us < window_us <= reach.upto_us]
        for window_us, found in zip(windows_us, count_pairs(spaces, windows_us), strict=True):
            members = (member for cls in self.group.classes for member in cls.members)
            queries = tuple(member.query for member in members if member.window_us == window_us)
            if found.any():
                yield EmitCount(queries, int(found.sum()), weighted_arrivals(found, block.arrived_us))

    def _expire(self, reached_us: Sequence[int | None]) -> None:
        """A held tuple goes when the largest window of the oldest tuple that may still probe it has passed."""
        largest_us = self.group.windows_us[-1]
        for side in (0, 1):
            other = self.group.sides[1 - side]
            future_us = reached_us[other]
            waiting_us = self.inputs[other].waiting.first_us
            if future_us is not None:
                oldest_us = future_us if waiting_us is None else min(future_us, waiting_us)
                self.inputs[self.group.sides[side]].window.expire_before(oldest_us - largest_us)
