"""The functions SQL may call: what each takes, what it gives, and which conversions are made on the way.

``call(name, *args)`` is the one way to build a :class:`Call`: it checks the arguments, inserts the CASTs that SQL makes
silently, and raises :class:`PlanError` saying what was expected. Evaluators (Arrow in the engine, plain Python in the
reference) implement exactly the names in ``FUNCTIONS``.

What an operation gives where SQL engines disagree, so that no row can stop a stream:
  x / y        always DOUBLE; NULL when y is 0          x % y       NULL when y is 0; the sign of x
  integers     + - * give BIGINT and wrap round         CAST        NULL when the value cannot be converted
  NaN          equals itself and is above all numbers   SQRT, LN    NULL outside their domain
  ROUND, CAST  halves go away from zero                 POWER       infinity or NaN outside its domain, as in C
  times        NULL outside the years 1 to 9999         DATE_TRUNC  weeks start on Monday; NULL for an unknown unit
  GREATEST     skips NULLs, and so does LEAST           LIKE        no escape; % and _ match line breaks too
  strings      are code points in code point order      UPPER       one letter for one letter, and so does LOWER
  REPLACE      of the empty string changes nothing      TRIM        takes away spaces and nothing else
  SUBSTRING    counts from 1, or from the end when the start is negative; what lies outside the string is empty:
               ('hello', 0, 3) is 'he', ('hello', -7, 3) is 'h', and a length below 1 gives ''

CAST reads strings so, spaces around them aside, and gives NULL for all others:
  BOOLEAN      true t yes y 1, false f no n 0, in any case
  INT, BIGINT  digits with or without a sign; no point, no exponent
  DECIMAL      digits with or without a sign and a point; what has too many places is rounded
  DOUBLE       the same with or without an exponent; inf, infinity, nan
  DATE         2026-02-01
  TIMESTAMP    2026-02-01; T or a space and 10:00, 10:00:00 or 10:00:00.5 may follow, and Z or +01:00; it is UTC without
and writes them as true, 12, 1.50 (all places of a DECIMAL), 0.1 (the shortest text of a DOUBLE), 2026-02-01 and
2026-02-01 10:00:00.5.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from headrace.errors import PlanError
from headrace.model import (
    BIGINT,
    BOOLEAN,
    DATE,
    DECIMAL_DIGITS,
    DOUBLE,
    INT,
    INTERVAL,
    NULL,
    STRING,
    TIMESTAMP,
    DataType,
    TypeKind,
    decimal,
)
from headrace.plan.expressions import Call, Expression, Literal

Types = tuple[DataType, ...]
Resolved = tuple[Types, DataType]
"""What the arguments are converted to, and what the call gives."""


@dataclass(frozen=True, slots=True)
class Function:
    """A function's name, how many arguments it takes (``most`` None: any number), and its typing rule."""

    name: str
    least: int
    most: int | None
    resolve: Callable[[Types], Resolved]
    takes: str


def call(name: str, *args: Expression) -> Call:
    """A call with its arguments checked and converted.

    >>> call("=", Literal(1, INT), Literal(2, BIGINT)).args[0].type.kind.name
    'BIGINT'
    """
    function = FUNCTIONS.get(name)
    if function is None:
        raise PlanError(f"there is no function {name.upper()}")
    if len(args) < function.least or (function.most is not None and len(args) > function.most):
        raise PlanError(f"{name.upper()} takes {function.takes}, not {len(args)} arguments")
    types = tuple(arg.type for arg in args)
    try:
        wanted, result = function.resolve(types)
    except _MismatchError:
        shown = ", ".join(str(one) for one in types)
        raise PlanError(f"{name.upper()} takes {function.takes}, not {shown}") from None
    return Call(name, tuple(convert(arg, to) for arg, to in zip(args, wanted, strict=True)), result)


def cast(arg: Expression, to: DataType) -> Expression:
    """An explicit CAST; a conversion that no value could survive is refused."""
    if arg.type == to:
        return arg
    if not _castable(arg.type, to):
        raise PlanError(f"{arg.type} cannot be cast to {to}")
    return Call("cast", (arg,), to)


def convert(arg: Expression, to: DataType) -> Expression:
    """An implicit conversion: literals become literals of the new type, the rest a CAST."""
    if arg.type == to:
        return arg
    if isinstance(arg, Literal):
        value = arg.value
        if value is None:
            return Literal(None, to)
        if to.kind is TypeKind.DOUBLE and arg.type.is_numeric:
            return Literal(float(value), to)  # type: ignore[arg-type]
        if to == BIGINT and arg.type == INT:
            return Literal(value, to)
    return Call("cast", (arg,), to)


def widest(types: Types) -> DataType:
    """The one type that values of all these types are compared or combined in."""
    known = [one for one in types if one.kind is not TypeKind.NULL]
    if not known:
        return NULL
    result = known[0]
    for one in known[1:]:
        result = _wider(result, one)
    return result


