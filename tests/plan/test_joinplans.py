"""What is known before a run and while it goes on, the orders and upkeep chosen by it, and methods that are refused."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from headrace.config import JOIN_METHODS, Settings
from headrace.errors import PlanError, SettingError
from headrace.plan.costs import JoinFacts
from headrace.plan.explain import METHOD_TEXTS
from headrace.plan.facts import Measured, declared_facts, joined_pairs, measured_facts
from headrace.plan.joinplans import buckets_of, check_method, expiry_us, plan_join, plan_joins
from headrace.plan.methods import choices_for, cost_for, orders_for
from headrace.plan.sharing import Group, SharedPlan, share
from headrace.sql import read_script

STREAMS = "".join(
    f"CREATE STREAM {name} (x BIGINT, y BIGINT, ts TIMESTAMP) "
    f"WITH (connector = 'generator', rate = '{rate}', keys = '9', time = 'ts');"
    for name, rate in (("a", 10), ("b", 100), ("c", 1000))
)
CHAIN = "a.x = b.x AND b.y = c.y"


def plan_of(condition: str, window: str = "10 SECONDS") -> SharedPlan:
    script = read_script(f"{STREAMS} CREATE QUERY q AS SELECT a.x FROM a, b, c WHERE {condition} WINDOW {window};")
    return share(script.catalog, script.queries)


def group_of(condition: str, window: str = "10 SECONDS") -> tuple[Group, SharedPlan]:
    plan = plan_of(condition, window)
    return plan.groups[0], plan


def test_declared_rates_and_windows_give_sizes() -> None:
    group, plan = group_of(CHAIN)
    facts = declared_facts(group, plan.catalog)
    assert facts.rates == (10, 100, 1000)
    assert facts.sizes == (100, 1000, 10_000)
    assert set(facts.matches) == {(0, 1), (1, 0), (1, 2), (2, 1)}
    assert facts.indexed == set(facts.matches)
    rows, plan = group_of(CHAIN, "7 ROWS")
    assert declared_facts(rows, plan.catalog).sizes == (7, 7, 7)


def test_measured_matches_are_the_mean_of_what_shards_tried() -> None:
    group, _ = group_of(CHAIN)
    shards = [Measured((4, 10, 30), {(0, 1): (4, 8), (1, 2): (2, 10)}), Measured((6, 20, 10), {(0, 1): (4, 24)})]
    facts = measured_facts(group, (1.0, 2.0, 0.7), shards)
    assert facts.sizes == (5, 15, 20)
    assert facts.matches[0, 1] == 4
    assert facts.matches[1, 2] == 5
    assert facts.matches[2, 1] == 1  # nothing was tried: a guess


def test_pairs_are_joined_by_a_predicate_between_the_two_alone() -> None:
    group, _ = group_of("a.x = b.x AND a.y + b.y < c.y")
    assert group.graph is not None
    assert list(joined_pairs(group.graph)) == [(0, 1), (1, 0)]


HUB = JoinFacts((10.0, 10.0, 10.0), (1000.0, 50.0, 100.0), {(1, 0): 100.0, (1, 2): 0.1}, {(1, 0): 0, (1, 2): 1},
                frozenset(((1, 0), (0, 1), (1, 2), (2, 1))))  # fmt: skip


def test_the_selective_side_comes_first() -> None:
    assert orders_for("hybrid", HUB)[1] == (1, 2, 0)


@pytest.mark.parametrize("method", JOIN_METHODS)
def test_every_method_has_an_order_for_each_side_and_a_text(method: str) -> None:
    orders = orders_for(method, HUB, tau_s=1.0)
    assert [sorted(order) for order in orders] == [[0, 1, 2]] * 3
    if method == "naive":
        assert len(set(orders)) == 1
    elif method != "general":
        assert [order[0] for order in orders] == [0, 1, 2]
    assert method in METHOD_TEXTS


def test_many_new_tuples_of_a_fast_stream_are_not_ordered_first() -> None:
    """Section 4.2, Figure 3(b): with a large tau it is better to begin with a small window."""
    edges = {(i, j): 2.0 for i in range(3) for j in range(3) if i != j}
    facts = JoinFacts((1.0, 1.0, 500.0), (10.0, 10.0, 5000.0), edges, dict.fromkeys(edges, 0), frozenset())
    assert orders_for("general", facts, tau_s=5.0)[2][0] != 2
    assert orders_for("general", facts, tau_s=0.001)[2][0] == 2


@pytest.mark.parametrize("method", ["general", "naive"])
def test_a_stream_that_has_become_silent_is_not_free_to_begin_with(method: str) -> None:
    """Its window is still full."""
    edges = {(0, 1): 2.0, (1, 2): 0.01}
    facts = JoinFacts((0.0, 10.0, 10.0), (5000.0, 10.0, 10.0), edges, {}, frozenset())
    assert cost_for(method, facts, 1, (0, 1, 2), 1.0) > cost_for(method, facts, 1, (1, 2, 0), 1.0) > 0
    assert orders_for(method, facts, tau_s=1.0)[1][0] != 0


@pytest.mark.parametrize("method", JOIN_METHODS)
def test_a_window_that_was_full_before_is_no_cheap_cross_product(method: str) -> None:
    """The third has a predicate with the second only. New tuples are as few as they are, wherever an order has them."""
    edges = {(0, 1): 5.0, (1, 0): 5.0, (1, 2): 5.0, (2, 1): 5.0}
    indexed = frozenset(edges)
    empty = JoinFacts((10.0, 10.0, 0.0), (1000.0, 1000.0, 0.0), edges, {(0, 1): 0, (1, 2): 1}, indexed)
    full = replace(empty, most=(1000.0, 1000.0, 1000.0))
    assert method == "index" or cost_for(method, empty, 0, (0, 2, 1), 1.0) == 0
    assert cost_for(method, full, 0, (0, 2, 1), 1.0) >= 10_000
    assert cost_for(method, full, 0, (0, 1, 2), 1.0) == cost_for(method, empty, 0, (0, 1, 2), 1.0)
    assert cost_for(method, full, 0, (2, 0, 1), 1.0) == cost_for(method, empty, 0, (2, 0, 1), 1.0)


def test_by_indexes_alone_no_window_is_scanned_though_it_is_short() -> None:
    edges = {(0, 1): 1000.0, (1, 0): 1000.0, (1, 2): 0.002, (2, 1): 1.0}
    facts = JoinFacts((10.0,) * 3, (1000.0, 1000.0, 2.0), edges, {(0, 1): 0, (1, 2): 1}, frozenset(edges))
    assert orders_for("hybrid", facts)[0] == (0, 2, 1)
    choice = choices_for("index", facts)[0]
    assert (choice.order, choice.runner_up) == ((0, 1, 2), None)
    assert choice.cost == cost_for("index", facts, 0, (0, 1, 2))


def test_comparisons_of_three_streams_are_an_index_too() -> None:
    group, plan = group_of("a.x = b.x AND c.y BETWEEN a.y + b.y AND a.y + b.y + 5")
    choices = choices_for("index", declared_facts(group, plan.catalog))
    assert all(math.isfinite(choice.cost) for choice in choices)


def test_expiry_and_buckets_follow_the_settings() -> None:
    group, plan = group_of(CHAIN)
    facts = plan_join(group, plan.catalog, Settings()).facts
    assert expiry_us(group, Settings(), facts) == 0
    assert expiry_us(group, Settings(expire_us=5), facts) == 5
    scanned = expiry_us(group, Settings(join_method="eager"), facts)
    assert 0 < scanned <= 3_000_000
    assert buckets_of(group, Settings(), facts) is None
    shares = buckets_of(group, Settings(index_buckets=10), facts)
    assert shares is not None
    assert sum(shares) <= 30
    assert shares[2] > shares[0]
    bucketed = plan_join(group, plan.catalog, Settings(index_buckets=10))
    assert bucketed.facts.buckets == shares
    exact = plan_join(group, plan.catalog, Settings())
    assert all(one.cost > 5 * other.cost for one, other in zip(bucketed.choices, exact.choices, strict=True))


@pytest.mark.parametrize(
    ("settings", "condition", "text"),
    [
        (Settings(join_method="lazy"), CHAIN, "say how long it is"),
        (Settings(join_method="general"), CHAIN, "SET reevaluate"),
        (Settings(join_method="eager", reevaluate_us=1), CHAIN, "take lazy"),
        (Settings(join_method="index"), "a.x = b.x", "take hybrid"),
    ],
)
def test_methods_that_cannot_do_it_are_refused(settings: Settings, condition: str, text: str) -> None:
    with pytest.raises(PlanError, match=text):
        check_method(plan_of(condition), settings)


def test_methods_that_can_are_not() -> None:
    for settings in (Settings(join_method="index"), Settings(join_method="lazy", reevaluate_us=1), Settings()):
        check_method(plan_of(CHAIN), settings)


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("index_buckets", "AUTO", None),
        ("index_buckets", "12", 12),
        ("expire", "2 seconds", 2_000_000),
        ("order_switch", "none", None),
        ("order_switch", "0.35", 0.35),
    ],
)
def test_settings_take_a_word_or_a_number(name: str, text: str, value: object) -> None:
    settings = Settings().with_text(name, text)
    assert getattr(settings, {"expire": "expire_us"}.get(name, name)) == value


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("index_buckets", "0", "whole number from 1 to 1000000, or auto"),
        ("order_switch", "1.5", "a share from 0 to 1, such as 0.2, or none"),
        ("expire", "soon", "or auto"),
        ("join_method", "hash", "hybrid, index, eager, lazy, general, naive"),
    ],
)
def test_settings_say_what_is_allowed(name: str, text: str, said: str) -> None:
    with pytest.raises(SettingError, match=said):
        Settings().with_text(name, text)


def test_a_grid_that_is_known_stays() -> None:
    plan = plan_of(CHAIN)
    (signature,) = plan_joins(plan, Settings(shards=4))
    kept = plan_joins(plan, Settings(shards=4))[signature].grid
    assert plan_joins(plan, Settings(shards=2), {signature: kept})[signature].grid == kept
