"""Overload on Spark without Spark: what is asked of a run, what is kept of it, and what is claimed of that."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from headrace.lab import overload_on_spark
from headrace.lab.catalogue import EXPERIMENTS
from headrace.lab.experiment import Clock, Numbers, Setup
from headrace.lab.overload_on_spark import Overload, program
from headrace.lab.storing import result_of
from headrace.plan.queries import Overload as Clause
from headrace.sql import read_script
from headrace.stats import QueryStats, RunStats, TreeStats, WindowStats


class FakeRun:
    """Falls behind by 100 tuples a second, or leaves probes out."""

    def __init__(self, is_adaptive: bool) -> None:
        self.is_adaptive, self.second = is_adaptive, 0
        self.is_stopped = False

    def wait(self, seconds: float) -> None:
        self.second += round(seconds)

    def stats(self) -> RunStats:
        waits = 0 if self.is_adaptive else 100 * self.second
        tree = TreeStats("q", "((a b) c)", "jaqpot", left_out=7, released_late=0)
        window = WindowStats("q", "4 s", waits)
        return RunStats(
            queries=(QueryStats("q", results=10 * self.second),),
            windows=(window,),
            trees=(tree,) if self.is_adaptive else (),
        )

    def history(self) -> list[dict[str, Any]]:
        slow = 1 if self.is_adaptive else 3
        stages = {"pack": 9.0, "join": 200.0 + self.second, "emit": 40.0}
        return [{"stage_ms": stages, "responses": {"q": [10, 10_000 * slow, 2000.0 * slow]}}] * self.second

    def explain(self) -> str:
        return "plan"

    def stop(self) -> None:
        self.is_stopped = True


class FakeSpark:
    def __init__(self) -> None:
        self.is_stopped = False

    def stop(self) -> None:
        self.is_stopped = True


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> Numbers:
    spark, runs = FakeSpark(), []

    class FakeEngine:
        def __init__(self, session: object, settings: object) -> None:
            assert session is spark
            assert settings

        def sql(self, text: str) -> None:
            self.text = text

        def start(self, out: Path) -> FakeRun:
            assert not out.exists()
            runs.append(FakeRun("ADAPT" in self.text.upper()))
            return runs[-1]

    monkeypatch.setattr(overload_on_spark, "local_session", lambda _: spark)
    monkeypatch.setattr(overload_on_spark, "Engine", FakeEngine)
    numbers = result_of(EXPERIMENTS["001-overload-spark"], Setup(Clock.WALL, seed=3)).numbers
    assert spark.is_stopped
    assert [run.is_adaptive for run in runs] == [False, False, True], "the first tells what the join takes"
    assert all(run.is_stopped for run in runs)
    return numbers


def test_both_clauses_are_of_the_same_streams() -> None:
    modes = {mode: read_script(program(Overload(seed=3), mode)) for mode in overload_on_spark.MODES}
    assert [script.queries[0].overload for script in modes.values()] == [Clause.DEFER, Clause.ADAPT]
    assert modes["defer"].catalog == modes["adapt"].catalog


def test_all_claims_hold_where_one_falls_behind_and_the_other_does_not(measured: Numbers) -> None:
    experiment = EXPERIMENTS["001-overload-spark"]
    assert [one.says for one in experiment.claims(measured) if not one.holds] == []
    assert [len(one.lines) for one in experiment.pictures(measured)] == [2, 2]  # type: ignore[union-attr]
    assert list(experiment.seeds(Setup(seed=3))) == [3, 4, 5]
    assert measured["load"]["seed"] == 3
    assert measured["load"]["budget_ms"] == 130, "half of 200 + 20 + 40"


@pytest.mark.parametrize(
    ("mode", "key", "value", "part"),
    [
        ("defer", "moments", [[at, 100, 1] for at in range(9)], "DEFER falls behind"),
        ("adapt", "moments", [[at, 5, 1] for at in range(9)], "ADAPT does not"),
        ("adapt", "responses_s", [[at, at, 1.0] for at in range(9)], "ADAPT's response"),
        ("adapt", "responses_s", [[at, 1.0, 11.0] for at in range(9)], "are fresh"),
        ("adapt", "responses_s", [], "are fresh"),
        ("adapt", "released_late", 1, "stale result"),
        ("adapt", "left_out", None, "leaves probes out"),
        ("adapt", "infeasible", ["a in (a b)"], "can be kept"),
    ],
)
def test_a_claim_fails_by_what_it_is_about(measured: Numbers, mode: str, key: str, value: object, part: str) -> None:
    if mode == "defer":
        measured["defer"]["responses_s"] = []
    measured[mode][key] = value
    missed = [one.says for one in EXPERIMENTS["001-overload-spark"].claims(measured) if not one.holds]
    assert any(part in says for says in missed)
