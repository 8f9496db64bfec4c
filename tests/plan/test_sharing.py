"""Which queries share a group, what runs below the join, which queries are one class."""

from __future__ import annotations

from dataclasses import replace

import pytest

from headrace.errors import PlanError
from headrace.model import Catalog, QueryId
from headrace.plan.expressions import conditions_text, expression_text
from headrace.plan.queries import Extent, Measure, within_us
from headrace.plan.sharing import Delivery, Group, KeyForm, SharedPlan, share
from headrace.sql import read_script

STREAMS = """
CREATE STREAM t (k BIGINT, n INT, s STRING, x DOUBLE, b BOOLEAN, d DATE, m TIMESTAMP, p DECIMAL(6, 2), ts TIMESTAMP)
  WITH (connector = 'files', format = 'parquet', path = 't', time = 'ts');
CREATE STREAM h (k BIGINT, n INT, s STRING, x DOUBLE, b BOOLEAN, d DATE, m TIMESTAMP, p DECIMAL(6, 2), ts TIMESTAMP)
  WITH (connector = 'files', format = 'parquet', path = 'h', time = 'ts');
"""
CATALOG = read_script(STREAMS).catalog


def plan_of(*selects: str) -> SharedPlan:
    script = ";".join(f"CREATE QUERY q{number} AS {select}" for number, select in enumerate(selects, 1))
    return share(CATALOG, read_script(script, CATALOG).queries)


def joined(condition: str, *, window: str = "5 SECONDS", columns: str = "a.ts", streams: str = "t a, h b") -> str:
    return f"SELECT {columns} FROM {streams} WHERE {condition} WINDOW {window}"


def only_group(*selects: str) -> Group:
    (group,) = plan_of(*selects).groups
    return group


def members(group: Group) -> list[list[str]]:
    return [[member.query for member in cls.members] for cls in group.classes]


# --- groups


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(joined("a.k = b.k", window="1 HOUR"), id="another window"),
        pytest.param(joined("a.k = b.k", columns="b.x"), id="another select list"),
        pytest.param(joined("a.k = b.k AND a.x > 3"), id="another filter"),
        pytest.param(joined("b.k = a.k"), id="equality turned round"),
        pytest.param(joined("one.k = two.k", columns="one.ts", streams="t one, h two"), id="other aliases"),
        pytest.param(joined("a.k = b.k", streams="h b, t a"), id="FROM turned round"),
        pytest.param("SELECT a.ts FROM t a JOIN h b ON a.k = b.k WINDOW 5 SECONDS", id="JOIN ON"),
        pytest.param(joined("a.k = b.k") + " INTO (connector = 'count')", id="another sink"),
    ],
)
def test_queries_with_the_same_streams_and_equalities_share_a_group(other: str) -> None:
    assert len(plan_of(joined("a.k = b.k"), other).groups) == 1


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(joined("a.n = b.n"), id="another key"),
        pytest.param(joined("a.k = b.k AND a.n = b.n"), id="one more key"),
        pytest.param(joined("a.k = b.k", streams="t a, t b"), id="another stream"),
        pytest.param(joined("a.k = b.n"), id="another key on one side"),
        pytest.param("SELECT ts FROM t", id="one stream"),
    ],
)
def test_queries_with_other_streams_or_equalities_do_not(other: str) -> None:
    assert len(plan_of(joined("a.k = b.k"), other).groups) == 2


def test_several_equalities_are_one_key_in_whatever_order() -> None:
    group = only_group(joined("a.k = b.n AND a.s = b.s"), joined("b.s = a.s AND b.n = a.k"))
    assert [expression_text(key) for key in group.inputs[0].keys] == ["k", "s"]
    assert all(cls.filters == () for cls in group.classes)


def test_windows_are_the_bands_bounds() -> None:
    windows = ("5 SECONDS", "1 SECOND", "5 SECONDS", "0 SECONDS")
    group = only_group(*(joined("a.k = b.k", window=window) for window in windows))
    assert group.windows == ((0, 0), (1_000_000, 1_000_000), (5_000_000, 5_000_000))


def test_windows_of_each_stream_share_and_a_window_that_holds_another_comes_after_it() -> None:
    group = only_group(
        joined("a.k = b.k", window="5 SECONDS"),
        joined("a.k = b.k", window="1 SECOND", streams="t a [RANGE 7 SECONDS], h b"),
        joined("a.k = b.k", window="1 SECOND", streams="h b, t a [RANGE 0 SECONDS]"),
        joined("a.k = b.k", window="1 SECOND"),
    )
    assert group.windows == ((0, 1_000_000), (1_000_000,) * 2, (7_000_000, 1_000_000), (5_000_000,) * 2)
    assert group.counts_rows == (False, False)


