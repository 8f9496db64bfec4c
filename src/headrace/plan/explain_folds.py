"""EXPLAIN's part about aggregates: what a class of queries folds, when it is evaluated, and what each makes of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from headrace.config import Settings
from headrace.model import format_duration
from headrace.plan.expressions import Expression, render
from headrace.plan.folding import Final, Folding, aggregate_text, group_row_text


def fold_lines(folding: Folding, settings: Settings, names: Sequence[str]) -> Iterator[str]:
    """The lines of a class that is folded, after its filter."""

    def text(one: Expression | None) -> str | None:
        return (
            None if one is None else render(one, lambda ref: f"{names[ref.source]}.{ref.name}" if names else ref.name)
        )

    keys = [str(text(key)) for key in folding.keys]
    folds = [aggregate_text(one, text(one.argument), text(one.filter)) for one in folding.aggregates]
    windows = ", ".join(map(format_duration, folding.windows_us))
    yield f"    group by    {', '.join(keys) or 'nothing: one group'}"
    yield f"    folds       {', '.join(folds) or 'nothing'}; one set of panes for {windows}"
    yield f"    evaluated   {_when(settings)}, {_where(settings)}"
    for final in folding.finals:
        yield from _final_lines(final, keys, folds)


def _when(settings: Settings) -> str:
    if settings.reevaluate_us:
        return f"every {format_duration(settings.reevaluate_us)}"
    return "whenever a tuple comes or leaves" if settings.evaluate == "eager" else "with each micro-batch"


def _where(settings: Settings) -> str:
    if settings.shards == 1:
        return "in the shard"
    return f"where the panes of {settings.shards} shards meet"


def _final_lines(final: Final, keys: list[str], folds: list[str]) -> Iterator[str]:
    shown = [f"{group_row_text(output.expression, keys, folds)} AS {output.name}" for output in final.outputs]
    having = "" if final.having is None else f" having {group_row_text(final.having, keys, folds)}"
    counted = "only counted: " if final.is_counted else ""
    yield f"    select      {', '.join(final.queries)}: {counted}{', '.join(shown)}{having}"
