"""Panes that came and do not count for every window yet: pieces as they came, each stored once under a name of its own.

      micro-batch    1    2     3       4    5       the newest pieces become one once they weigh as much as the one
      pieces         a    a b   a b c   D    D e     before them

Owns :class:`WaitingPanes`. Invariants: no piece is empty; after ``settle`` each is stored under the name it has here.
Cost: what came is written once, and O(log(pieces)) times again as part of larger ones; what waits costs nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from headrace.engine.events import DropSegment, Effect, KeepSegment
from headrace.engine.folds import joined
from headrace.engine.panes import Panes
from headrace.engine.panestore import FANOUT, tail_to_merge
from headrace.engine.segments import content_name, pack_batch
from headrace.engine.window import Serial


@dataclass(slots=True, eq=False)
class PanePiece:
    """Panes, and where they are stored once they are."""

    panes: Panes
    name: str | None = None
    size_bytes: int = 0


@dataclass(slots=True)
class WaitingPanes:
    """The pieces of the groups, or of one COUNT DISTINCT's pairs."""

    pieces: list[PanePiece] = field(default_factory=list)
    _dropped: list[str] = field(default_factory=list)

    def add(self, panes: Panes) -> None:
        self.pieces.append(PanePiece(panes))

    def panes(self) -> Panes | None:
        """All of them; None of none."""
        return joined([one.panes for one in self.pieces])

    def take(self, upto_us: int) -> Panes | None:
        """Those that count from that time or earlier on, which wait no longer; None of none."""
        taken, left = [], []
        for piece in self.pieces:
            counts = piece.panes.from_us <= upto_us
            if not counts.any():
                left.append(piece)
                continue
            self._drop(piece)
            taken.append(piece.panes.take(counts))
            if not counts.all():
                left.append(PanePiece(piece.panes.take(~counts)))
        self.pieces = left
        return joined(taken)

    def take_all(self) -> Panes | None:
        found = self.panes()
        for piece in self.pieces:
            self._drop(piece)
        self.pieces = []
        return found

    def let_go_before(self, since_us: int) -> None:
        """Lets go of those whose since is before a time."""
        for place, piece in enumerate(self.pieces):
            stays = piece.panes.since_us >= since_us
            if not stays.all():
                self._drop(piece)
                self.pieces[place] = PanePiece(piece.panes.take(stays))
        self.pieces = [piece for piece in self.pieces if len(piece.panes)]

    def _drop(self, piece: PanePiece) -> None:
        if piece.name is not None:
            self._dropped.append(piece.name)

    def settle(self, serial: Serial) -> Iterator[Effect]:
        """Stores what is not stored yet, as one piece, and lets go of what was taken."""
        self._merge([one for one in self.pieces if one.name is None])
        start = tail_to_merge([len(one.panes) for one in self.pieces])
        if len(self.pieces) - start >= FANOUT:
            self._merge(self.pieces[start:])
        yield from map(DropSegment, self._dropped)
        self._dropped = []
        for piece in self.pieces:
            if piece.name is None:
                blob = pack_batch(piece.panes.to_batch())
                piece.name, piece.size_bytes = f"{content_name(blob)}-{serial.take()}", blob.size
                yield KeepSegment(piece.name, blob)

    def _merge(self, several: list[PanePiece]) -> None:
        """Makes one piece, the last, of several."""
        if len(several) < 2:
            return
        panes = joined([one.panes for one in several])
        assert panes is not None, "a piece is never empty"
        for piece in several:
            self._drop(piece)
            self.pieces.remove(piece)
        self.pieces.append(PanePiece(panes))

    @property
    def size_bytes(self) -> int:
        return sum(piece.size_bytes for piece in self.pieces)
