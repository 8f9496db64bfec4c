"""Declared streams, and the options of WITH and INTO.

Owns the check of connectors and their options against ``plan.connectors``, with the place of the culprit, and the
options that are the stream's own: ``time``, ``max_delay``, ``idle_timeout``, ``partition`` and ``partitions``.
"""

from __future__ import annotations

from collections.abc import Mapping

from headrace.errors import PlanError, SettingError
from headrace.model import (
    INTERNAL,
    PARTITION,
    STRING,
    TIMESTAMP,
    Column,
    Options,
    Schema,
    Stream,
    StreamId,
    is_internal,
)
from headrace.plan.connectors import PASSED, SINKS, SOURCES, Connector, Reach, topics_in
from headrace.sql.literals import checked_duration_us
from headrace.sql.reader import OptionPair, Word
from headrace.sql.statements import CreateStream, SelectText
from headrace.sql.text import Span, SqlText, suggest

_STREAM_OPTIONS = ("time", "max_delay", "idle_timeout", "partition", "partitions")
MOST_PARTITIONS = 100_000


def bind_stream(source: SqlText, statement: CreateStream) -> Stream:
    """The stream that CREATE STREAM declares."""
    schema = _schema(source, statement)
    own, kept = _split(source, statement.options)
    options = _checked(source, kept, SOURCES, "WITH", statement.name.span, _STREAM_OPTIONS)
    connector = SOURCES[dict(options)["connector"]]
    _check_columns(source, kept, connector, schema)
    _check_record(source, kept)
    _check_raw(source, kept, dict(options), schema)
    time = _time(source, statement, schema, own.get("time"))
    max_delay_us = _duration_us(source, own.get("max_delay")) or 0
    idle_us = _duration_us(source, own.get("idle_timeout"))
    partition = _partition(source, schema, own.get("partition")) or (PARTITION if connector.is_parted else None)
    parted = partition, _partitions(source, own, partition)
    try:
        return Stream(StreamId(statement.name.text), schema, time, max_delay_us, options, idle_us, *parted)
    except PlanError as error:
        raise source.error(str(error), statement.name.span) from error


def bind_into(source: SqlText, select: SelectText) -> Options:
    """The options of INTO; empty if there is none."""
    if select.into is None:
        return ()
    _split(source, select.into)
    return _checked(source, select.into, SINKS, "INTO", select.into_span, ())


def check_into(source: SqlText, select: SelectText, schema: Schema) -> None:
    """Refuses options of INTO that do not fit the query's columns."""
    if select.into is None:
        return
    given = {pair.name.text: pair.value.text for pair in select.into}
    _check_columns(source, select.into, SINKS[given["connector"].lower()], schema)
    _check_raw(source, select.into, given, schema)


def _schema(source: SqlText, statement: CreateStream) -> Schema:
    seen: set[str] = set()
    for column in statement.columns:
        if column.name.text.lower() in seen:
            raise source.error(
                f"two columns are called {column.name.text}", column.name.span, "give one of them another name"
            )
        if is_internal(column.name.text):
            raise source.error(
                f"the name of column {column.name.text} begins with {INTERNAL}, as names of Headrace's own columns do",
                column.name.span,
                "give it another name",
            )
        seen.add(column.name.text.lower())
    return Schema(tuple(Column(column.name.text, column.type) for column in statement.columns))


def _split(source: SqlText, pairs: tuple[OptionPair, ...]) -> tuple[dict[str, OptionPair], tuple[OptionPair, ...]]:
    """The stream's own options, and the connector's; no name twice."""
    own: dict[str, OptionPair] = {}
    seen: set[str] = set()
    for pair in pairs:
        if pair.name.text.lower() in seen:
            raise source.error(f"option {pair.name.text} is given twice", pair.name.span, "leave one of them out")
        seen.add(pair.name.text.lower())
        if pair.name.text in _STREAM_OPTIONS:
            own[pair.name.text] = pair
    return own, tuple(pair for pair in pairs if pair.name.text not in own)


