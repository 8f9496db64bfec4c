"""The join of one group as its blocks meet it: two sides with a key, or a graph of predicates, against what is held.

Owns :class:`GroupJoin`: it puts the sides together, scans, and says when counting will do, when a block must be scanned
at once, and what the join is like now. It holds no rows of its own. Cost: that of the kernels (``join``, ``multiway``).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property

from headrace.engine.arrival_times import weighted_arrivals
from headrace.engine.checking import serves
from headrace.engine.events import EmitCount
from headrace.engine.guests import found_here, guest_marks, has_slots
from headrace.engine.inputs import InputState
from headrace.engine.join import Sides
from headrace.engine.multiway import MultiJoin
from headrace.engine.options import OperatorOptions, Orders
from headrace.engine.output import Cut, Emission, cut_for, filtered, reach_of
from headrace.engine.sampling import measure
from headrace.engine.spaces import Block, KeySearch, Matches, Reach, Space
from headrace.engine.steps import connected_order
from headrace.plan.facts import Measured
from headrace.plan.sharing import Delivery, Group


class GroupJoin:
    """A group's join over its inputs in one shard."""

    def __init__(self, group: Group, inputs: Sequence[InputState], options: OperatorOptions) -> None:
        self._group = group
        self._inputs = inputs
        self._options = options
        self._windows = group.windows
        self._is_uneven = any(len(set(sizes)) > 1 for sizes in self._windows)
        """Whether a window differs from side to side."""
        self._is_mixed = len(set(group.measures)) > 1

    def sides(self, block: Block, *, is_resumed: bool = False) -> Sides | MultiJoin:
        """The sides as a block meets them. ``is_resumed``: it has been scanned before, and is among what is held."""
        shared = [
            Space(state.window.runs, new, state.window.layout, index, state.position)
            for index, (state, new) in enumerate(zip(self._inputs, block.inputs, strict=True))
        ]
        spaces = tuple(shared[index] for index in self._group.sides)
        measures = self._group.measures
        if self._group.graph is not None:
            return MultiJoin(spaces, measures, self._group.graph, self._orders, self._finds, is_resumed)
        finds = (self._finds[0], self._finds[1])
        return Sides((spaces[0], spaces[1]), (measures[0], measures[1]), finds, is_resumed)

    @cached_property
    def _finds(self) -> tuple[KeySearch, ...]:
        return self._options.finds(self._group.signature, len(self._group.sides))

    @cached_property
    def _orders(self) -> Orders:
        assert self._group.graph is not None
        given = self._options.orders.get(self._group.signature)
        return given or tuple(connected_order(self._group.graph, origin) for origin in self._group.graph.sides)

    def matches(self, sides: Sides | MultiJoin, reach: Reach, *, in_order: bool = True) -> Iterator[Matches]:
        """The results within reach, in order, a slice at a time; with their ages where windows differ. Where tuples
        come late, they are in order only as one slice: who puts them in order anyway, asks for them in any."""
        marks = guest_marks(self._group.key_sides, sides.spaces)
        for found in sides.scan(reach) if in_order else sides.scan_unordered(reach):
            at_home = found_here(found, sides.spaces, marks)
            matches = filtered(at_home, sides.spaces, self._group.verified)
            if len(self._windows) > 1 or self._is_uneven:
                matches = matches.with_ages(sides.spaces, self._group.measures, by_side=self._is_uneven)
            yield matches

    def only_counts(self, sides: Sides | MultiJoin) -> bool:
        """Whether lengths of ranges are all that is asked for."""
        if isinstance(sides, MultiJoin) and not sides.can_count:
            return False
        if sides.is_late and (isinstance(sides, MultiJoin) or self._is_uneven or self._is_mixed):
            return False
        if self._group.verified or guest_marks(self._group.key_sides, sides.spaces) or has_slots(sides.spaces):
            return False
        return all(cls.delivery is Delivery.COUNT and not cls.filters for cls in self._group.classes) and all(
            serves(cls, side, collected) and not cls.unchecked(side, collected.pushed)
            for cls in self._group.classes
            for side, space in enumerate(sides.spaces)
            for collected in set(space.collections)
        )

    def count(self, block: Block, sides: Sides | MultiJoin) -> Iterator[Emission]:
        """Counts each window; a window's count includes the smaller windows'."""
        members = [member for cls in self._group.classes for member in cls.members]
        for sizes, found in zip(self._windows, sides.counts(self._windows), strict=True):
            queries = tuple(member.query for member in members if member.sizes == sizes)
            if found.any():
                yield EmitCount(queries, int(found.sum()), weighted_arrivals(found, block.arrived_us))

    def is_whole(self, rounds: Sequence[Block]) -> bool:
        """Whether a block's results are only in order when it is scanned at once."""
        if len(rounds) > 1:
            return True
        is_mixed_self = self._group.sides == (0, 0) and (self._is_uneven or self._is_mixed)
        is_apart = self._group.numbers_tuples or is_mixed_self
        if self._group.graph is None and is_apart:
            return True
        return any(self.sides(block).is_late for block in rounds)

    def is_placed(self) -> bool:
        """Whether results must be held with the places of their tuples: of three, those of a larger window come between
        those of a smaller one, and some query's rows are one ordered stream."""
        cuts = {cut_for(cls.delivery, self._options.cut) for cls in self._group.classes}
        return self._group.graph is not None and Cut.WINDOWS in cuts and len(self._windows) > 1

    def measured(self) -> Measured | None:
        """What a join by a graph of predicates is like now, for choosing its orders and what upkeep it needs."""
        if self._group.graph is None:
            return None
        spaces = tuple(
            Space(state.window.runs, None, state.window.layout, index, state.position)
            for index, state in enumerate(self._inputs)
        )
        return measure(self._group.graph, spaces, self._group.measures, reach_of(self._windows))
