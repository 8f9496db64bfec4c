"""Allowances kept by the driver: they follow what shards tell, are shared by load, and say what cannot be fresh."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from test_join_keeper import STREAMS

from headrace.config import Settings, parse_budget
from headrace.engine.events import ProbesAllowed, TimeTold
from headrace.engine.shard import Shard
from headrace.engine.tree_join import HalfTally
from headrace.plan.sharing import SharedPlan, share
from headrace.plan.tree_plans import FIRST_PROBE_US
from headrace.spark.allocation_keeper import LATELY, AllocationKeeper
from headrace.spark.joins import JoinKeeper
from headrace.spark.metrics import BatchFacts, RunMetrics
from headrace.spark.orders import Orders, Work
from headrace.spark.pacing import Pacer
from headrace.spark.tree_told import Allowed, TreeTold, tree_events, trees_told
from headrace.sql import read_script

QUERY = """CREATE QUERY q AS SELECT b.x FROM a FRESHNESS 1 MINUTE, b FRESHNESS 1 MINUTE, c FRESHNESS 1 MINUTE
  WHERE a.x = b.x AND b.y = c.y WINDOW 10 SECONDS ON OVERLOAD ADAPT;"""
OTHER = "CREATE QUERY r AS SELECT a.x FROM a, b WHERE a.x = b.x WINDOW 10 SECONDS;"


def plan(text: str = QUERY) -> SharedPlan:
    script = read_script(STREAMS + text)
    return share(script.catalog, script.queries)


def keeper(path: Path, text: str = QUERY, **settings: Any) -> AllocationKeeper:
    chosen = Settings(shards=2, plan="((a b) c)", **settings)
    joins = JoinKeeper(chosen, path / "grids.json")
    joins.adopt(plan(text))
    kept = AllocationKeeper(chosen, joins)
    kept.adopt(plan(text))
    return kept


@dataclass(frozen=True)
class Half:
    """What a half-way join did in a micro-batch, all shards together."""

    offered: int
    found: int


def told(batch: int, *halves: Half, loads: tuple[float, float] = (0.5, 0.5), lag_s: float = 0.5) -> BatchFacts:
    """A micro-batch of a second; every probe took ten microseconds."""
    (signature,) = (group.signature for group in plan().groups if group.adapts)
    shards = []
    for shard, load in enumerate(loads):
        tallies = tuple(
            HalfTally(
                round(load * one.offered), round(load * one.offered), round(load * one.found), 0, 1e-5 * one.offered
            )
            for one in halves
        )
        one = TreeTold(tallies, (100, 100, 100, 50), 0, 1e5, round(batch * 1e6))
        shards.append((shard, {"trees": {signature: one.to_json()}}))
    return BatchFacts(batch, float(batch), batch + lag_s, tuple(shards))


EVEN = (Half(1000, 2000), Half(1000, 2000), Half(4000, 4000), Half(1000, 4000))


def test_without_a_limit_everything_is_allowed(tmp_path: Path) -> None:
    kept = keeper(tmp_path)
    for batch in range(3):
        kept.learn(told(batch, *EVEN))
    assert kept.allowed().probes == {}
    assert kept.moves == []
    assert kept.stats()[0].left_out == 0


def test_a_service_rate_is_divided_and_shared_by_load(tmp_path: Path) -> None:
    kept = keeper(tmp_path, service_rate=3500.0)
    for batch in range(6):
        kept.learn(told(batch, *EVEN, loads=(0.75, 0.25)))
    (by_shard,) = kept.allowed().probes.values()
    total = sum(map(sum, by_shard.values()))
    assert total == pytest.approx(3500, rel=0.05)
    assert sum(by_shard[0]) == pytest.approx(3 * sum(by_shard[1]), rel=0.01)
    (tree,) = kept.stats()
    assert (tree.plan, tree.allocator, len(tree.halves)) == ("((a b) c)", "jaqpot", 4)
    assert tree.allocation_ms > 0


@pytest.mark.parametrize("limit", [{"service_rate": 300.0}, {"budget": parse_budget("300 probes")}])
def test_trees_that_need_more_have_equal_parts_of_a_service_rate_from_the_first_micro_batch_on(
    tmp_path: Path, limit: dict[str, Any]
) -> None:
    text = QUERY + QUERY.replace("QUERY q", "QUERY r").replace("10 SECONDS", "20 SECONDS").replace("1 MIN", "2 MIN")
    kept = keeper(tmp_path, text, **limit)
    assert [tree.mu for tree in kept.stats()] == [150, 150]
    assert sum(sum(map(sum, by_shard.values())) for by_shard in kept.allowed().probes.values()) <= 300 * (1 + 1e-6)


def may_probe(kept: AllocationKeeper) -> float:
    """What all trees may probe in the next micro-batch, in units of cost, with what there is to spare."""
    spare = sum(one.units for by_shard in kept.allowed().spare.values() for one in by_shard.values())
    return sum(sum(map(sum, by_shard.values())) for by_shard in kept.allowed().probes.values()) + spare


@pytest.mark.parametrize("service_rate", [5000.0, 10000.0])
def test_a_service_rate_is_there_for_tuples_that_come_all_at_once(tmp_path: Path, service_rate: float) -> None:
    """7,000 probes a second are needed: below that nothing is to spare, above it all that is not needed is."""
    kept = keeper(tmp_path, service_rate=service_rate)
    for batch in range(10):
        kept.learn(told(batch, *EVEN))
    assert may_probe(kept) == pytest.approx(service_rate, rel=0.01)
    assert bool(kept.allowed().spare) == (service_rate > 7000)


def test_a_stream_that_was_silent_may_probe_when_it_comes_again(tmp_path: Path) -> None:
    kept = keeper(tmp_path, service_rate=10000.0)
    for batch in range(20):
        kept.learn(told(batch, Half(0, 0), *EVEN[1:]))
    ((by_shard, spares),) = zip(kept.allowed().probes.values(), kept.allowed().spare.values(), strict=True)
    assert by_shard[0][0] < 1
    assert spares[0].units / spares[0].upward[0] > 100


def test_an_allocation_of_every_probe_again_is_nothing_to_tell(tmp_path: Path) -> None:
    kept = keeper(tmp_path, service_rate=100_000.0)
    for batch in range(12):
        factor = 1 + batch % 3
        kept.learn(told(batch, *(Half(factor * one.offered, factor * one.found) for one in EVEN)))
    assert kept.stats()[0].allocations > 2
    assert kept.moves == []
    kept.learn(told(12, *(Half(100 * one.offered, 100 * one.found) for one in EVEN)))
    assert len(kept.moves) == 1


def test_two_trees_have_what_neither_needs_once(tmp_path: Path) -> None:
    kept = keeper(tmp_path, QUERIES, service_rate=20000.0)
    for batch in range(10):
        kept.learn(of_both(kept, batch, 0.1, 1.0))
    assert may_probe(kept) == pytest.approx(20000, rel=0.01)


def test_a_budget_of_time_is_there_for_tuples_that_come_all_at_once(tmp_path: Path) -> None:
    """On each shard 3,500 probes of 10 us are needed, and 65 ms for all else: 100 ms of 400 ms."""
    kept = keeper(tmp_path, budget=parse_budget("400 ms"))
    assert may_probe(kept) == pytest.approx(2 * 400_000 / FIRST_PROBE_US)
    for batch in range(20):
        kept.learn(told(batch, *EVEN))
    (spares,) = kept.allowed().spare.values()
    assert [one.units for one in spares.values()] == pytest.approx([300_000] * 2, rel=0.05)


QUERIES = QUERY + QUERY.replace("QUERY q", "QUERY r").replace("10 SECONDS", "20 SECONDS").replace("1 MIN", "2 MIN")


def of_both(kept: AllocationKeeper, batch: int, *shares: float) -> BatchFacts:
    """A micro-batch of several trees, each with a share of EVEN."""
    found: dict[int, dict[str, Any]] = {}
    for signature, share_ in zip(kept.trees, shares, strict=True):
        halves = [Half(round(one.offered * share_), round(one.found * share_)) for one in EVEN]
        for shard, told_ in told(batch, *halves).told:
            (tree,) = told_["trees"].values()
            found.setdefault(shard, {"trees": {}})["trees"][signature] = tree
    return BatchFacts(batch, float(batch), batch + 0.5, tuple(found.items()))


def probes_of(kept: AllocationKeeper) -> list[float]:
    """What each tree is allowed, on all shards together."""
    return [sum(map(sum, by_shard.values())) for by_shard in kept.allowed().probes.values()]


def test_what_a_tree_does_not_need_of_a_service_rate_the_others_have(tmp_path: Path) -> None:
    """The first needs 700 probes a second, the other 7,000: there are 4,000."""
    kept = keeper(tmp_path, QUERIES, service_rate=4000.0)
    for batch in range(8):
        kept.learn(of_both(kept, batch, 0.1, 1.0))
        assert sum(probes_of(kept)) <= 4000 * (1 + 1e-6)
    assert probes_of(kept) == pytest.approx([700, 3300], rel=0.05)
    for batch in range(8, 20):
        kept.learn(of_both(kept, batch, 1.0, 1.0))
        assert sum(probes_of(kept)) <= 4000 * (1 + 1e-6)
    assert probes_of(kept) == pytest.approx([2000, 2000], rel=0.05)
    for batch in range(20, 40):
        kept.learn(of_both(kept, batch, 1.0, 0.05))
        assert sum(probes_of(kept)) <= 4000 * (1 + 1e-6)
    assert probes_of(kept) == pytest.approx([3650, 350], rel=0.2)


def test_what_a_tree_does_not_need_of_a_budget_of_time_the_others_have(tmp_path: Path) -> None:
    """On each shard the first takes 2.5 ms for its probes, a tenth of 25 ms; the other some 97 ms, and 2 ms for all
    else."""
    kept = keeper(tmp_path, QUERIES, budget=parse_budget("130 ms"))
    for batch in range(10):
        kept.learn(of_both(kept, batch, 0.05, 1.4))
    assert probes_of(kept)[0] == pytest.approx(250, rel=0.05)
    assert kept.stats()[1].mu == pytest.approx(2e3 * (130 - 25 - 2), rel=0.1)


def test_a_tree_that_wavers_does_not_make_the_others_be_allocated_anew(tmp_path: Path) -> None:
    kept = keeper(tmp_path, QUERIES, service_rate=4000.0)
    for batch in range(12):
        kept.learn(of_both(kept, batch, 0.1, 1.0))
    before = [tree.allocations for tree in kept.stats()]
    for batch in range(12, 40):
        kept.learn(of_both(kept, batch, 0.1 + 0.01 * (-1) ** batch, 1.0))
    assert [tree.allocations for tree in kept.stats()] == before


def test_a_tree_that_was_never_measured_takes_what_it_is_declared_to_need(tmp_path: Path) -> None:
    """A query that comes: those that run have no more than what it leaves, from then on."""
    kept = keeper(tmp_path, QUERY, service_rate=4000.0)
    for batch in range(8):
        kept.learn(told(batch, *EVEN))
    kept.joins.adopt(plan(QUERIES))
    kept.adopt(plan(QUERIES))
    kept.learn(told(8, *EVEN))
    assert sum(probes_of(kept)) <= 4000 * (1 + 1e-6)
    assert min(probes_of(kept)) > 0


def test_a_service_rate_is_by_the_second_however_long_the_trigger_is(tmp_path: Path) -> None:
    kept = keeper(tmp_path, service_rate=20.0, trigger_us=300 * 10**6)
    for batch in range(6):
        kept.learn(replace(told(batch, *EVEN), began_s=300.0 * batch))
    (by_shard,) = kept.allowed().probes.values()
    assert sum(map(sum, by_shard.values())) == pytest.approx(300 * 20, rel=0.05)
    assert kept.stats()[0].results_per_s == pytest.approx(8000 / 300)


def test_a_budget_of_time_becomes_probes_by_what_they_cost(tmp_path: Path) -> None:
    """30 ms less what else is done are at most 3,000 probes of 10 us on the shard that has the most to do."""
    kept = keeper(tmp_path, budget=parse_budget("30 ms"))
    for batch in range(6):
        kept.learn(told(batch, *EVEN))
    (by_shard,) = kept.allowed().probes.values()
    assert 10 < max(map(sum, by_shard.values())) <= 3000


def beside(facts: BatchFacts, deferring_ms: float) -> BatchFacts:
    """The micro-batch, whose trees took 100 ms, with what queries that defer took as well."""
    shards = tuple((shard, {**one, "stage_ms": {"join": 100.0 + deferring_ms}}) for shard, one in facts.told)
    return replace(facts, told=shards)


def test_queries_that_defer_keep_half_of_a_budget_of_time(tmp_path: Path) -> None:
    """The others take all of it: what is left for these does not become less with each micro-batch."""
    kept, budget = keeper(tmp_path, QUERY + OTHER, budget=parse_budget("100 ms")), parse_budget("100 ms")
    pacer = Pacer(budget)
    probes = pacer.first_probes() or 0
    for batch in range(30):  # a probe takes a microsecond
        took_us, left_us = kept.deferring(beside(told(batch, *EVEN), probes / 1000))
        probes = pacer.next_probes(probes, probes, took_us, left_us)
    assert probes == pytest.approx(50_000, rel=0.01)


@pytest.mark.parametrize(("deferring_ms", "left_ms"), [(100.0, 300.0), (390.0, 200.0)])
def test_more_probes_are_left_out_beside_queries_that_defer(
    tmp_path: Path, deferring_ms: float, left_ms: float
) -> None:
    """They take their part of the budget: of what is left, each shard takes 30 ms for all but probes."""
    kept = keeper(tmp_path, QUERY + OTHER, budget=parse_budget("400 ms"))
    for batch in range(10):
        kept.learn(beside(told(batch, *EVEN), deferring_ms))
    assert kept.stats()[0].mu == pytest.approx(2e3 * (left_ms - 30), rel=0.2)


def test_probes_are_allocated_anew_when_something_moves_and_the_reason_is_told(tmp_path: Path) -> None:
    kept = keeper(tmp_path, service_rate=3500.0)
    for batch in range(8):
        kept.learn(told(batch, *EVEN))
    before = len(kept.moves)
    kept.learn(told(8, *EVEN))
    assert len(kept.moves) == before
    for batch in range(9, 14):
        kept.learn(told(batch, Half(1000, 200), *EVEN[1:]))
    assert len(kept.moves) > before
    assert "probes of ((a b) c) allocated anew" in kept.moves[-1]
    assert "a with S(b)" in " ".join(kept.moves)
    metrics = RunMetrics(("q",), ("a", "b", "c"), {}, 2, 0.0)
    moves = tuple(kept.moves)
    metrics.tell_trees(kept.stats(), kept.take_moves())
    metrics.tell_orders((), ("another join order",))
    assert metrics.snapshot(1.0, 0.0).switches == (*moves, "another join order")
    metrics.tell_trees(kept.stats(), kept.take_moves())
    assert metrics.snapshot(1.0, 0.0).switches == (*moves, "another join order")
    assert metrics.snapshot(1.0, 0.0).switched == len(moves) + 1


def test_a_freshness_that_publication_takes_longer_than_is_told_by_stream(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    kept = keeper(tmp_path, QUERY.replace("c FRESHNESS 1 MINUTE", "c FRESHNESS 2 SECONDS"))
    facts = told(0, *EVEN, lag_s=5.0)
    (signature,) = kept.trees
    shards = tuple((shard, {"trees": {signature: next(iter(one["trees"].values()))}}) for shard, one in facts.told)
    for batch in range(3):
        kept.learn(BatchFacts(batch, float(batch), batch + 5.0, shards))
    (tree,) = kept.stats()
    assert any("later than c may be old (2 s)" in one for one in tree.infeasible)
    assert [one.message for one in caplog.records if "later than c may be old (2 s)" in one.message] == [
        "infeasible: results are published 5.0 s after their step, later than c may be old (2 s); allow a longer "
        "FRESHNESS or a shorter trigger"
    ]


def published(kept: AllocationKeeper, shard: Shard, batch: int, began_s: float, lag_s: float) -> None:
    """A micro-batch without tuples, told what the keeper allows, stepped at a time and published later."""
    now_us = round(began_s * 1e6)
    halves = {signature: len(one.tree.half_ways) for signature, one in kept.trees.items()}
    list(shard.step(tree_events(kept.allowed(), halves, 0, now_us)))
    kept.learn(BatchFacts(batch, began_s, began_s + lag_s, ((0, {"trees": trees_told(shard, now_us)}),)))


def test_after_a_slow_micro_batch_the_time_to_publication_is_that_of_the_others(tmp_path: Path) -> None:
    kept = keeper(tmp_path)
    shard = Shard(plan(), kept.applied(Work(plan(), frozenset(), frozenset())).shard)
    published(kept, shard, 0, 1000.0, 8.0)
    assert kept.ahead_us == round(1.2 * 8e6)
    for batch in range(1, 43):
        published(kept, shard, batch, 1008.0 + 0.7 * batch, 0.7)
        assert kept.ahead_us >= round(1.2 * 0.7e6)
    assert kept.ahead_us == round(1.2 * 0.7e6)


def test_a_slow_micro_batch_is_remembered_as_long_with_several_trees(tmp_path: Path) -> None:
    text = QUERY + QUERY.replace("QUERY q", "QUERY r").replace("10 SECONDS", "20 SECONDS").replace("1 MIN", "2 MIN")
    kept = keeper(tmp_path, text)
    assert len(kept.trees) == 2
    shard = Shard(plan(text), kept.applied(Work(plan(text), frozenset(), frozenset())).shard)
    published(kept, shard, 0, 1000.0, 8.0)
    for batch in range(1, LATELY):
        published(kept, shard, batch, 1008.0 + 0.7 * batch, 0.7)
        assert kept.ahead_us == round(1.2 * 8e6)
    published(kept, shard, LATELY, 1020.0, 0.7)
    assert kept.ahead_us == round(1.2 * 0.7e6)


def test_a_clock_that_was_set_back_is_no_time_to_publication(tmp_path: Path) -> None:
    kept = keeper(tmp_path)
    kept.learn(told(0, *EVEN, lag_s=-3.0))
    assert kept.ahead_us == 0


def test_states_that_keep_a_number_of_tuples_need_refreshing(tmp_path: Path) -> None:
    text = QUERY.replace("1 MINUTE", "11 SECONDS")
    kept = keeper(tmp_path, text, service_rate=20.0, retention="count")
    (tree,) = kept.stats()
    assert any(one.startswith("S(a b) cannot be kept fresh enough for results with") for one in tree.infeasible)
    options = kept.applied(Work(plan(text), frozenset(), frozenset())).shard.trees
    assert next(iter(options.values())).state_rows[0, 1] > 0


def test_states_that_keep_a_number_of_tuples_are_never_fresh_within_the_window(tmp_path: Path) -> None:
    """The default freshness, which a tuple's stay in its own state takes up alone."""
    for fresh, is_feasible in (("", False), ("FRESHNESS 30 SECONDS", True)):
        text = QUERY.replace("FRESHNESS 1 MINUTE", fresh)
        (tree,) = keeper(tmp_path, text, service_rate=10.0**9, retention="count").stats()
        assert (not tree.infeasible) == is_feasible


