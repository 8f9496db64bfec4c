"""Join orders kept by the driver: they follow what shards tell, with a reason, whatever the method."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from headrace.config import Settings
from headrace.plan import joinplans
from headrace.plan.explain import explain
from headrace.plan.methods import choices_for
from headrace.plan.sharing import SharedPlan, share
from headrace.spark import joins
from headrace.spark.joins import JoinKeeper, read_grids
from headrace.spark.metrics import BatchFacts
from headrace.spark.orders import Work
from headrace.sql import read_script

STREAMS = "".join(
    f"CREATE STREAM {name} (x BIGINT, y BIGINT, ts TIMESTAMP) "
    "WITH (connector = 'files', format = 'json', path = 'p', time = 'ts');"
    for name in "abcd"
)
QUERY = "CREATE QUERY q AS SELECT b.x FROM a, b, c WHERE a.x = b.x AND b.y = c.y WINDOW 10 SECONDS;"


def plan() -> SharedPlan:
    script = read_script(STREAMS + QUERY)
    return share(script.catalog, script.queries)


def keeper(path: Path, **settings: Any) -> JoinKeeper:
    path.mkdir(exist_ok=True)
    kept = JoinKeeper(Settings(shards=4, **settings), path / "grids.json")
    kept.adopt(plan())
    return kept


def told(
    batch: int,
    to_a: int,
    to_c: int,
    *,
    heard: str = "abc",
    seen: str = "",
    held: tuple[int, int, int] = (500, 500, 500),
    times_us: Mapping[str, tuple[int, int]] | None = None,
) -> BatchFacts:
    """A micro-batch of a second in which 100 tuples of b had so many partners on either side. ``times_us``: of streams
    that are not at that second."""
    (group,) = plan().groups
    tried = [[1, 0, 100, to_a], [1, 2, 100, to_c], [0, 1, 100, 10], [2, 1, 100, 10]]
    second = (batch * 10**6, (batch + 1) * 10**6 - 1)
    came = dict.fromkeys(heard, second) | dict(times_us or {})
    one = {
        "heard_from": [[name, "", 100, *span_us] for name, span_us in came.items()],
        "sources": {name: {"": span_us[1]} for name, span_us in came.items()},
        "measured": {group.signature: [list(held), tried]},
        "seen": [seen] if seen else [],
    }
    return BatchFacts(batch, 0.0, 0.0, ((0, one),))


def order_of_b(kept: JoinKeeper) -> tuple[str, ...]:
    return next(one.order for one in kept.orders() if one.stream == "b")


@pytest.mark.parametrize("method", ["hybrid", "eager"])
def test_an_order_is_left_for_a_better_one_and_taken_up_again(tmp_path: Path, method: str) -> None:
    kept = keeper(tmp_path, join_method=method)
    kept.learn(told(0, to_a=5000, to_c=10))
    assert order_of_b(kept).index("c") < order_of_b(kept).index("a")
    assert kept.learn(told(1, to_a=10, to_c=5000))
    assert order_of_b(kept).index("a") < order_of_b(kept).index("c")
    assert "micro-batch 2: order for new tuples of" in kept.switches[-1]
    assert "joins" in kept.switches[-1]  # the share that joins changed
    assert kept.applied(Work(plan(), frozenset(), frozenset())).shard.orders == {
        plan().groups[0].signature: next(iter(kept.joins.values())).orders
    }


@pytest.mark.parametrize("method", ["general", "naive"])
def test_orders_never_change_without_a_word(tmp_path: Path, method: str) -> None:
    """What the driver shows is what shards were told."""
    kept = keeper(tmp_path, join_method=method, reevaluate_us=10**6, expire_us=0)
    changes = 0
    for batch, to_a in enumerate((10, 40_000, 10, 40_000)):
        before = kept.orders()
        is_changed = kept.learn(told(batch, to_a=to_a, to_c=40_010 - to_a))
        assert is_changed == (kept.orders() != before) == (len(kept.switches) > changes)
        changes = len(kept.switches)
        if method == "naive":
            assert len({one.order for one in kept.orders()}) == 1
    assert changes or method == "naive"


def test_a_silent_stream_does_not_stop_it(tmp_path: Path) -> None:
    kept = keeper(tmp_path)
    for batch in range(6):
        kept.learn(told(batch, to_a=5000, to_c=10, heard="ab"))
    assert order_of_b(kept) == ("b", "c", "a")


HOUR_US = 3600 * 10**6


@pytest.mark.parametrize("who", ["one of the join", "another", "a late tuple"])
def test_orders_are_the_same_whoever_lags(tmp_path: Path, who: str) -> None:
    """A rate is by the time that a stream brought itself, not by how far others are from it."""
    kept, even = keeper(tmp_path / who), keeper(tmp_path / "even")
    for batch, (to_a, to_c) in enumerate(((5000, 10), (5000, 10), (10, 5000))):
        begin_us, end_us = batch * 10**6, (batch + 1) * 10**6 - 1
        times_us = {
            "one of the join": {"a": (begin_us - HOUR_US, end_us - HOUR_US)},
            "another": {"d": (begin_us - HOUR_US, end_us - HOUR_US)},
            "a late tuple": {"b": (begin_us - HOUR_US if batch else begin_us, end_us)},
        }[who]
        kept.learn(told(batch, to_a, to_c, times_us=times_us))
        even.learn(told(batch, to_a, to_c))
        assert kept.orders() == even.orders()
    ((join,), (other,)) = kept.joins.values(), even.joins.values()
    assert join.facts.sizes == other.facts.sizes
    assert join.facts.rates == pytest.approx(other.facts.rates, rel=0.01)


def test_orders_do_not_waver_with_a_stream_that_comes_now_and_then(tmp_path: Path) -> None:
    """What it brought is still in its window when a micro-batch has nothing of it, or when it has gone for good."""
    kept = keeper(tmp_path)
    for batch in range(250):
        kept.learn(told(batch, to_a=100, to_c=300, heard="abc" if batch % 10 == 0 and batch < 50 else "ab"))
    assert order_of_b(kept) == ("b", "a", "c")
    assert len(kept.switches) <= 1
    assert {one.order for one in kept.orders()} == {("a", "b", "c"), ("b", "a", "c"), ("c", "b", "a")}


@pytest.mark.parametrize("empty_for", [range(20), range(10, 60)])
def test_an_empty_window_is_no_reason_for_a_cross_product_when_it_fills_up(tmp_path: Path, empty_for: range) -> None:
    """It may do so in one micro-batch, by the orders of before: whether c was never heard of or pauses."""
    kept = keeper(tmp_path)
    for batch in range(70):
        is_empty = batch in empty_for
        held = (500, 250, 0 if is_empty else 500)
        kept.learn(told(batch, to_a=300, to_c=0 if is_empty else 300, heard="ab" if is_empty else "abc", held=held))
        assert next(one.order for one in kept.orders() if one.stream == "a") == ("a", "b", "c")
        if is_empty:
            assert order_of_b(kept) == ("b", "c", "a")  # that is found by an index, full or not


def test_a_window_that_never_holds_much_is_gone_through_first(tmp_path: Path) -> None:
    """Though no predicate leads from a to c: where c has a tuple now and then, most of a end there."""
    kept = keeper(tmp_path)
    for batch in range(20):
        kept.learn(told(batch, to_a=40_000, to_c=1, held=(500, 250, 1), heard="abc" if batch % 5 == 0 else "ab"))
    assert next(one.order for one in kept.orders() if one.stream == "a") == ("a", "c", "b")


def test_small_differences_and_a_threshold_of_none_change_nothing(tmp_path: Path) -> None:
    kept = keeper(tmp_path)
    kept.learn(told(0, to_a=100, to_c=100))
    order = order_of_b(kept)
    assert not kept.learn(told(1, to_a=101, to_c=99))
    assert not kept.learn(told(2, to_a=99, to_c=101))
    assert order_of_b(kept) == order
    fixed = keeper(tmp_path, order_switch=None)
    before = fixed.orders()
    assert not fixed.learn(told(0, to_a=5000, to_c=1))
    assert fixed.orders() == before


@pytest.mark.parametrize("order_switch", [0.2, None])
def test_what_a_cell_holds_is_shown_as_it_was_measured(tmp_path: Path, order_switch: float | None) -> None:
    """1,000 tuples of each stream are in its window: half of a and c, cut by one key of two, and a quarter of b, cut by
    both, are a cell's."""
    kept = keeper(tmp_path, order_switch=order_switch)
    settings = kept.settings
    assert "measured" not in explain(plan(), settings, grids=kept.known, joins=kept.joins)
    kept.learn(told(0, to_a=5, to_c=5, held=(500, 250, 500)))
    text = explain(plan(), settings, grids=kept.known, joins=kept.joins)
    (line,) = [one for one in text.splitlines() if "per cell" in one]
    assert line.endswith("about 1,250 tuples held of 3,000, as measured")


