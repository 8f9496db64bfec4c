"""From held results to what is emitted when windows are done: the routing part of paper 000's SWF and MQT.

      held    cells  0 0 0 | 1 1 | 2 2 2 2 | ...      class after class, each in order; who reads which cell
      asked   the cells of the queries whose window is done now

Owns ``released_from``, ``still_held`` and ``in_parts``. All that a release asks for is picked and sorted at once, then
told apart. Cost: O(rows held) to look them over, a sort of the rows released where one ordered stream is wanted, and a
little for each set of queries that read alike.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from headrace.engine.arrival_times import counted_times
from headrace.engine.blocks import ARRIVED, CELL, HeldResults, ranks_of, with_arrivals, without_marks
from headrace.engine.events import EmitCount, EmitRows
from headrace.engine.keys import Int64s
from headrace.engine.matching import expand_ranges
from headrace.engine.output import Cut, Emission
from headrace.engine.segments import int64s_of
from headrace.model import QueryId


def released_from(scans: Sequence[HeldResults], queries: Mapping[str, QueryId], cut: Cut) -> Iterator[Emission]:
    """What these queries (by identity) get of the scans of one block, the latest scan first."""
    if cut is Cut.BANDS:
        yield from _by_cell(scans, queries)
    else:
        yield from _by_query(scans, queries)


def in_parts(emissions: Iterator[Emission]) -> Iterator[Emission]:
    """Cells that the same queries read come in parts of their own: each is in order, and goes on with the next block's
    cell in its place."""
    times: dict[tuple[QueryId, ...], int] = {}
    for emission in emissions:
        if isinstance(emission, EmitRows):
            times[emission.queries] = times.get(emission.queries, 0) + 1
            yield replace(emission, part=-times[emission.queries])
        else:
            yield emission


def still_held(scans: Sequence[HeldResults], later: Set[str]) -> Iterator[HeldResults]:
    """What of new scans is to be held on to: the cells that one of these queries will read."""
    for scan in scans:
        wanted = np.array([not later.isdisjoint(readers) for readers in scan.readers])
        if wanted.all():
            yield scan
            continue
        kept = scan.batch.filter(pa.array(wanted[int64s_of(scan.batch, CELL)]))
        if kept.num_rows:
            codes = (np.cumsum(wanted) - 1)[int64s_of(kept, CELL)]
            kept = kept.set_column(kept.schema.get_field_index(CELL), CELL, pa.array(codes))
            readers = tuple(one for one, is_wanted in zip(scan.readers, wanted, strict=True) if is_wanted)
            yield HeldResults(readers, kept, scan.counted, scan.round, raw=scan.raw)


def _by_cell(scans: Sequence[HeldResults], queries: Mapping[str, QueryId]) -> Iterator[Emission]:
    """Each cell in a batch of its own, for all of the queries that read it: made once, and given again as it is when a
    larger window is done."""
    for scan in scans:
        for cell, readers in enumerate(scan.readers):
            names = tuple(queries[reader] for reader in readers if reader in queries)
            if names:
                if scan.by_cell is None:
                    scan.by_cell = _cells_of(scan)
                emission = scan.by_cell[cell]
                if emission is not None:
                    yield replace(emission, queries=names)


def _cells_of(scan: HeldResults) -> list[Emission | None]:
    """Of each cell, its batch, for nobody yet; None where there is nothing in it."""
    found: list[Emission | None] = [None] * len(scan.readers)
    for emission, cell in _released([scan], [((), [(0, cell)]) for cell in range(len(scan.readers))]):
        found[cell] = emission
    return found


def _by_query(scans: Sequence[HeldResults], queries: Mapping[str, QueryId]) -> Iterator[Emission]:
    """One ordered batch for all queries that read the same cells; a block's rounds one after the other. Scans of
    results with other columns are for other queries."""
    for number in sorted({scan.round for scan in scans}):
        for mine in _alike([scan for scan in scans if scan.round == number]):
            cells: dict[str, list[tuple[int, int]]] = {}
            for place, scan in enumerate(mine):
                for cell, readers in enumerate(scan.readers):
                    for reader in readers:
                        if reader in queries:
                            cells.setdefault(reader, []).append((place, cell))
            asked: dict[tuple[tuple[int, int], ...], list[QueryId]] = {}
            for reader, some in cells.items():
                asked.setdefault(tuple(some), []).append(queries[reader])
            for emission, _ in _released(mine, [(tuple(names), some) for some, names in asked.items()]):
                yield emission


def _alike(scans: Sequence[HeldResults]) -> list[list[HeldResults]]:
    """The scans by their columns: those of one family of classes."""
    found: list[list[HeldResults]] = []
    for scan in scans:
        first = (scan.counted, scan.raw, scan.batch.schema)
        mine = next((one for one in found if (one[0].counted, one[0].raw, one[0].batch.schema) == first), None)
        if mine is None:
            found.append([scan])
        else:
            mine.append(scan)
    return found


@dataclass(frozen=True, slots=True)
class _CellRanges:
    """Where each cell's rows of a scan are: ``order[starts[c] : ends[c]]``, in order."""

    order: Int64s
    starts: Int64s
    ends: Int64s

    @staticmethod
    def of(scan: HeldResults, base: int) -> _CellRanges:
        codes = int64s_of(scan.batch, CELL)
        ends = np.cumsum(np.bincount(codes, minlength=len(scan.readers)))
        return _CellRanges(np.argsort(codes, kind="stable") + base, np.concatenate([[0], ends[:-1]]), ends)


