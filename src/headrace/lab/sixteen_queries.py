"""The setting of paper 003's experiments as SQL: 16 queries over 5 self-similar streams, with more than 100 operators.

Two queries read one stream, fourteen join two to five; eleven have aggregates. What Chain and path capacity go by
differs from one to the next: how wide the tuples are that wait, how long a tuple takes, how much comes out. A tuple
finds about as many results on each path, as the paper's proof for path capacity takes for granted.

Owns the program and its rows. The engine and Spark run the same text: rows are the generator's. Event time passes fifty
times slower than the clock (``speed``), so that bursts last for seconds of the clock.
"""

from __future__ import annotations

from dataclasses import dataclass

STREAMS = ("a", "b", "c", "d", "e")
RATES = (30_000, 40_000, 50_000, 60_000, 70_000)
"""Tuples a second of event time, for a scale of 1."""
COLUMNS = "k BIGINT, n BIGINT, m BIGINT, p BIGINT, g INT, v DOUBLE, w DOUBLE, x DOUBLE, y DOUBLE, z DOUBLE, tag STRING"

_ONE_KEY = "a.{0} = b.{0} AND b.{0} = c.{0} AND c.{0} = d.{0} AND d.{0} = e.{0}"

QUERIES = {
    # one stream
    "q01": "SELECT k, v * 1.8 + 32 AS f FROM a WHERE v < 20",
    "q02": "SELECT g, COUNT(*) AS c, AVG(w) AS w FROM b WHERE v < 30 GROUP BY g WINDOW 40 ms",
    # two: narrow and quick, and wide
    "q03": "SELECT a.k, a.v + b.v AS s FROM a, b WHERE a.k = b.k AND a.w < 50 AND b.w < 50 AND a.v < b.v WINDOW 12 ms",
    "q04": "SELECT c.*, d.v AS dv, d.w AS dw, d.x AS dx, d.y AS dy, d.z AS dz FROM c, d WHERE c.n = d.n AND c.w < 45 "
    "AND d.w < 45 AND c.v < d.v WINDOW 10 ms",
    # four, and three
    "q05": "SELECT a.m, COUNT(*) AS c FROM a, b, d, e WHERE a.m = b.m AND b.m = d.m AND d.m = e.m AND a.v < 50 AND "
    "b.v < 50 AND d.v < 45 AND e.v < 40 GROUP BY a.m WINDOW 22 ms",
    "q06": "SELECT b.g, c.v, c.w, c.x, d.v AS dv, d.w AS dw, d.x AS dx, b.v AS bv, b.w AS bw FROM b, c, d WHERE "
    "b.k = c.k AND c.n = d.n AND b.x < 50 AND c.x < 50 AND d.x < 40 WINDOW 22 ms",
    # five, and four
    "q07": "SELECT a.g, SUM(b.v * c.v) AS s FROM a, b, c, d, e WHERE a.p = b.p AND b.p = c.p AND c.n = d.n AND d.n = e.n "
    "AND a.y < 50 AND b.y < 50 AND c.y < 50 AND d.y < 45 AND e.y < 40 GROUP BY a.g WINDOW 24 ms",
    "q08": "SELECT b.v, b.w, c.v AS cv, c.w AS cw, d.v AS dv, d.w AS dw, e.v AS ev, e.w AS ew, UPPER(e.tag) AS tag FROM "
    "b, c, d, e WHERE b.k = c.k AND c.k = d.k AND d.k = e.k AND b.z < 50 AND c.z < 50 AND d.z < 50 AND e.z < 50 "
    "WINDOW 22 ms",
    # five
    "q09": f"SELECT a.g, COUNT(*) AS c FROM a, b, c, d, e WHERE {_ONE_KEY.format('k')} AND a.v < 50 AND b.v < 50 AND "
    "c.v < 50 AND d.v < 50 AND e.v < 50 GROUP BY a.g WINDOW 24 ms",
    "q10": f"SELECT a.g, b.g AS bg, MAX(c.v + d.v) AS top, MIN(e.v) AS low FROM a, b, c, d, e WHERE "
    f"{_ONE_KEY.format('n')} AND a.w < 50 AND b.w < 50 AND c.w < 50 AND d.w < 50 AND e.w < 50 "
    "GROUP BY a.g, b.g HAVING COUNT(*) > 1 WINDOW 24 ms",
    "q11": f"SELECT a.g, AVG(a.v) AS av, AVG(b.v) AS bv, AVG(c.v) AS cv, AVG(d.v) AS dv, AVG(e.v) AS ev, "
    f"AVG(a.w + b.w + c.w + d.w + e.w) AS w FROM a, b, c, d, e WHERE {_ONE_KEY.format('m')} AND a.x < 50 AND "
    "b.x < 50 AND c.x < 50 AND d.x < 50 AND e.x < 50 GROUP BY a.g WINDOW 24 ms",
    "q12": f"SELECT e.g, COUNT(DISTINCT a.k) AS c FROM a, b, c, d, e WHERE {_ONE_KEY.format('p')} AND a.y < 50 AND "
    "b.y < 50 AND c.y < 50 AND d.y < 50 AND e.y < 50 GROUP BY e.g WINDOW 24 ms",
    "q13": "SELECT a.g, COUNT(*) AS c, SUM(e.v) AS s FROM a, b, c, d, e WHERE a.k = b.k AND b.n = c.n AND c.m = d.m "
    "AND d.p = e.p AND a.z < 50 AND b.z < 50 AND c.z < 50 AND d.z < 45 AND e.z < 40 GROUP BY a.g WINDOW 24 ms",
    "q14": "SELECT b.g, SUM(a.v + a.w + a.x + a.y) AS s, SUM(c.v + c.w + c.x) AS t FROM a, b, c, d, e WHERE "
    "a.n = b.n AND b.n = c.n AND c.k = d.k AND d.k = e.k AND a.v < 45 AND b.v < 50 AND c.v < 50 AND d.v < 45 AND "
    "e.v < 40 GROUP BY b.g WINDOW 24 ms",
    "q15": "SELECT c.g, COUNT(*) AS c, MAX(d.w) AS w FROM a, b, c, d, e WHERE a.m = b.m AND b.m = c.m AND c.p = d.p "
    "AND d.p = e.p AND a.w < 45 AND b.w < 50 AND c.w < 50 AND d.w < 45 AND e.w < 40 GROUP BY c.g WINDOW 24 ms",
    "q16": "SELECT d.g, AVG(e.x + e.y + e.z) AS s, COUNT(*) FILTER (WHERE a.tag LIKE '%7%') AS c FROM a, b, c, d, e "
    "WHERE a.p = b.p AND b.k = c.k AND c.k = d.k AND d.m = e.m AND a.x < 45 AND b.x < 50 AND c.x < 50 AND d.x < 45 "
    "AND e.x < 40 GROUP BY d.g WINDOW 24 ms",
}


@dataclass(frozen=True, slots=True)
class Sixteen:
    """The setting: ``scale`` of the rates (keys and matches grow with it alike), how long it lasts in event time, the
    event time of a second of the clock."""

    seconds: float = 2.4
    scale: float = 1.0
    seed: int = 7
    speed: float = 0.02

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
        return [
            f"CREATE STREAM {name} ({COLUMNS}, ts TIMESTAMP) WITH (connector = 'generator', arrival = 'self_similar', "
            f"flows = '64', on_shape = '1.4', off_shape = '1.2', rate = '{rate * self.scale:g}', keys = '{keys}', "
            f"duration = '{round(self.seconds * 1000)} ms', speed = '{self.speed:g}', seed = '{self.seed + number}', "
            "time = 'ts');\n"
            for number, (name, rate) in enumerate(zip(STREAMS, RATES, strict=True))
        ]

    def _queries(self) -> list[str]:
        return [f"CREATE QUERY {name} AS {text};\n" for name, text in QUERIES.items()]
