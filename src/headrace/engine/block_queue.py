"""A group's blocks that wait, oldest first: whom each serves, how many windows it has done, and what it weighs.

      blocks     a        b        c             whom: the queries that were there when it was made, its epoch
      done       w1 w2    w1       -             probes: what the turns cost that it has before it
      left          w3    w2 w3    w1 w2 w3      scanned: what those cost that it has had, of which results are held

Owns :class:`BlockQueue`. Invariants: an older block has done at least the windows that a newer one has; weights come
from heartbeats alone, so sums are the same on every shard, but for bytes. Cost: what waits is added up once for the
blocks that are there; a turn then changes the sums by one block.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from headrace.engine.blocks import NO_BACKLOG, Backlog, PendingBlock
from headrace.engine.events import Effect
from headrace.engine.inputs import Place
from headrace.engine.levels import is_done, scan_levels, turn_cost
from headrace.plan.canonical import Sizes
from headrace.plan.sharing import Delivery, Group, Member


class BlockQueue:
    """One group's blocks in one shard. ``since``: from which epoch on each query is served, by identity; ``epoch``: the
    one that is now."""

    def __init__(self, group: Group, since: Mapping[str, int], epoch: int) -> None:
        self.blocks: list[PendingBlock] = []
        self.windows = group.windows
        self.epoch = epoch
        self.members = [member for cls in group.classes for member in cls.members]
        self.delivery = {member.identity: cls.delivery for cls in group.classes for member in cls.members}
        self.levels = scan_levels(self.windows, self.members) if group.is_join else []
        self._since = since
        self._holds = any(delivery is not Delivery.FOLDED for delivery in self.delivery.values())
        self._sums: Backlog | None = None
        """What waits, added up; None: other blocks are there than when it was."""

    # --- whom a block serves, and how many windows it has done

    def completed(self, block: PendingBlock) -> int:
        """How many windows, from the smallest, a block has scanned; all of them once no query waits for it. (One that
        it does not serve counts like any other: a newer block must not overtake it there.)"""
        if block.completed is None:
            block.completed = self._completed(block)
        return block.completed

    def _completed(self, block: PendingBlock) -> int:
        if all(is_done(sizes, block.done) for sizes in self.served_windows(block)):
            return len(self.windows)
        return next(number for number, sizes in enumerate(self.windows) if not is_done(sizes, block.done))

    def is_through(self, block: PendingBlock) -> bool:
        """Whether no query waits for it any more."""
        return self.completed(block) == len(self.windows)

    def served_windows(self, block: PendingBlock) -> Collection[Sizes]:
        return self.windows if block.epoch == self.epoch else {member.sizes for member in self.served(block)}

    def served(self, block: PendingBlock) -> list[Member]:
        if block.epoch == self.epoch:
            return self.members
        return [
            member
            for member in self.members
            if self._since[member.identity] <= block.epoch or self.delivery[member.identity] is Delivery.FOLDED
        ]

    def served_in(self, epoch: int) -> set[str]:
        return {member.identity for member in self.members if self._since[member.identity] <= epoch}

    def known_until(self, window: int, complete_us: int) -> int:
        """Until when all results of a window are known: up to the first block that has not scanned it, and no further
        than all streams have come (``complete_us``), which a block of tuples that were taken in ahead may be beyond."""
        waiting = (block.known_us for block in self.blocks if self.completed(block) <= window)
        return min([complete_us, *waiting])

    def known_place(self, window: int, released_to: Place | None) -> Place | None:
        """The same as ``known_until``, as a place; None where nothing is known yet."""
        waiting = [block.after for block in self.blocks if self.completed(block) <= window]
        if released_to is None or None in waiting:
            return None
        return min([released_to, *(one for one in waiting if one is not None)])

    # --- what blocks weigh

    def summed(self) -> Backlog:
        """All that waits, added up once for the blocks that are there; turns keep it up to date."""
        if self._sums is None:
            self._sums = NO_BACKLOG
            for block in self.blocks:
                self._sums = self._sums.changed(NO_BACKLOG, self.weighed(block))
        return self._sums

    def forget_sums(self) -> None:
        """Other blocks are going to be there."""
        self._sums = None

    def weighed(self, block: PendingBlock) -> Backlog:
        """What a block counts for."""
        probes = self.cost(block, len(self.windows))
        return Backlog(block.weight, probes, self._scanned(block), block.nbytes + block.held_bytes)

    def cost(self, block: PendingBlock, upto: int) -> int:
        """In probes, what it costs to take a block from where it is through so many windows in all."""
        return turn_cost(self.levels, block.weight, self.completed(block), upto)

    def _scanned(self, block: PendingBlock) -> int:
        """What those of a block's turns cost that it holds results of, for windows to come: what is folded is not held,
        and what was found ahead of other streams waits for these (``holding``). That some shards scan a block whole is
        left out: others need not."""
        upto = 0 if not self._holds or block.ahead else self.completed(block)
        return turn_cost(self.levels, block.weight, 0, upto) if upto else 0

    @property
    def held_bytes(self) -> int:
        """Results that are held for larger windows, here."""
        return sum(block.held_bytes for block in self.blocks)

    def backlog(self) -> list[int]:
        """For each window, the tuples here that wait to scan it next."""
        queued = [0] * len(self.windows)
        for block in self.blocks:
            queued[self.completed(block)] += block.tuples
        return queued

    # --- blocks that go

    def dropped(self, block: PendingBlock) -> list[Effect]:
        """Lets a block go; gives what the store is to be told."""
        effects = list(block.drop())
        self.blocks.remove(block)
        return effects

    def after_turn(self, block: PendingBlock, sums: Backlog, before: Backlog) -> list[Effect]:
        """Goes on from the sums that were there before a block's turn, when it weighed so much; lets it go if it is
        through."""
        if self.is_through(block):
            self._sums = sums.changed(before, NO_BACKLOG)
            return self.dropped(block)
        self._sums = sums.changed(before, self.weighed(block))
        return []
