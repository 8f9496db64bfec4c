"""What claims take for holding, and the experiments of paper 001 on a shard, in small."""

from __future__ import annotations

import pytest

from headrace.lab import limited_joins, limited_runs
from headrace.lab.catalogue import EXPERIMENTS
from headrace.lab.experiment import (
    Chart,
    Claim,
    Clock,
    Ground,
    Numbers,
    Setup,
    above,
    all_are,
    at_most,
    less,
    near,
    rises,
)
from headrace.lab.overload import LimitedRun, Saturation, Setting
from headrace.lab.storing import Result, result_of


def claims_of(name: str, numbers: Numbers) -> dict[str, Claim]:
    return {one.says: one for one in EXPERIMENTS[name].claims(numbers)}


def named(claims: dict[str, Claim], part: str) -> Claim:
    (found,) = (one for says, one in claims.items() if part in says)
    return found


# --- ways to state one


def test_claims_say_what_was_expected_and_found() -> None:
    assert less("x", 1.0, 2.0).holds
    assert not less("x", 2.2, 2.0, times=1.05).holds
    assert less("x", 2.05, 2.0, times=1.05).expected == "< 1.05 x 2"
    assert near("x", 4.0, 3.0).holds
    assert not near("x", 1.9, 3.0).holds
    assert near("x", 4.0, 3.0).expected == "3, 33% off at most"


def test_what_stays_the_same_neither_rises_nor_is_above() -> None:
    assert rises("x", [3.0, 2.0, 1.0], down=True).holds
    assert not rises("x", [3.0, 2.0, 2.0], down=True).holds
    assert not rises("x", [1.0, 3.0, 2.0]).holds
    assert not rises("x", [2.0, 2.0]).holds
    assert not rises("x", [1.0]).holds
    assert not above("x", 1.0, 1.0).holds


def test_claims_that_nothing_was_found_for_do_not_hold() -> None:
    assert not less("x", None, 1.0).holds
    assert not at_most("x", None, 1.0).holds
    assert not near("x", None, 1.0).holds
    assert not all_are("x", [], "a").holds
    assert not all_are("x", ["a", "b"], "a").holds


# --- of experiments


def fresh(jaqpot: float | None) -> Numbers:
    lines = {"JAQPOT": [jaqpot] * 3, "GrePP": [0.4, 0.3, 0.2], "JDA_M": [0.5] * 3, "spent": [jaqpot] * 3}
    return {"freshness": [1.5, 3.0, 5.0], "shapes": {"linear": lines, "bushy": lines}}


def test_where_no_plan_is_feasible_nothing_is_said_to_be_fresh() -> None:
    assert named(claims_of("001-figure-13", fresh(0.0)), "JAQPOT has none").holds
    missed = named(claims_of("001-figure-13", fresh(None)), "JAQPOT has none")
    assert (missed.holds, missed.found) == (False, "none")
    assert not named(claims_of("001-figure-13", fresh(None)), "less than 10%").holds
    assert Result(EXPERIMENTS["001-figure-13"], Setup(), fresh(None)).pictures


@pytest.mark.parametrize(("last", "holds"), [([], False), (["sync-filter"], True), (["filter-order"], False)])
def test_adaptive_is_sync_filter_at_points_that_are_there(last: list[str], holds: bool) -> None:
    points = [*last, "filter-order", "filter-order"]
    numbers = {
        "x": list(range(len(points))), "alpha": 0.3, "last": points,
        "busy": [*(0.1 for _ in last), 0.3, 0.5], "gain": [0.2] * len(points),
        "Sync-Filter": [1.0] * len(points), "Filter-Order": [0.5] * len(points), "Adaptive": [0.5] * len(points),
    }  # fmt: skip
    assert named(claims_of("004-figure-8", numbers), "well below alpha").holds is holds


@pytest.mark.parametrize(("highest_s", "holds"), [(1.1, True), (2.5, False)])
def test_filter_order_has_to_stay_the_same_at_all_costs(highest_s: float, holds: bool) -> None:
    numbers = {"x": [1, 2, 3], "Sync-Filter": [1.0, 2.0, 3.0], "Adaptive": [1.0] * 3}
    claims = claims_of("004-figure-7", {**numbers, "Filter-Order": [1.0, 1.0, highest_s]})
    assert named(claims, "small or no variation").holds is holds


@pytest.mark.parametrize(("jaqpot", "holds"), [([0.3, 0.9, 0.9], True), ([0.3, 0.4, 0.9], False)])
def test_the_most_is_where_the_paper_has_it(jaqpot: list[float], holds: bool) -> None:
    lines = {"JAQPOT": jaqpot, "JDA_M": [0.1, 0.14, 0.2]}
    numbers = {"shares": [0.2, 0.4, 0.6], "as printed": {"linear": lines, "bushy": lines}}
    claims = claims_of("001-figure-12", numbers)
    assert named(claims, "at most 6.5 times as many").holds is holds


# --- paper 001 on a shard


def made(
    arrivals: tuple[Setting, float], _: object, used: object, share: float, warm_s: float, is_enforced: bool = False
) -> LimitedRun:
    """What a run might have come to: stale results only where they are not let go of."""
    moments = [(warm_s + at / 2, 10) for at in range(round(2 * (arrivals[1] - warm_s)))]
    results = round(100 * share * (1 if used == "jaqpot" else 0.5))
    return LimitedRun(results, stale=0 if is_enforced else results // 2, seconds=1.0, moments=moments)


@pytest.mark.parametrize("name", ["001-figure-11", "001-figure-12", "001-figure-13"])
def test_figures_of_paper_001_are_of_a_shard_by_the_wall_clock(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("by the formulas")

    monkeypatch.setattr(limited_joins, "allocate", refuse)
    monkeypatch.setattr(limited_runs, "Arrivals", lambda setting, seconds: (setting, seconds))
    monkeypatch.setattr(limited_runs, "saturate", lambda *_: Saturation(1.0, 1.0, 100.0, limited_joins.path_table()))
    monkeypatch.setattr(limited_runs, "run_limited", made)
    result = result_of(EXPERIMENTS[name], Setup(Clock.WALL))
    assert result.claims
    assert all(isinstance(one, Chart) and one.lines for one in result.pictures)
    assert result.experiment.ground_by(Clock.WALL) is Ground.ENGINE
    assert result.experiment.ground_by(Clock.MODEL) is Ground.FORMULAS
    if name == "001-figure-13":  # only JAQPOT lets go of what is stale
        claims = {one.says: one for one in result.claims}
        assert named(claims, "JAQPOT has none in feasible plans").holds
        assert named(claims, "GrePP has a substantial amount of them").holds


def test_results_over_time_are_those_of_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {
        "RATE_11": 100.0,
        "SIZE_11": 60,
        "BETWEEN_11": 60,
        "STEP_11_S": 0.5,
        "WARM_11_S": 1.0,
        "SHAPES": {"linear": "(((a b) c) d)"},
        "FIRST": (0.02, 0.02, 0.02),
        "CHANGES": ((0.3, (0.06, 0.06, 0.02)), (0.7, (0.06, 0.06, 0.04))),
    }.items():
        monkeypatch.setattr(limited_runs, name, value)
    so_far = limited_runs.over_time({"JAQPOT": "jaqpot"}, 2.5, 7)["linear"]["JAQPOT"]
    assert len(so_far) == 11
    assert so_far == sorted(so_far)
    assert so_far[-1] > 2 * so_far[2] > 0 == so_far[0]