def test_windows_of_time_and_of_rows_are_groups_of_their_own() -> None:
    windows = ("5 SECONDS", "5 ROWS", "7 ROWS")
    plan = plan_of(
        *(joined("a.k = b.k", window=one) for one in windows),
        joined("a.k = b.k", window="5 ROWS", streams="h b [RANGE 2 SECONDS], t a"),
    )
    times, rows, mixed = plan.groups
    assert [one.signature for one in plan.groups] == [
        "t(k) = h(k)",
        "t(k) = h(k) by rows, rows",
        "t(k) = h(k) by rows, time",
    ]
    assert (times.windows, rows.windows, mixed.windows) == (
        ((5_000_000, 5_000_000),),
        ((5, 5), (7, 7)),
        ((5, 2_000_000),),
    )
    assert [one.counts_rows for one in plan.groups] == [(False, False), (True, True), (True, False)]


def test_both_inputs_of_one_stream_are_counted_if_either_side_is() -> None:
    assert only_group(joined("a.k = b.n", window="5 SECONDS", streams="t a, t b [ROWS 3]")).counts_rows == (True, True)


def test_streams_without_an_equality_share_when_all_they_compare_is_the_same() -> None:
    group = only_group(joined("a.x < b.x"), joined("b.x > a.x AND a.n = 1", window="1 HOUR"))
    assert group.signature == "t x h on (t.x < h.x)"
    assert group.graph is not None
    assert [one.function for one in group.graph.ranges] == ["<", ">"]
    assert [conditions_text(one.filters, ("a", "b")) for one in group.classes] == ["nothing filtered", "(a.n = 1)"]
    others = plan_of(joined("a.x < b.x"), joined("a.n <> b.n"), joined("TRUE"))
    assert len(others.groups) == 3


def test_queries_over_one_stream_share_its_scan() -> None:
    group = only_group("SELECT ts FROM t", "SELECT x FROM t WHERE k = 1")
    assert not group.is_join
    assert group.inputs[0].keys == ()


# --- sides


def test_sides_are_in_catalog_order_however_from_has_them() -> None:
    group = only_group(joined("a.k = b.n AND b.x > 1", streams="h b, t a", columns="b.x, a.ts"))
    assert [input.stream for input in group.inputs] == ["t", "h"]
    assert group.signature == "t(k) = h(TRY_CAST(n AS BIGINT))"
    (cls,) = group.classes
    assert [expression_text(one.expression, ("left", "right")) for one in cls.outputs] == ["right.x", "left.ts"]
    assert [conditions_text(one.pushed) for one in group.inputs] == ["nothing filtered", "(x > 1.0e0)"]


def test_a_self_join_on_one_key_reads_one_input_twice() -> None:
    group = only_group(joined("a.k = b.k AND a.x < b.n", streams="t a, t b", columns="b.s"))
    assert group.sides == (0, 0)
    assert not group.numbers_tuples
    assert group.inputs[0].schema.names == ("n", "s", "x", "ts")


def test_a_self_join_on_two_keys_reads_two_inputs_and_keeps_froms_order() -> None:
    """Which of two results with the same two tuples comes first is FROM's to say."""
    straight = joined("a.s = b.s AND a.k = b.n", streams="t a, t b")
    group = only_group(straight)
    assert group.sides == (0, 1)
    assert group.numbers_tuples
    assert len(plan_of(straight, joined("b.s = a.s AND b.k = a.n", streams="t a, t b")).groups) == 2


def test_groups_of_two_streams_or_of_a_scan_number_no_tuples() -> None:
    assert not any(group.numbers_tuples for group in plan_of(joined("a.k = b.n"), "SELECT ts FROM t").groups)


# --- filters


def test_filters_that_all_queries_have_run_before_the_join() -> None:
    group = only_group(
        joined("a.k = b.k AND a.x > 3 AND b.x > 4"), joined("b.x > 5 AND a.k = b.k AND 3 < a.x AND a.x > 3")
    )
    assert [conditions_text(one.pushed) for one in group.inputs] == ["(x > 3.0e0)", "nothing filtered"]
    assert [conditions_text(one.filters, ("t", "h")) for one in group.classes] == [
        "(h.x > 4.0e0)",
        "(h.x > 5.0e0) AND (3.0e0 < t.x)",
    ]


