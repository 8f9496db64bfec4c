"""Schemas as Spark's DDL: the type names are the same, only names need quoting."""

from __future__ import annotations

from headrace.model import Schema


def ddl(schema: Schema) -> str:
    """The columns as Spark's DDL."""
    return ", ".join(f"`{column.name.replace('`', '``')}` {column.type}" for column in schema)
