"""When held tuples may go: how far back anything may still reach.

      input a   |....dead....|-----------held----------|      a's tuples go when the oldest tuple of another input
      input b                      ^oldest that may probe     that may still probe is more than a's window after them

Owns ``expire`` and ``probed_by``. Expired parts are dropped whole (``window``); with an interval, only when the cut-off
has come to the next stretch of it (paper 002: lazy expiry). Cost: a comparison a part.
"""

from __future__ import annotations

from collections.abc import Sequence

from headrace.engine.blocks import PendingBlock
from headrace.engine.histories import LOWEST
from headrace.engine.inputs import InputState, Place
from headrace.engine.output import reach_of
from headrace.plan.queries import Measure
from headrace.plan.sharing import Group

Cutoff = tuple[int | None, int | None]
"""A time and a place in the whole stream before which nothing is reached; None: it does not bound."""


def expire(
    group: Group,
    inputs: Sequence[InputState],
    pending: Sequence[PendingBlock],
    reached_us: Sequence[int | None],
    interval_us: int,
    progress: Place | None,
) -> None:
    """Lets tuples go that are out of the reach of all that may come or still scans, in every role they have.
    ``reached_us``: by input, what no future tuple is older than; ``progress``: what none of any stream is before."""
    reach = reach_of(group.windows)
    for index, state in enumerate(inputs):
        sides = [side for side, used in enumerate(group.sides) if used == index]
        cutoffs = [
            _by_place(group, inputs, pending, index, reach[side], progress)
            if group.measures[side] is Measure.ROWS
            else _by_time(group, inputs, pending, index, reach[side], reached_us)
            for side in sides
        ]
        if all(cutoff != (None, None) for cutoff in cutoffs):
            times = [cutoff_us for cutoff_us, _ in cutoffs if cutoff_us is not None]
            places = [place for _, place in cutoffs if place is not None]
            state.window.expire_before(_floored(min(times, default=None), interval_us), min(places, default=None))


def probed_by(group: Group, index: int) -> list[int]:
    """The inputs whose new tuples probe an input, and that its own probe; of a self-join on one key, itself."""
    return [other for other in range(len(group.inputs)) if other != index] or [index]


def _by_place(
    group: Group,
    inputs: Sequence[InputState],
    pending: Sequence[PendingBlock],
    index: int,
    reach: int,
    progress: Place | None,
) -> Cutoff:
    seen = [block.least_seen(other, index) for block in pending for other in probed_by(group, index)]
    cutoff_us = None
    if Measure.TIME in group.measures:
        ahead = [_seen_ahead(inputs[other], index, progress) for other in probed_by(group, index)]
        seen += ahead
        if _is_ahead(inputs[index], progress) or any(one is not None for one in ahead):
            cutoff_us = LOWEST if progress is None else progress.ts_us
    return cutoff_us, min([inputs[index].waiting.counted, *(one for one in seen if one is not None)]) - reach


def _seen_ahead(state: InputState, probed: int, progress: Place | None) -> int | None:
    """The fewest tuples of a probed input that one has before it which an end released, and an older one that comes
    later may be joined with."""
    since_us = _since(state, progress)
    segments = [run.segment for run in state.window.runs if run.max_us >= since_us]
    seen = [segment.least_seen_since(probed, since_us) for segment in segments]
    return min((one for one in seen if one is not None), default=None)


def _is_ahead(state: InputState, progress: Place | None) -> bool:
    return any(run.max_us >= _since(state, progress) for run in state.window.runs)


def _since(state: InputState, progress: Place | None) -> int:
    """From when on an input's tuples are ahead of progress."""
    return LOWEST if progress is None else progress.ts_us + (state.position <= progress.position)


def _by_time(
    group: Group,
    inputs: Sequence[InputState],
    pending: Sequence[PendingBlock],
    index: int,
    reach: int,
    reached_us: Sequence[int | None],
) -> Cutoff:
    oldest_us = []
    for other in probed_by(group, index):
        coming_us = reached_us[other]
        if coming_us is None:
            return None, None
        waiting = (inputs[other].waiting.first_us, *(block.oldest_us(other) for block in pending))
        oldest_us += [coming_us, *(one for one in waiting if one is not None)]
    return min(oldest_us) - reach, None


def _floored(cutoff_us: int | None, interval_us: int) -> int | None:
    """A cut-off in time, at the start of the stretch that it is in."""
    return cutoff_us // interval_us * interval_us if interval_us and cutoff_us is not None else cutoff_us
