"""Where a text has the parts of a program, for errors that are found only when the program is seen as a whole.

      text --read_script--> queries, settings, Places      ProgramError about parts --pointing--> SqlError at its place

Owns :class:`Places`. A part that was given otherwise (a setting by the command line, a query live) has no place, and an
error about nothing else stays as it is. Cost: a dictionary entry a part; lines are counted only for an error.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from headrace.errors import Part, ProgramError
from headrace.sql.text import Span, SqlText


@dataclass(frozen=True, slots=True)
class Places:
    """By part, the text that has it, and where."""

    spans: Mapping[Part, tuple[SqlText, Span]] = field(default_factory=dict)

    def with_later(self, later: Places) -> Places:
        """These, and those of a text that was read later."""
        return Places({**self.spans, **later.spans})

    def without(self, parts: Iterable[Part]) -> Places:
        """These but for parts that the texts do not decide any more."""
        gone = set(parts)
        return Places({part: found for part, found in self.spans.items() if part not in gone})

    @contextmanager
    def pointing(self) -> Iterator[None]:
        """Errors about parts of the text come out with line, column, caret and hint."""
        try:
            yield
        except ProgramError as error:
            part = next((one for one in error.about if one in self.spans), None)
            if part is None:
                raise
            source, span = self.spans[part]
            raise source.error(error.message, span, error.hint) from error
