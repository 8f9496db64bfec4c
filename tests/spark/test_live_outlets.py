"""Live changes and other queries' brokers: only what is new is made ready. No Spark is started."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from headrace.errors import SinkError
from headrace.model import Options
from headrace.spark import kafka
from headrace.spark.changes import Change
from headrace.spark.live import LiveQueries
from headrace.spark.query_set import QuerySet
from headrace.spark.session import Engine
from headrace.spark.staging import is_claimed

DEAD = "INTO (connector = 'kafka', servers = 'dead:9092')"
PROGRAM = f"""
CREATE STREAM t (k BIGINT, ts TIMESTAMP) WITH (connector = 'generator', time = 'ts');
CREATE QUERY sent AS SELECT k FROM t WHERE k > 1 {DEAD};
CREATE QUERY files AS SELECT k FROM t WHERE k > 2;
CREATE QUERY other AS SELECT k FROM t WHERE k > 3;
"""


class AtOnce:
    """Changes that are made as they are asked for."""

    def __init__(self, queries: QuerySet) -> None:
        self.wanted = queries

    def ask(self, prepare: Callable[[QuerySet], Change], **_: object) -> None:
        self.wanted = prepare(self.wanted).queries


class Pipeline:
    """A run's queries without the run, with a broker that does not answer."""

    def __init__(self, out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.asked: list[str] = []
        monkeypatch.setattr(kafka, "ready_topics", self._ask)
        session: Any = object()
        engine = Engine(session)
        queries = QuerySet(engine.sql(PROGRAM).queries)
        checkpoint: Any = SimpleNamespace(id="some checkpoint", directory=out, evaluation=out / "evaluation.json")
        nobody: Any = None
        changes: Any = AtOnce(queries)
        self.live = LiveQueries(engine, checkpoint, out, changes, nobody, nobody, nobody, nobody)

    def _ask(self, _spark: object, query: str, _into: Options) -> None:
        self.asked.append(query)
        raise SinkError("the brokers dead:9092 do not answer")

    @property
    def names(self) -> list[str]:
        return [query.name for query in self.live.queries.running]


@pytest.fixture
def pipeline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Pipeline:
    return Pipeline(tmp_path / "out", monkeypatch)


def test_a_dead_broker_of_one_query_does_not_stop_changes_of_others(pipeline: Pipeline) -> None:
    pipeline.live.make({"drop": "other"})
    pipeline.live.make({"add": "CREATE QUERY new AS SELECT k FROM t"})
    pipeline.live.make({"pause": "files"})
    pipeline.live.make({"drop": "sent"})
    assert pipeline.asked == []
    assert pipeline.names == ["new"]


def test_a_dead_broker_stops_a_query_that_would_begin_to_write_to_it(pipeline: Pipeline) -> None:
    with pytest.raises(SinkError, match="do not answer"):
        pipeline.live.make({"add": f"CREATE QUERY new AS SELECT k FROM t {DEAD}"})
    pipeline.live.make({"pause": "sent"})
    with pytest.raises(SinkError, match="do not answer"):
        pipeline.live.make({"resume": "sent"})
    assert pipeline.asked == ["new", "sent"]
    assert pipeline.names == ["files", "other"]


def test_another_query_of_the_same_name_is_a_new_one(pipeline: Pipeline, tmp_path: Path) -> None:
    again = "DROP QUERY files; CREATE QUERY files AS SELECT k FROM t"
    with pytest.raises(SinkError, match="do not answer"):
        pipeline.live.make({"add": f"{again} {DEAD}"})
    pipeline.live.make({"add": f"{again} INTO (connector = 'parquet', path = '{tmp_path}/else')"})
    assert is_claimed(tmp_path / "else")


def test_a_directory_whose_micro_batches_could_not_be_put_together_is_refused(
    pipeline: Pipeline, tmp_path: Path
) -> None:
    """A name that a directory can have, and what is written beside it cannot."""
    into = f"INTO (connector = 'parquet', path = '{tmp_path}/{'x' * 250}')"
    with pytest.raises(SinkError, match="the last part of its path is too long"):
        pipeline.live.make({"add": f"CREATE QUERY new AS SELECT k FROM t {into}"})
    assert "new" not in pipeline.names
