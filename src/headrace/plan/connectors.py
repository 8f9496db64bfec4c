"""Connectors: where a stream's tuples come from and where a query's rows go.

Owns the options of ``WITH (...)`` and ``INTO (...)``: each has a name, a parser that refuses what is not allowed, a
default and a line of documentation. The SQL layer checks what a user wrote with them; the Spark layer gets typed
values by ``Connector.values``. To give the generator another option, add a line to ``GENERATOR_OPTIONS``.
"""

from __future__ import annotations

import datetime as dt
import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

from headrace.config import parse_duration, parse_sink_name
from headrace.errors import PlanError, SettingError
from headrace.model import Options

OptionValue: TypeAlias = bool | int | float | str | dt.datetime | None
"""An option's value once read. Durations are microseconds; None: not given, and there is no default."""


class Reach(Enum):
    """Who may name a connector."""

    SQL = "sql"
    API = "api"
    """Only the Python interface: it needs an object that SQL cannot write."""


@dataclass(frozen=True, slots=True)
class Option:
    """One option of a connector; ``only_with`` is another option's (name, value) that it needs."""

    name: str
    parse: Callable[[str], OptionValue]
    text: str
    default: OptionValue = None
    required: bool = False
    only_with: tuple[str, str] | None = None


@dataclass(frozen=True, slots=True)
class Connector:
    """A kind of source or sink, and the options it takes."""

    name: str
    text: str
    options: tuple[Option, ...] = ()
    reach: Reach = Reach.SQL

    def option(self, name: str) -> Option | None:
        return next((option for option in self.options if option.name == name.lower()), None)

    def missing(self, given: Options) -> Option | None:
        """The first required option that is not given, or None."""
        names = {name for name, _ in given}
        return next((option for option in self.options if option.required and option.name not in names), None)

    def misplaced(self, given: Options) -> Option | None:
        """The first option given without the value of another that it needs, or None."""
        values = {option.name: option.default for option in self.options} | dict(given)
        for name, _ in given:
            option = self.option(name)
            if option is not None and option.only_with is not None:
                needed, value = option.only_with
                if str(values.get(needed)).lower() != value:
                    return option
        return None

    def values(self, given: Options) -> dict[str, OptionValue]:
        """Every option's value: what was given, read; else its default. ``connector`` itself is skipped."""
        result = {option.name: option.default for option in self.options}
        for name, text in given:
            if name == "connector":
                continue
            option = self.option(name)
            if option is None:
                raise PlanError(f"connector {self.name} has no option {name}")
            result[name] = option.parse(text)
        return result


def parse_timestamp(text: str) -> dt.datetime:
    """A point in time in ISO 8601, UTC unless it says otherwise.

    >>> parse_timestamp("2026-01-31 12:00:00.5").isoformat()
    '2026-01-31T12:00:00.500000+00:00'
    """
    try:
        moment = dt.datetime.fromisoformat(text.strip())
        return moment.replace(tzinfo=dt.UTC) if moment.tzinfo is None else moment.astimezone(dt.UTC)
    except (ValueError, OverflowError):
        raise SettingError(f"{text!r} is not a timestamp: write one such as '2026-01-31 12:00:00'") from None


def _text(text: str) -> str:
    if not text.strip():
        raise SettingError("it is empty: write a name between the quotes")
    return text


def _choice(*allowed: str) -> Callable[[str], OptionValue]:
    def parse(text: str) -> OptionValue:
        if text.lower() not in allowed:
            raise SettingError(f"{text!r} is not allowed: write {' or '.join(repr(one) for one in allowed)}")
        return text.lower()

    return parse