@pytest.mark.parametrize(
    ("conditions", "expected"),
    [
        (("a.x > 90", "a.x > 95"), "(x > 90.0e0)"),
        (("a.x > 90", "a.x >= 90"), "(x >= 90.0e0)"),
        (("95 < a.x", "a.x > 90 AND a.x < 99", "a.x = 97"), "(x > 90.0e0)"),
        (("a.n BETWEEN 2 AND 5", "a.n = 7", "a.n > 3 AND a.n <= 4"), "(n >= 2) AND (n <= 7)"),
        (("a.x > 90 AND a.n = 1", "a.x > 95 AND a.n = 1"), "(n = 1) AND (x > 90.0e0)"),
        (("a.x > 90", "a.x < 95"), "nothing filtered"),
        (("a.x > 90", "b.x > 90"), "nothing filtered"),
        (("a.x > 90", "a.x + 1 > 95"), "nothing filtered"),
        (("a.x > 90 OR a.n = 1", "a.x > 95"), "nothing filtered"),
        (("a.s > 'a'", "a.s > 'b'"), "nothing filtered"),
    ],
)
def test_bounds_that_all_queries_imply_run_below_the_join_and_each_asks_its_own_after_it(
    conditions: tuple[str, ...], expected: str
) -> None:
    group = only_group(*(joined(f"a.k = b.k AND ({one})") for one in conditions))
    assert conditions_text(group.inputs[0].selection) == expected
    alone = [only_group(joined(f"a.k = b.k AND ({one})")).classes[0] for one in conditions]
    assert [set(cls.conditions_on(0)) for cls in group.classes] == [set(cls.conditions_on(0)) for cls in alone]


def test_both_sides_of_a_stream_joined_with_itself_must_imply_a_bound() -> None:
    one_sided = joined("a.k = b.k AND a.x > 90", streams="t a, t b")
    both = [joined(f"a.k = b.k AND a.x > {one} AND b.x > {one + 1}", streams="t a, t b") for one in (90, 95)]
    assert conditions_text(only_group(one_sided, both[0]).inputs[0].selection) == "nothing filtered"
    assert conditions_text(only_group(*both).inputs[0].selection) == "(x > 90.0e0)"


def test_columns_that_only_pushed_filters_read_are_not_carried() -> None:
    assert only_group(joined("a.k = b.k AND a.x > 3")).inputs[0].schema.names == ("ts",)
    both = only_group(joined("a.k = b.k AND a.x > 3"), joined("a.k = b.k"))
    assert both.inputs[0].schema.names == ("x", "ts")


def test_a_self_joins_filter_runs_before_it_only_if_both_sides_have_it() -> None:
    one = only_group(joined("a.k = b.k AND a.x > 3", streams="t a, t b"))
    assert conditions_text(one.inputs[0].pushed) == "nothing filtered"
    assert conditions_text(one.classes[0].filters, ("a", "b")) == "(a.x > 3.0e0)"
    both = only_group(joined("a.k = b.k AND a.x > 3 AND b.x > 3", streams="t a, t b"))
    assert conditions_text(both.inputs[0].pushed) == "(x > 3.0e0)"
    assert both.classes[0].filters == ()


def test_a_condition_on_both_streams_stays_after_the_join() -> None:
    group = only_group(joined("a.k = b.k AND a.x < b.x"))
    (cls,) = group.classes
    assert conditions_text(cls.residual, ("a", "b")) == "(a.x < b.x)"
    assert [one.pushed for one in group.inputs] == [(), ()]


def test_what_tuples_passed_before_they_were_kept_is_not_checked_again_and_the_rest_is() -> None:
    (cls,) = only_group(joined("a.k = b.k AND a.x > 3 AND a.n = 1")).classes
    assert cls.unchecked(0, ("(x > 3.0e0)", "(n = 1)")) == ()
    assert conditions_text(cls.unchecked(0, ("(n = 1)", "(s = 'a')")), ("a", "b")) == "(a.x > 3.0e0)"
    assert conditions_text(cls.unchecked(0, ()), ("a", "b")) == "(a.x > 3.0e0) AND (a.n = 1)"
    assert cls.unchecked(1, ()) == ()


# --- classes


def test_queries_that_differ_only_in_their_window_are_one_class() -> None:
    group = only_group(
        joined("a.k = b.k"),
        joined("a.k = b.k", window="1 HOUR"),
        joined("a.k = b.k", columns="a.x"),
        joined("a.k = b.k AND a.x > 3"),
        joined("a.k = b.k", columns="a.ts AS other"),
        joined("a.k = b.k") + " INTO (connector = 'count')",
    )
    assert members(group) == [["q1", "q2"], ["q3"], ["q4"], ["q5"], ["q6"]]
    assert group.classes[0].windows == ((5_000_000,) * 2, (3_600_000_000,) * 2)
    assert [cls.delivery for cls in group.classes[-2:]] == [Delivery.ROWS, Delivery.COUNT]


