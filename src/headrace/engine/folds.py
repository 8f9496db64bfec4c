"""From results to panes: a class's keys, arguments and filters become partial aggregates.

Owns ``panes_of`` (rows to panes), ``pairs_of`` (a group together with a value, for COUNT DISTINCT) and ``raises``.

      COUNT DISTINCT        pair (group, x)   since  3     7        of each pair only the latest since counts: where it
                            adds to the group        +1    +1       rises, 1 is taken away where it was. So the later
                            takes away                     -1 at 3  ones of a group's panes add up to how many it has

Invariant: what panes add up to depends on the results only, not on their order or on how they were cut into slices.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.engine.arrow_types import arrow_type
from headrace.engine.folded_rows import FoldedRows, Stays
from headrace.engine.keys import Int64s, number_groups
from headrace.engine.panes import PaneRun, Panes, Sums, together
from headrace.plan.aggregates import Aggregate, Fold
from headrace.plan.folding import Folding

ROWS = "n"
"""The sum that counts a group's results."""


def counted(number: int, aggregate: Aggregate) -> str:
    """The sum that counts what an aggregate takes."""
    if aggregate.fold is Fold.COUNT and aggregate.argument is None and aggregate.filter is None:
        return ROWS
    return f"c{number}"


def summed(number: int) -> str:
    """What an aggregate's limbs are called by."""
    return f"s{number}."


def limbs_in(sums: Mapping[str, Int64s], prefix: str) -> dict[str, Int64s]:
    return {name.removeprefix(prefix): column for name, column in sums.items() if name.startswith(prefix)}


def least_first(folding: Folding) -> tuple[bool, ...]:
    """Of each extreme that is folded, whether the least is the best."""
    return tuple(one.fold is Fold.MIN for one in folding.aggregates if one.fold in (Fold.MIN, Fold.MAX))


def panes_of(folding: Folding, rows: FoldedRows, stays: Stays) -> Panes:
    """What these results add up to."""
    panel = rows.panel(folding.keys, stays)
    sums = {ROWS: np.bincount(panel.owners, minlength=len(panel.firsts))}
    bests = []
    for number, one in enumerate(folding.aggregates):
        if one.fold in (Fold.MIN, Fold.MAX):
            bests.append(panel.best(_kept(one, rows), least=one.fold is Fold.MIN))
        elif one.fold is not Fold.DISTINCT and counted(number, one) != ROWS:
            taken = rows.taken(one.argument, one.filter)
            sums[counted(number, one)] = sums[ROWS] if taken.all() else panel.total(taken.astype(np.int64))
            if one.fold in (Fold.SUM, Fold.AVG):
                assert one.argument is not None
                limbs = rows.limbs(one.argument, one.filter)
                sums |= {f"{summed(number)}{limb}": panel.total(column) for limb, column in limbs.items()}
    return _numbered(_keys(folding, rows, panel.firsts), stays, panel.firsts, sums, tuple(bests), least_first(folding))


def _numbered(
    keys: tuple[pa.Array, ...],
    stays: Stays,
    firsts: Int64s,
    sums: Sums,
    bests: tuple[pa.Array, ...] = (),
    is_least: tuple[bool, ...] = (),
    told_apart: tuple[pa.Array, ...] = (),
) -> Panes:
    """Panes with the numbers of their groups, which have these keys and what else tells them apart."""
    numbered = (*keys, *told_apart)
    groups, checks = (number_groups(numbered, len(firsts), again=again) for again in (False, True))
    return Panes(groups, checks, stays.since_us[firsts], stays.from_us[firsts], keys, sums, bests, is_least).reduced()


def _keys(folding: Folding, rows: FoldedRows, firsts: Int64s) -> tuple[pa.Array, ...]:
    return tuple(rows.values(key).take(pa.array(firsts)) for key in folding.keys)


