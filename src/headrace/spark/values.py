"""Values: texts as the columns of a stream, JSON objects or lines of CSV.

Owns when a text is malformed: Spark reads the first value of a JSON text and nothing of what follows it, so a text is
put into a list with an end behind it, which must come out as a list of one object, and the end::

    {"k": 1} {"k": 2}   ->   {"value": [{"k": 1} {"k": 2}], "end": 0}   is no JSON

Costs one parse of each text, by Spark's own functions.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from headrace.engine.packing import CORRUPT
from headrace.model import Schema
from headrace.spark.ddl import ddl

PARSED = "__parsed"
_WHOLE = "__whole"
_READING = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": CORRUPT, "timeZone": "UTC"}


def with_json(frame: DataFrame, text: Column, schema: Schema) -> tuple[DataFrame, Column]:
    """The rows with ``PARSED``, a structure of the object that each text is; and whether a row is malformed."""
    columns = f"value array<struct<{ddl(schema)}>>, end int, `{CORRUPT}` string"
    found = frame.withColumn(_WHOLE, sf.from_json(_listed(text), columns, _READING))
    found = found.withColumn(PARSED, sf.get(sf.col(f"{_WHOLE}.value"), sf.lit(0)))
    several = sf.coalesce(sf.size(sf.col(f"{_WHOLE}.value")), sf.lit(0)) != 1
    lost = sf.col(f"{_WHOLE}.end").isNull() | sf.col(PARSED).isNull()
    return found, sf.col(f"{_WHOLE}.{CORRUPT}").isNotNull() | several | lost | ~is_text(text)


def _listed(text: Column) -> Column:
    return sf.concat(sf.lit('{"value":['), text, sf.lit('],"end":0}'))


def with_csv(frame: DataFrame, text: Column, schema: Schema, delimiter: str) -> tuple[DataFrame, Column]:
    """The rows with ``PARSED``, a structure of the columns that each line has; and whether a row is malformed."""
    options: Mapping[str, str] = {**_READING, "sep": delimiter}
    columns = ", ".join([*([ddl(schema)] if len(schema) else []), f"`{CORRUPT}` string"])
    found = frame.withColumn(PARSED, sf.from_csv(text, columns, options))
    bad = sf.col(PARSED).isNull() | sf.col(f"{PARSED}.{CORRUPT}").isNotNull() | ~is_text(text)
    return found, bad | (text == "") if len(schema) > 1 else bad


def is_text(text: Column) -> Column:
    """Whether a text is UTF-8."""
    return sf.is_valid_utf8(text)


def shown(text: Column) -> Column:
    """A text as it can be shown."""
    return sf.make_valid_utf8(text)


def field_of(name: str) -> Column:
    """A column of ``PARSED``."""
    return sf.col(f"{PARSED}.{quoted(name)}")


def quoted(name: str) -> str:
    return f"`{name.replace('`', '``')}`"
