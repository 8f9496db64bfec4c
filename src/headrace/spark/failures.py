"""A failed streaming query in words a user can act on; the whole story goes to a file."""

from __future__ import annotations

import re
from pathlib import Path

from headrace.errors import HeadraceError, InvariantError, SourceError, StateError

_OURS = re.compile(r"headrace\.errors\.(\w+): (.*)")
_RAISED = re.compile(r"^(?:\w+\.)*(\w+: .+?)(?: SQLSTATE.*)?$", re.MULTILINE)
"""The last line of a traceback: the only one that is not indented."""
_CODE = r"\[([A-Z0-9]+(?:[_.][A-Z0-9]+)+)\] "
_CONDITION = re.compile(rf"{_CODE}(.*?)(?= SQLSTATE|{_CODE}|$)", re.MULTILINE)
_PREAMBLE = re.compile(r"^\[STREAM_FAILED\] .*? terminated with exception: ")
_ERRORS: dict[str, type[HeadraceError]] = {one.__name__: one for one in (StateError, SourceError)}
_HEADER = re.compile(r"\bCSV header\b.*?\bCSV file: (\S+)", re.DOTALL)
"""What Spark says of a CSV file whose first line does not have the declared columns, over a few lines."""
_CORRECT = "Correct the file or move it away, then start again: nothing is lost"
_SOURCE_CONDITIONS = ("FAILED_READ_FILE", "CANNOT_READ_FILE", "PATH_NOT_FOUND", "PARQUET_COLUMN_DATA_TYPE_MISMATCH")


def is_impatience(error: Exception) -> bool:
    """Whether Spark gave up because a Python process took more than ten seconds to start: nothing is wrong but that the
    machine is busy, and Spark has no setting for it."""
    return "Python worker failed to connect back" in str(error)


def explained_failure(error: Exception, directory: Path) -> HeadraceError:
    """The cause in one message, naming the file that holds the rest."""
    text = str(error)
    log = directory / "failure.log"
    where = f" (all of it is in {log})"
    try:
        log.write_text(text)
    except OSError:  # a full disk may be what went wrong
        where = ""
    ours = _OURS.findall(text)
    if ours:
        name, message = ours[-1]
        return _ERRORS.get(name, InvariantError)(message + where)
    story = _story(text)
    header = _HEADER.search(story)
    if header is not None:
        return SourceError(f"the header of {header[1]} does not have the declared columns in order. {_CORRECT}{where}")
    for code, message in _conditions(story):
        if code.startswith(_SOURCE_CONDITIONS):
            return SourceError(f"{message} {_CORRECT}{where}")
    return HeadraceError(f"the streaming query failed: {cause_in(text)}{where}")


def cause_in(text: str) -> str:
    """What went wrong in the end, out of all that Spark says of it."""
    story = _story(text)
    raised, conditions = _RAISED.findall(story), _conditions(story)
    return str(raised[-1] if raised else conditions[-1][1] if conditions else story.strip().splitlines()[0])


def _story(text: str) -> str:
    return _PREAMBLE.sub("", text.partition("=== Streaming Query ===")[0])


def _conditions(story: str) -> list[tuple[str, str]]:
    """Spark's error conditions: (code, message)."""
    return [(one.group(1), one.group(2).strip()) for one in _CONDITION.finditer(story)]
