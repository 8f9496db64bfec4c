"""Well-formed SQL that Headrace does not run, found in the tokens before anything is parsed.

Owns the list of such clauses, with what to write instead. The first one in the text is reported, as
:class:`UnsupportedError`. What only the tree shows (odd operators, functions) is refused in ``lowering.py``.
"""

from __future__ import annotations

from collections.abc import Callable

from sqlglot.tokens import TokenType

from headrace.sql.lexer import Token, is_quoted, span_of
from headrace.sql.text import SqlText

_WITH_GROUPS = "write an aggregate with GROUP BY and WINDOW 1 MINUTE, say"
_SPREAD = "SQRT(AVG(x * x) - AVG(x) * AVG(x))"
_INSTEAD = {
    "MEAN": "AVG(x)",
    "COUNT_IF": "COUNT(*) FILTER (WHERE condition)",
    **dict.fromkeys(("APPROX_COUNT_DISTINCT", "APPROX_DISTINCT"), "COUNT(DISTINCT x)"),
    **dict.fromkeys(("BOOL_AND", "EVERY"), "MIN(x)"),
    "BOOL_OR": "MAX(x)",
    **dict.fromkeys(("FIRST", "LAST", "ANY_VALUE"), "MIN(x) or MAX(x)"),
    **dict.fromkeys(("STDDEV", "STDDEV_POP", "STDDEV_SAMP"), _SPREAD),
    **dict.fromkeys(("VARIANCE", "VAR_POP", "VAR_SAMP"), _SPREAD.removeprefix("SQRT(").removesuffix(")")),
}
_OTHER_AGGREGATES = frozenset((
    *_INSTEAD, "MEDIAN", "MODE", "ARRAY_AGG", "STRING_AGG", "LISTAGG", "COLLECT_LIST", "COLLECT_SET", "CORR",
    "COVAR_POP", "COVAR_SAMP", "PERCENTILE", "PERCENTILE_CONT", "QUANTILE", "MAX_BY", "MIN_BY", "GROUPING",
))  # fmt: skip

_Found = tuple[str, str]
"""Message and hint."""


def refuse_clauses(source: SqlText, tokens: list[Token]) -> None:
    """Raise UnsupportedError at the first clause that is not run."""
    for index, token in enumerate(tokens):
        if index and tokens[index - 1].token_type == TokenType.DOT:
            continue
        found = _refusal(tokens, index)
        if found is not None:
            raise source.unsupported(found[0], span_of(token), found[1])


def _refusal(tokens: list[Token], index: int) -> _Found | None:
    token = tokens[index]
    if is_quoted(token):
        return None
    word = token.text.upper()
    if word in _OTHER_AGGREGATES and _word(tokens, index + 1) == "(":
        hint = f"write {_INSTEAD[word]}" if word in _INSTEAD else "there are COUNT, SUM, AVG, MIN and MAX"
        return f"the aggregate {word} is not supported", hint
    if word in _ALWAYS:
        return _ALWAYS[word]
    rule = _BY_NEIGHBOURS.get(word)
    return rule(_word(tokens, index - 1), _word(tokens, index + 1)) if rule is not None else None


def _word(tokens: list[Token], index: int) -> str:
    """A neighbour's text in upper case; empty outside, ``'`` for quoted text."""
    if not 0 <= index < len(tokens):
        return ""
    if is_quoted(tokens[index]):
        return "'"
    return str(tokens[index].text).upper()


_ALWAYS: dict[str, _Found] = {
    "ORDER BY": (
        "ORDER BY is not supported",
        "leave it out: results come ordered by the time of their newest tuple",
    ),
    "SORT BY": ("SORT BY is not supported", "leave it out: results come ordered by the time of their newest tuple"),
    "QUALIFY": ("QUALIFY is not supported", "write the condition in WHERE"),
}

_OUTER = ("JOIN", "OUTER", "SEMI", "ANTI")


def _number(word: str) -> bool:
    return word[:1].isdigit()


def _limit(_before: str, after: str) -> _Found | None:
    if not _number(after):
        return None
    return "LIMIT and OFFSET are not supported", "leave it out: a stream's answer has no end to count to"


def _distinct(before: str, _after: str) -> _Found | None:
    if before != "SELECT":
        return None
    return (
        "SELECT DISTINCT is not supported",
        "group by the columns over a window: each is given when it appears, and when it is gone",
    )


def _set_operation(before: str, after: str) -> _Found | None:
    if before == "*":
        return "* without some columns is not supported", "write the columns one by one"
    if after not in ("SELECT", "ALL", "DISTINCT", "("):
        return None
    return "UNION, INTERSECT and EXCEPT are not supported", "write one CREATE QUERY for each SELECT"


def _outer_join(_before: str, after: str) -> _Found | None:
    if after not in _OUTER:
        return None
    return "outer, semi and anti joins are not supported", "write JOIN: only matching tuples give results"


def _natural(_before: str, after: str) -> _Found | None:
    if after not in ("JOIN", "INNER", "LEFT", "RIGHT", "FULL"):
        return None
    return "NATURAL JOIN is not supported", "write JOIN ... ON a.column = b.column"


def _using(_before: str, after: str) -> _Found | None:
    return ("USING is not supported", "write ON a.column = b.column") if after == "(" else None


def _group_by(_before: str, after: str) -> _Found | None:
    if after not in ("ALL", "DISTINCT", "ROLLUP", "CUBE", "GROUPING SETS"):
        return None
    return f"GROUP BY {after} is not supported", "write the columns, and one query for each grouping"


def _over(_before: str, after: str) -> _Found | None:
    return ("window functions are not supported", _WITH_GROUPS) if after == "(" else None


def _subquery(before: str, _after: str) -> _Found | None:
    if before != "(":
        return None
    return "subqueries are not supported", "write the inner query's conditions in this one"


def _freshness(_before: str, after: str) -> _Found | None:
    if not _number(after):
        return None
    return "FRESHNESS stands behind a stream, in FROM", "write FROM temperature a FRESHNESS 90 SECONDS, ..."


_BY_NEIGHBOURS: dict[str, Callable[[str, str], _Found | None]] = {
    "LIMIT": _limit,
    "OFFSET": _limit,
    "FETCH": lambda _before, after: _limit("", "1") if after in ("FIRST", "NEXT") else None,
    "DISTINCT": _distinct,
    "UNION": _set_operation,
    "INTERSECT": _set_operation,
    "EXCEPT": _set_operation,
    **dict.fromkeys(("LEFT", "RIGHT", "FULL"), _outer_join),
    **dict.fromkeys(("SEMI", "ANTI"), lambda _before, after: _outer_join("", after)),
    "NATURAL": _natural,
    "USING": _using,
    "GROUP BY": _group_by,
    "OVER": _over,
    "SELECT": _subquery,
    "WITH": _subquery,
    "FRESHNESS": _freshness,
}
