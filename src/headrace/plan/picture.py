"""The shared plan as a picture's material: who reads what, which join, which windows, and which query ends in which.

      stream ----> group (a join with its windows, or a scan) ----> query
      stream ---->    w1 | w2 | w3                            ----> query      a query reads the bands up to its window

Owns :class:`PlanPicture` and ``picture_of``: texts and numbers, nothing that draws. Stable: the same plan always gives
the same picture. Cost: the plan's size.
"""

from __future__ import annotations

from dataclasses import dataclass

from headrace.model import Stream, format_duration
from headrace.plan.explain import window_text
from headrace.plan.explain_joins import side_names
from headrace.plan.expressions import conditions_text
from headrace.plan.sharing import Group, OutputClass, SharedPlan


@dataclass(frozen=True, slots=True)
class PicturedStream:
    """A stream, its columns as ``name TYPE``, and where it comes from."""

    name: str
    columns: tuple[str, ...]
    time: str
    connector: str
    max_delay: str


@dataclass(frozen=True, slots=True)
class PicturedInput:
    """A stream as a group reads it: under which names, and what is left out before it is kept ("" for nothing)."""

    stream: str
    names: tuple[str, ...]
    kept_where: str


@dataclass(frozen=True, slots=True)
class PicturedQuery:
    """A query. ``window``: the place of its window among the group's, None of a scan; ``output``: queries of a group
    with the same number differ in nothing but their window."""

    name: str
    window: int | None
    window_text: str
    output: int
    where: str
    is_aggregate: bool


@dataclass(frozen=True, slots=True)
class PicturedGroup:
    """One shared join, or scan; windows from the smallest."""

    signature: str
    is_join: bool
    inputs: tuple[PicturedInput, ...]
    windows: tuple[str, ...]
    queries: tuple[PicturedQuery, ...]


@dataclass(frozen=True, slots=True)
class PlanPicture:
    streams: tuple[PicturedStream, ...]
    groups: tuple[PicturedGroup, ...]


def picture_of(plan: SharedPlan) -> PlanPicture:
    return PlanPicture(
        tuple(_stream(one) for one in plan.catalog.streams),
        tuple(_group(group) for group in plan.groups),
    )


def _stream(stream: Stream) -> PicturedStream:
    columns = tuple(str(column) for column in stream.schema)
    delay = format_duration(stream.max_delay_us) if stream.max_delay_us else ""
    return PicturedStream(stream.name, columns, stream.time, stream.option("connector") or "", delay)


def _group(group: Group) -> PicturedGroup:
    names = side_names(group)
    inputs = [
        PicturedInput(
            reader.stream,
            tuple(names[side] for side, used in enumerate(group.sides) if used == index),
            conditions_text(reader.selection) if reader.selection else "",
        )
        for index, reader in enumerate(group.inputs)
    ]
    windows = tuple(window_text(group.measures, sizes) for sizes in group.windows) if group.is_join else ()
    queries = [one for number, cls in enumerate(group.classes) for one in _queries(group, number, cls)]
    return PicturedGroup(group.signature, group.is_join, tuple(inputs), windows, tuple(queries))


def _queries(group: Group, number: int, cls: OutputClass) -> list[PicturedQuery]:
    sides = side_names(group) if group.is_join else ()
    where = conditions_text(cls.filters, sides) if cls.filters else ""
    is_aggregate = cls.folding is not None
    return [
        PicturedQuery(
            member.query,
            group.windows.index(member.sizes) if group.is_join else None,
            window_text(group.measures, member.sizes) if group.is_join else "",
            number,
            where,
            is_aggregate,
        )
        for member in cls.members
    ]
