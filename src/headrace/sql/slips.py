"""Slips that sqlglot would let pass: a comma too many, AS without a name, a point before nothing.

Owns what must stand next to such tokens inside a SELECT. One pass over the tokens, after ``refusals.py``.
"""

from __future__ import annotations

from sqlglot.tokens import TokenType

from headrace.sql.lexer import Token, is_quoted, is_word, span_of
from headrace.sql.text import SqlText

_OPENING = (TokenType.L_PAREN, TokenType.SELECT, TokenType.FROM, TokenType.GROUP_BY, TokenType.COMMA)
_CLOSING = (
    TokenType.R_PAREN, TokenType.FROM, TokenType.WHERE, TokenType.GROUP_BY, TokenType.HAVING, TokenType.INTO,
    TokenType.ON, TokenType.COMMA,
)  # fmt: skip
_Slip = tuple[str, str]
"""Message and hint."""


def check_slips(source: SqlText, tokens: list[Token]) -> None:
    """Raise SqlError at the first slip."""
    for index, token in enumerate(tokens):
        before = tokens[index - 1] if index else None
        after = tokens[index + 1] if index + 1 < len(tokens) else None
        slip = _slip(token, before, after)
        if slip is None and _opens_window(tokens[index + 1 : index + 3]):
            slip = _COMMA if token.token_type == TokenType.COMMA else _EMPTY.get(token.token_type)
        if slip is not None:
            raise source.error(slip[0], span_of(token), slip[1])


_COMMA = ("something is missing beside this comma", "leave the comma out")
_ALIAS = ("AS is followed by no name", "write AS and a name, in backticks if it is more than a word")
_POINT = ("this point has no name before and after it", "write alias.column")
_EMPTY = {
    TokenType.GROUP_BY: ("nothing follows GROUP BY", "write GROUP BY and columns, or expressions over them"),
    TokenType.HAVING: ("nothing follows HAVING", "write HAVING COUNT(*) > 1, say"),
}
_NOT_IS = ("NOT cannot stand before IS", "write IS NOT NULL, say")


def _slip(token: Token, before: Token | None, after: Token | None) -> _Slip | None:
    kind = token.token_type
    if kind == TokenType.COMMA and (_is(before, _OPENING) or _is(after, _CLOSING)):
        return _COMMA
    if kind == TokenType.ALIAS and (before is None or _is(before, _OPENING) or after is None or not _is_name(after)):
        return _ALIAS
    if kind == TokenType.DOT and not _is(after, (TokenType.NUMBER,)) and (before is None or not _is_name(before)):
        return _POINT
    if kind in _EMPTY and _is(after, _CLOSING):
        return _EMPTY[kind]
    if kind == TokenType.NOT and _is(after, (TokenType.IS,)):
        return _NOT_IS
    return None


def _is(token: Token | None, kinds: tuple[TokenType, ...]) -> bool:
    """Whether a token is of one of these kinds; there is none at the ends."""
    return token is None or token.token_type in kinds


def _is_name(token: Token) -> bool:
    """A word or a quoted name, but not one of those that open or close a clause."""
    if is_quoted(token):
        return bool(token.token_type == TokenType.IDENTIFIER)
    return is_word(token) and token.token_type not in (*_OPENING, *_CLOSING)


def _opens_window(two: list[Token]) -> bool:
    return [token.token_type for token in two] == [TokenType.WINDOW, TokenType.NUMBER]