def test_a_restart_goes_on_with_the_orders_that_a_run_had_come_to(tmp_path: Path) -> None:
    kept = keeper(tmp_path)
    kept.learn(told(0, to_a=10, to_c=5000))
    assert kept.learn(told(1, to_a=5000, to_c=10))
    (measured,) = kept.joins.values()
    again = keeper(tmp_path)
    assert again.orders() == kept.orders() != keeper(tmp_path, join_method="naive").orders()
    (resumed,) = again.joins.values()
    assert (resumed.facts, resumed.choices, resumed.is_measured) == (measured.facts, measured.choices, True)
    assert not again.learn(told(2, to_a=5000, to_c=10))
    assert again.learn(told(3, to_a=10, to_c=5000))
    assert "the share of" in again.switches[-1]  # what has changed since is said, too


class Searches:
    """Counts searches over orders; each takes a second of its own clock."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_s = 0.0
        self.made = 0
        monkeypatch.setattr(joins, "choices_for", self._search)

    def clock(self) -> float:
        return self.now_s

    def _search(self, *given: Any) -> Any:
        self.made += 1
        self.now_s += 1.0
        return choices_for(*given)


def test_orders_are_searched_again_when_a_fact_has_moved_since_the_last_search(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept, searches = keeper(tmp_path), Searches(monkeypatch)
    made = []
    for batch, to_a in enumerate((1000, 1000, 1020, 1040, 1060, 1080, 5)):
        kept.learn(told(batch, to_a=to_a, to_c=1000))
        made.append(searches.made)
    assert made == [1, 1, 1, 1, 2, 2, 3]


def test_orders_that_were_not_searched_again_are_shown_at_what_they_cost_now(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept, searches = keeper(tmp_path), Searches(monkeypatch)
    kept.learn(told(0, to_a=1000, to_c=3000))
    kept.learn(told(1, to_a=1040, to_c=3000))
    assert searches.made == 1
    (join,) = kept.joins.values()
    assert join.choices == choices_for("hybrid", join.facts)


def test_searches_for_many_streams_have_a_share_of_the_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(joins, "EXACT_SIDES", 2)  # as if three were many
    kept, searches = keeper(tmp_path), Searches(monkeypatch)
    kept.clock = searches.clock
    for batch in range(100):  # each so different that it would be a reason to search
        kept.learn(told(batch, to_a=10 if batch % 2 else 40_000, to_c=1000))
        searches.now_s += 1.0
    assert searches.made == 5


def test_plans_that_are_known_are_not_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = keeper(tmp_path)
    monkeypatch.setattr(joinplans, "plan_join", lambda *_: pytest.fail("planned again"))
    kept.adopt(plan())
    assert "new b: " in explain(plan(), kept.settings, joins=kept.joins, grids=kept.known)


def test_heavy_keys_are_written_down_before_a_tuple_is_sent_by_them(tmp_path: Path) -> None:
    kept = keeper(tmp_path)
    (group,) = plan().groups
    dimension = kept.known[group.signature].dimensions[0]
    seen = json.dumps([[group.signature, dimension.attribute, dimension.sides[0], 2000, [[7, 1900]]]])
    assert kept.learn(told(0, to_a=1, to_c=1, seen=seen))
    (heavy,) = read_grids(tmp_path / "grids.json")[group.signature].heavy
    assert (heavy.number, heavy.since_us) == (7, 10**6)
    assert f"95% of its tuples is split over {dimension.share} cells" in kept.switches[-1]
    assert keeper(tmp_path).known == kept.known


def test_heavy_keys_are_split_however_far_ahead_streams_of_other_joins_are(tmp_path: Path) -> None:
    """A join that goes through the past next to one of now would else have its keys split when it comes to now."""
    kept = keeper(tmp_path)
    kept.learn(told(0, to_a=1, to_c=1, seen=seen_of(2000, (7, 1900)), times_us={"d": (HOUR_US, 2 * HOUR_US)}))
    (grid,) = kept.known.values()
    assert [(one.number, one.since_us) for one in grid.heavy] == [(7, 10**6)]


def seen_of(rows: int, *keys: tuple[int, int]) -> str:
    """What source tasks tell of the first dimension's first side."""
    (group,) = plan().groups
    dimension = joinplans.plan_joins(plan(), Settings(shards=4))[group.signature].grid.dimensions[0]
    return json.dumps([[group.signature, dimension.attribute, dimension.sides[0], rows, [list(key) for key in keys]]])


