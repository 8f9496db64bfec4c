"""One input of a group in one shard: the rows that wait, the rows that are held, and how far its stream has come."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from headrace.engine.events import Effect
from headrace.engine.segments import KEY, Layout
from headrace.engine.waiting import Counted, Released, WaitingRows
from headrace.engine.window import Collected, Serial, WindowStore
from headrace.model import TypeKind
from headrace.plan.bounds import told_bounds
from headrace.plan.expressions import ColumnRef, Expression, expression_text
from headrace.plan.joingraph import KeyForm
from headrace.plan.sharing import Group, Input


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """How far a stream, or all streams of a group, have come: an event time, and the stream that is next at it."""

    ts_us: int
    position: int

    @property
    def known_us(self) -> int:
        """Until when no tuple is missing: at the time itself some may, unless every stream has passed it."""
        return self.ts_us if self.position >= ALL_STREAMS else self.ts_us - 1


ALL_STREAMS = 2**31
END_OF_TIME = Place(2**63 - 1, ALL_STREAMS)


def layout_of(input: Input, key_form: KeyForm) -> Layout:
    """Where an input's rows have their time and keys."""
    if input.indexes:
        first = input.indexes[0]
        return Layout(input.time, _number_column(first.keys, first.form), len(input.indexes) - 1)
    return Layout(input.time, _number_column(input.keys, key_form))


def _number_column(keys: Sequence[Expression], form: KeyForm) -> str:
    """A BIGINT or TIMESTAMP column that is the key serves as the key's number, in batches that carry it anyway."""
    if form is not KeyForm.HASHED and len(keys) == 1:
        (key,) = keys
        if isinstance(key, ColumnRef) and key.type.kind in (TypeKind.BIGINT, TypeKind.TIMESTAMP):
            return key.name
    return KEY


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
        pushed = tuple(expression_text(one) for one in input.pushed)
        collected = Collected(input.schema.names, pushed, () if group.is_tree else told_bounds(input.selection))
        layout = layout_of(input, group.key_form)
        return InputState(
            input, position, collected, WaitingRows(input.time, serial), WindowStore(layout, fanout, serial)
        )

    def drain(self) -> Iterator[Effect]:
        yield from self.waiting.drain()
        yield from self.window.drain()

    def release(self, upto: Place) -> tuple[list[Released], Counted]:
        return self.waiting.release(upto.ts_us, inclusive=self.position <= upto.position)