class _MismatchError(Exception):
    """Argument types that a function does not take; ``call`` turns it into a PlanError."""


def _wider(left: DataType, right: DataType) -> DataType:
    if left == right:
        return left
    if left.is_numeric and right.is_numeric:
        if DOUBLE in (left, right):
            return DOUBLE
        if left.is_integer and right.is_integer:
            return BIGINT
        one, other = _as_decimal(left), _as_decimal(right)
        scale = max(one.scale, other.scale)
        digits = max(one.precision - one.scale, other.precision - other.scale) + scale
        return decimal(digits, scale) if digits <= DECIMAL_DIGITS else DOUBLE
    if {left.kind, right.kind} == {TypeKind.DATE, TypeKind.TIMESTAMP}:
        return TIMESTAMP
    raise _MismatchError


def _as_decimal(one: DataType) -> DataType:
    return {TypeKind.INT: decimal(10, 0), TypeKind.BIGINT: decimal(19, 0)}.get(one.kind, one)


def _castable(source: DataType, to: DataType) -> bool:
    kinds = (source.kind, to.kind)
    if source.kind is TypeKind.NULL or TypeKind.STRING in kinds:
        return to.kind not in (TypeKind.NULL, TypeKind.INTERVAL) and source.kind is not TypeKind.INTERVAL
    if source.is_numeric and to.is_numeric:
        return True
    if source.kind is TypeKind.BOOLEAN or to.kind is TypeKind.BOOLEAN:
        return (source.is_integer or to.is_integer) and TypeKind.DECIMAL not in kinds
    return set(kinds) == {TypeKind.DATE, TypeKind.TIMESTAMP}


def _all(kind: DataType, result: DataType) -> Callable[[Types], Resolved]:
    """Every argument is of one type."""

    def resolve(types: Types) -> Resolved:
        if any(one not in (kind, NULL) for one in types):
            raise _MismatchError
        return (kind,) * len(types), result

    return resolve


def _compared(types: Types) -> Resolved:
    common = widest(types)
    return (common,) * len(types), BOOLEAN


def _ordered(types: Types) -> Resolved:
    common = widest(types)
    if common.kind is TypeKind.INTERVAL:
        raise _MismatchError
    return (common,) * len(types), common


def _sum(types: Types) -> Resolved:
    left, right = types
    kinds = {left.kind, right.kind}
    if kinds == {TypeKind.TIMESTAMP, TypeKind.INTERVAL}:
        return types, TIMESTAMP
    if kinds == {TypeKind.INTERVAL}:
        return types, INTERVAL
    return _arithmetic(
        types, lambda a, b: (max(a.precision - a.scale, b.precision - b.scale) + 1, max(a.scale, b.scale))
    )


def _difference(types: Types) -> Resolved:
    left, right = types
    if left == TIMESTAMP and right == TIMESTAMP:
        return types, INTERVAL
    if left == INTERVAL and right == TIMESTAMP:
        raise _MismatchError
    return _sum(types)


def _product(types: Types) -> Resolved:
    return _arithmetic(
        types, lambda a, b: (a.precision - a.scale + b.precision - b.scale + 1, a.scale + b.scale), same_scale=False
    )


def _arithmetic(
    types: Types, digits: Callable[[DataType, DataType], tuple[int, int]], *, same_scale: bool = True
) -> Resolved:
    """Integers give BIGINT, DOUBLE wins, DECIMAL grows; too many digits become DOUBLE."""
    if not all(one.is_numeric or one == NULL for one in types):
        raise _MismatchError
    common = widest(types)
    if common == NULL or common.is_integer:
        return (BIGINT, BIGINT), BIGINT
    if common.kind is TypeKind.DECIMAL:
        left, right = (_as_decimal(common if one == NULL else one) for one in types)
        whole, scale = digits(left, right)
        if whole + scale <= DECIMAL_DIGITS:
            return (common, common) if same_scale else (left, right), decimal(whole + scale, scale)
    return (DOUBLE, DOUBLE), DOUBLE


def _remainder(types: Types) -> Resolved:
    common = widest(types)
    if common.is_integer or common == NULL:
        return (BIGINT, BIGINT), BIGINT
    if not common.is_numeric:
        raise _MismatchError
    return (DOUBLE, DOUBLE), DOUBLE


def _numbers_as_double(types: Types) -> Resolved:
    if not all(one.is_numeric or one == NULL for one in types):
        raise _MismatchError
    return (DOUBLE,) * len(types), DOUBLE


def _same_number(types: Types) -> Resolved:
    """One number in, the same type out; INT becomes BIGINT."""
    (one,) = types
    if not one.is_numeric and one != NULL:
        raise _MismatchError
    kept = BIGINT if one.is_integer or one == NULL else one
    return (kept,), kept


def _to_whole(types: Types) -> Resolved:
    """FLOOR and CEIL: integers stay, the rest gives DOUBLE."""
    (one,) = types
    return _same_number(types) if one.is_integer else _numbers_as_double(types)


