"""Connectors: where a stream's tuples come from and where a query's rows go.

Owns the options of ``WITH (...)`` and ``INTO (...)``: each has a name, a parser that refuses what is not allowed, a
default and a line of documentation. The SQL layer checks what a user wrote with them; the Spark layer gets typed
values by ``Connector.values``. To give the generator another option, add a line to ``GENERATOR_OPTIONS``. Connectors
that are Spark's own take any ``option.name``, too, which goes to Spark as it is (``Connector.passed``).
"""

from __future__ import annotations

import datetime as dt
import json
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import TypeAlias

from headrace.config import parse_duration, parse_sink_name
from headrace.errors import PlanError, SettingError
from headrace.model import TIMESTAMP, DataType, Options

OptionValue: TypeAlias = bool | int | float | str | dt.datetime | None
"""An option's value once read. Durations are microseconds; None: not given, and there is no default."""


PASSED = "option."
"""What the names of options begin with that are Spark's, not Headrace's."""


class Reach(Enum):
    """Who may name a connector."""

    SQL = "sql"
    API = "api"
    """Only the Python interface: it needs an object that SQL cannot write."""


@dataclass(frozen=True, slots=True)
class Option:
    """One option of a connector; ``only_with`` is another option's (name, value) that it needs. One that
    ``names_column`` has the name of a column of the stream, or of the query that writes; ``of_type``: that column's."""

    name: str
    parse: Callable[[str], OptionValue]
    text: str
    default: OptionValue = None
    required: bool = False
    only_with: tuple[str, str] | None = None
    names_column: bool = False
    of_type: DataType | None = None


@dataclass(frozen=True, slots=True)
class Connector:
    """A kind of source or sink, and the options it takes. ``passes``: also those of Spark; ``ours`` has, by the name in
    small letters, those of Spark that are given by an option of the connector instead. ``is_parted``: its rows say
    which of a stream's partitions they are from."""

    name: str
    text: str
    options: tuple[Option, ...] = ()
    reach: Reach = Reach.SQL
    passes: bool = False
    ours: Mapping[str, str] = field(default_factory=dict)
    is_parted: bool = False

    def option(self, name: str) -> Option | None:
        if self.passes and name.startswith(PASSED) and len(name) > len(PASSED):
            return Option(name, self._pass, "an option of Spark's")
        return next((option for option in self.options if option.name == name.lower()), None)

    @staticmethod
    def _pass(text: str) -> OptionValue:
        return text

    def passed(self, given: Options) -> dict[str, str]:
        """The options that go to Spark as they are, by Spark's names."""
        return {name.removeprefix(PASSED): text for name, text in given if name.startswith(PASSED)}

    def instead_of(self, name: str) -> str | None:
        """The connector's own option that says what an option of Spark's would, or None."""
        return self.ours.get(name.removeprefix(PASSED).lower()) if name.startswith(PASSED) else None

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
            if name == "connector" or (self.passes and name.startswith(PASSED)):
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


def _names(what: str, example: str) -> Callable[[str], OptionValue]:
    """Names parted by commas, as one text without blanks."""

    def parse(text: str) -> OptionValue:
        names = [one.strip() for one in text.split(",")]
        if not all(names) or any(" " in one for one in names):
            raise SettingError(f"{text!r} is no list of {what}: write one or several, parted by commas, as {example}")
        return ",".join(names)

    return parse


def _servers(text: str) -> OptionValue:
    parse = _names("servers", "'localhost:9092'")
    names = str(parse(text))
    if not all(re.fullmatch(r"(\[[0-9a-fA-F:.]+\]|[^\s:/\[\]]+):[0-9]{1,5}", one) for one in names.split(",")):
        raise SettingError(f"{text!r} is no list of servers: write host:port, such as 'localhost:9092'")
    if not all(1 <= int(one.rpartition(":")[2]) <= _LAST_PORT for one in names.split(",")):
        raise SettingError(f"{text!r} has a port that there is not: write one from 1 to {_LAST_PORT}")
    return names


