"""Which evaluations a checkpoint's aggregates can go on with."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.config import Settings
from headrace.errors import SettingError
from headrace.plan.sharing import SharedPlan, share
from headrace.spark.grain import check_grain, note_grain
from headrace.sql import read_script

STREAM = "CREATE STREAM a (k BIGINT, ts TIMESTAMP) WITH (connector = 'generator');"


def plan(select: str, window: str) -> SharedPlan:
    script = read_script(f"{STREAM} CREATE QUERY q AS SELECT {select} FROM a WINDOW {window};")
    return share(script.catalog, script.queries)


def every(text: str) -> Settings:
    return Settings().with_text("reevaluate", text)


EVEN = plan("COUNT(*) AS n", "10 s")


@pytest.mark.parametrize("later", ["5 s", "10 s"])
def test_what_was_folded_for_an_interval_goes_on_with_multiples_of_it(tmp_path: Path, later: str) -> None:
    note_grain(tmp_path / "told", EVEN, every("5 s"))
    check_grain(tmp_path / "told", EVEN, every(later))


@pytest.mark.parametrize("later", ["0 s", "1 s", "2 s", "7 s"])
def test_other_evaluations_are_refused_with_what_to_write(tmp_path: Path, later: str) -> None:
    note_grain(tmp_path / "told", EVEN, every("5 s"))
    with pytest.raises(SettingError, match="SET reevaluate = '5 seconds', or a multiple of it"):
        check_grain(tmp_path / "told", EVEN, every(later))
    check_grain(tmp_path / "told", plan("k", "10 s"), every(later))


@pytest.mark.parametrize(("window", "before"), [("10 s", "0 s"), ("7 s", "5 s")])
def test_what_was_folded_exactly_goes_on_with_any(tmp_path: Path, window: str, before: str) -> None:
    note_grain(tmp_path / "told", plan("COUNT(*) AS n", window), every(before))
    check_grain(tmp_path / "told", EVEN, every("1 s"))
