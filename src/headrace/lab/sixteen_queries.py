"""The setting of paper 003's experiments as SQL: 16 queries over 5 self-similar streams, with more than 100 operators.

Not all of these take turns: a join has all its streams' windows in one operator, so that a query is at most a join, a
select-project and an aggregate in a shard, and 16 queries are at most 48; of more than two streams a join has all
predicates itself, and an aggregate reads it. The selections and projections below them run where rows are packed, as
far as rows are read, without queues (:class:`Counted` says how many are where).

One query reads one stream, three join two and twelve all five; eleven have aggregates. What strategies go by differs
from one to the next: joins on one key are quick and read narrow tuples, joins on several keys are slow and read wide
ones. So who serves most tuples lets large ones wait, and who frees most memory lets many wait. A tuple finds about as
many results on each path, as the paper's proof for path capacity takes for granted. Three paths are what the paper
has in mind where it tells strategies apart (section 3.3): a quick join of two streams that leaves little of wide
tuples, a slow filter that takes off half of that, and an aggregate that is slower. Each frees less in a unit of time
than the one before, so that a whole path is slow, Chain and segment cut it twice, and simplified segment once.

With ``variants`` each query is there several times, each time with another condition over two streams. No selection
before the join can take it, so that each variant has its own operators after it, and from three streams on its own
join: four of each are 64 queries with 127 operators that take turns.

Owns the program and its rows, and ``counted``. The engine and Spark run the same text: rows are the generator's. Event
time passes fifty times slower than the clock (``speed``), so that bursts last for seconds of the clock.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from headrace.plan.graph_building import leaf_operator, operator_graph
from headrace.plan.shard_graph import grouping_of, scheduled_graph
from headrace.plan.sharing import SharedPlan

STREAMS = ("a", "b", "c", "d", "e")
RATES = (30_000, 40_000, 50_000, 60_000, 70_000)
"""Tuples a second of event time, for a scale of 1."""
COLUMNS = "k BIGINT, n BIGINT, m BIGINT, p BIGINT, g INT, v DOUBLE, w DOUBLE, x DOUBLE, y DOUBLE, z DOUBLE, tag STRING"

_ONE_KEY = "a.{0} = b.{0} AND b.{0} = c.{0} AND c.{0} = d.{0} AND d.{0} = e.{0}"


def _sum(stream: str, columns: str = "vwxyz") -> str:
    return " + ".join(f"{stream}.{column}" for column in columns)


def _below(column: str, **shares: int) -> str:
    return " AND ".join(f"{stream}.{column} < {share}" for stream, share in shares.items())


def _texts(*streams: str) -> str:
    return " || ".join(f"CAST(ROUND({stream}.{column}, 1) AS STRING)" for stream in streams for column in "vwx")


def _slow_end(one: str, other: str, key: str, column: str, window_ms: int) -> str:
    """Ever less memory is freed on the way up: a quick join, a filter of texts that have to be made first and that half
    of them pass, many aggregates of wide rows."""
    counted = [f"COUNT(DISTINCT {stream}.{name})" for stream in (one, other) for name in ("k", "n", "m", "p", "tag")]
    counts = ", ".join(f"{count} AS c{number}" for number, count in enumerate(counted))
    return (
        f"SELECT {one}.g, MAX({_sum(one)}) AS most, MIN({_sum(other)}) AS least, {counts} FROM {one}, {other} WHERE "
        f"{one}.{key} = {other}.{key} AND {_below(column, **{one: 90, other: 90})} AND {_texts(one, other)} LIKE "
        f"'%7%7%' GROUP BY {one}.g WINDOW {window_ms} ms"
    )


QUERIES = {
    # one stream
    "q01": "SELECT k, v * 1.8 + 32 AS f FROM a WHERE v < 30",
    # two, with a slow end
    "q02": _slow_end("b", "e", "m", "w", 4),
    # five on one key: narrow, and wide, with a predicate over two of them
    "q03": "SELECT a.k, a.v + b.v AS s FROM a, b, c, d, e WHERE a.k = b.k AND b.k = c.k AND c.k = d.k AND d.k = e.m "
    f"AND {_below('w', a=50, b=50, c=50, d=55, e=45)} WINDOW 18 ms",
    "q04": f"SELECT c.*, d.v AS dv, d.w AS dw, d.x AS dx, d.y AS dy, d.z AS dz FROM a, b, c, d, e WHERE "
    f"{_ONE_KEY.format('n')} AND {_below('w', a=90, b=90, c=90, d=90, e=90)} AND c.v * d.v > 2500 WINDOW 10 ms",
    # five on several keys: narrow, and wide
    "q05": f"SELECT a.m, COUNT(*) AS c FROM a, b, c, d, e WHERE a.m = b.m AND b.m = d.m AND d.m = e.m AND c.p = d.p "
    f"AND {_below('v', a=50, b=55, c=60, d=45, e=40)} GROUP BY a.m WINDOW 22 ms",
    "q06": f"SELECT {_sum('b')} AS b, {_sum('c')} AS c, {_sum('d')} AS d, {_texts('a', 'b', 'c')} AS texts "
    f"FROM a, b, c, d, e WHERE a.p = b.p AND b.k = c.k AND c.n = d.n AND d.n = e.n AND "
    f"{_below('z', a=90, b=90, c=90, d=90, e=90)} WINDOW 8 ms",
    "q07": f"SELECT a.g, SUM({_sum('a')}) AS a, SUM({_sum('b')}) AS b, SUM({_sum('c')}) AS c, SUM({_sum('d')}) AS d, "
    f"SUM({_sum('e')}) AS e FROM a, b, c, d, e WHERE a.p = b.p AND b.p = c.p AND c.n = d.n AND d.n = e.n AND "
    f"{_below('y', a=90, b=90, c=90, d=90, e=90)} GROUP BY a.g WINDOW 12 ms",
    "q08": f"SELECT b.g, SUM(e.v) AS v FROM a, b, c, d, e WHERE a.n = b.n AND b.k = c.k AND c.k = d.k AND d.k = e.k "
    f"AND {_below('z', a=50, b=50, c=50, d=50, e=50)} GROUP BY b.g WINDOW 24 ms",
    # five streams, one key: quick
    "q09": f"SELECT a.g, COUNT(*) AS c FROM a, b, c, d, e WHERE {_ONE_KEY.format('k')} AND "
    f"{_below('v', a=50, b=50, c=50, d=50, e=50)} GROUP BY a.g WINDOW 24 ms",
    "q10": f"SELECT a.g, b.g AS bg, MAX(c.v) AS top FROM a, b, c, d, e WHERE {_ONE_KEY.format('n')} AND "
    f"{_below('w', a=50, b=50, c=50, d=50, e=50)} GROUP BY a.g, b.g HAVING COUNT(*) > 1 WINDOW 24 ms",
    "q11": f"SELECT b.g, COUNT(*) AS c FROM a, b, c, d, e WHERE {_ONE_KEY.format('m')} AND "
    f"{_below('x', a=50, b=50, c=50, d=50, e=50)} GROUP BY b.g WINDOW 24 ms",
    "q12": f"SELECT e.g, COUNT(DISTINCT a.k) AS c FROM a, b, c, d, e WHERE {_ONE_KEY.format('p')} AND "
    f"{_below('y', a=50, b=50, c=50, d=50, e=50)} GROUP BY e.g WINDOW 24 ms",
    # five streams, several keys: slow, and wide
    "q13": f"SELECT {_sum('a')} AS a, {_sum('b')} AS b, {_sum('c')} AS c, {_sum('d')} AS d, {_sum('e')} AS e, "
    f"{_texts('c', 'd', 'e')} AS texts FROM a, b, c, d, e WHERE a.n = b.n AND b.n = c.n AND c.k = d.k AND d.k = e.k "
    f"AND {_below('v', a=90, b=90, c=90, d=90, e=90)} WINDOW 8 ms",
    "q14": f"SELECT d.g, AVG({_sum('e')}) AS e, AVG({_sum('b')}) AS b, COUNT(*) FILTER (WHERE a.tag LIKE '%7%') AS c "
    "FROM a, b, c, d, e WHERE a.p = b.p AND b.k = c.k AND c.k = d.k AND d.m = e.m AND "
    f"{_below('x', a=90, b=90, c=90, d=90, e=90)} GROUP BY d.g WINDOW 12 ms",
    # two, with a slow end
    "q15": _slow_end("c", "d", "p", "z", 4),
    "q16": _slow_end("a", "e", "n", "y", 5),
}


def variant(text: str, number: int) -> str:
    """A query with one more condition, which no other variant has: over two streams, or over two columns of the one."""
    sources = text.split(" FROM ")[1].split(" WHERE ")[0].split(", ")
    first, last = (f"{sources[0]}.", f"{sources[-1]}.") if len(sources) > 1 else ("", "")
    return text.replace(" WHERE ", f" WHERE {first}y + {last}z < {200 - 5 * number} AND ", 1)


@dataclass(frozen=True, slots=True)
class Counted:
    """Operators of a plan: all, by kind; those that a shard schedules; those that run in packing."""

    kinds: dict[str, int]
    scheduled: int
    packing: int

    @property
    def operators(self) -> int:
        return sum(self.kinds.values())

    def __str__(self) -> str:
        return f"{self.operators} operators: {self.scheduled} take turns, {self.packing} run before, in packing"


def counted(plan: SharedPlan) -> Counted:
    """Where a plan's operators run."""
    graph, scheduled = operator_graph(plan, grouping_of), scheduled_graph(plan)
    kinds = Counter(one.kind.value for one in graph.operators)
    leaves = {leaf.name for group in plan.groups for one in group.inputs if (leaf := leaf_operator(plan.catalog, one))}
    return Counted(dict(sorted(kinds.items())), len(scheduled.names), len(leaves))


