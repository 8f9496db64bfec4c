"""How exactly a checkpoint keeps partial aggregates: an evaluation that is finer is refused, not answered wrongly.

    CHECKPOINT/evaluation.json      every so many microseconds: the coarsest that its panes were folded for

With ``reevaluate``, where windows are multiples of it, results of one interval are one pane: which of them leaves a
window first is forgotten. Evaluated at times in between, panes would leave too early. At multiples of it, or where
nothing was folded so, any other evaluation is right. Owns ``check_grain`` and ``note_grain``. Cost: a small file.
"""

from __future__ import annotations

import json
from pathlib import Path

from headrace.config import Settings
from headrace.engine.combining import foldings_in
from headrace.engine.histories import Points
from headrace.errors import SettingError, setting_parts
from headrace.model import format_duration
from headrace.plan.sharing import SharedPlan


def check_grain(file: Path, plan: SharedPlan, settings: Settings) -> None:
    """Refuses evaluation times that what the checkpoint keeps for aggregates cannot tell apart."""
    if not file.exists() or not _windows(plan):
        return
    every_us, now_us = json.loads(file.read_text())["every_us"], settings.reevaluate_us
    if now_us and now_us % every_us == 0:
        return
    before, now = format_duration(every_us), f"every {format_duration(now_us)}" if now_us else "at any time"
    raise SettingError(
        f"aggregates of this checkpoint were put together for evaluation every {before}, and are evaluated {now} now",
        f"SET reevaluate = '{before}', or a multiple of it, or give --checkpoint a new directory",
        setting_parts("reevaluate", "evaluate"),
    )


def note_grain(file: Path, plan: SharedPlan, settings: Settings) -> None:
    """Writes down what this plan's aggregates are folded for, where that is not exact."""
    points = Points(settings.reevaluate_us)
    if any(points.grain_us(one) > 1 for one in _windows(plan)):
        aside = file.with_name(f".{file.name}")
        aside.write_text(json.dumps({"every_us": settings.reevaluate_us}))
        aside.rename(file)


def _windows(plan: SharedPlan) -> list[tuple[int, ...]]:
    """Of each class that folds."""
    return [folding.windows_us for group in plan.groups for folding in foldings_in(group.classes)]
