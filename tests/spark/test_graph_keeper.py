"""What operators are like, kept by the driver: all shards together, told when it changed."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import pyarrow as pa
import pytest

from headrace.config import Settings
from headrace.engine.measuring import Meters, OperatorMeter
from headrace.engine.packing import Packer
from headrace.engine.strategies import Mode
from headrace.plan.capacities import OperatorFacts
from headrace.plan.opgraph import OperatorName
from headrace.plan.shard_graph import running_graph
from headrace.plan.sharing import SharedPlan, share
from headrace.spark.graph_keeper import GraphKeeper
from headrace.spark.graph_told import GraphTold
from headrace.spark.orders import Orders
from headrace.spark.task_told import TaskTold, leaves_of
from headrace.sql import read_script

STREAMS = "".join(
    f"CREATE STREAM {name} (x BIGINT, y BIGINT, ts TIMESTAMP) "
    "WITH (connector = 'files', format = 'json', path = 'p', time = 'ts');"
    for name in "ab"
)
QUERY = "CREATE QUERY {} AS SELECT {} FROM a, b WHERE a.x = b.x WINDOW 10 SECONDS;"
BUDGET = Settings().with_text("budget", "400 ms")


def plan(*queries: tuple[str, str]) -> SharedPlan:
    script = read_script(STREAMS + "".join(QUERY.format(*one) for one in queries))
    return share(script.catalog, script.queries)


FEW = share(
    read_script(STREAMS).catalog,
    read_script(STREAMS + "CREATE QUERY few AS SELECT x FROM a WHERE y < 2;").queries,
)
BOTH = plan(("q", "a.y"), ("r", "b.y"))
JOIN, Q, R = (one.name for one in running_graph(BOTH).operators if not one.text.startswith(("a ", "b ")))


def keeper(settings: Settings = BUDGET) -> GraphKeeper:
    kept = GraphKeeper(settings)
    kept.adopt(BOTH)
    return kept


def told(spent_s: float = 0.001, tuples: float = 100, waiting: int = 0) -> GraphTold:
    meters = {JOIN: OperatorMeter(tuples, 200, 6400, 6400, spent_s, 0.0)}
    found = GraphTold(meters, {JOIN: 2}, {Q: waiting}, int(waiting > 0), Mode.SAVING, 3)
    return GraphTold.from_json(json.loads(json.dumps(found.to_json())))


def test_shards_are_put_together_and_tasks_told_only_of_notable_changes() -> None:
    kept = keeper()
    assert kept.learn([told(0.001), told(0.003)], at_s=0.0)
    assert kept.given() == {JOIN: OperatorFacts(2e-5, 2.0, 64.0, 32.0)}
    assert not kept.learn([told(0.002), told(0.002)], at_s=1.0)
    assert kept.learn([told(0.05), told(0.05)], at_s=2.0)
    assert kept.given()[JOIN].service_s > 1e-4


def packed(rows: int) -> Meters:
    """What two source tasks told of the operators that run in packing."""
    stream, tasks = BOTH.catalog.streams[0], []
    names = ["x", "y", "ts"]
    values = pa.array(range(rows))
    batch = pa.RecordBatch.from_arrays([values, values, values.cast(pa.timestamp("us", "UTC"))], names=names)
    for _ in range(2):
        packer = Packer(FEW, stream, 1, clock=itertools.count().__next__)
        list(packer.pack(batch, 0))
        told = TaskTold.of(packer)
        assert told is not None
        tasks.append(TaskTold.from_payload(told.to_payload()))
    return leaves_of(tasks)


def test_operators_that_run_before_the_shards_are_learnt_as_well() -> None:
    kept = keeper()
    kept.adopt(FEW)
    meters = packed(rows=8)
    (leaf,) = meters.by_name
    assert kept.learn([GraphTold(meters.by_name)], at_s=0.0)
    assert kept.facts()[leaf].selectivity == 0.25
    assert kept.facts()[leaf].service_s == 1 / 8
    stats = kept.stats()
    assert stats is not None
    assert [(one.operator, one.selectivity, one.turns) for one in stats.operators] == [(leaf, 0.25, 0)]
    assert not kept.learn([GraphTold(packed(rows=800).by_name)], at_s=1.0), "tasks take no turns by it"
    assert kept.facts()[leaf].service_s < 1 / 8


def test_what_tuples_weighed_while_they_waited_is_remembered_when_nothing_waits() -> None:
    kept = keeper()
    measured = told()
    waiting = GraphTold(measured.meters, queues={JOIN: 150_000}, waiting={JOIN: 1_500.0})
    for at_s, one in enumerate((measured, waiting, measured)):
        kept.learn([one, one], at_s=float(at_s))
    assert kept.facts()[JOIN].input_bytes == 100.0, "what passed through has 64"
    kept.adopt(share(BOTH.catalog, ()))
    kept.adopt(BOTH)
    kept.learn([measured], at_s=3.0)
    assert kept.facts()[JOIN].input_bytes == 64.0


def test_what_was_long_ago_counts_little() -> None:
    kept = keeper()
    kept.learn([told(0.1)], at_s=0.0)
    kept.learn([told(0.001)], at_s=3600.0)
    assert kept.facts()[JOIN].service_s == pytest.approx(1e-5)


def test_statistics_have_queues_turns_and_the_mode() -> None:
    kept = keeper()
    kept.learn([told(waiting=500), told(waiting=700)], at_s=0.0)
    kept.learn([told(waiting=50), told(waiting=70)], at_s=1.0)
    stats = kept.stats(is_throttled=True)
    assert stats is not None
    assert (stats.strategy, stats.mode, stats.mode_changes, stats.is_throttled) == ("threshold", "saving", 3, True)
    assert stats.queue_bytes == 120
    by_name = {one.operator: one for one in stats.operators}
    assert (by_name[JOIN].turns, by_name[JOIN].uses, by_name[JOIN].selectivity) == (4, 2, 2.0)
    assert (by_name[Q].queue_bytes, by_name[Q].selectivity) == (120, None)
    assert (by_name[JOIN].input_bytes, by_name[JOIN].output_bytes) == (64.0, 32.0)
    assert by_name[JOIN].tuples_per_s == pytest.approx(1e6 / by_name[JOIN].service_us)
    assert by_name[JOIN].freed_bytes_per_s == pytest.approx(by_name[JOIN].tuples_per_s * (64 - 2 * 32))
    assert {by_name[Q].input_bytes, by_name[Q].tuples_per_s, by_name[Q].freed_bytes_per_s} == {None}
    assert R not in by_name
    assert keeper(Settings()).stats() is None


def test_operators_that_are_gone_are_forgotten_and_others_go_on() -> None:
    kept = keeper()
    kept.learn([told()], at_s=0.0)
    kept.adopt(plan(("q", "a.y")))
    assert set(kept.facts()) == {JOIN}
    stats = kept.stats()
    assert stats is not None
    assert [(one.operator, one.uses) for one in stats.operators] == [(JOIN, 1)], "there were two"
    kept.adopt(share(BOTH.catalog, ()))
    assert kept.facts() == {}


def test_a_run_begins_with_what_the_last_one_wrote_down(tmp_path: Path) -> None:
    orders, first = Orders(str(tmp_path)), keeper()
    first.learn([told(0.01)], at_s=0.0)
    orders.give_facts(7, first.given())
    second = GraphKeeper(BUDGET, orders.facts(9))
    second.adopt(BOTH)
    assert second.facts() == first.facts()
    assert not second.learn([], at_s=0.0)
    assert second.learn([told(0.001)], at_s=0.0), "what is measured now replaces it"


def test_a_micro_batch_reads_the_newest_facts_before_it_however_often_it_is_run(tmp_path: Path) -> None:
    orders, name = Orders(str(tmp_path)), OperatorName("join 1")
    assert orders.facts(0) == {}
    for batch in (1, 4, 6):
        orders.give_facts(batch, {name: OperatorFacts(float(batch), 0.5, 64.0, 32.0)})
    found = [orders.facts(batch)[name].service_s for batch in (1, 3, 4, 5, 6, 9)]
    assert found == [1.0, 1.0, 4.0, 4.0, 6.0, 6.0]
    orders.forget_before(5)
    assert orders.facts(5)[name].service_s == 4.0
    assert orders.facts(6)[name].service_s == 6.0
    assert orders.facts(3) == {}
