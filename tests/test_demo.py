"""The demo against a made-up run: how long it watches, what it keeps, what it says."""

from __future__ import annotations

import io
import re
import sys
from pathlib import Path

import pytest
from rich.console import Console

from headrace import demo
from headrace.demo import DEMO_SQL, QUERIES, run_demo, summary
from headrace.errors import HeadraceError, SinkError
from headrace.plan.queries import within_us
from headrace.spark.generator import pace_of, spec_of
from headrace.sql import read_script
from headrace.stats import QueryStats, RunStats, ShardStats, StreamStats


def snapshot(batches: int) -> RunStats:
    return RunStats(
        batches=batches,
        elapsed_s=4.0 + 1.5 * batches,
        queries=tuple(
            QueryStats(query.name, 1000 + 30 * (i + 1) * (batches - 1), 20.0 * (i + 1), 500.0 + 40 * i, 900.0 + 90 * i)
            for i, query in enumerate(QUERIES)
        ),
        streams=(StreamStats("temperature", 60_000 + 150 * batches), StreamStats("humidity", 60_000 + 151 * batches)),
        shards=(ShardStats(0, 1000, 3, 40_000),),
        batch_ms=730.0,
    )


class FakeRun:
    """A run of ``batches`` micro-batches, two looks each; ``interrupt_at``: the look at which the user has enough."""

    def __init__(self, batches: int, interrupt_at: int | None = None) -> None:
        self.batches = batches
        self.interrupt_at = interrupt_at
        self.looks = 0
        self.stopped = 0

    def stats(self) -> RunStats:
        return snapshot(self.looks // 2) if self.looks >= 2 else RunStats()

    def wait(self, timeout_s: float) -> bool:
        assert timeout_s > 0
        self.looks += 1
        if self.looks == self.interrupt_at:
            raise KeyboardInterrupt
        return self.looks >= 2 * self.batches + 1

    def stop(self) -> None:
        self.stopped += 1


class FakeEngine:
    def __init__(self, run: FakeRun) -> None:
        self.run = run
        self.text = ""
        self.out = ""

    def sql(self, text: str) -> None:
        self.text += text

    def start(self, out: str) -> FakeRun:
        self.out = out
        return self.run


def quiet() -> Console:
    return Console(file=io.StringIO(), width=80)


def shown(history: tuple[RunStats, ...], out_dir: Path) -> str:
    console = quiet()
    console.print(summary(history, out_dir))
    return console.file.getvalue()


def test_the_demo_keeps_a_snapshot_per_micro_batch_and_sums_up(tmp_path: Path) -> None:
    engine, console = FakeEngine(FakeRun(5)), quiet()
    history = run_demo(engine, tmp_path / "out", console=console)
    assert [stats.batches for stats in history] == [1, 2, 3, 4, 5]
    assert (engine.text, engine.out) == (DEMO_SQL, str(tmp_path / "out"))
    assert engine.run.stopped == 1
    assert (tmp_path / "out" / "demo.png").stat().st_size > 10_000
    assert "alarm_600s" in console.file.getvalue()


def test_the_demo_ends_when_its_time_is_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Clock:
        now = 0.0

        def monotonic(self) -> float:
            self.now += 1.0
            return self.now

    monkeypatch.setattr(demo, "time", Clock())
    engine = FakeEngine(FakeRun(10_000))
    run_demo(engine, tmp_path, seconds=7, console=quiet())
    assert engine.run.looks == 8  # the first look starts the clock anew
    assert engine.run.stopped == 1


def test_an_interrupt_ends_the_demo_with_its_summary(tmp_path: Path) -> None:
    engine, console = FakeEngine(FakeRun(100, interrupt_at=9)), quiet()
    history = run_demo(engine, tmp_path, console=console)
    assert len(history) == 4
    assert engine.run.stopped == 1
    assert "results/s" in console.file.getvalue()


def test_a_failing_run_is_stopped_and_its_error_passed_on(tmp_path: Path) -> None:
    class Failing(FakeRun):
        def stats(self) -> RunStats:
            raise RuntimeError("broken")

    engine = FakeEngine(Failing(3))
    with pytest.raises(RuntimeError, match="broken"):
        run_demo(engine, tmp_path, console=quiet())
    assert engine.run.stopped == 1


def test_a_directory_in_use_is_refused(tmp_path: Path) -> None:
    (tmp_path / "something").touch()
    engine = FakeEngine(FakeRun(3))
    with pytest.raises(SinkError, match="directory of its own"):
        run_demo(engine, tmp_path, console=quiet())
    assert engine.text == ""


def test_a_demo_without_a_micro_batch_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Silent(FakeRun):
        def stats(self) -> RunStats:
            return RunStats()

    monkeypatch.setattr(demo, "START_S", 0.01)
    engine = FakeEngine(Silent(10**9))
    with pytest.raises(HeadraceError, match="no micro-batch ended") as told:
        run_demo(engine, tmp_path, console=quiet())
    assert told.value.exit_code == 1
    assert engine.run.stopped == 1


def test_an_interrupt_before_the_first_micro_batch_is_no_failure(tmp_path: Path) -> None:
    engine, console = FakeEngine(FakeRun(100, interrupt_at=1)), quiet()
    assert run_demo(engine, tmp_path, console=console) == ()
    assert "nothing to sum up" in console.file.getvalue()


def test_the_summary_counts_the_rate_from_the_historys_micro_batch_on(tmp_path: Path) -> None:
    text = shown((snapshot(1), snapshot(2), snapshot(11)), tmp_path)
    assert re.search(r"mild_1s +1 s +1,300 +20\.0 +500 ms +900 ms", text)
    assert re.search(r"hot_300s +300 s +2,200 +80\.0 +620 ms +1,170 ms", text)
    assert "123,311 tuples in 11 micro-batches" in text
    assert max(len(row) for row in text.splitlines()) <= 80


def test_the_summary_of_one_snapshot_and_of_none(tmp_path: Path) -> None:
    assert "1,000" in shown((snapshot(1),), tmp_path)
    assert "nothing to sum up" in shown((), tmp_path)


def test_without_results_there_are_dashes_and_still_a_plot(tmp_path: Path) -> None:
    text = shown((RunStats(batches=1, elapsed_s=1.0), RunStats(batches=2, elapsed_s=2.0)), tmp_path)
    assert re.search(r"alarm_600s +600 s +0 +0\.0 +- +-", text)
    assert (tmp_path / "demo.png").exists()


def test_without_matplotlib_the_summary_says_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    assert "pip install 'headrace[plot]'" in shown((snapshot(1), snapshot(2)), tmp_path)
    assert not (tmp_path / "demo.png").exists()


def test_the_program_is_sql_that_headrace_reads() -> None:
    script = read_script(DEMO_SQL)
    assert [query.name for query in script.queries] == [query.name for query in QUERIES]
    assert [query.windows for query in script.queries] == [within_us(query.window_s * 1_000_000) for query in QUERIES]
    assert [stream.name for stream in script.catalog.streams] == ["temperature", "humidity"]
    for stream in script.catalog.streams:
        assert (spec_of(stream, 0).rate, pace_of(stream).history_us) == (100.0, 600_000_000)


def test_the_program_has_the_papers_small_large_windows() -> None:
    windows = [int(seconds) for seconds in re.findall(r"WINDOW (\d+) SECONDS;", DEMO_SQL)]
    assert windows == [1, 5, 15, 300, 510, 570, 600]
    assert len({(query.above_celsius, query.above_percent) for query in QUERIES}) == 7