@dataclass(frozen=True, slots=True)
class Sixteen:
    """The setting: ``scale`` of the rates (keys and matches grow with it alike), how long it lasts in event time, the
    event time of a second of the clock; of each query so many ``variants``. ``is_stepped``: on Spark each micro-batch
    brings what a second of the clock would, however long it takes."""

    seconds: float = 2.4
    scale: float = 1.0
    seed: int = 7
    speed: float = 0.02
    variants: int = 1
    is_stepped: bool = False

    @property
    def interval_us(self) -> int:
        """The event time of a second of the clock."""
        return round(self.speed * 1e6)

    @property
    def intervals(self) -> int:
        return round(self.seconds * 1e6 / self.interval_us)

    def program(self, settings: str = "") -> str:
        """All statements; ``settings``: SET statements in front."""
        return settings + "".join(self._streams()) + "".join(self._queries())

    def _streams(self) -> list[str]:
        keys = round(1000 * self.scale)
        pace = f"speed = '0', step = '{self.interval_us} us'" if self.is_stepped else f"speed = '{self.speed:g}'"
        return [
            f"CREATE STREAM {name} ({COLUMNS}, ts TIMESTAMP) WITH (connector = 'generator', arrival = 'self_similar', "
            f"flows = '64', on_shape = '1.4', off_shape = '1.2', rate = '{rate * self.scale:g}', keys = '{keys}', "
            f"duration = '{round(self.seconds * 1000)} ms', {pace}, seed = '{self.seed + number}', time = 'ts');\n"
            for number, (name, rate) in enumerate(zip(STREAMS, RATES, strict=True))
        ]

    def _queries(self) -> list[str]:
        return [
            f"CREATE QUERY {name}{f'_{number}' if number else ''} AS {variant(text, number) if number else text};\n"
            for name, text in QUERIES.items()
            for number in range(self.variants)
        ]