def test_keys_of_small_micro_batches_are_added_up(tmp_path: Path) -> None:
    kept = keeper(tmp_path, order_switch=None)
    told_of = [kept.learn(told(batch, to_a=1, to_c=1, seen=seen_of(200, (7, 190)))) for batch in range(6)]
    assert told_of == [False] * 5 + [True]
    (grid,) = kept.known.values()
    assert [(one.number, one.since_us) for one in grid.heavy] == [(7, 6 * 10**6)]
    assert "a key of a with 95% of its tuples is split" in kept.switches[-1]


def test_a_key_that_is_frequent_in_one_small_micro_batch_only_is_not_heavy(tmp_path: Path) -> None:
    kept = keeper(tmp_path, order_switch=None)
    for batch in range(12):
        keys = [(7, 190)] if batch % 6 == 5 else []
        assert not kept.learn(told(batch, to_a=1, to_c=1, seen=seen_of(200, *keys)))


@pytest.mark.parametrize(
    ("shards", "said"), [(2, []), (4, ["a key of a with 95% of its tuples is split over 3 cells"])]
)
def test_heavy_keys_of_a_stream_joined_with_itself_are_split_where_cells_are_enough(
    tmp_path: Path, shards: int, said: list[str]
) -> None:
    script = read_script(STREAMS + "CREATE QUERY q AS SELECT s.y FROM a s, a t WHERE s.x = t.x WINDOW 10 SECONDS;")
    itself = share(script.catalog, script.queries)
    kept = JoinKeeper(Settings(shards=shards), tmp_path / "grids.json")
    kept.adopt(itself)
    seen = json.dumps([[itself.groups[0].signature, 0, 0, 2000, [[7, 1900]]]])
    assert kept.learn(told(0, to_a=1, to_c=1, seen=seen)) == bool(said)
    assert [one.split(": ", 1)[1] for one in kept.take_switches()] == said
    assert kept.take_switches() == ()
    text = explain(itself, Settings(shards=shards), grids=kept.known)
    assert ("1 heavy key: over 3 cells, a tuple to 2 of them" in text) == bool(said)


def test_sizes_of_indexes_follow_what_is_measured(tmp_path: Path) -> None:
    kept = keeper(tmp_path, index_buckets=10, order_switch=0.99)
    work = kept.applied(Work(plan(), frozenset(), frozenset()))
    first = dict(work.shard.buckets)
    for batch in range(3):
        if kept.learn(told(batch, to_a=400, to_c=1, held=(500, 250, 500))):
            work = kept.applied(work)
    assert sum(map(len, work.shard.buckets.values())) == 3
    assert work.shard.buckets != first
