"""How a join keeps its results in order over streams that are not synchronised: the approaches of paper 004.

      Sync-Filter     tuples wait until every stream has come as far, then they are joined in order
      Filter-Order    tuples are joined when they come; results wait until every stream has come as far
      Adaptive        Sync-Filter while c |w| l1 l2 < alpha: while joining takes so little that the wait need not be
                      used for it, and memory is better spent on tuples than on results

Owns: :class:`Approach`, which groups can go ahead (``why_in_order``), and :class:`JoinLoad`: the paper's condition and
its expected response times. Standard library only; cost: a few operations.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Set
from dataclasses import dataclass
from enum import Enum
from itertools import combinations

from headrace.config import Settings, ordering_by_query
from headrace.errors import PlanError, setting_parts
from headrace.model import QueryId, StreamId
from headrace.plan.queries import Measure
from headrace.plan.sharing import Group


class Approach(Enum):
    """What is running for a join, or asked for."""

    SYNC_FILTER = "sync-filter"
    FILTER_ORDER = "filter-order"
    ADAPTIVE = "adaptive"


def why_in_order(group: Group) -> str | None:
    """Why a group can only take tuples in order; None where it can go ahead."""
    if not group.is_join:
        return "it is no join"
    if group.tree is not None:
        return "its tree takes tuples in order"
    return why_join_in_order({input.stream for input in group.inputs}, group.measures, is_adapting=group.adapts)


def why_join_in_order(streams: Set[StreamId], measures: Collection[Measure], *, is_adapting: bool) -> str | None:
    """Why a join of these streams, whose windows are measured so, can only take tuples in order; None where it can go
    ahead."""
    if len(streams) < 2:
        return "it has one stream, which is in order"
    if is_adapting:
        return "what its tree leaves out is chosen among tuples in order"
    if Measure.ROWS in measures:
        return "a window of rows has the last tuples of a whole stream, which are known in order only"
    return None


def emits_early(group: Group) -> bool:
    """Whether a query of the group asks for its rows before their time."""
    return any(cls.is_early for cls in group.classes)


def asked_of(group: Group, ordering: str) -> Approach:
    """What a setting asks for a group; where it names several of its queries, the last one counts."""
    everywhere, by_query = ordering_by_query(ordering)
    mine = {member.query.lower() for cls in group.classes for member in cls.members}
    named = [name for query, name in by_query.items() if query in mine]
    return Approach(named[-1] if named else everywhere)


def check_ordering(queries: Iterable[QueryId], settings: Settings) -> None:
    """Refuses a setting that names a query that is not there."""
    known = {query.lower(): query for query in queries}
    for query in ordering_by_query(settings.ordering)[1]:
        if query not in known:
            raise PlanError(
                f"setting ordering: there is no query {query}",
                f"name one of {', '.join(sorted(known.values()))}, or only the approach for all joins",
                setting_parts("ordering"),
            )


def first_approach(group: Group, asked: Approach) -> Approach:
    """How a group begins; with Adaptive, as the paper does, unless rows are asked for early."""
    if why_in_order(group) is not None:
        return Approach.SYNC_FILTER
    if asked is Approach.ADAPTIVE:
        return Approach.FILTER_ORDER if emits_early(group) else Approach.SYNC_FILTER
    return asked


@dataclass(frozen=True, slots=True)
class JoinLoad:
    """What decides: tuples a second of each stream, the largest window, and what a pair of tuples costs (c)."""

    rates: Mapping[str, float]
    window_s: float
    cost_s: float

    @property
    def busy(self) -> float:
        """c |w| l1 l2; of more than two streams, over all pairs of them. Half of the time that joining takes.

        >>> round(JoinLoad({"a": 10.0, "b": 1.0}, 60.0, 0.0005).busy, 6)
        0.3
        """
        return self.cost_s * self.window_s * sum(one * other for one, other in combinations(self.rates.values(), 2))

    @property
    def filter_order_s(self) -> float:
        """Equation 5: a tuple of the fastest stream waits for the slowest.

        >>> round(JoinLoad({"a": 10.0, "b": 1.0}, 60.0, 0.0005).filter_order_s, 6)
        0.55
        """
        return (1 / min(self.rates.values()) + 1 / max(self.rates.values())) / 2

    @property
    def sync_filter_s(self) -> float:
        """Equation 3: and then for those before it.

        >>> round(JoinLoad({"a": 10.0, "b": 1.0}, 60.0, 0.0005).sync_filter_s, 6)
        0.715
        """
        return self.filter_order_s * (1 + self.busy)

    @property
    def gain(self) -> float:
        """Equation 7: by which share Filter-Order's response is better; at most a half while the join keeps up."""
        return self.busy / (1 + self.busy)

    def better(self, alpha: float) -> Approach:
        """Steps B and D."""
        return Approach.FILTER_ORDER if self.busy >= alpha else Approach.SYNC_FILTER

    def expected_s(self, approach: Approach) -> float:
        return self.filter_order_s if approach is Approach.FILTER_ORDER else self.sync_filter_s

    def text(self, alpha: float) -> str:
        """The condition with its numbers."""
        rates = ", ".join(f"{name} {rate:,.3g}/s" for name, rate in self.rates.items())
        sign = ">=" if self.busy >= alpha else "<"
        return (
            f"c|w|l1 l2 = {self.busy:.3g} {sign} {alpha:g} (c = {self.cost_s * 1e6:.3g} us, |w| = {self.window_s:g} s, "
            f"{rates}); expected response {self.filter_order_s:.3g} s with Filter-Order, {self.sync_filter_s:.3g} s "
            f"with Sync-Filter"
        )


def load_of(group: Group, rows: Mapping[str, tuple[int, int, int]], spent_s: float) -> JoinLoad | None:
    """The load of a group, given each stream's tuples with their oldest and newest times, and how long joining them
    took; None where that tells nothing."""
    window_s = max((size for sizes in group.windows for size in sizes), default=0) / 1e6
    streams = list(dict.fromkeys(str(input.stream) for input in group.inputs))
    if any(stream not in rows for stream in streams):
        return None
    rates = {name: count / max((newest - oldest) / 1e6, 1e-6) for name, (count, oldest, newest) in rows.items()}
    rates = {name: rates[name] for name in streams}
    pairs = sum(rows[name][0] * (sum(rates.values()) - rates[name]) for name in streams) * window_s
    if pairs <= 0 or min(rates.values()) <= 0 or any(rows[name][1] == rows[name][2] for name in streams):
        return None
    return JoinLoad(rates, window_s, spent_s / pairs)