_LAST_PORT = 65_535
_TOPIC_NAME = re.compile(r"(?!\.{1,2}$)[a-zA-Z0-9._-]{1,249}")


def _topics(text: str) -> OptionValue:
    names = str(_names("topics", "'clicks'")(text))
    for name in names.split(","):
        _topic(name)
    return names


def _topic(text: str) -> OptionValue:
    if not _TOPIC_NAME.fullmatch(text):
        raise SettingError(f"{text!r} is no name of a topic: write at most 249 letters (a-z, A-Z), digits and . _ -")
    return text


def _delimiter(text: str) -> OptionValue:
    found = text.replace("\\t", "\t")
    if not found or any(mark in found for mark in '"\\\r\n\0'):
        raise SettingError(f"{text!r} cannot part columns: write a mark such as ',' or ';', or '\\t' for a tab")
    return found


def _escape(text: str) -> OptionValue:
    if text not in ('"', "\\"):
        raise SettingError(f"{text!r} is not allowed: write '\"' (RFC 4180), or '\\'")
    return text


def _start(text: str) -> OptionValue:
    """Where reading a topic begins: a word, a moment, or the offsets of all its partitions."""
    if text.strip().lower() in ("earliest", "latest"):
        return text.strip().lower()
    try:
        if text.lstrip().startswith("{"):
            offsets = json.loads(text)
            if offsets and all(_are_offsets(parts) for parts in offsets.values()):
                return text.strip()
        else:
            return parse_timestamp(text)
    except (SettingError, ValueError, AttributeError):
        pass
    told = text.replace(": ", ":")  # a hint begins after the first such mark
    raise SettingError(
        f"{told!r} is no place to start: write 'earliest', 'latest', a time such as '2026-01-31 12:00:00', or offsets "
        """such as '{"topic": {"0": 17, "1": -2}}' (-2: earliest, -1: latest)"""
    )


def _are_offsets(parts: Mapping[str, object]) -> bool:
    """Whether these are offsets of a topic's partitions: from 0, or one of the two words for its ends."""
    known = all(type(one) is int and one >= EARLIEST_OFFSET for one in parts.values())
    return bool(parts) and known and all(re.fullmatch("[0-9]{1,9}", number) for number in parts)


EARLIEST_OFFSET = -2


def topics_in(start: str) -> tuple[str, ...]:
    """The topics that a start has offsets for; none if it is a word or a time."""
    return tuple(json.loads(start)) if start.lstrip().startswith("{") else ()


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
    Option(
        "key",
        _text,
        "the column that holds the key; by default the first INT, BIGINT or STRING column",
        names_column=True,
    ),
    Option("low", _number(-1e12, 1e12), "least value of the other number columns", 0.0),
    Option("high", _number(-1e12, 1e12), "bound of the values of the other number columns", 100.0),
    Option("start", parse_timestamp, "event time when the query first starts; by default the wall clock's"),
    Option("history", parse_duration, "event time before `start` whose tuples are there at once", 0),
    Option("duration", parse_duration, "event time the stream lasts, history included; by default it never ends"),
    Option("speed", _number(0), "seconds of event time in a second of the clock; 0: no pace, but a duration", 1.0),
    Option("step", parse_duration, "most event time in a micro-batch; by default all there is, at speed 0 a second"),
)

_RATE = Option("rate", _number(0, 1e9, above=True), "about how many tuples a second of event time, for planning joins")

_ESCAPE = Option(
    "escape", _escape, "what stands before a quote inside quotes: another, or a \\", '"', only_with=("format", "csv")
)

_FILES_OPTIONS = (
    Option("format", _choice("parquet", "json", "csv"), "what the files hold", "parquet"),
    Option("path", _text, "the directory to read; files that appear later are read too", required=True),
    Option("max_files_per_batch", _whole(1), "files in a micro-batch; by default the setting of that name"),
    Option("header", _flag, "whether the first line names the columns", False, only_with=("format", "csv")),
    _ESCAPE,
    _RATE,
)

