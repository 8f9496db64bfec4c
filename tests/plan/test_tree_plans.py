"""Trees that are set: which joins run by them, and a checkpoint that ran by another."""

from __future__ import annotations

import pytest

from headrace.config import CHEAPEST_TREE, Settings
from headrace.errors import PlanError
from headrace.plan.joinplans import plan_joins
from headrace.plan.sharing import SharedPlan, share
from headrace.plan.tree_plans import check_kept_trees, plan_trees, shared_by
from headrace.sql import read_script

STREAMS = "".join(
    f"CREATE STREAM {name} (x BIGINT, ts TIMESTAMP) WITH (connector = 'generator', time = 'ts');" for name in "abc"
)


def planned(tree: str | None, *ends: str) -> SharedPlan:
    queries = "".join(
        f"CREATE QUERY q{number} AS SELECT a.x FROM a, b, c WHERE a.x = b.x AND b.x = c.x WINDOW {end};"
        for number, end in enumerate(ends)
    )
    script = read_script(STREAMS + queries)
    return share(script.catalog, script.queries, tree)


def signatures(plan: SharedPlan) -> list[str]:
    return [group.signature for group in plan.groups]


def test_a_join_that_defers_runs_by_a_tree_only_where_one_is_set() -> None:
    (without,), (by_tree,) = planned(None, "1 MINUTE").groups, planned("((a c) b)", "1 MINUTE").groups
    assert not without.is_tree
    assert by_tree.is_tree
    assert not by_tree.adapts
    assert by_tree.tree is not None
    assert by_tree.tree.text("abc") == "((a c) b)"
    assert not planned("((a c) b)", "1 MINUTE EMIT EARLY").groups[0].is_tree


def test_windows_of_time_share_a_tree_and_windows_of_rows_do_not() -> None:
    assert len(planned("((a c) b)", "1 MINUTE", "2 MINUTES").groups) == 1
    assert len(planned("((a c) b)", "10 ROWS", "20 ROWS").groups) == 2


def test_whatever_the_service_rate_nothing_is_left_out_of_a_join_that_defers() -> None:
    settings = Settings(service_rate=1.0, allocator="jda")
    plan = planned("((a c) b)", "1 MINUTE")
    (tree,) = plan_trees(plan, settings, plan_joins(plan, settings)).values()
    assert tree.allocation.is_unlimited
    assert tree.allocation.allocator == "none"


def by_cost(rates: dict[str, int], *ends: str) -> SharedPlan:
    streams = "".join(
        f"CREATE STREAM {name} (x BIGINT, ts TIMESTAMP) WITH (connector = 'generator', time = 'ts', rate = '{rate}');"
        for name, rate in rates.items()
    )
    queries = "".join(
        f"CREATE QUERY q{number} AS SELECT a.x FROM a, b, c WHERE a.x = b.x AND b.x = c.x WINDOW {end};"
        for number, end in enumerate(ends)
    )
    script = read_script(streams + queries)
    return shared_by(script.catalog, script.queries, Settings(plan=CHEAPEST_TREE))


def test_the_cheapest_tree_of_a_join_that_defers_follows_the_rates() -> None:
    texts = []
    for fast in "abc":
        plan = by_cost(dict.fromkeys("abc", 10) | {fast: 1000}, "1 MINUTE")
        (group,) = plan.groups
        assert group.tree is not None
        texts.append(group.tree.text("abc"))
        (found,) = plan_trees(plan, Settings(plan=CHEAPEST_TREE), plan_joins(plan, Settings())).values()
        assert found.tree == group.tree
        assert found.choice is not None
        assert found.choice.tree == group.tree
    slow = [{*"abc"} - {fast} for fast in "abc"]
    assert [set(text.split("(")[2].split(")")[0].split()) for text in texts] == slow, texts


def test_a_chosen_tree_stays_when_other_queries_come() -> None:
    rates = {"a": 1000, "b": 10, "c": 100}
    before, after = by_cost(rates, "1 MINUTE"), by_cost(rates, "1 MINUTE", "1 HOUR", "5 ROWS")
    assert signatures(before)[0] in signatures(after)
    check_kept_trees(after, signatures(before))
    (early,) = by_cost(rates, "1 MINUTE EMIT EARLY").groups
    assert not early.is_tree


def test_pairs_and_joins_that_adapt_are_as_without_a_tree() -> None:
    plan = by_cost(dict.fromkeys("abc", 10), "1 MINUTE ON OVERLOAD ADAPT")
    assert [group.tree for group in plan.groups] == [None]
    assert [group.adapts for group in plan.groups] == [True]


@pytest.mark.parametrize(
    ("before", "now", "said"),
    [
        (None, "((a c) b)", "query q0 runs by ((a c) b) now, and ran by no tree before"),
        ("((a c) b)", None, "query q0 runs by no tree now, and ran by ((a c) b) before"),
        ("((a c) b)", "((a b) c)", "query q0 runs by ((a b) c) now, and ran by ((a c) b) before"),
    ],
)
@pytest.mark.parametrize("window", ["1 MINUTE", "10 ROWS"])
def test_a_checkpoint_goes_on_by_the_tree_it_ran_by(
    before: str | None, now: str | None, said: str, window: str
) -> None:
    kept = signatures(planned(before, window))
    with pytest.raises(PlanError) as refused:
        check_kept_trees(planned(now, window), kept)
    assert said in str(refused.value)
    check_kept_trees(planned(before, window, "30 SECONDS", "20 ROWS", "1 MINUTE ON OVERLOAD ADAPT"), kept)
