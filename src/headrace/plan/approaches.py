"""How a join keeps its results in order over streams that are not synchronised: the approaches of paper 004.

      Sync-Filter     tuples wait until every stream has come as far, then they are joined in order
      Filter-Order    tuples are joined when they come; results wait until every stream has come as far
      Adaptive        Sync-Filter, until joining takes so long that the wait should be used for it

Owns: :class:`Approach`, which groups can go ahead (``why_in_order``), and the paper's expected response times. Standard
library only; cost: a few operations.
"""

from __future__ import annotations

from enum import Enum

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
    if len({input.stream for input in group.inputs}) < 2:
        return "it has one stream, which is in order"
    if Measure.ROWS in group.measures:
        return "a window of rows holds the last tuples of the whole stream, which are known in order only"
    return None