def test_states_that_keep_a_number_of_tuples_keep_it_whatever_they_hold(tmp_path: Path) -> None:
    """What is held by now is no reason to hold no more than that."""
    kept = keeper(tmp_path, service_rate=3500.0, retention="count")
    work = Work(plan(), frozenset(), frozenset())
    (before,) = kept.applied(work).shard.trees.values()
    assert before.state_rows[0, 1] > 25
    for batch in range(4):
        kept.learn(told(batch, *EVEN))
    (after,) = kept.applied(work).shard.trees.values()
    assert kept.stats()[0].allocations > 1
    assert after.state_rows == before.state_rows


def test_the_first_allocation_is_timed_and_what_runs_is_drawn(tmp_path: Path) -> None:
    kept = keeper(tmp_path, service_rate=3500.0)
    assert kept.stats()[0].allocation_ms > 0
    (signature,) = kept.trees
    first = kept.picture(signature)
    for batch in range(6):
        kept.learn(told(batch, *EVEN))
    drawn = kept.picture(signature)
    assert drawn is not None
    assert drawn.startswith("<svg")
    assert drawn != first
    assert kept.picture("another") is None


def test_queries_that_defer_have_no_tree(tmp_path: Path) -> None:
    kept = keeper(tmp_path, OTHER)
    assert kept.trees == {}
    assert not kept.learn(BatchFacts(0, 0.0, 0.0, ()))


# --- orders


def test_allowances_are_looked_up_by_micro_batch_and_shard(tmp_path: Path) -> None:
    orders = Orders(str(tmp_path / "orders"))
    orders.give_allowed(3, Allowed({"g": {0: (1.0, 2.0), 1: (3.0, 4.0)}}, 500))
    orders.give_allowed(7, Allowed({"g": {0: (9.0, 9.0), 1: (9.0, 9.0)}}, 700))
    assert orders.allowed(2) == Allowed()
    assert tree_events(orders.allowed(5), {"g": 2}, 1, 10_000) == [TimeTold(10_500), ProbesAllowed("g", (3.0, 4.0))]
    orders.forget_before(7)
    assert orders.allowed(8).ahead_us == 700


def test_allowances_of_another_tree_count_for_nothing() -> None:
    allowed = Allowed({"g": {0: (1.0, 2.0)}})
    assert tree_events(allowed, {"g": 4}, 0, 5) == [TimeTold(5)]
    assert tree_events(allowed, {}, 0, 5) == []
