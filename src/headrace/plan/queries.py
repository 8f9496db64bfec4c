"""A bound query: what one CREATE QUERY asks for, every name resolved and every expression typed.

This is the logical plan before sharing, in the normal form that sharing compares: the streams of FROM, one flat list
of conditions (ON and WHERE alike), the output columns, one window. ``sharing.py`` makes groups of it.
"""

from __future__ import annotations

from dataclasses import dataclass

from headrace.errors import PlanError
from headrace.model import BOOLEAN, NULL, Column, Options, QueryId, Schema, StreamId
from headrace.plan.expressions import Expression


@dataclass(frozen=True, slots=True)
class Source:
    """One entry of FROM: a stream under an alias."""

    stream: StreamId
    alias: str


@dataclass(frozen=True, slots=True)
class Output:
    """One output column: its name and what it is."""

    name: str
    expression: Expression


@dataclass(frozen=True, slots=True)
class Query:
    """A continuous query. ``window_us`` may be None only when it reads a single stream."""

    name: QueryId
    sources: tuple[Source, ...]
    conditions: tuple[Expression, ...]
    outputs: tuple[Output, ...]
    window_us: int | None = None
    into: Options = ()

    def __post_init__(self) -> None:
        if not self.sources:
            raise PlanError(f"query {self.name} reads no stream")
        if not self.outputs:
            raise PlanError(f"query {self.name} has no output columns")
        if len(self.sources) > 1 and self.window_us is None:
            raise PlanError(f"query {self.name} joins streams without a window: end it with WINDOW 1 MINUTE, say")
        if self.window_us is not None and self.window_us < 0:
            raise PlanError(f"the window of query {self.name} is negative")
        for condition in self.conditions:
            if condition.type not in (BOOLEAN, NULL):
                raise PlanError(f"a condition of query {self.name} is {condition.type}, not BOOLEAN")
        _ = self.schema

    @property
    def schema(self) -> Schema:
        """The columns of the query's output."""
        return Schema(tuple(Column(output.name, output.expression.type) for output in self.outputs))
