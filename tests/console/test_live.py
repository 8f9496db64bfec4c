"""The live table at 80 columns, and the lines that stand in for it where there is no terminal."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from headrace.console.live import LiveView, line, render
from headrace.stats import (
    GraphStats,
    OperatorStats,
    OrderingStats,
    OrderStats,
    QueryStats,
    RunStats,
    ShardStats,
    StreamStats,
    WindowStats,
)

GOLDEN = Path(__file__).with_name("live_80.txt")

STATS = RunStats(
    batches=1042,
    elapsed_s=754.3,
    queries=(
        QueryStats("hot_and_wet", 1_234_567, 1830.4, 431.7, 1_250.2, 502.1, 1_999.9),
        QueryStats("a_query_with_a_name_that_is_much_too_long_for_its_column", 98_765_432_109, 12.34, 7.3, 14_000.0),
        QueryStats("nothing_yet"),
    ),
    streams=(
        StreamStats("temperature", 7_543_000, 10_000.0, 12, 0, 640.0),
        StreamStats("humidity", 7_541_210, 9_998.2, 0, 3),
    ),
    shards=(ShardStats(0, 5_987_000, 812, 191_584_000, 40, 2_500, 2_000_000), ShardStats(1, 6_012_344, 0, 840)),
    batch_ms=612.4,
    stage_ms=(("read", 20.1), ("pack", 31.0), ("restore", 4.25), ("step", 380.0), ("write", 90.9)),
)


def text_of(stats: RunStats, width: int = 80, rows: int = 20) -> str:
    console = Console(file=io.StringIO(), width=width, color_system=None)
    console.print(render(stats, rows))
    return "\n".join(row.rstrip() for row in console.file.getvalue().splitlines()) + "\n"


def test_the_table_at_80_columns_is_the_golden_one() -> None:
    assert text_of(STATS) == GOLDEN.read_text()


@pytest.mark.parametrize("width", [80, 100, 200])
def test_no_row_is_wider_than_80_columns_and_no_number_is_cut(width: int) -> None:
    shown = text_of(STATS, width)
    assert max(len(row) for row in shown.splitlines()) <= 80
    for number in ("1,234,567", "98,765,432,109", "7,543,000", "182.7 MiB", "14.0 s", "1,250 ms"):
        assert number in shown


def test_with_a_budget_the_backlog_of_each_window_is_shown() -> None:
    windows = (WindowStats("a(k) = b(k)", "1 second"), WindowStats("a(k) = b(k)", "10 minutes", 12_345))
    busy = replace(STATS, windows=windows, probes=900, probes_allowed=1000, throttled_batches=2)
    shown = text_of(busy)
    assert "900 of 1,000 probes, 2 throttled" in shown
    assert "12,345" in shown
    assert "10 minutes of a(k) = b(k)" in shown
    assert line(busy).endswith(" held, 12,345 waiting for their turn")


def test_who_output_waits_for_and_what_is_held_is_shown() -> None:
    ordering = (
        OrderingStats("a(k) = b(k)", "filter-order", 12_345, 10**6, 0.4, 770.0, 550.0, 0.29, 601.0, ("humidity",)),
        OrderingStats("a(k) = c(k)", "returning"),
    )
    streams = (replace(STATS.streams[0], behind_ms=0.0), replace(STATS.streams[1], behind_ms=31_000.0, is_idle=True))
    shown = text_of(replace(STATS, ordering=ordering, streams=streams))
    for text in ("filter-order", "12,345", "550 ms", "601 ms", "humidity", "returning", "0.0 ms", "idle"):
        assert text in shown
    assert max(len(row) for row in shown.splitlines()) <= 80
    assert line(replace(STATS, ordering=ordering)).endswith("held, 12,345 results wait for humidity")


def test_the_line_says_for_whom_tuples_wait_too() -> None:
    """Under Sync-Filter no results are held, but tuples."""
    waits = replace(STATS, ordering=(OrderingStats("a(k) = b(k)", "sync-filter", waits_for=("humidity",)),))
    some = tuple(replace(one, waiting_tuples=7) for one in STATS.shards)
    assert line(replace(waits, shards=some)).endswith(" held, output waits for humidity")
    none = tuple(replace(one, waiting_tuples=0) for one in STATS.shards)
    assert line(replace(waits, shards=none)).endswith(" held")
    for behind_ms, said in ((900.0, " held"), (5_000.0, " for humidity")):
        streams = tuple(replace(one, behind_ms=behind_ms if one.stream == "humidity" else 0.0) for one in STATS.streams)
        assert line(replace(waits, shards=some, streams=streams)).endswith(said)


def test_with_a_budget_operators_and_their_queues_are_shown() -> None:
    operators = (
        OperatorStats("join f4414b07", "a(k) = b(k)", 12, 1_500_000, 1234, 0.125, 1.5),
        OperatorStats("aggregate 05d27cfa", "MIN(value) by nothing"),
    )
    graph = GraphStats("threshold", "oldest", 2**28, 1_500_000, "saving", 3, True, operators)
    busy = replace(STATS, probes=900, probes_allowed=1000, graph=graph)
    shown = text_of(busy)
    assert "threshold (saving, 3 changes), 1.4 MiB of 256.0 MiB in queues; sources wait" in shown
    assert max(len(row) for row in shown.splitlines()) <= 80
    (join,) = [row for row in shown.splitlines() if row.startswith(" join f44")]
    assert join.split()[-6:] == ["12", "1.4", "MiB", "1,234", "0.12", "1.50"]
    assert line(busy).endswith("; sources wait")
    many = tuple(replace(operators[1], operator=f"aggregate {number}", queue_bytes=number) for number in range(30))
    assert "aggregate 29" in text_of(replace(busy, graph=replace(graph, operators=many)), rows=10)


SWITCH = "micro-batch 7: order for new tuples of b: b, c, a instead of b, a, c"


def test_join_orders_and_the_last_switch_are_shown() -> None:
    orders = (OrderStats("a x b x c", "b", ("b", "c", "a")), OrderStats("a x b x c", "a", ("b", "a", "c")))
    shown = text_of(replace(STATS, orders=orders, switches=("micro-batch 3: another", SWITCH)))
    rows = [row.split(maxsplit=1) for row in shown.splitlines()]
    assert ["b", "c, a"] in rows
    assert ["a", "b, a, c"] in rows
    assert SWITCH in shown
    assert "micro-batch 3" not in shown


def test_without_a_terminal_every_switch_is_a_line() -> None:
    console = Console(file=io.StringIO(), width=80)
    with LiveView(console) as view:
        for switches in ((), (SWITCH,), (SWITCH,), (SWITCH, "micro-batch 9: back")):
            view.update(replace(STATS, switches=switches, switched=len(switches)))
    said = console.file.getvalue().splitlines()  # type: ignore[attr-defined]
    assert [one for one in said if one.startswith("micro-batch")] == [SWITCH, "micro-batch 9: back"]


def test_a_long_table_says_how_much_it_leaves_out() -> None:
    many = replace(STATS, queries=tuple(QueryStats(f"q{i}") for i in range(300)))
    shown = text_of(many, rows=10)
    assert "q8 " in shown
    assert "q9 " not in shown
    assert "and 291 more" in shown


def test_an_empty_run_renders() -> None:
    assert "0 micro-batches" in text_of(RunStats())


def plain_lines(elapsed: list[float], every_s: float = 5.0) -> list[str]:
    console = Console(file=io.StringIO(), width=40)
    with LiveView(console, every_s) as view:
        for seconds in elapsed:
            view.update(replace(STATS, elapsed_s=seconds))
    return console.file.getvalue().splitlines()


def test_without_a_terminal_a_line_comes_every_few_seconds_and_at_the_end() -> None:
    lines = plain_lines([0.5, 1.0, 4.0, 5.5, 6.0, 11.0, 12.0])
    assert [text.split(":")[0] for text in lines] == ["0.5 s", "5.5 s", "11.0 s", "12.0 s"]


def test_the_last_line_is_not_printed_twice() -> None:
    assert len(plain_lines([0.5])) == 1
    assert plain_lines([]) == []


def test_the_line_sums_up_and_mentions_what_went_to_the_dead_letters() -> None:
    assert line(STATS) == (
        "12 min 34 s: 1,042 micro-batches, last 612 ms; 15,084,210 tuples in (19,998/s), 12 late, 3 malformed, "
        "98,766,666,676 results out (1,843/s), 12,000,156 held"
    )


def test_on_a_terminal_the_table_stays_in_place() -> None:
    console = Console(file=io.StringIO(), width=80, height=50, force_terminal=True, color_system=None)
    with LiveView(console) as view:
        view.update(STATS)
        view.update(replace(STATS, batches=2000))
    shown = console.file.getvalue()
    assert "1,042 micro-batches" in shown
    assert "2,000 micro-batches" in shown
    assert "\x1b[1A" in shown, "the cursor goes back over the old table"
