"""What is done with rows on their way from waiting to a block: guests that have nothing left to meet go; where windows
are measured in rows, each row learns how many tuples of the other streams are before it; and where they are taken in
ahead of another stream, which of its input's they are and when they arrived, because another may find their results."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from headrace.engine.blocks import PendingBlock
from headrace.engine.expiring import probed_by
from headrace.engine.guests import has_marks, still_visiting
from headrace.engine.inputs import InputState
from headrace.engine.segments import CAME, PLACE, TAKEN, int64s_of, seen_column
from headrace.engine.waiting import Counted, Released
from headrace.plan.sharing import Group


def without_idle_guests(
    group: Group,
    inputs: Sequence[InputState],
    pending: Sequence[PendingBlock],
    released: Sequence[list[Released]],
    reached_us: int | None,
) -> Sequence[list[Released]]:
    """What was released, less the guests that come when nothing is left that they are here for. ``reached_us``: what no
    tuple that comes later is older than."""
    if not any(has_marks(one.collected) for some in released for one in some):
        return released
    coming_us = -(2**63) if reached_us is None else reached_us
    oldest_us = []
    for index, (state, some) in enumerate(zip(inputs, released, strict=True)):
        held = [*(run.min_us for run in state.window.runs), *(int(one.ts_us[0]) for one in some)]
        waiting = (state.waiting.first_us, *(block.oldest_us(index) for block in pending))
        oldest_us.append(min([coming_us, *held, *(one for one in waiting if one is not None)]))
    by_side = [oldest_us[index] for index in group.sides]
    return [still_visiting(some, side, group.key_sides, by_side) for side, some in enumerate(released)]


def taken_ahead(released: Sequence[Released | None], taken: list[int]) -> list[Released | None]:
    """The rows with their numbers, which go on from ``taken``, by input. They are collected in a way of their own."""
    found: list[Released | None] = []
    for index, one in enumerate(released):
        if one is not None:
            numbers = np.arange(taken[index], taken[index] + len(one.ts_us))
            taken[index] += len(one.ts_us)
            batch = one.batch.append_column(TAKEN, pa.array(numbers)).append_column(CAME, pa.array(one.arrived_us))
            columns = (*one.collected.columns, TAKEN, CAME)
            one = replace(one, batch=batch, collected=replace(one.collected, columns=columns))
        found.append(one)
    return found


def with_seen(
    group: Group, inputs: Sequence[InputState], released: Sequence[Released | None], counted: Sequence[Counted]
) -> list[Released | None]:
    """The rows of a round, each with how many tuples of another side's stream are before it, where it matters."""
    found = list(released)
    for index, state in enumerate(inputs):
        one = found[index]
        if one is None:
            continue
        for other in (other for other in probed_by(group, index) if group.counts_rows[other]):
            if inputs[other].input.stream == state.input.stream:
                seen = int64s_of(one.batch, PLACE)
            else:
                first_at_tie = inputs[other].position < state.position
                seen = counted[other].seen(one.ts_us, first_at_tie=first_at_tie)
            one = replace(one, batch=one.batch.append_column(seen_column(other), pa.array(seen)))
        found[index] = one
    return found
