"""Slips are looked for in one pass, however long a query is; what they are is in ``golden/errors``."""

from __future__ import annotations

from typing import Any

from headrace.sql.lexer import tokenize
from headrace.sql.slips import check_slips
from headrace.sql.text import SqlText


class Watched(list[Any]):
    """Tokens that know how many of them were copied."""

    copied = 0

    def __getitem__(self, index: Any) -> Any:
        found = super().__getitem__(index)
        self.copied += len(found) if isinstance(index, slice) else 0
        return found


def test_the_work_grows_with_the_tokens_not_with_their_square() -> None:
    source = SqlText("SELECT a FROM s WHERE a IN (" + ", ".join(map(str, range(500))) + ")")
    tokens = Watched(tokenize(source))
    check_slips(source, tokens)
    assert tokens.copied <= 2 * len(tokens)
