"""Typed expressions: what a query computes from one tuple of each of its streams.

Three nodes suffice: a column, a literal, and a call. AND, LIKE, CASE and CAST are calls like any other; the table in
``functions.py`` says what each takes and gives. An expression prints as SQL that DuckDB reads too, which is what
EXPLAIN shows and what the oracle runs.

Invariants: every node has its final type; implicit conversions are explicit CASTs, put there by ``functions.call``.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import TypeAlias

from headrace.model import DataType, TypeKind

Value: TypeAlias = bool | int | float | str | Decimal | dt.datetime | dt.date | None
"""What a literal holds. TIMESTAMP: an aware UTC datetime; INTERVAL: microseconds as int; DATE: a date."""


@dataclass(frozen=True, slots=True)
class ColumnRef:
    """A column of the ``source``-th stream in FROM."""

    source: int
    name: str
    type: DataType


@dataclass(frozen=True, slots=True)
class Literal:
    """A constant."""

    value: Value
    type: DataType


@dataclass(frozen=True, slots=True)
class Call:
    """A function of expressions; ``function`` is a name in ``functions.FUNCTIONS``."""

    function: str
    args: tuple[Expression, ...]
    type: DataType


Expression: TypeAlias = ColumnRef | Literal | Call


def walk(expression: Expression) -> Iterator[Expression]:
    """The expression and everything below it, parents first."""
    yield expression
    if isinstance(expression, Call):
        for arg in expression.args:
            yield from walk(arg)


def columns_of(expression: Expression) -> frozenset[ColumnRef]:
    return frozenset(node for node in walk(expression) if isinstance(node, ColumnRef))


def sources_of(expression: Expression) -> frozenset[int]:
    """Which streams in FROM the expression reads."""
    return frozenset(column.source for column in columns_of(expression))


def rewrite(expression: Expression, change: Callable[[ColumnRef], Expression]) -> Expression:
    """The same expression with every column replaced by ``change(column)``."""
    if isinstance(expression, ColumnRef):
        return change(expression)
    if isinstance(expression, Call):
        return Call(expression.function, tuple(rewrite(arg, change) for arg in expression.args), expression.type)
    return expression


def conjuncts(expression: Expression) -> tuple[Expression, ...]:
    """The parts that AND joins at the top."""
    if isinstance(expression, Call) and expression.function == "and":
        return tuple(part for arg in expression.args for part in conjuncts(arg))
    return (expression,)


_INFIX = {
    "and": "AND", "or": "OR", "=": "=", "<>": "<>", "<": "<", "<=": "<=", ">": ">", ">=": ">=",
    "+": "+", "-": "-", "*": "*", "concat_op": "||",
}  # fmt: skip


def render(expression: Expression, column: Callable[[ColumnRef], str]) -> str:
    """The expression as SQL text, with columns named by ``column``; fully bracketed, so the text is stable."""
    if isinstance(expression, ColumnRef):
        return column(expression)
    if isinstance(expression, Literal):
        return render_literal(expression)
    args = [render(arg, column) for arg in expression.args]
    name = expression.function
    if name in _INFIX:
        return "(" + f" {_INFIX[name]} ".join(args) + ")"
    if name in ("/", "%"):
        return f"({args[0]} {name} NULLIF({args[1]}, 0))"
    if name == "not":
        return f"(NOT {args[0]})"
    if name == "neg":
        return f"(- {args[0]})"
    if name == "is_null":
        return f"({args[0]} IS NULL)"
    if name in ("like", "ilike"):
        return f"({args[0]} {name.upper()} {args[1]})"
    if name == "in":
        return f"({args[0]} IN ({', '.join(args[1:])}))"
    if name == "cast":
        return f"TRY_CAST({args[0]} AS {expression.type})"
    if name == "case":
        whens = " ".join(f"WHEN {args[i]} THEN {args[i + 1]}" for i in range(0, len(args) - 1, 2))
        return f"CASE {whens} ELSE {args[-1]} END"
    return f"{name.upper()}({', '.join(args)})"


def render_literal(literal: Literal) -> str:
    value, kind = literal.value, literal.type.kind
    if value is None:
        return "NULL"
    if kind is TypeKind.STRING:
        return "'" + str(value).replace("'", "''") + "'"
    if kind is TypeKind.TIMESTAMP:
        assert isinstance(value, dt.datetime)
        return f"TIMESTAMP '{value.astimezone(dt.UTC).replace(tzinfo=None).isoformat(' ', 'microseconds')}'"
    if kind is TypeKind.DATE:
        return f"DATE '{value}'"
    if kind is TypeKind.INTERVAL:
        return f"INTERVAL '{value} microseconds'"
    if kind is TypeKind.DOUBLE:
        assert isinstance(value, float)
        text = repr(value)
        return text if "e" in text else f"{text}e0" if math.isfinite(value) else f"CAST('{text}' AS DOUBLE)"
    if kind is TypeKind.BOOLEAN:
        return "TRUE" if value else "FALSE"
    return str(value)


def expression_text(expression: Expression, names: Sequence[str] = ()) -> str:
    """An expression as EXPLAIN shows it; with names for the sides when there are several."""
    return render(expression, lambda ref: f"{names[ref.source]}.{ref.name}" if names else ref.name)


def conditions_text(conditions: Iterable[Expression], names: Sequence[str] = ()) -> str:
    return " AND ".join(expression_text(one, names) for one in conditions) or "nothing filtered"
