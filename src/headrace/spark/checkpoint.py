"""A checkpoint's identity: what must stay the same from one run on it to the next, and the control directory.

CHECKPOINT/headrace.json    program, shards, streams
CHECKPOINT/control/         messages to the running shards, read as a stream of their own
CHECKPOINT/orders/          what the next micro-batch's tasks must know alike
CHECKPOINT/requests/        what other programs ask of a run: queries to add or drop
CHECKPOINT/changes.jsonl    what was added and dropped while running
CHECKPOINT/grids.json       which cells each multi-way join's tuples go to
CHECKPOINT/joins.json       the orders that multi-way joins had come to, and by what was measured
CHECKPOINT/evaluation.json  how exactly its aggregates can be evaluated
CHECKPOINT/combined/        the aggregates of groups that span shards
CHECKPOINT/spark/           Spark's own: offsets, commits, state
"""

from __future__ import annotations

import fcntl
import json
import os
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headrace.errors import StateError
from headrace.model import PARTITION, Stream
from headrace.spark.orders import Orders
from headrace.spark.staging import check_writable

PROGRAM = "headrace"
VERSION = 1
_FILE = "headrace.json"
REQUESTS = "requests"
END_MESSAGE = "end"
GO_ON_MESSAGE = "go on"


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """An opened checkpoint. ``labels``: the shuffle keys that put each shard on a partition of its own."""

    directory: Path
    id: str
    labels: tuple[int, ...]

    @property
    def spark(self) -> Path:
        return self.directory / "spark"

    @property
    def control(self) -> Path:
        return self.directory / "control"

    def hold(self) -> int:
        """Keeps other runs away until the file descriptor is closed, or this process ends however it may."""
        held = _locked(self.directory / _FILE)
        if held is None:
            raise StateError(
                f"another run is using the checkpoint {self.directory}: stop it, or give --checkpoint another directory"
            )
        return held

    def next_batch(self) -> int:
        """The first micro-batch that was not begun: one that was begun is run again as it was."""
        begun = [int(entry.name) for entry in (self.spark / "offsets").glob("*") if entry.name.isdigit()]
        return max(begun, default=-1) + 1

    @property
    def orders(self) -> Orders:
        return Orders(str(self.directory.absolute() / "orders"))

    @property
    def requests(self) -> Path:
        return self.directory / REQUESTS

    @property
    def changes(self) -> Path:
        """What was added and dropped while running, in order."""
        return self.directory / "changes.jsonl"

    @property
    def grids(self) -> Path:
        """Which cells the tuples of each multi-way join go to."""
        return self.directory / "grids.json"

    @property
    def evaluation(self) -> Path:
        """How exactly its aggregates can be evaluated (``grain``)."""
        return self.directory / "evaluation.json"

    @property
    def combined(self) -> Path:
        """The aggregates of groups that span shards."""
        return self.directory.absolute() / "combined"

    def say(self, message: str) -> None:
        """Tells every shard; a micro-batch comes of it even without input."""
        aside = self.control / f".{uuid.uuid4().hex}"
        aside.write_text(f"{message}\n")
        aside.rename(self.control / uuid.uuid4().hex)


def _locked(file: Path) -> int | None:
    """The file's lock as a descriptor, or None when another process has it."""
    held = os.open(file, os.O_RDONLY)
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(held)
        return None
    return held


def has_begun(directory: Path) -> bool:
    """Whether a run on this checkpoint got as far as its first micro-batch."""
    return Checkpoint(directory, "", ()).next_batch() > 0


def running_requests(directory: Path) -> Path:
    """Where the run on this checkpoint takes requests; refused when there is none."""
    file = directory / _FILE
    held = _locked(file) if file.exists() else None
    if held is not None:
        os.close(held)
    if held is not None or not file.exists():
        raise StateError(f"no run is using the checkpoint {directory}: start one, or give the --out of one that runs")
    return directory / REQUESTS


def open_checkpoint(directory: Path, streams: Sequence[Stream], labels: tuple[int, ...]) -> Checkpoint:
    """Creates the checkpoint, or checks that it belongs to this program and was made with these shards and streams."""
    file = directory / _FILE
    check_writable(directory, "--checkpoint")
    if not file.exists():
        if any(not entry.name.startswith(".") for entry in directory.iterdir()):
            raise StateError(
                f"{directory} is not empty and is not a checkpoint of Headrace: give --checkpoint another directory"
            )
        return _create(file, streams, labels)
    told = _read(file)
    made = tuple(told["labels"])
    declared = [_described(stream) for stream in streams]
    if len(made) != len(labels):
        raise StateError(
            f"the checkpoint {directory} was made with {len(made)} shards, not {len(labels)}: "
            f"write SET shards = {len(made)}, or give --checkpoint a new directory"
        )
    if told["streams"] != declared:
        raise StateError(
            f"the checkpoint {directory} reads the streams {'; '.join(told['streams'])}. This program declares "
            f"{'; '.join(declared)}. Queries may change from run to run, streams may not: restore them, "
            "or give --checkpoint a new directory"
        )
    return _ready(Checkpoint(directory, told["id"], made))


def _read(file: Path) -> dict[str, Any]:
    try:
        told = json.loads(file.read_text())
    except ValueError:
        raise StateError(f"{file} cannot be read: it is not what Headrace wrote") from None
    if not isinstance(told, dict) or told.get("program") != PROGRAM:
        raise StateError(f"{file} was not written by Headrace: give --checkpoint another directory")
    if told.get("version") != VERSION:
        raise StateError(f"{file} is of version {told.get('version')}, this Headrace reads {VERSION}")
    return told


def _described(stream: Stream) -> str:
    """What must stay the same of a stream: kept tuples have its columns and are in its time order, and how far it has
    come is known by source, of which one that has gone would be waited for without end."""
    parted = "" if stream.partition in (None, PARTITION) else f", partitions by {stream.partition}"
    return f"{stream.name} ({', '.join(str(column) for column in stream.schema)}) by {stream.time}{parted}"


def _create(file: Path, streams: Sequence[Stream], labels: tuple[int, ...]) -> Checkpoint:
    checkpoint = Checkpoint(file.parent, uuid.uuid4().hex, labels)
    described = [_described(stream) for stream in streams]
    told = {"program": PROGRAM, "version": VERSION, "id": checkpoint.id, "labels": labels, "streams": described}
    aside = file.with_name(".headrace.json")
    aside.write_text(json.dumps(told, indent=2) + "\n")
    aside.rename(file)
    return _ready(checkpoint)


def _ready(checkpoint: Checkpoint) -> Checkpoint:
    checkpoint.control.mkdir(exist_ok=True)
    checkpoint.requests.mkdir(exist_ok=True)
    return checkpoint
