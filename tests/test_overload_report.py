"""The targets that the benchmark of overload reports can be met and missed."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.overload_report import checks


def results(linear: float = 0.8, behind_s: float = 2.0, made: int = 100) -> dict[str, Any]:
    """Figure 12 of four kinds of plans, and two runs on Spark of nine seconds."""
    shares = {"jaqpot": {"0.6": linear, "1.0": 1.0}, "jda_m": {"0.6": 0.2, "1.0": 0.4}}
    figure_12 = {f"{kind}, {shape}": shares for kind in ("dense", "sparse") for shape in ("linear", "bushy")}
    responses = [[number, 1.0, 1.0] for number in range(9)]
    defer = {"moments": [[s, 100 * s, s, 1.0] for s in range(1, 10)], "responses_s": responses}
    moments = [[s, 0, made * s, behind_s if s > 6 else 1.0] for s in range(1, 10)]
    adapt = {"moments": moments, "responses_s": responses, "released_late": 0}
    return {"figure 12": figure_12, "spark": {"load": {"freshness_s": 6}, "defer": defer, "adapt": adapt}}


def missed(found: dict[str, Any]) -> list[str]:
    return [one["what"] for one in checks(found) if not one["met"]]


def test_all_targets_can_be_met() -> None:
    assert missed(results()) == []
    assert sum("60% of mu" in one["what"] for one in checks(results())) == 2


@pytest.mark.parametrize(
    ("found", "what"),
    [
        (results(linear=0.6), "figure 12, dense, linear: JAQPOT at 60% of mu, of saturation"),
        (results(linear=0.6), "figure 12, sparse, linear: JAQPOT at 60% of mu, of saturation"),
        (results(behind_s=7.0), "on Spark, ADAPT: streams behind the clock in the last third, of FRESHNESS"),
        (results(made=0), "on Spark, ADAPT: results in the last third"),
    ],
)
def test_a_target_that_is_not_reached_is_missed(found: dict[str, Any], what: str) -> None:
    assert what in missed(found)
