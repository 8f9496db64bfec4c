"""A join's turns: which block scans how far next, what goes out then, and what is held for larger windows.

      turn    block b up to w2
      found   by b between w1 and w2  --> to queries with w1 < window <= w2, with what was held for them
                                      --> held in b, for those with larger windows
      ahead   found by tuples taken in before other streams came as far --> hold buffer --> out when progress is past

Owns :class:`JoinTurns`. What a scan finds is ``block_scan``'s matter, routing it ``releasing``'s. Invariant: a query's
results leave in the order of its blocks, each when its window is done. Cost: a policy's choice a turn, then what the
scan costs; a look over what is held where something may be complete.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

from headrace.engine.block_queue import BlockQueue
from headrace.engine.block_scan import BlockScan
from headrace.engine.blocks import HeldResults, PendingBlock
from headrace.engine.budget import ProbeBudget
from headrace.engine.events import Effect
from headrace.engine.histories import LOWEST
from headrace.engine.holding import HoldBuffer, marked_early
from headrace.engine.inputs import Place
from headrace.engine.levels import is_done
from headrace.engine.output import Cut, cut_for, reach_of
from headrace.engine.policy import JoinPolicy, Turn
from headrace.engine.releasing import in_parts, released_from, still_held
from headrace.model import QueryId
from headrace.plan.canonical import Sizes
from headrace.plan.sharing import Member


class JoinTurns:
    """The turns of one group's blocks in one shard. ``policy``: None where there is no join, and no turn."""

    def __init__(self, queue: BlockQueue, policy: JoinPolicy | None, hold: HoldBuffer, cut: Cut) -> None:
        self._queue = queue
        self._policy = policy
        self._hold = hold
        self._cut = cut
        self.newly: Sequence[Member] = ()
        """Whose windows the last turn has completed."""

    # --- choosing

    def next_turn(self, budget: ProbeBudget, *, is_oldest: bool) -> Turn:
        """As the policy chooses, or of the oldest block (``is_oldest``, and where there is no limit)."""
        completed = [self._queue.completed(block) for block in self._queue.blocks]
        assert self._policy is not None
        goes_first = is_oldest or budget.limit is None
        return self._oldest_turn(completed[0], budget) if goes_first else self._policy.next_turn(completed)

    def _oldest_turn(self, done: int, budget: ProbeBudget) -> Turn:
        """The oldest block through all windows, if the budget is enough for that; or else through its next one, as a
        block of all that a micro-batch brought would leave nothing to anybody else."""
        windows = len(self._queue.windows)
        cost = self._queue.cost(self._queue.blocks[0], windows)
        is_enough = budget.limit is None or cost <= budget.limit - budget.spent
        return Turn(0, windows if is_enough else done + 1)

    # --- scanning

    def scanned(self, scan: BlockScan, block: PendingBlock, upto: int, released_to: Place | None) -> Iterator[Effect]:
        """Takes a block through the windows up to ``upto`` (a number of them), and emits what that completes.
        ``released_to``: how far progress has come."""
        yield from self._scan_ahead(scan, block, upto, released_to) if block.ahead else self._scan_on(scan, block, upto)

    def _scan_on(self, scan: BlockScan, block: PendingBlock, upto: int) -> Iterator[Effect]:
        """The turn of a block whose tuples came in order."""
        served, before = self._queue.served(block), block.done
        windows = self._windows(block, upto)
        reach = reach_of(windows if before is None else [*windows, before])
        newly = [one for one in served if is_done(one.sizes, reach) and not is_done(one.sizes, before)]
        self.newly = newly
        if before is None and len(newly) == len(self._queue.members):
            yield from scan.straight_through(block)
        else:
            later = {one.identity for one in served if not is_done(one.sizes, reach)}
            if not later and self._needs_no_order(block):
                yield from self._last_cells(scan, block, reach, newly)
            else:
                yield from self._release(block, list(scan.found(block, reach, served)), newly, later)
        block.scanned_to(reach)
        if before is None and len(block.rounds) == 1:
            scan.insert_round(block.rounds[0])

    def _scan_ahead(
        self, scan: BlockScan, block: PendingBlock, upto: int, released_to: Place | None
    ) -> Iterator[Effect]:
        """Finds all results of a block that was taken in ahead, for the hold buffer; further turns only say how far."""
        windows = self._windows(block, upto)
        if block.done is None:
            for held in scan.found_ahead(block, reach_of(tuple(self._queue.served_windows(block)))):
                if held.is_early:
                    yield from self._emitted([marked_early(held, released_to)], self._queue.served(block))
                else:
                    yield from self._hold.add(held, block.epoch)
        block.scanned_to(reach_of(windows if block.done is None else [*windows, block.done]))

    def _windows(self, block: PendingBlock, upto: int) -> tuple[Sizes, ...]:
        """So many windows; where that is all, those that the block serves."""
        windows = self._queue.windows
        return windows[:upto] if upto < len(windows) else tuple(self._queue.served_windows(block))

    # --- releasing

    def release_held(self, released_to: Place | None) -> Iterator[Effect]:
        """What was held and is complete now: progress is past it, and so is every scan that waits, in its window."""
        if not self._hold.runs:
            return
        queue = self._queue
        known = {sizes: queue.known_place(number, released_to) for number, sizes in enumerate(queue.windows)}
        bounds = {sizes: Place(LOWEST, 0) if place is None else place for sizes, place in known.items()}
        for held, windows in self._hold.release(bounds, queue.served_in):
            yield from self._emitted(held, [one for one in queue.members if one.sizes in windows])

    def _needs_no_order(self, block: PendingBlock) -> bool:
        """Whether what a block's last scan finds may be given as it is found, before what was held: each cell is in a
        batch of its own, and there is one round of tuples, for all queries that there are."""
        bands = all(cut_for(one, self._cut) is Cut.BANDS for one in self._queue.delivery.values())
        return bands and len(block.rounds) == 1 and not block.whole and block.epoch == self._queue.epoch

    def _last_cells(
        self, scan: BlockScan, block: PendingBlock, reach: Sizes, newly: Sequence[Member]
    ) -> Iterator[Effect]:
        """A block's last scan: nothing that it finds need be held; what was held goes to those who waited for it."""
        held = released_from(block.held, {one.identity: one.query for one in newly}, Cut.BANDS)
        yield from in_parts(chain(scan.last_found(block, reach), held))

    def _release(
        self, block: PendingBlock, fresh: list[HeldResults], newly: Sequence[Member], later: set[str]
    ) -> Iterator[Effect]:
        """Emits what the windows just done complete, and holds on to what larger ones will need."""
        yield from self._emitted([*fresh, *block.held], newly)
        block.held = [*still_held(fresh, later), *block.held]

    def _emitted(self, scans: Sequence[HeldResults], members: Iterable[Member]) -> Iterator[Effect]:
        """What these members get of held results."""
        by_cut: dict[Cut, dict[str, QueryId]] = {}
        for member in members:
            cut = cut_for(self._queue.delivery[member.identity], self._cut)
            by_cut.setdefault(cut, {})[member.identity] = member.query
        for cut, queries in by_cut.items():
            emissions = released_from(scans, queries, cut)
            yield from in_parts(emissions) if cut is Cut.BANDS else emissions
