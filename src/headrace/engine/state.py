"""The kept form of an operator's state: names, spans and offsets as JSON; the rows are in the named segments."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import astuple
from typing import Any

import numpy as np

from headrace.engine.aggregating import names_kept
from headrace.engine.blocks import ARRIVED, RANK, HeldResults, PendingBlock
from headrace.engine.holding import names_held
from headrace.engine.inputs import InputState, Place
from headrace.engine.operators import GroupOperator
from headrace.engine.segments import int64s_of, times_of, unpack_batch, view_segment
from headrace.engine.spaces import Block, NewRows
from headrace.engine.tree_operator import TreeOperator, names_joined
from headrace.engine.turn_items import names_queued
from headrace.engine.waiting import ChunkTimes, Piece
from headrace.engine.window import Collected, Part, SegmentSource, open_run


def operator_to_json(operator: GroupOperator) -> dict[str, Any]:
    """What ``operator_from_json`` needs besides the segments."""
    told: dict[str, Any] = {"tree": operator.tree_to_json()} if isinstance(operator, TreeOperator) else {}
    return told | {
        "progress": None if operator.progress is None else list(astuple(operator.progress)),
        "heard": operator.heard.chunks,
        "inputs": [_input_to_json(state) for state in operator.inputs],
        "pending": [_block_to_json(block) for block in operator.pending],
        "hold": operator.hold.to_json(),
        "ahead": None if operator.ahead is None else list(astuple(operator.ahead)),
        "taken": operator.taken,
        "was_ahead": operator.was_ahead,
        "is_deferred": operator.is_deferred,
        "queues": operator.downstream.to_json(),
        "folds": {fold.folding.identity: fold.to_json() for fold in operator.folds.operators.values()},
        "reaches": operator.fold_reaches(),
    }


def operator_from_json(kept: dict[str, Any], operator: GroupOperator, source: SegmentSource) -> None:
    """Fills an empty operator with what was kept."""
    operator.progress = None if kept["progress"] is None else Place(*kept["progress"])
    operator.heard.chunks = kept["heard"]
    operator.hold.from_json(kept["hold"])
    operator.ahead = None if kept["ahead"] is None else Place(*kept["ahead"])
    operator.taken = kept["taken"]
    operator.was_ahead = kept.get("was_ahead", True)
    for state, one in zip(operator.inputs, kept["inputs"], strict=True):
        _input_from_json(one, state, source)
    operator.pending = [_block_from_json(one, operator, source) for one in kept["pending"]]
    operator.let_go(operator.downstream.from_json(kept["queues"], source))
    if isinstance(operator, TreeOperator):
        operator.tree_from_json(kept["tree"], source)
    folds = {fold.folding.identity: fold for fold in operator.folds.operators.values()}
    for identity, one in kept["folds"].items():
        if identity in folds:
            folds[identity].from_json(one, source)
        else:
            operator.let_go(names_kept(one))
    if "reaches" in kept:  # a state of an earlier version does not say what aggregates were given
        operator.ask(kept["reaches"])


def names_in(kept: dict[str, Any]) -> Iterator[str]:
    """Every stored segment that the kept state refers to."""
    for one in kept["inputs"]:
        yield from (piece["name"] for piece in one["waiting"])
        yield from (piece["chunk"][0] for piece in one["waiting"] if piece["chunk"])
        yield from (part[0] for run in one["runs"] for part in run["parts"])
    for block in kept["pending"]:
        yield from (name for names in block["names"] for name in names if name is not None)
        yield from (held["name"] for held in block["held"])
    yield from names_held(kept["hold"])
    yield from names_queued(kept["queues"])
    yield from names_joined(kept["tree"]) if "tree" in kept else ()
    for fold in kept["folds"].values():
        yield from names_kept(fold)


# --- inputs


def _input_to_json(state: InputState) -> dict[str, Any]:
    return {
        "counted": state.waiting.counted,
        "waiting": [
            {
                "name": piece.name,
                "start": piece.start,
                "arrived_us": piece.arrived_us,
                "size_bytes": piece.size_bytes,
                "collected": _collected_to_json(piece.collected),
                "chunk": [piece.chunk.name, piece.chunk.start] if piece.chunk else None,
            }
            for piece in state.waiting.pieces
        ],
        "runs": [
            {
                "name": run.name,
                "parts": [list(astuple(part)) for part in run.parts],
                "collected": _collected_to_json(run.collected),
            }
            for run in state.window.runs
        ],
    }


def _input_from_json(kept: dict[str, Any], state: InputState, source: SegmentSource) -> None:
    state.waiting.counted = kept["counted"]
    for one in kept["waiting"]:
        batch = unpack_batch(source.stored(one["name"]))
        collected = _collected_from_json(one["collected"])
        ts_us = times_of(batch, state.input.time)
        piece = Piece(batch, ts_us, one["arrived_us"], collected, one["start"], one["name"], one["size_bytes"])
        if one["chunk"]:
            name, start = one["chunk"]
            piece.chunk = ChunkTimes(int64s_of(unpack_batch(source.stored(name)), "ts"), start, name)
        state.waiting.pieces.append(piece)
    for one in kept["runs"]:
        parts = tuple(Part(*part) for part in one["parts"])
        collected = _collected_from_json(one["collected"])
        state.window.runs.append(open_run(one["name"], parts, collected, state.window.layout, source))


# --- blocks


def _block_to_json(block: PendingBlock) -> dict[str, Any]:
    collections = [
        [None if new is None else _collected_to_json(new.collected) for new in one.inputs] for one in block.rounds
    ]
    return {
        "epoch": block.epoch,
        "weight": block.weight,
        "tuples": block.tuples,
        "whole": block.whole,
        "placed": block.placed,
        "done": block.done,
        "names": block.names,
        "size_bytes": block.size_bytes,
        "times_us": [block.known_us, block.upto_us, block.came],
        "after": None if block.after is None else list(astuple(block.after)),
        "ahead": block.ahead,
        "collected": [] if block.is_scanned else collections,
        "held": [
            {
                "name": held.name,
                "size_bytes": held.size_bytes,
                "readers": held.readers,
                "counted": held.counted,
                "round": held.round,
                "raw": held.raw,
            }
            for held in block.held
        ],
    }


def _block_from_json(kept: dict[str, Any], operator: GroupOperator, source: SegmentSource) -> PendingBlock:
    rounds = [
        _round_from_store(names, collected, operator, source)
        for names, collected in zip(kept["names"], kept["collected"], strict=True)
    ]
    done = None if kept["done"] is None else tuple(kept["done"])
    held = [
        HeldResults(
            tuple(tuple(readers) for readers in one["readers"]),
            unpack_batch(source.stored(one["name"])),
            one["counted"],
            one["round"],
            one["name"],
            one["size_bytes"],
            one["raw"],
        )
        for one in kept["held"]
    ]
    numbers = (kept["epoch"], kept["weight"], kept["tuples"])
    scanned = (kept["whole"], kept["placed"], done)
    block = PendingBlock(*numbers, rounds, *scanned, held, kept["names"], kept["size_bytes"], *kept["times_us"])
    block.after, block.ahead = None if kept["after"] is None else Place(*kept["after"]), kept["ahead"]
    return block


def _round_from_store(
    names: list[str | None], collected: list[Any], operator: GroupOperator, source: SegmentSource
) -> Block:
    batches = [None if name is None else unpack_batch(source.stored(name)) for name in names]
    arrived_us = np.zeros(sum(batch.num_rows for batch in batches if batch is not None), dtype=np.int64)
    inputs: list[NewRows | None] = []
    for batch, state, one in zip(batches, operator.inputs, collected, strict=True):
        if batch is None:
            inputs.append(None)
            continue
        ranks = int64s_of(batch, RANK)
        arrived_us[ranks] = int64s_of(batch, ARRIVED)
        rows = batch.select([name for name in batch.schema.names if name not in (RANK, ARRIVED)])
        inputs.append(NewRows(view_segment(rows, state.window.layout), ranks, _collected_from_json(one)))
    return Block(tuple(inputs), arrived_us)


# --- collections


def _collected_to_json(collected: Collected) -> list[list[Any]]:
    return [list(collected.columns), list(collected.pushed), [list(one) for one in collected.bounds]]


def _collected_from_json(kept: list[list[Any]]) -> Collected:
    """A collection; earlier versions kept no bounds."""
    columns, pushed, *bounds = kept
    return Collected(tuple(columns), tuple(pushed), tuple(tuple(one) for some in bounds for one in some))
