"""From matches to what a class of queries gets: filters, bands, projection. Once for all queries of the class.

      matches of the scan     ages   1   7   3   40   2           windows of the class: 5 and 60
      band 1 (age <= 5)              x       x        x           read by the queries of both
      band 2 (5 < age <= 60)             x       x                read by the query with 60

Only the columns a filter reads are gathered before it; the output's columns are gathered for what is left.
Cost: O(matches) for the ages and the filters' columns, O(results) for the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from enum import Enum
from itertools import product

import numpy as np
import pyarrow as pa

from headrace.engine.arrow_types import arrow_schema, arrow_type
from headrace.engine.evaluate import evaluate, filter_mask
from headrace.engine.events import EmitCount, EmitRows
from headrace.engine.join import Matches, Space
from headrace.engine.keys import Int64s
from headrace.engine.window import Collected
from headrace.model import QueryId
from headrace.plan.expressions import ColumnRef, Expression, columns_of
from headrace.plan.sharing import Delivery, OutputClass, expression_text

Emission = EmitRows | EmitCount


class Cut(Enum):
    """How a class's results are cut into batches."""

    BANDS = "bands"
    """Every result in one batch, that of its band; a query reads several. Results are made once."""
    WINDOWS = "windows"
    """A batch for each window, so that a query's results are one ordered stream: what a single shard promises."""


def filtered(matches: Matches, spaces: Sequence[Space], conditions: Sequence[Expression]) -> Matches:
    """The matches for which all conditions hold."""
    if not conditions or not len(matches):
        return matches
    mask = filter_mask(conditions, column_reader(matches, spaces), len(matches))
    return matches if mask is None else matches.where(np.asarray(mask))


def emissions(
    cls: OutputClass, matches: Matches, spaces: Sequence[Space], arrived_us: Int64s, cut: Cut
) -> Iterator[Emission]:
    """What the class makes of these matches: batches (or counts) with their readers."""
    for queries, picked in _cuts(cls, _passing(cls, _served(cls, matches, spaces), spaces), cut):
        if not len(picked):
            continue
        arrived = arrivals(picked.probe, arrived_us)
        if cls.delivery is Delivery.COUNT:
            yield EmitCount(queries, len(picked), arrived)
        else:
            yield EmitRows(queries, project(cls, column_reader(picked, spaces), len(picked)), arrived)


def _cuts(cls: OutputClass, matches: Matches, cut: Cut) -> Iterator[tuple[tuple[QueryId, ...], Matches]]:
    if matches.ages_us is None:
        yield tuple(member.query for member in cls.members), matches
        return
    bands = np.searchsorted(np.asarray(cls.windows_us), matches.ages_us, side="left").astype(np.uint16)
    if cut is Cut.WINDOWS:
        for index, window_us in enumerate(cls.windows_us):
            queries = tuple(member.query for member in cls.members if member.window_us == window_us)
            yield queries, matches.where(np.flatnonzero(bands <= index))
        return
    by_band = matches.where(np.argsort(bands, kind="stable"))
    ends = np.cumsum(np.bincount(bands, minlength=len(cls.windows_us)))
    for window_us, begin, end in zip(cls.windows_us, [0, *ends], ends, strict=False):
        queries = tuple(member.query for member in cls.members if member.window_us >= window_us)
        yield queries, by_band.where(slice(begin, end))


def _served(cls: OutputClass, matches: Matches, spaces: Sequence[Space]) -> Matches:
    """The matches within the class's largest window whose tuples were kept with all that the class needs."""
    if matches.ages_us is not None and (matches.ages_us > cls.windows_us[-1]).any():
        matches = matches.where(np.flatnonzero(matches.ages_us <= cls.windows_us[-1]))
    for side, space in enumerate(spaces):
        usable = {collected: serves(cls, side, collected) for collected in set(space.collections)}
        if not all(usable.values()):
            serving = np.array([usable[collected] for collected in space.collections])
            matches = matches.where(serving[space.which((matches.left, matches.right)[side])])
    return matches