@pytest.mark.parametrize("shown", ["a.ts", "a.n, COUNT(*) AS c"])
def test_queries_that_differ_only_in_the_order_of_their_conditions_are_one_class(shown: str) -> None:
    grouped = " GROUP BY a.n" if "COUNT" in shown else ""
    one, other = (
        f"SELECT {shown} FROM t a, h b WHERE a.k = b.k AND {conditions}{grouped} WINDOW 5 SECONDS"
        for conditions in ("a.x < b.x AND a.n <= b.n", "a.n <= b.n AND a.x < b.x")
    )
    assert members(only_group(one, other)) == [["q1", "q2"]]


def test_of_queries_that_are_only_counted_nobody_reads_the_select_list() -> None:
    counted = " INTO (connector = 'count')"
    first, second = (joined("a.k = b.k", columns=columns) for columns in ("a.ts, a.x", "b.n"))
    group = only_group(first + counted, second + counted, second)
    assert members(group) == [["q1", "q2"], ["q3"]]
    assert [one.schema.names for one in group.inputs] == [("ts",), ("n", "ts")]


def test_every_query_is_in_one_class_and_has_its_sink() -> None:
    plan = plan_of(joined("a.k = b.k"), "SELECT ts FROM t", joined("a.s = b.s") + " INTO (connector = 'count')")
    found = [name for group in plan.groups for names in members(group) for name in names]
    assert sorted(found) == ["q1", "q2", "q3"] == sorted(plan.queries)
    assert dict(plan.sinks)[QueryId("q3")] == (("connector", "count"),)


def test_a_query_is_known_by_its_name_and_all_it_asks_for_whatever_is_beside_it() -> None:
    query = joined("a.k = b.k AND a.x > 3")
    others = [
        joined("a.k = b.k AND a.x > 3", window="6 SECONDS"),
        joined("a.k = b.k AND a.x > 4"),
        joined("a.k = b.k AND a.x > 3", columns="a.x"),
        query + " INTO (connector = 'count')",
    ]
    assert len({identity(one) for one in (query, *others)}) == 5
    assert identity(query, joined("a.k = b.k")) == identity(query)
    assert identity(joined("3 < a.x AND a.x > 3 AND b.k = a.k", streams="h b, t a")) != identity(query)
    assert identity(query).startswith("q1-")


def identity(*selects: str) -> str:
    """Of the first of these queries."""
    return plan_of(*selects).groups[0].classes[0].members[0].identity


# --- keys


@pytest.mark.parametrize("key", ["k", "n", "x", "b", "d", "m"])
def test_a_number_a_time_or_a_flag_is_its_own_key(key: str) -> None:
    group = only_group(joined(f"a.{key} = b.{key}"))
    assert group.key_form is KeyForm.EXACT
    assert group.verified == ()


@pytest.mark.parametrize("condition", ["a.s = b.s", "a.p = b.p", "a.k = b.k AND a.n = b.n"])
def test_other_keys_are_hashed_and_compared_by_value(condition: str) -> None:
    group = only_group(joined(condition))
    assert group.key_form is KeyForm.HASHED
    assert len(group.verified) == condition.count("=")
    assert {name for one in group.inputs for name in one.schema.names} > {"ts"}


# --- refusals


def test_queries_that_cannot_be_planned_are_refused() -> None:
    (query,) = read_script(f"CREATE QUERY q AS {joined('a.k = b.k')}", CATALOG).queries
    with pytest.raises(PlanError, match="same name"):
        share(CATALOG, (query, query))


@pytest.mark.parametrize(
    ("windows", "text"),
    [
        ((), "without a window"),
        (within_us(1, 1), "1 windows for 2 streams"),
        (within_us(-1), "too small"),
        ((Extent(Measure.ROWS, 0), Extent(Measure.TIME, 0)), "too small"),
    ],
)
def test_a_query_whose_windows_mean_nothing_cannot_exist(windows: tuple[Extent, ...], text: str) -> None:
    (query,) = read_script(f"CREATE QUERY q AS {joined('a.k = b.k')}", CATALOG).queries
    with pytest.raises(PlanError, match=text):
        replace(query, windows=windows)


def test_no_queries_are_a_plan_without_groups() -> None:
    assert share(Catalog(), ()) == SharedPlan(Catalog(), (), ())