def _round(types: Types) -> Resolved:
    if len(types) == 1:
        return _to_whole(types)
    number, places = types
    if not (number.is_numeric or number == NULL) or not places.is_integer:
        raise _MismatchError
    return (DOUBLE, BIGINT), DOUBLE


def _negated(types: Types) -> Resolved:
    return ((INTERVAL,), INTERVAL) if types == (INTERVAL,) else _same_number(types)


def _case(types: Types) -> Resolved:
    """condition, value, condition, value, ..., else."""
    common = widest((*types[1:-1:2], types[-1]))
    if len(types) % 2 == 0 or any(one not in (BOOLEAN, NULL) for one in types[0:-1:2]):
        raise _MismatchError
    return tuple(BOOLEAN if i % 2 == 0 and i < len(types) - 1 else common for i in range(len(types))), common


def _substring(types: Types) -> Resolved:
    if types[0] not in (STRING, NULL) or not all(one.is_integer for one in types[1:]):
        raise _MismatchError
    return (STRING, *(BIGINT for _ in types[1:])), STRING


def _date_part(types: Types) -> Resolved:
    if types not in ((TIMESTAMP,), (DATE,), (NULL,)):
        raise _MismatchError
    return (TIMESTAMP,), BIGINT


def _date_trunc(types: Types) -> Resolved:
    if types[0] != STRING or types[1] not in (TIMESTAMP, DATE):
        raise _MismatchError
    return (STRING, TIMESTAMP), TIMESTAMP


def _nullif(types: Types) -> Resolved:
    common = widest(types)
    return (common, common), common


_TABLE = (
    *(Function(name, 2, 2, _compared, "two values of one type") for name in ("=", "<>", "<", "<=", ">", ">=")),
    Function("in", 2, None, _compared, "a value and a list of values of its type"),
    Function("and", 2, None, _all(BOOLEAN, BOOLEAN), "conditions"),
    Function("or", 2, None, _all(BOOLEAN, BOOLEAN), "conditions"),
    Function("not", 1, 1, _all(BOOLEAN, BOOLEAN), "a condition"),
    Function("is_null", 1, 1, lambda types: (types, BOOLEAN), "one value"),
    Function("like", 2, 2, _all(STRING, BOOLEAN), "two strings"),
    Function("ilike", 2, 2, _all(STRING, BOOLEAN), "two strings"),
    Function("+", 2, 2, _sum, "two numbers, or a time and an interval"),
    Function("-", 2, 2, _difference, "two numbers, two times, or a time and an interval"),
    Function("*", 2, 2, _product, "two numbers"),
    Function("/", 2, 2, _numbers_as_double, "two numbers"),
    Function("%", 2, 2, _remainder, "two numbers"),
    Function("neg", 1, 1, _negated, "a number"),
    Function("case", 3, None, _case, "conditions and values of one type"),
    Function("coalesce", 1, None, _ordered, "values of one type"),
    Function("nullif", 2, 2, _nullif, "two values of one type"),
    Function("greatest", 1, None, _ordered, "values of one type"),
    Function("least", 1, None, _ordered, "values of one type"),
    Function("abs", 1, 1, _same_number, "a number"),
    Function("sign", 1, 1, _numbers_as_double, "a number"),
    Function("floor", 1, 1, _to_whole, "a number"),
    Function("ceil", 1, 1, _to_whole, "a number"),
    Function("round", 1, 2, _round, "a number and how many places"),
    Function("sqrt", 1, 1, _numbers_as_double, "a number"),
    Function("exp", 1, 1, _numbers_as_double, "a number"),
    Function("ln", 1, 1, _numbers_as_double, "a number"),
    Function("power", 2, 2, _numbers_as_double, "two numbers"),
    Function("upper", 1, 1, _all(STRING, STRING), "a string"),
    Function("lower", 1, 1, _all(STRING, STRING), "a string"),
    Function("trim", 1, 1, _all(STRING, STRING), "a string"),
    Function("ltrim", 1, 1, _all(STRING, STRING), "a string"),
    Function("rtrim", 1, 1, _all(STRING, STRING), "a string"),
    Function("reverse", 1, 1, _all(STRING, STRING), "a string"),
    Function("length", 1, 1, _all(STRING, BIGINT), "a string"),
    Function("concat_op", 2, 2, _all(STRING, STRING), "two strings"),
    Function("replace", 3, 3, _all(STRING, STRING), "three strings"),
    Function("starts_with", 2, 2, _all(STRING, BOOLEAN), "two strings"),
    Function("contains", 2, 2, _all(STRING, BOOLEAN), "two strings"),
    Function("substring", 2, 3, _substring, "a string, a start and a length"),
    *(Function(name, 1, 1, _date_part, "a time") for name in ("year", "month", "day", "hour", "minute", "second")),
    Function("date_trunc", 2, 2, _date_trunc, "a unit as a string and a time"),
)

FUNCTIONS: dict[str, Function] = {function.name: function for function in _TABLE}
"""Every function but ``cast``, whose result type is not a matter of its argument."""