def _flag(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise SettingError(f"{text!r} is not allowed: write true or false")
    return text.lower() == "true"


def _whole(least: int, most: int = 10**18) -> Callable[[str], OptionValue]:
    wanted = f"from {least} to {most}" if most < 10**18 else f"of at least {least}"

    def parse(text: str) -> OptionValue:
        if not re.fullmatch(r"\s*[+-]?[0-9]{1,18}\s*", text) or not least <= int(text) <= most:
            raise SettingError(f"{text!r} is not allowed: write a whole number {wanted}")
        return int(text)

    return parse


def _number(least: float, most: float = math.inf, *, above: bool = False) -> Callable[[str], OptionValue]:
    wanted = f"a number above {least:g}" if above else f"a number of at least {least:g}"
    wanted += f" and at most {most:g}" if math.isfinite(most) else ""

    def parse(text: str) -> OptionValue:
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not math.isfinite(value) or not least <= value <= most or (above and value == least):
            raise SettingError(f"{text!r} is not allowed: write {wanted}")
        return value

    return parse


GENERATOR_OPTIONS = (
    Option("rate", _number(0, 1e7, above=True), "tuples a second of event time", 1000.0),
    Option("keys", _whole(1, 10**8), "how many different keys there are", 1000),
    Option("skew", _number(0, 10), "Zipf exponent of the keys; 0: all equally likely", 0.0),
    Option("seed", _whole(0), "the same seed gives the same tuples", 0),
    Option("arrival", _choice("exponential", "pareto", "self_similar"), "how tuples are spaced in time", "exponential"),
    Option("burst", _number(1, 1000), "expected size of a burst, for pareto arrivals", 5.0),
    Option("flows", _whole(1, 1024), "on/off flows added up, for self_similar arrivals", 64),
    Option("on_shape", _number(1, 10, above=True), "Pareto shape of a flow's on times", 1.4),
    Option("off_shape", _number(1, 10, above=True), "Pareto shape of a flow's off times", 1.2),
    Option("key", _text, "the column that holds the key; by default the first INT, BIGINT or STRING column"),
    Option("low", _number(-1e12, 1e12), "least value of the other number columns", 0.0),
    Option("high", _number(-1e12, 1e12), "bound of the values of the other number columns", 100.0),
    Option("start", parse_timestamp, "event time when the query first starts; by default the wall clock's"),
    Option("history", parse_duration, "event time before `start` whose tuples are there at once", 0),
    Option("duration", parse_duration, "event time the stream lasts, history included; by default it never ends"),
    Option("speed", _number(0), "seconds of event time in a second of the clock; 0: no pace, but a duration", 1.0),
    Option("step", parse_duration, "most event time in a micro-batch; by default all there is, at speed 0 a second"),
)

_FILES_OPTIONS = (
    Option("format", _choice("parquet", "json", "csv"), "what the files hold", "parquet"),
    Option("path", _text, "the directory to read; files that appear later are read too", required=True),
    Option("max_files_per_batch", _whole(1), "files in a micro-batch; by default the setting of that name"),
    Option("header", _flag, "whether the first line names the columns", False, only_with=("format", "csv")),
    Option("rate", _number(0, 1e9, above=True), "about how many tuples a second of event time, for planning joins"),
)

_PARQUET_OPTIONS = (
    Option("path", _text, "the directory to write; by default one of the query's (or sink's) name in the output"),
    Option("shared", parse_sink_name, "a sink for many queries: rows in common files, with a first column `query`"),
)

SOURCES = {
    connector.name: connector
    for connector in (
        Connector("files", "a directory of files", _FILES_OPTIONS),
        Connector("generator", "made-up tuples, for trying out and measuring", GENERATOR_OPTIONS),
        Connector("dataframe", "a streaming DataFrame given to Engine.stream", reach=Reach.API),
    )
}
"""What may stand after ``WITH (connector =``, by name."""

SINKS = {
    connector.name: connector
    for connector in (
        Connector("parquet", "Parquet files", _PARQUET_OPTIONS),
        Connector("console", "rows printed as they come"),
        Connector("count", "no rows: the shards only count them"),
        Connector("callback", "a Python function given to Engine.sink", reach=Reach.API),
    )
}
"""What may stand after ``INTO (connector =``, by name."""


def describe(connectors: dict[str, Connector]) -> str:
    """The connectors and options as a Markdown table, which ``docs/sql.md`` contains."""
    rows = ["| connector | option | default | meaning |", "|---|---|---|---|"]
    for connector in connectors.values():
        note = " (Python only)" if connector.reach is Reach.API else ""
        rows.append(f"| `{connector.name}` | | | {connector.text}{note} |")
        for option in connector.options:
            default = "required" if option.required else "" if option.default is None else _shown(option.default)
            rows.append(f"| | `{option.name}` | {default} | {option.text} |")
    return "\n".join(rows) + "\n"


def _shown(value: OptionValue) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"{value:g}" if isinstance(value, float) else str(value)