def _checked(
    source: SqlText,
    pairs: tuple[OptionPair, ...],
    connectors: dict[str, Connector],
    clause: str,
    span: Span,
    also: tuple[str, ...],
) -> Options:
    """The pairs as sorted options, once the connector takes them all."""
    connector = _connector(source, pairs, connectors, clause, span)
    rest = [pair for pair in pairs if pair.name.text != "connector"]
    for pair in rest:
        _check_option(source, connector, pair, also)
    options = tuple((pair.name.text, pair.value.text) for pair in rest)
    missing = connector.missing(options)
    if missing is not None:
        raise source.error(
            f"connector {connector.name} needs the option {missing.name}",
            _connector_span(pairs),
            f"add {missing.name} = '...': {missing.text}",
        )
    misplaced = connector.misplaced(options)
    if misplaced is not None:
        assert misplaced.only_with is not None
        culprit = next(pair for pair in rest if pair.name.text == misplaced.name)
        needed = " = ".join((misplaced.only_with[0], repr(misplaced.only_with[1])))
        raise source.error(f"option {misplaced.name} goes with {needed} only", culprit.name.span, "leave it out")
    return tuple(sorted((*options, ("connector", connector.name))))


def _connector_span(pairs: tuple[OptionPair, ...]) -> Span:
    return next(pair.value.span for pair in pairs if pair.name.text == "connector")


def _connector(
    source: SqlText, pairs: tuple[OptionPair, ...], connectors: dict[str, Connector], clause: str, span: Span
) -> Connector:
    written = [name for name, one in connectors.items() if one.reach is Reach.SQL]
    pair = next((pair for pair in pairs if pair.name.text == "connector"), None)
    if pair is None:
        raise source.error(
            f"{clause} names no connector",
            span,
            f"add connector = '{written[0]}'; the connectors are {', '.join(written)}",
        )
    connector = connectors.get(pair.value.text.lower())
    if connector is None:
        hint = suggest(pair.value.text, written, "the connectors are")
        if "spark" in connectors and hint.startswith("the"):
            hint += f"; for another format of Spark's write connector = 'spark', format = '{pair.value.text}'"
        raise source.error(f"there is no connector {pair.value.text} for {clause}", pair.value.span, hint)
    if connector.reach is not Reach.SQL:
        raise source.error(
            f"connector {connector.name} is for the Python interface only",
            pair.value.span,
            f"it is {connector.text}; here write {' or '.join(written)}",
        )
    return connector


def _check_option(source: SqlText, connector: Connector, pair: OptionPair, also: tuple[str, ...]) -> None:
    option = connector.option(pair.name.text)
    instead = connector.instead_of(pair.name.text)
    if instead is not None:
        raise source.error(
            f"{pair.name.text} is given by the option {instead}", pair.name.span, f"write {instead} = '...'"
        )
    if option is None:
        names = [*(one.name for one in connector.options), *also, *([f"{PASSED}name"] if connector.passes else [])]
        hint = suggest(pair.name.text, names, "its options are") or "it takes none"
        raise source.error(f"connector {connector.name} has no option {pair.name.text}", pair.name.span, hint)
    try:
        option.parse(pair.value.text)
    except SettingError as error:
        message, _, hint = str(error).partition(": ")
        raise source.error(f"option {pair.name.text}: {message}", pair.value.span, hint) from error


def _check_columns(source: SqlText, pairs: tuple[OptionPair, ...], connector: Connector, schema: Schema) -> None:
    """Options that name a column must name one that there is, of the type they need."""
    for pair in pairs:
        option = connector.option(pair.name.text)
        if option is None or not option.names_column:
            continue
        column = schema.find(pair.value.text)
        if column is None:
            hint = suggest(pair.value.text, schema.names, "the columns are")
            raise source.error(f"there is no column {pair.value.text}", pair.value.span, hint)
        if option.of_type is not None and column.type != option.of_type:
            raise source.error(
                f"column {column.name} is {column.type}: {option.name} must be {option.of_type}",
                pair.value.span,
                f"declare it as {column.name} {option.of_type}",
            )


