"""Values: texts as the columns of a stream, JSON objects or lines of CSV.

Owns when a text is malformed: Spark reads the first value of a JSON text and nothing of what follows it, so a text is
put into a list with an end behind it, which must come out as a list of one object, and the end::

    {"k": 1} {"k": 2}   ->   {"value": [{"k": 1} {"k": 2}], "end": 0}   is no JSON

A time without a date (``12:00``) is malformed: Spark takes it for today's, which a replay on another day
would not give. So is a number that is no second from the year 1 to 9999, such as milliseconds.

Costs one parse of each text, by Spark's own functions, and a second one of those that look as if they had such a time.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from headrace.engine.packing import CORRUPT
from headrace.model import STRING, TIMESTAMP, Schema
from headrace.model import Column as Declared
from headrace.spark.ddl import ddl

PARSED = "__parsed"
_WHOLE = "__whole"
_READING = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": CORRUPT, "timeZone": "UTC"}
KEPT_BLANKS = {"ignoreLeadingWhiteSpace": "false", "ignoreTrailingWhiteSpace": "false"}
"""Texts are written with the blanks they begin and end with, which Spark would take off."""
_DATELESS = r"^[\s\p{Cntrl}]*(T|[0-9]{1,2}:)"
"""A time that has no date."""
_PERHAPS_IN_JSON = r'"\s*(T?[0-9]{0,2}\\|T[0-9]|[0-9]{1,2}:)|:\s*-?[0-9]{13}'
_TOO_LARGE = r"^-?[0-9]{13}"
"""Seconds that as microseconds may not fit 64 bits: Spark lets them wrap round."""
_LEAST_US, _MOST_US = -62_135_596_800_000_000, 253_402_300_799_999_999
"""The years 1 to 9999."""


def with_json(frame: DataFrame, text: Column, schema: Schema) -> tuple[DataFrame, Column]:
    """The rows with ``PARSED``, a structure of the object that each text is; and whether a row is malformed."""
    columns = f"value array<struct<{ddl(schema)}>>, end int, `{CORRUPT}` string"
    found = frame.withColumn(_WHOLE, sf.from_json(_listed(text), columns, _READING))
    found = found.withColumn(PARSED, sf.get(sf.col(f"{_WHOLE}.value"), sf.lit(0)))
    several = sf.coalesce(sf.size(sf.col(f"{_WHOLE}.value")), sf.lit(0)) != 1
    lost = sf.col(f"{_WHOLE}.end").isNull() | sf.col(PARSED).isNull()
    bad = sf.col(f"{_WHOLE}.{CORRUPT}").isNotNull() | several | lost | ~is_text(text)
    times = _times(schema)
    if not len(times):
        return found, bad
    texts = sf.from_json(_listed(text), f"value array<struct<{ddl(texts_of(times))}>>", _READING)
    again = [sf.get(texts["value"], sf.lit(0))[one.name] for one in times]
    doubtful = _any([one.rlike(_DATELESS) | one.rlike(_TOO_LARGE) for one in again])
    return found, bad | _any([_is_far(_parsed(one)) for one in times]) | sf.when(
        text.rlike(_PERHAPS_IN_JSON), doubtful
    ).otherwise(sf.lit(False))


def has_no_date(text: Column) -> Column:
    """Whether a text that is read as a time has none of its own day."""
    return sf.coalesce(text.rlike(_DATELESS), sf.lit(False))


def _times(schema: Schema) -> Schema:
    return Schema(tuple(one for one in schema if one.type == TIMESTAMP))


def texts_of(schema: Schema) -> Schema:
    """The columns with times as they are written."""
    return Schema(tuple(Declared(one.name, STRING) if one.type == TIMESTAMP else one for one in schema))


def _any(conditions: list[Column]) -> Column:
    found = sf.lit(False)
    for one in conditions:
        found |= sf.coalesce(one, sf.lit(False))
    return found


def _listed(text: Column) -> Column:
    return sf.concat(sf.lit('{"value":['), text, sf.lit('],"end":0}'))


def with_csv(frame: DataFrame, text: Column, schema: Schema, delimiter: str, escape: str) -> tuple[DataFrame, Column]:
    """The rows with ``PARSED``, a structure of the columns that each line has; and whether a row is malformed."""
    options: Mapping[str, str] = {**_READING, "sep": delimiter, "escape": escape}
    columns = ", ".join([*([ddl(schema)] if len(schema) else []), f"`{CORRUPT}` string"])
    found = frame.withColumn(PARSED, sf.from_csv(text, columns, options))
    bad = sf.col(PARSED).isNull() | sf.col(f"{PARSED}.{CORRUPT}").isNotNull() | ~is_text(text)
    if len(schema) > 1:
        bad |= text == ""
    texts = sf.from_csv(text, ddl(texts_of(schema)) or "none string", options)
    dateless = _any([has_no_date(texts[one.name]) for one in _times(schema)])
    perhaps = rf'(^|{re.escape(delimiter)})[\s"\p{{Cntrl}}]*(T[0-9]|[0-9]{{1,2}}:)'
    bad |= _any([_is_far(_parsed(one)) for one in _times(schema)])
    return found, bad | sf.when(text.rlike(perhaps), dateless).otherwise(sf.lit(False))


def read_times(frame: DataFrame, schema: Schema) -> DataFrame:
    """The rows of a file of CSV that was read with its times as texts (:func:`texts_of`), those that have no date or
    are none in ``CORRUPT`` too."""
    bad, line = sf.lit(False), sf.to_csv(sf.struct(*(sf.col(quoted(one.name)) for one in schema)), KEPT_BLANKS)
    found = frame
    for number, one in enumerate(_times(schema)):
        cell, name = sf.col(quoted(one.name)), f"__time_{number}"
        found = found.withColumn(name, sf.from_csv(cell, "v timestamp", {"timeZone": "UTC"})["v"])
        found = found.withColumn(name, sf.when(~_is_far(sf.col(name)), sf.col(name)))
        bad |= has_no_date(cell) | (cell.isNotNull() & sf.col(name).isNull())
    numbers = {one.name: number for number, one in enumerate(_times(schema))}
    columns = [
        sf.col(f"__time_{numbers[name]}").alias(name) if name in numbers else sf.col(quoted(name))
        for name in frame.columns
        if name != CORRUPT
    ]
    return found.select(*columns, sf.coalesce(sf.col(CORRUPT), sf.when(bad, line)).alias(CORRUPT))


def is_text(text: Column) -> Column:
    """Whether a text is UTF-8."""
    return sf.is_valid_utf8(text)


def shown(text: Column) -> Column:
    """A text as it can be shown."""
    return sf.make_valid_utf8(text)


def field_of(column: Declared) -> Column:
    """A column of ``PARSED``. What cannot be a time is none, so that dead letters can show it."""
    found = _parsed(column)
    return sf.when(~_is_far(found), found) if column.type == TIMESTAMP else found


def _parsed(column: Declared) -> Column:
    return sf.col(f"{PARSED}.{quoted(column.name)}")


def _is_far(time: Column) -> Column:
    return ~sf.unix_micros(time).between(_LEAST_US, _MOST_US)


def quoted(name: str) -> str:
    return f"`{name.replace('`', '``')}`"
