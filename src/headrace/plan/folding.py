"""What a class of queries with aggregates folds its results into, in a shared plan.

Queries with the same filters, keys and aggregates are one class: their windows are nested, so one set of partial
aggregates serves them all, and each makes its own rows of it (``Final``).

      a result's tuples     a.ts ......... b.ts                 with each side's offset added, the least of the times
                             |--- since                         (``since``) says how long the result is in a window:
      window w at time T    [T - w ................ T]          as long as T - w <= since
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from headrace.model import BOOLEAN, TIMESTAMP, Column, QueryId, Schema
from headrace.plan.aggregates import EVALUATED, GROUP, Aggregate
from headrace.plan.expressions import Expression, Literal, render
from headrace.plan.queries import Output

Offsets = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Final:
    """What queries make of the groups of one window: outputs and HAVING over the group's row. ``sizes``: the window as
    the join has it, by side. ``is_counted``: only how many rows. ``identities``: each query's, which names it together
    with all it asks for."""

    window_us: int
    sizes: tuple[int, ...]
    outputs: tuple[Output, ...]
    having: Expression | None
    is_counted: bool
    queries: tuple[QueryId, ...]
    identities: tuple[str, ...]

    @property
    def schema(self) -> Schema:
        columns = tuple(Column(output.name, output.expression.type) for output in self.outputs)
        return Schema((*columns, Column(EVALUATED, TIMESTAMP)))


@dataclass(frozen=True, slots=True)
class Folding:
    """Keys and aggregates over the group's sides, and what each query makes of them. ``offsets``: how much longer than
    the least each side is looked at, the same for all the windows."""

    keys: tuple[Expression, ...]
    aggregates: tuple[Aggregate, ...]
    offsets: Offsets
    identity: str
    """Names what is folded, whoever asks for it: partial aggregates of one name fit together."""
    finals: tuple[Final, ...]

    @property
    def columns(self) -> tuple[Output, ...]:
        """What is read of each result: keys, arguments, filters."""
        return folded_columns(self.keys, self.aggregates)

    @property
    def windows_us(self) -> tuple[int, ...]:
        return tuple(sorted({final.window_us for final in self.finals}))


def folded_columns(keys: tuple[Expression, ...], aggregates: tuple[Aggregate, ...]) -> tuple[Output, ...]:
    """What is read of each result for these; where that is nothing, something that says there is one."""
    found = [Output(f"key{number}", key) for number, key in enumerate(keys)]
    for number, one in enumerate(aggregates):
        if one.argument is not None:
            found.append(Output(f"arg{number}", one.argument))
        if one.filter is not None:
            found.append(Output(f"keep{number}", one.filter))
    return tuple(found) or (Output("any", Literal(True, BOOLEAN)),)


def aggregate_text(aggregate: Aggregate, argument: str | None, kept: str | None) -> str:
    """As SQL writes it, given the texts of what it reads.

    >>> from headrace.plan.aggregates import Aggregate, Fold
    >>> aggregate_text(Aggregate(Fold.COUNT), None, "(a.v > 3)")
    'COUNT(*) FILTER (WHERE (a.v > 3))'
    """
    word, _, distinct = aggregate.fold.value.partition(" ")
    shown = f"{word}({distinct + ' ' if distinct else ''}{argument or '*'})"
    return f"{shown} FILTER (WHERE {kept})" if kept else shown


def folding_identity(filters: list[str], keys: list[str], aggregates: list[str], offsets: Offsets) -> str:
    told = "\n".join([*sorted(filters), "by", *keys, "of", *aggregates, str(offsets)])
    return hashlib.blake2b(told.encode(), digest_size=8).hexdigest()


def group_row_text(expression: Expression, keys: list[str], aggregates: list[str]) -> str:
    """An expression over a group's row, with the texts of its keys and aggregates."""
    shown = {f"key{number}": text for number, text in enumerate(keys)}
    shown |= {f"agg{number}": text for number, text in enumerate(aggregates)}
    return render(expression, lambda ref: shown[ref.name] if ref.source == GROUP else ref.name)