_SERVERS = Option("servers", _servers, "the brokers to ask first, host:port; several parted by commas", required=True)
_VALUES = _choice("json", "csv", "raw")
_DELIMITER = Option("delimiter", _delimiter, "what stands between the columns", ",", only_with=("format", "csv"))
_KAFKA_SOURCE_OPTIONS = (
    _SERVERS,
    Option("topic", _topics, "the topic to read; several parted by commas", required=True),
    Option("format", _VALUES, "what a record's value is: a JSON object, a line of CSV, or (raw) one STRING", "json"),
    _DELIMITER,
    _ESCAPE,
    Option("key_column", _text, "the column that is the record's key, not in its value", names_column=True),
    Option(
        "timestamp_column",
        _text,
        "the column that is the record's timestamp, not in its value; it may be the stream's `time`",
        names_column=True,
        of_type=TIMESTAMP,
    ),
    Option(
        "start", _start, "where the first run begins: earliest, latest, a time, or offsets as JSON", default="earliest"
    ),
    Option("max_records_per_batch", _whole(1), "records in a micro-batch, of all partitions; by default all there are"),
    _RATE,
)

_KAFKA_SINK_OPTIONS = (
    _SERVERS,
    Option("topic", _topic, "the topic to write; by default one of the query's name; queries may have the same"),
    Option("format", _VALUES, "what a record's value is: a JSON object, a line of CSV, or (raw) one STRING", "json"),
    _DELIMITER,
    _ESCAPE,
    Option(
        "key_column", _text, "the column that is the record's key; by default what names the row", names_column=True
    ),
)

_SPARK_SOURCE_OPTIONS = (
    Option("format", _text, "a format that Spark can read as a stream", required=True),
    Option("path", _text, "where it is, if the format has paths"),
    _RATE,
)

_SPARK_SINK_OPTIONS = (
    Option("format", _text, "a format that Spark can write", required=True),
    Option("path", _text, "where to write, if the format has paths"),
    Option("mode", _choice("append", "overwrite", "ignore", "error"), "what is done with what is there", "append"),
)

_PARQUET_OPTIONS = (
    Option("path", _text, "the directory to write; by default one of the query's (or sink's) name in the output"),
    Option("shared", parse_sink_name, "a sink for many queries: rows in common files, with a first column `query`"),
)

_KAFKA_SOURCE_OURS = {
    "kafka.bootstrap.servers": "servers",
    "subscribe": "topic",
    "startingoffsets": "start",
    "startingtimestamp": "start",
    "maxoffsetspertrigger": "max_records_per_batch",
}
_KAFKA_SINK_OURS = {"kafka.bootstrap.servers": "servers", "topic": "topic"}

SOURCES = {
    connector.name: connector
    for connector in (
        Connector("files", "a directory of files", _FILES_OPTIONS),
        Connector("generator", "made-up tuples, for trying out and measuring", GENERATOR_OPTIONS),
        Connector(
            "kafka",
            "topics of [Kafka](kafka.md)",
            _KAFKA_SOURCE_OPTIONS,
            passes=True,
            ours=_KAFKA_SOURCE_OURS,
            is_parted=True,
        ),
        Connector(
            "spark", "any other streaming source of Spark", _SPARK_SOURCE_OPTIONS, passes=True, ours={"path": "path"}
        ),
        Connector("dataframe", "a streaming DataFrame given to Engine.stream", reach=Reach.API),
    )
}
"""What may stand after ``WITH (connector =``, by name."""

SINKS = {
    connector.name: connector
    for connector in (
        Connector("parquet", "Parquet files", _PARQUET_OPTIONS),
        Connector("kafka", "topics of [Kafka](kafka.md)", _KAFKA_SINK_OPTIONS, passes=True, ours=_KAFKA_SINK_OURS),
        Connector("spark", "any other sink of Spark", _SPARK_SINK_OPTIONS, passes=True, ours={"path": "path"}),
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
        if connector.passes:
            rows.append(f"| | `{PASSED}...` |  | any option that Spark takes there, as it is |")
    return "\n".join(rows) + "\n"


def _shown(value: OptionValue) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"{value:g}" if isinstance(value, float) else str(value)