def _released(
    scans: Sequence[HeldResults],
    asked: Sequence[tuple[tuple[QueryId, ...], Sequence[tuple[int, int]]]],
) -> Iterator[tuple[Emission, int]]:
    """For each set of names, their cells (scan, cell) as one batch in order, with its number among those asked for: all
    of them picked at once. Rows that are one cell's, in order, are given as they are."""
    if not asked:
        return
    sizes, picked = _picked(scans, asked)
    if not picked.num_rows:
        return
    results = without_marks(picked)
    if scans[0].raw:
        results = with_arrivals(results, int64s_of(picked, ARRIVED))
    begin = 0
    for number, (size, times) in enumerate(zip(sizes, _times(picked, sizes), strict=True)):
        if size and scans[0].counted:
            yield EmitCount(asked[number][0], size, times), number
        elif size:
            yield EmitRows(asked[number][0], results.slice(begin, size), times), number
        begin += size


def _picked(
    scans: Sequence[HeldResults], asked: Sequence[tuple[tuple[QueryId, ...], Sequence[tuple[int, int]]]]
) -> tuple[list[int], pa.RecordBatch]:
    """How many rows there are for each, and the rows, one's after the other's."""
    if len(scans) == 1 and [cells for _, cells in asked] == [[(0, cell)] for cell in range(len(scans[0].readers))]:
        whole = scans[0].batch
        if _is_in_order(whole):
            return _cell_after_cell(whole, len(asked))
    bases = np.cumsum([0, *(scan.batch.num_rows for scan in scans)])
    ranges = [_CellRanges.of(scan, int(base)) for scan, base in zip(scans, bases, strict=False)]
    order = np.concatenate([one.order for one in ranges])
    spans = [
        (number, int(bases[scan] + ranges[scan].starts[cell]), int(bases[scan] + ranges[scan].ends[cell]))
        for number, (_, cells) in enumerate(asked)
        for scan, cell in cells
    ]
    owners, starts, ends = np.array(spans, dtype=np.int64).T
    rows = order[expand_ranges(starts, ends - starts)]
    owner = np.repeat(owners, ends - starts)
    held = scans[0].batch if len(scans) == 1 else pa.concat_batches([scan.batch for scan in scans])
    by_owner = np.lexsort((rows, *(rank[rows] for rank in ranks_of(held)[::-1]), owner))
    return np.bincount(owner, minlength=len(asked)).tolist(), held.take(pa.array(rows[by_owner]))


def _cell_after_cell(batch: pa.RecordBatch, cells: int) -> tuple[list[int], pa.RecordBatch]:
    """Every cell of results that are in order."""
    if cells == 1:
        return [batch.num_rows], batch
    codes = int64s_of(batch, CELL).astype(np.uint16 if cells < 1 << 16 else np.int64)  # narrow ones are sorted faster
    sizes = np.bincount(codes, minlength=cells).tolist()
    return sizes, batch.take(pa.array(np.argsort(codes, kind="stable")))


def _is_in_order(batch: pa.RecordBatch) -> bool:
    ranks = ranks_of(batch)
    return len(ranks) == 1 and bool((ranks[0][1:] >= ranks[0][:-1]).all())


def _times(picked: pa.RecordBatch, sizes: Sequence[int]) -> list[tuple[tuple[int, int], ...]]:
    """When the tuples arrived that found the rows; mostly all at once."""
    arrived_us = int64s_of(picked, ARRIVED)
    if (arrived_us == arrived_us[0]).all():
        return [((int(arrived_us[0]), size),) for size in sizes]
    return counted_times(*np.unique(arrived_us, return_inverse=True), sizes)


def in_part(emission: Emission, part: int) -> Emission:
    """The same as one of several parts of an answer."""
    return replace(emission, part=part) if part and isinstance(emission, EmitRows) else emission
