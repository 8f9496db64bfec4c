"""Headrace's data types as Arrow's, and back.

Owns the one mapping between the two. Invariant: every type but NULL survives the round trip, save that an INTERVAL
(only ever inside an expression) is plain microseconds and so comes back as BIGINT.
"""

from __future__ import annotations

import pyarrow as pa

from headrace.errors import PlanError
from headrace.model import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    INT,
    NULL,
    STRING,
    TIMESTAMP,
    DataType,
    Schema,
    TypeKind,
    decimal,
)

_ARROW_TYPES: dict[TypeKind, pa.DataType] = {
    TypeKind.BOOLEAN: pa.bool_(),
    TypeKind.INT: pa.int32(),
    TypeKind.BIGINT: pa.int64(),
    TypeKind.DOUBLE: pa.float64(),
    TypeKind.STRING: pa.string(),
    TypeKind.TIMESTAMP: pa.timestamp("us", "UTC"),
    TypeKind.DATE: pa.date32(),
    TypeKind.INTERVAL: pa.int64(),
    TypeKind.NULL: pa.null(),
}

_DATA_TYPES: dict[pa.DataType, DataType] = {
    pa.bool_(): BOOLEAN,
    pa.int32(): INT,
    pa.int64(): BIGINT,
    pa.float64(): DOUBLE,
    pa.string(): STRING,
    pa.timestamp("us", "UTC"): TIMESTAMP,
    pa.date32(): DATE,
    pa.null(): NULL,
}


def arrow_type(data_type: DataType) -> pa.DataType:
    """The Arrow type that values of this type are held in.

    >>> str(arrow_type(decimal(10, 2)))
    'decimal128(10, 2)'
    """
    if data_type.kind is TypeKind.DECIMAL:
        return pa.decimal128(data_type.precision, data_type.scale)
    return _ARROW_TYPES[data_type.kind]


def data_type(arrow: pa.DataType) -> DataType:
    """The type whose values Arrow holds so; PlanError when there is none."""
    if pa.types.is_decimal128(arrow):
        return decimal(arrow.precision, arrow.scale)
    found = _DATA_TYPES.get(arrow)
    if found is None:
        raise PlanError(f"Arrow's {arrow} is not a type of Headrace")
    return found


def arrow_schema(schema: Schema) -> pa.Schema:
    """The schema with every column nullable, in order."""
    return pa.schema([(column.name, arrow_type(column.type)) for column in schema])
