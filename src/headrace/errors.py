"""One exception tree. What a user did wrong is a :class:`HeadraceError` with a message that says what to do instead;
the command line prints it without a traceback and exits with its ``exit_code``.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


@dataclass(frozen=True, slots=True)
class Place:
    """A stretch of SQL text: 1-based line and column, and how many characters the culprit has."""

    line: int
    column: int
    width: int = 1


class PartKind(Enum):
    """What a part of a program is."""

    STREAM = "stream"
    QUERY = "query"
    SETTING = "setting"


@dataclass(frozen=True, slots=True)
class Part:
    """A stream, a query or a setting of a program, by its name."""

    kind: PartKind
    name: str


def stream_parts(*names: str) -> tuple[Part, ...]:
    return tuple(Part(PartKind.STREAM, name) for name in names)


def query_parts(*names: str) -> tuple[Part, ...]:
    return tuple(Part(PartKind.QUERY, name) for name in names)


def setting_parts(*names: str) -> tuple[Part, ...]:
    return tuple(Part(PartKind.SETTING, name) for name in names)


class HeadraceError(Exception):
    """Anything Headrace refuses; the message is meant for the user."""

    exit_code = 1


class SqlError(HeadraceError):
    """SQL that cannot be run, with its place in the text and what to write instead."""

    exit_code = 2

    def __init__(self, message: str, text: str, place: Place, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.text = text
        self.place = place
        self.hint = hint

    def __str__(self) -> str:
        lines = self.text.splitlines() or [""]
        index = min(max(self.place.line - 1, 0), len(lines) - 1)
        source = lines[index].replace("\t", " ")
        gutter = f"{self.place.line} | "
        caret = " " * (len(gutter) + self.place.column - 1) + "^" * max(self.place.width, 1)
        shown = f"{self.message}\n  at line {self.place.line}, column {self.place.column}:\n{gutter}{source}\n{caret}"
        return f"{shown}\n  hint: {self.hint}" if self.hint else shown


class UnsupportedError(SqlError):
    """SQL that is well formed, but that Headrace does not run."""


class ProgramError(HeadraceError):
    """Something wrong with a program, told where its text is not at hand. ``about``: the parts at fault, the first of
    which that the text has is pointed at by whoever read it (``sql.places``)."""

    exit_code = 2

    def __init__(self, message: str, hint: str = "", about: tuple[Part, ...] = ()) -> None:
        super().__init__(f"{message}: {hint}" if hint else message)
        self.message = message
        self.hint = hint
        self.about = about


class PlanError(ProgramError):
    """A plan that cannot exist: a wrong type, a missing column, an impossible window."""


class SettingError(ProgramError):
    """A setting with a value that is not allowed; the message lists those that are."""


class SourceError(HeadraceError):
    """An input that cannot be read as its stream declares it."""

    exit_code = 3


class SinkError(HeadraceError):
    """An output that cannot be written."""

    exit_code = 3


class StateError(HeadraceError):
    """A checkpoint that does not belong to this program, or cannot be read."""

    exit_code = 4


class InvariantError(HeadraceError):
    """A broken promise inside Headrace, with the last events: a story that can be replayed."""

    exit_code = 70

    def __init__(self, message: str, events: tuple[object, ...] = ()) -> None:
        super().__init__(message)
        self.events = events