def _check_record(source: SqlText, pairs: tuple[OptionPair, ...]) -> None:
    """A column is one part of a record; and where reading begins is said of the topics that are read, each of them."""
    given = {pair.name.text: pair.value for pair in pairs}
    key, moment = given.get("key_column"), given.get("timestamp_column")
    if key is not None and moment is not None and key.text.lower() == moment.text.lower():
        hint = "name another column, or leave one of the two out"
        raise source.error(f"column {key.text} is the record's key and its timestamp", key.span, hint)
    if given["connector"].text.lower() != "kafka" or "start" not in given:
        return
    read, told = {one.strip() for one in given["topic"].text.split(",")}, set(topics_in(given["start"].text))
    odd = sorted(told ^ read) if told else []
    if odd:
        message = f"start has no offsets for topic {odd[0]}" if odd[0] in read else f"topic {odd[0]} is not read"
        hint = f"write the offsets of all partitions of {', '.join(sorted(read))}"
        raise source.error(message, given["start"].span, hint)


def _check_raw(source: SqlText, pairs: tuple[OptionPair, ...], given: Mapping[str, str], schema: Schema) -> None:
    """A raw value is one text: it needs one STRING column, besides those that are not in the value."""
    if given["connector"].lower() != "kafka" or given.get("format", "").lower() != "raw":
        return
    elsewhere = {given.get(name, "").lower() for name in ("key_column", "timestamp_column")}
    inside = [column for column in schema if column.name.lower() not in elsewhere]
    if [column.type for column in inside] != [STRING]:
        shown = ", ".join(str(column) for column in inside) or "none"
        raise source.error(
            f"a raw value is one STRING column, and these are {shown}",
            next(pair.value.span for pair in pairs if pair.name.text == "format"),
            "write format = 'json', or leave one STRING column beside key_column and timestamp_column",
        )


def _time(source: SqlText, statement: CreateStream, schema: Schema, pair: OptionPair | None) -> str:
    """The event-time column: the one that is named, or the only TIMESTAMP."""
    candidates = [column.name for column in schema if column.type == TIMESTAMP]
    if pair is None:
        if len(candidates) == 1:
            return candidates[0]
        hint = (
            f"add time = '{candidates[0]}', say"
            if candidates
            else "add a TIMESTAMP column, and name it with time = '...'"
        )
        raise source.error(
            f"stream {statement.name.text} does not say which column is its time", statement.name.span, hint
        )
    return _named_time(source, schema, pair.value, candidates)


def _named_time(source: SqlText, schema: Schema, value: Word, candidates: list[str]) -> str:
    column = schema.find(value.text)
    if column is None:
        hint = suggest(value.text, schema.names, "the columns are")
        raise source.error(f"there is no column {value.text} to be the time", value.span, hint)
    if column.type != TIMESTAMP:
        hint = f"did you mean {candidates[0]}?" if candidates else f"declare it as {column.name} TIMESTAMP"
        raise source.error(f"the time column {column.name} is {column.type}, not TIMESTAMP", value.span, hint)
    return column.name


def _duration_us(source: SqlText, pair: OptionPair | None) -> int | None:
    if pair is None:
        return None
    try:
        return checked_duration_us(pair.value.text)
    except SettingError as error:
        message, _, hint = str(error).partition(": ")
        name = pair.name.text
        raise source.error(f"{name}: {message}", pair.value.span, hint or f"write {name} = '2 seconds'") from error


def _partition(source: SqlText, schema: Schema, pair: OptionPair | None) -> str | None:
    """The column that tells the stream's sources apart."""
    if pair is None:
        return None
    column = schema.find(pair.value.text)
    if column is None:
        hint = suggest(pair.value.text, schema.names, "the columns are")
        raise source.error(f"there is no column {pair.value.text} to tell partitions apart", pair.value.span, hint)
    return column.name


def _partitions(source: SqlText, own: dict[str, OptionPair], partition: str | None) -> int | None:
    """How many sources there are to wait for."""
    pair = own.get("partitions")
    if pair is None:
        return None
    text = pair.value.text.strip()
    if not (text.isascii() and text.isdigit() and 1 <= int(text) <= MOST_PARTITIONS):
        raise source.error(
            f"partitions: {pair.value.text!r} is not allowed",
            pair.value.span,
            f"write a whole number from 1 to {MOST_PARTITIONS}",
        )
    if partition is None:
        hint = "add partition = '...', the column that has each tuple's source"
        raise source.error("partitions goes with partition only", pair.name.span, hint)
    return int(text)
