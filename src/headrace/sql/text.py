"""The text a user wrote: where things are in it, and errors that point at them.

Owns the way from character offsets to lines and columns, and the choice of the nearest name. A :class:`Span` is a
half-open stretch of offsets in the whole text given to ``read_script``, however many statements it has.
"""

from __future__ import annotations

import difflib
from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import accumulate

from headrace.errors import Place, SqlError, UnsupportedError

_SHOWN_CHARACTERS = 60


@dataclass(frozen=True, slots=True)
class Span:
    """Characters ``start`` up to, but not including, ``end``."""

    start: int
    end: int

    def to(self, other: Span) -> Span:
        """From the first character of either to the last of either."""
        return Span(min(self.start, other.start), max(self.end, other.end))


class SqlText:
    """One text; the only maker of its errors."""

    def __init__(self, text: str) -> None:
        self.text = text
        lengths = [len(line) for line in text.splitlines(keepends=True)] or [0]
        self._starts = [0, *accumulate(lengths)][:-1]

    def place(self, span: Span) -> Place:
        """Where a span is, its width cut at the end of its first line."""
        index = bisect_right(self._starts, span.start) - 1
        start = self._starts[index]
        lines = self.text[start:].splitlines()
        rest = (len(lines[0]) if lines else 0) - (span.start - start)
        return Place(index + 1, span.start - start + 1, max(1, min(span.end - span.start, rest)))

    def slice(self, span: Span) -> str:
        return self.text[span.start : span.end]

    def shown(self, span: Span) -> str:
        """The text of a span for a message: one line, cut if long."""
        line = " ".join(self.slice(span).split())
        return line if len(line) <= _SHOWN_CHARACTERS else f"{line[:_SHOWN_CHARACTERS]}..."

    def end_span(self) -> Span:
        """The last character that is not blank: where something is missing at the end."""
        end = len(self.text.rstrip())
        return Span(max(end - 1, 0), max(end, 1))

    def error(self, message: str, span: Span, hint: str = "") -> SqlError:
        return SqlError(message, self.text, self.place(span), hint)

    def unsupported(self, message: str, span: Span, hint: str = "") -> UnsupportedError:
        return UnsupportedError(message, self.text, self.place(span), hint)


def nearest(word: str, names: Iterable[str], likeness: float = 0.65) -> str | None:
    """The name most like a word, case aside, or None if none is like it.

    >>> nearest("temprature", ["humidity", "temperature"])
    'temperature'
    """
    by_lower = {name.lower(): name for name in names}
    found = difflib.get_close_matches(word.lower(), by_lower, n=1, cutoff=likeness)
    return by_lower[found[0]] if found else None


def suggest(word: str, names: Iterable[str], what: str) -> str:
    """A hint: the nearest name, or all there are.

    >>> suggest("x", ["humidity", "temperature"], "the streams are")
    'the streams are humidity, temperature'
    """
    known = tuple(names)
    near = nearest(word, known)
    if near is not None:
        return f"did you mean {near}?"
    return f"{what} {', '.join(known)}" if known else ""
