"""The plan as a picture's material."""

from __future__ import annotations

from headrace.plan.picture import picture_of
from headrace.plan.sharing import share
from headrace.sql import read_script

PROGRAM = """
CREATE STREAM a (k BIGINT, v DOUBLE, ts TIMESTAMP) WITH (connector = 'generator', time = 'ts', max_delay = '2 s');
CREATE STREAM b (k BIGINT, v DOUBLE, ts TIMESTAMP) WITH (connector = 'generator', time = 'ts');
CREATE QUERY wide AS SELECT a.k FROM a, b WHERE a.k = b.k AND a.v > 3 WINDOW 1 MINUTE;
CREATE QUERY near AS SELECT a.k FROM a, b WHERE a.k = b.k AND a.v > 3 WINDOW 5 SECONDS;
CREATE QUERY dry AS SELECT b.k FROM a, b WHERE a.k = b.k AND a.v > 3 AND b.v < 1 WINDOW 5 SECONDS;
CREATE QUERY counted AS SELECT a.k, COUNT(*) AS n FROM a, b WHERE a.k = b.k AND a.v > 3 GROUP BY a.k WINDOW 10 SECONDS;
CREATE QUERY alone AS SELECT k FROM b WHERE v > 50;
"""


def test_queries_stand_by_the_window_they_end_in_and_share_what_is_the_same() -> None:
    script = read_script(PROGRAM)
    picture = picture_of(share(script.catalog, script.queries))
    assert [(one.name, one.max_delay) for one in picture.streams] == [("a", "2 seconds"), ("b", "")]
    join, scan = picture.groups
    assert join.windows == ("5 seconds", "10 seconds", "1 minute")
    queries = {one.name: one for one in join.queries}
    assert {name: one.window for name, one in queries.items()} == {"wide": 2, "near": 0, "dry": 0, "counted": 1}
    assert queries["wide"].output == queries["near"].output != queries["dry"].output
    assert [name for name, one in queries.items() if one.is_aggregate] == ["counted"]
    assert [(one.stream, one.kept_where) for one in join.inputs] == [("a", "(v > 3.0e0)"), ("b", "")]
    assert "b.v < 1.0e0" in queries["dry"].where
    assert (scan.is_join, scan.windows, [one.window for one in scan.queries]) == (False, (), [None])
