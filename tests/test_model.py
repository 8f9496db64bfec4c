"""The shared words refuse what cannot be."""

from __future__ import annotations

import pytest

from headrace.errors import PlanError
from headrace.model import BIGINT, TIMESTAMP, Column, QueryId, Schema, Stream, StreamId
from headrace.plan.expressions import ColumnRef
from headrace.plan.queries import Output, Query, Source


@pytest.mark.parametrize("name", ["__key", "__slot", "__before0", "__corrupt", "__order", "__place", "__Mine"])
def test_column_named_like_an_internal_one_is_refused(name: str) -> None:
    schema = Schema((Column(name, BIGINT), Column("ts", TIMESTAMP)))
    with pytest.raises(PlanError, match=f"column {name} of stream s begins with __"):
        Stream(StreamId("s"), schema, "ts")


def test_output_named_like_an_internal_column_is_refused() -> None:
    output = Output("__rank", ColumnRef(0, "n", BIGINT))
    with pytest.raises(PlanError, match="called __rank"):
        Query(QueryId("q"), (Source(StreamId("s"), "s"),), (), (output,))
