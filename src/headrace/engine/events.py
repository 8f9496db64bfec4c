"""What a shard is told (events, past tense) and what it orders (effects, imperative). Plain data, no behaviour."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TypeAlias

import pyarrow as pa

from headrace.engine.keys import Int64s
from headrace.model import QueryId, StreamId
from headrace.plan.spare import Spare

UNORDERED = -1
"""The arrival order of rows whose source has none: all rows of a micro-batch arrive at once."""


@dataclass(frozen=True, slots=True, order=True)
class Arrival:
    """Where a chunk of rows stands in its stream's arrival order: its source's order, then its first event time."""

    order: int
    first_us: int = 0


@dataclass(frozen=True, slots=True)
class ProgressMade:
    """A heartbeat: a source task read a chunk of a stream, up to this event time. Every shard hears all of them."""

    stream: StreamId
    arrival: Arrival
    newest_us: int
    oldest_us: int = 0
    rows: int = 0
    partition: str = ""
    """Which of the stream's sources it is of, where they are told apart."""


@dataclass(frozen=True, slots=True)
class BlockArrived:
    """This shard's rows of a chunk, for one input of one group, in arrival order. ``chunk_us``: the event times of all
    of the chunk's tuples, where windows are measured in rows; the rows' seats among them are in their batch.
    ``partitions``: the sources that the chunk is from; where there are several, the batch and ``chunk_parts`` say which
    of them each tuple is from."""

    group: str
    input: int
    arrival: Arrival
    arrived_us: int
    batch: pa.RecordBatch
    chunk_us: Int64s | None = None
    chunk: int = 0
    """Tells chunks with one place in the arrival order apart, in the same way on every shard."""
    partitions: tuple[str, ...] = ("",)
    chunk_parts: Int64s | None = None


@dataclass(frozen=True, slots=True)
class StreamsEnded:
    """No input is left for now: all that waits is released."""


@dataclass(frozen=True, slots=True)
class OrderingChosen:
    """How this step keeps results in order, alike on all shards: the groups whose tuples do not wait for other streams
    (Filter-Order, paper 004); all others' do. ``idle``: sources that nobody waits for, a stream's partitions, or with
    None those that were never heard of. A step that is not told: all wait, for all."""

    filter_order: frozenset[str] = frozenset()
    idle: frozenset[tuple[StreamId, str | None]] = frozenset()


@dataclass(frozen=True, slots=True)
class TimeTold:
    """When this step's results are released, as far as the host can tell: what freshness is measured by."""

    now_us: int


@dataclass(frozen=True, slots=True)
class ProbesAllowed:
    """How many probes each half-way join of a group's tree may make in this step (``JoinTree.half_ways``), here; and
    what any of them may take beyond that."""

    group: str
    probes: tuple[float, ...]
    spare: Spare | None = None


Event: TypeAlias = ProgressMade | BlockArrived | StreamsEnded | OrderingChosen | TimeTold | ProbesAllowed


@dataclass(frozen=True, slots=True)
class Freshness:
    """Of each of some results: until when none of its tuples is too old for it to be released, and when the tuple
    arrived that found it."""

    until_us: Int64s
    arrived_us: Int64s


@dataclass(frozen=True, slots=True)
class EmitRows:
    """Results in order, for these queries. ``arrived``: (arrival time, how many) of their newest tuples. ``fresh``:
    where results may be too old to be released.

    Batches for the same queries go on in order from one to the next, unless ``part`` changes."""

    queries: tuple[QueryId, ...]
    batch: pa.RecordBatch
    arrived: tuple[tuple[int, int], ...]
    part: int = 0
    fresh: Freshness | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class EmitCount:
    """How many results these queries have; the rows themselves are not made."""

    queries: tuple[QueryId, ...]
    rows: int
    arrived: tuple[tuple[int, int], ...]
    fresh: Freshness | None = field(default=None, compare=False, repr=False)


class Lack(Enum):
    """Why a class's aggregate has not what was found once more for it."""

    NOTHING = "nothing"
    """It has not been given it yet, though it was found for it: this comes first."""

    NEW = "new"
    """There was no such class."""
    FURTHER = "further"
    """It lies further back than was looked for."""
    LET_GO = "let go"
    """The windows that were there have let go of it; or else it is there."""


@dataclass(frozen=True, slots=True)
class Past:
    """Results of held tuples that were found once more, for queries that came live. A new class begins after
    ``known_us``: so far all of them are known."""

    known_us: int
    lack: Lack


@dataclass(frozen=True, slots=True)
class EmitPanes:
    """Partial aggregates (``panes``) of a class whose groups span shards, to where those of all shards meet; ``number``
    says which of the class's panes they are."""

    group: str
    folding: str
    number: int
    batch: pa.RecordBatch = field(repr=False)
    arrived_us: int
    past: Past | None = None


@dataclass(frozen=True, slots=True)
class TimesReached:
    """Until when, by window, all results of a class whose groups span shards have been sent on; the same on all shards.
    ``ended``: the streams have, for now."""

    group: str
    folding: str
    complete_us: tuple[tuple[int, int], ...]
    ended: bool


@dataclass(frozen=True, slots=True)
class RejectRows:
    """Late rows, for the dead letters."""

    stream: StreamId
    reason: str
    batch: pa.RecordBatch


@dataclass(frozen=True, slots=True)
class KeepSegment:
    """Store these bytes under this name; they never change."""

    name: str
    blob: pa.Buffer = field(repr=False)


@dataclass(frozen=True, slots=True)
class CacheSegment:
    """A merged segment worth having near: it can be rebuilt, so nothing is lost with it."""

    name: str
    batch: pa.RecordBatch = field(repr=False)


@dataclass(frozen=True, slots=True)
class ForgetSegment:
    """A copy under this name is not searched any more; what is stored under it stays."""

    name: str


@dataclass(frozen=True, slots=True)
class DropSegment:
    """Nothing refers to this name any more."""

    name: str


Effect: TypeAlias = (
    EmitRows
    | EmitCount
    | EmitPanes
    | TimesReached
    | RejectRows
    | KeepSegment
    | CacheSegment
    | ForgetSegment
    | DropSegment
)
