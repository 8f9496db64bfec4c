"""Functions by the names SQL gives them.

Owns the other names of functions in ``plan.functions`` (NVL, POW, MOD ...) and the few that are written with other
ones: IF and IFF are CASE, CONCAT is ``||``, LEFT is SUBSTRING. As in Spark, CONCAT gives NULL if any argument is
NULL.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeAlias

from sqlglot import exp

from headrace.errors import SqlError
from headrace.model import BIGINT, NULL, STRING, TypeKind
from headrace.plan.expressions import Expression, Literal
from headrace.plan.functions import FUNCTIONS
from headrace.sql.grammar import Node, unwrap
from headrace.sql.reader import Word
from headrace.sql.text import Span, SqlText, nearest

SHOWN = {"concat_op": "||", "neg": "-", "is_null": "IS NULL"}
"""What a function is called in messages, where that is not its name in capitals."""

DATE_UNITS = (
    "microsecond", "millisecond", "second", "minute", "hour", "day", "week", "month", "quarter", "year",
)  # fmt: skip
"""What DATE_TRUNC cuts to."""

_ONLY_WRITTEN = frozenset(("in", "and", "or", "not", "is_null", "like", "ilike", "neg", "case", "concat_op"))
"""Functions with a syntax of their own, which cannot be called by name."""
_INSTEAD = {
    "log": "LN(x)", "log10": "LN(x) / LN(10)", "log2": "LN(x) / LN(2)", "now": "a constant TIMESTAMP '...'",
    "to_timestamp": "CAST(x AS TIMESTAMP)", "to_date": "CAST(x AS DATE)", "right": "SUBSTRING(s, start)",
    "position": "CONTAINS(s, part)", "instr": "CONTAINS(s, part)", "char": "a constant text", "date": "CAST(x AS DATE)",
    "timestamp": "CAST(x AS TIMESTAMP)", "truncate": "FLOOR(x)", "trunc": "FLOOR(x)", "nvl2": "IF(x IS NULL, z, y)",
    "isnotnull": "x IS NOT NULL", "rlike": "LIKE", "regexp_like": "LIKE",
}  # fmt: skip


class Lowers(Protocol):
    """What a special function needs of ``lowering.Lowering``."""

    source: SqlText

    def span(self, node: Node) -> Span: ...
    def lower(self, node: Node) -> Expression: ...
    def call(self, name: str, node: Node, args: Sequence[Node]) -> Expression: ...
    def made(self, name: str, node: Node, args: Sequence[Expression]) -> Expression: ...
    def condition(self, node: Node, clause: str) -> Expression: ...
    def chosen(self, node: Node, conditions: Sequence[Expression], values: Sequence[Node]) -> Expression: ...


SpecialCall: TypeAlias = Callable[[Lowers, Node, Sequence[Node]], Expression]


def _renamed(name: str) -> SpecialCall:
    return lambda lowering, node, args: lowering.call(name, node, args)


def _count_error(lowering: Lowers, node: Node, takes: str) -> SqlError:
    name = node.name.upper()
    message = f"{name} takes {takes}, not {len(node.expressions)} arguments"
    return lowering.source.error(message, lowering.span(node), f"write {name}(...) with {takes}")


def _if(lowering: Lowers, node: Node, args: Sequence[Node]) -> Expression:
    if len(args) not in (2, 3):
        raise _count_error(lowering, node, "a condition, a value and another value")
    return lowering.chosen(node, [lowering.condition(args[0], node.name.upper())], [*args[1:], None][:2])


def _concat(lowering: Lowers, node: Node, args: Sequence[Node]) -> Expression:
    if not args:
        raise _count_error(lowering, node, "one or more strings")
    texts = [lowering.lower(arg) for arg in args]
    for text, arg in zip(texts, args, strict=True):
        if text.type not in (STRING, NULL):
            written = lowering.source.slice(lowering.span(arg))
            message = f"CONCAT takes strings, but this is {text.type}"
            raise lowering.source.error(message, lowering.span(arg), f"write CAST({written} AS STRING)")
    result = texts[0]
    for text in texts[1:]:
        result = lowering.made("concat_op", node, (result, text))
    return result


def _left(lowering: Lowers, node: Node, args: Sequence[Node]) -> Expression:
    if len(args) != 2:
        raise _count_error(lowering, node, "a string and a length")
    text, length = (lowering.lower(arg) for arg in args)
    return lowering.made("substring", node, (text, Literal(1, BIGINT), length))


def _date_trunc(lowering: Lowers, node: Node, args: Sequence[Node]) -> Expression:
    if len(args) != 2:
        raise _count_error(lowering, node, "a unit as a string and a time")
    unit = unwrap(args[0])
    word = unit.this.lower() if isinstance(unit, exp.Literal) and unit.is_string else ""
    if word not in DATE_UNITS:
        hint = f"write one of {', '.join(repr(one) for one in DATE_UNITS)}"
        raise lowering.source.error("DATE_TRUNC takes a unit as a constant text", lowering.span(args[0]), hint)
    return lowering.made("date_trunc", node, (Literal(word, STRING), lowering.lower(args[1])))


CALLS: dict[str, SpecialCall] = {
    "if": _if,
    "iff": _if,
    "concat": _concat,
    "left": _left,
    "date_trunc": _date_trunc,
    "mod": _renamed("%"),
    "isnull": _renamed("is_null"),
    **dict.fromkeys(("nvl", "ifnull"), _renamed("coalesce")),
    "ceiling": _renamed("ceil"),
    "pow": _renamed("power"),
    "signum": _renamed("sign"),
    "substr": _renamed("substring"),
    **dict.fromkeys(("len", "char_length", "character_length"), _renamed("length")),
    "ucase": _renamed("upper"),
    "lcase": _renamed("lower"),
    "startswith": _renamed("starts_with"),
    **dict.fromkeys(("dayofmonth", "day_of_month"), _renamed("day")),
}
"""Functions that are another one under this name, or made of others."""

CALLABLE = tuple(sorted({name for name in FUNCTIONS if name.isidentifier() and name not in _ONLY_WRITTEN} | set(CALLS)))
"""Every function that can be called by name."""


def check_function(source: SqlText, name: Word) -> None:
    """Refuse a function that does not exist, naming the nearest."""
    lower = name.text.lower()
    if lower in CALLABLE:
        return
    near = nearest(lower, CALLABLE)
    hint = f"did you mean {near.upper()}?" if near is not None else "docs/sql.md lists the functions"
    if lower in _INSTEAD:
        hint = f"write {_INSTEAD[lower]}"
    raise source.error(f"there is no function {name.text.upper()}", name.span, hint)


def function_hint(name: str, args: Sequence[Expression]) -> str:
    """What to write when a function does not take these types."""
    function = FUNCTIONS[name]
    kinds = {arg.type.kind for arg in args}
    if not function.least <= len(args) <= (function.most or len(args)):
        return f"give it {function.takes}"
    if TypeKind.INTERVAL in kinds or (kinds & {TypeKind.TIMESTAMP, TypeKind.DATE} and name in ("+", "-")):
        return "times are compared with times, and moved with INTERVAL '5' SECOND"
    if name in ("like", "ilike", "concat_op") or function.takes.endswith(("string", "strings")):
        return "write CAST(x AS STRING) to make a text of it"
    if TypeKind.STRING in kinds and len(kinds) > 1:
        return "write numbers without quotes, or CAST(x AS DOUBLE) to make a number of a text"
    return "write CAST(x AS TYPE) to convert a value"
