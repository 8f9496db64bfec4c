"""Conditions as they are planned: split and said without NOT where the same rows meet them.

      NOT (a.x < b.x OR a.y <> b.y)      a.x >= b.x   and   a.y = b.y        one a range, one an attribute class

Owns ``simplified``. A row meets a condition or does not: what is NULL counts as false, so ``IS TRUE`` at the top says
nothing. NaN is above all numbers and equal to itself, so of two values one comparison or its opposite holds unless one
is NULL, and then neither does. Cost: a pass over the top of a condition.
"""

from __future__ import annotations

from headrace.model import BOOLEAN
from headrace.plan.expressions import Call, Expression, Literal

_OPPOSITE = {"<": ">=", ">=": "<", ">": "<=", "<=": ">", "=": "<>", "<>": "="}
_FALSE = Literal(False, BOOLEAN)


def simplified(condition: Expression) -> tuple[Expression, ...]:
    """Conditions that together hold for the same rows."""
    if isinstance(condition, Call):
        if condition.function == "and":
            return tuple(part for arg in condition.args for part in simplified(arg))
        if condition.function == "not":
            return _denied(condition.args[0])
        if condition.function == "in" and len(condition.args) == 2:
            return (Call("=", condition.args, BOOLEAN),)
        if condition.function == "coalesce" and condition.args[1:] == (_FALSE,):
            return simplified(condition.args[0])
    return (condition,)


def _denied(condition: Expression) -> tuple[Expression, ...]:
    """The same of what must be false, and not NULL."""
    if isinstance(condition, Call):
        if condition.function == "not":
            return simplified(condition.args[0])
        if condition.function == "or":
            return tuple(part for arg in condition.args for part in _denied(arg))
        if condition.function in _OPPOSITE:
            return (Call(_OPPOSITE[condition.function], condition.args, BOOLEAN),)
    return (Call("not", (condition,), BOOLEAN),)
