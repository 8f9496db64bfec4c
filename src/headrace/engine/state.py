"""The kept form of an input's state: names, spans and offsets as JSON; the rows are in the named segments."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from headrace.engine.operators import InputState
from headrace.engine.segments import times_of, unpack_batch
from headrace.engine.waiting import Piece
from headrace.engine.window import Collected, Part, SegmentSource, open_run


def input_to_json(state: InputState) -> dict[str, Any]:
    """What ``input_from_json`` needs besides the segments."""
    return {
        "waiting": [
            {
                "name": piece.name,
                "start": piece.start,
                "arrived_us": piece.arrived_us,
                "size_bytes": piece.size_bytes,
                "collected": _collected_to_json(piece.collected),
            }
            for piece in state.waiting.pieces
        ],
        "runs": [
            {
                "name": run.name,
                "parts": [[part.name, part.rows, part.size_bytes, part.min_us, part.max_us] for part in run.parts],
                "collected": _collected_to_json(run.collected),
            }
            for run in state.window.runs
        ],
    }


def input_from_json(kept: dict[str, Any], state: InputState, source: SegmentSource) -> None:
    """Fills an empty state with what was kept."""
    for one in kept["waiting"]:
        batch = unpack_batch(source.stored(one["name"]))
        collected = _collected_from_json(one["collected"])
        ts_us = times_of(batch, state.input.time)
        piece = Piece(batch, ts_us, one["arrived_us"], collected, one["start"], one["name"], one["size_bytes"])
        state.waiting.pieces.append(piece)
    for one in kept["runs"]:
        parts = tuple(Part(*part) for part in one["parts"])
        collected = _collected_from_json(one["collected"])
        state.window.runs.append(open_run(one["name"], parts, collected, state.window.layout, source))


def names_in(kept: dict[str, Any]) -> Iterator[str]:
    """Every stored segment that the kept state refers to."""
    yield from (one["name"] for one in kept["waiting"])
    yield from (part[0] for one in kept["runs"] for part in one["parts"])


def _collected_to_json(collected: Collected) -> list[list[str]]:
    return [list(collected.columns), list(collected.pushed)]


def _collected_from_json(kept: list[list[str]]) -> Collected:
    return Collected(tuple(kept[0]), tuple(kept[1]))