def _passing(cls: OutputClass, matches: Matches, spaces: Sequence[Space]) -> Matches:
    """The matches that meet the class's conditions. What is left to check depends on what tuples passed before they
    were kept, which was another thing under an earlier plan."""
    if not len(matches):
        return matches
    passed = [[collected.pushed for collected in space.collections] for space in spaces]
    combinations = list(product(*(dict.fromkeys(one) for one in passed)))
    if len(combinations) == 1:
        return filtered(matches, spaces, _left_to_check(cls, combinations[0]))
    kept: list[Int64s] = []
    for combination in combinations:
        positions = np.arange(len(matches))
        for side, space in enumerate(spaces):
            alike = np.array([one == combination[side] for one in passed[side]])
            positions = positions[alike[space.which((matches.left, matches.right)[side][positions])]]
        picked = matches.where(positions)
        mask = filter_mask(_left_to_check(cls, combination), column_reader(picked, spaces), len(picked))
        kept.append(positions if mask is None else positions[np.asarray(mask)])
    return matches.where(np.sort(np.concatenate(kept)))


def _left_to_check(cls: OutputClass, passed: Sequence[tuple[str, ...]]) -> tuple[Expression, ...]:
    return (*(one for side, texts in enumerate(passed) for one in cls.unchecked(side, texts)), *cls.residual)


def serves(cls: OutputClass, side: int, collected: Collected) -> bool:
    """Whether tuples collected so on this side can be used: tuples kept under an earlier plan may lack something."""
    checks = (*cls.unchecked(side, collected.pushed), *cls.residual)
    read = [ref for one in (*checks, *(out.expression for out in cls.outputs)) for ref in columns_of(one)]
    columns = frozenset(ref.name for ref in read if ref.source == side)
    return collected.serves(columns, frozenset(expression_text(one) for one in cls.conditions_on(side)))


def project(cls: OutputClass, column: Callable[[ColumnRef], pa.Array], rows: int) -> pa.RecordBatch:
    """The select list as a batch."""
    arrays = [_whole(evaluate(output.expression, column, rows)) for output in cls.outputs]
    return pa.RecordBatch.from_arrays(arrays, schema=arrow_schema(cls.schema))


def _whole(values: pa.Array | pa.ChunkedArray) -> pa.Array:
    return values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values


def column_reader(matches: Matches, spaces: Sequence[Space]) -> Callable[[ColumnRef], pa.Array]:
    """Columns of the matches, each gathered once."""
    gathered: dict[tuple[int, str], pa.Array] = {}
    addresses = (matches.left, matches.right)

    def column(ref: ColumnRef) -> pa.Array:
        place = (ref.source, ref.name)
        if place not in gathered:
            gathered[place] = spaces[ref.source].column(ref.name, arrow_type(ref.type), addresses[ref.source])
        return gathered[place]

    return column


def arrivals(probes: Int64s, arrived_us: Int64s) -> tuple[tuple[int, int], ...]:
    """How many results came from tuples that arrived at each time, given the rank that found each result."""
    if np.all(arrived_us == arrived_us[0]):
        return ((int(arrived_us[0]), len(probes)),)
    return weighted_arrivals(np.bincount(probes, minlength=len(arrived_us)), arrived_us)


def weighted_arrivals(found: Int64s, arrived_us: Int64s) -> tuple[tuple[int, int], ...]:
    """The same, given how many results each rank found."""
    if np.all(arrived_us == arrived_us[0]):
        return ((int(arrived_us[0]), int(found.sum())),)
    times, codes = np.unique(arrived_us, return_inverse=True)
    counts = np.bincount(codes[: len(found)], weights=found, minlength=len(times))
    return tuple((int(time), int(count)) for time, count in zip(times, counts, strict=True) if count)