def _kept(aggregate: Aggregate, rows: FoldedRows) -> pa.Array:
    """The values that an extreme is of; null where it does not take them."""
    assert aggregate.argument is not None
    values = rows.values(aggregate.argument)
    if aggregate.filter is None:
        return values
    taken = rows.taken(aggregate.argument, aggregate.filter)
    return pc.if_else(pa.array(taken), values, pa.scalar(None, values.type))


# --- distinct values


def pairs_of(folding: Folding, rows: FoldedRows, stays: Stays) -> Iterator[tuple[int, Panes]]:
    """For each COUNT DISTINCT, its number and its pairs: as panes whose groups are the pairs, and whose keys are those
    of the group that each belongs to."""
    for number, one in enumerate(folding.aggregates):
        if one.fold is not Fold.DISTINCT:
            continue
        assert one.argument is not None
        panel = rows.panel((*folding.keys, one.argument), stays, rows.taken(one.argument, one.filter))
        value = rows.values(one.argument).take(pa.array(panel.firsts))
        yield number, _numbered(_keys(folding, rows, panel.firsts), stays, panel.firsts, {}, told_apart=(value,))


def raises(number: int, folding: Folding, pairs: Panes, known: Sequence[PaneRun]) -> list[Panes]:
    """What pairs that come add to their groups, in the order of time from which they count, given the latest since
    that is known of each."""
    order = np.lexsort((pairs.since_us, pairs.from_us, pairs.groups))
    since_us, groups = pairs.since_us[order], pairs.groups[order]
    is_first = np.ones(len(order), dtype=bool)
    is_first[1:] = groups[1:] != groups[:-1]
    firsts = np.flatnonzero(is_first)
    before_us = _latest(known, groups[firsts])
    of_pair = np.cumsum(is_first) - 1
    upto = _running_most(since_us, of_pair, before_us)
    earlier = np.where(is_first, before_us[of_pair], np.append([_UNKNOWN], upto[:-1]))
    rises = np.flatnonzero(since_us > earlier)
    raised = pairs.take(order[rises])
    added = _counting(number, folding, raised, raised.since_us, 1)
    again = np.flatnonzero(earlier[rises] != _UNKNOWN)
    return [added, _counting(number, folding, raised.take(again), earlier[rises][again], -1)]


_UNKNOWN = -(2**63)


def _latest(known: Sequence[PaneRun], pairs: Int64s) -> Int64s:
    """The latest since of each pair in the runs."""
    latest = np.full(len(pairs), _UNKNOWN)
    for run in known:
        high = np.searchsorted(run.panes.groups, pairs, side="right")
        found = np.flatnonzero((high > 0) & (run.panes.groups[np.maximum(high, 1) - 1] == pairs))
        latest[found] = np.maximum(latest[found], run.panes.since_us[high[found] - 1])
    return latest


def _running_most(since_us: Int64s, of_pair: Int64s, before_us: Int64s) -> Int64s:
    """The latest since of a pair up to each of its rows."""
    values = np.unique(np.append(since_us, before_us))
    ranks = np.searchsorted(values, np.maximum(since_us, before_us[of_pair]))
    running = np.maximum.accumulate(of_pair * np.int64(len(values)) + ranks) - of_pair * np.int64(len(values))
    latest: Int64s = values[running]
    return latest


def _counting(number: int, folding: Folding, pairs: Panes, since_us: Int64s, count: int) -> Panes:
    """Panes of the pairs' groups that add so much to their distinct values."""
    groups, checks = (number_groups(pairs.keys, len(pairs), again=again) for again in (False, True))
    sums = {counted(number, folding.aggregates[number]): np.full(len(pairs), count, dtype=np.int64)}
    extremes = [one for one in folding.aggregates if one.fold in (Fold.MIN, Fold.MAX)]
    nulls = tuple(pa.nulls(len(pairs), arrow_type(one.type)) for one in extremes)
    return Panes(groups, checks, since_us, pairs.from_us, pairs.keys, sums, nulls, least_first(folding))


def joined(several: Sequence[Panes]) -> Panes | None:
    """All of them, as few rows as can be; None of none."""
    filled = [one for one in several if len(one)]
    return together(filled).reduced() if filled else None
