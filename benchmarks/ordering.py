"""`make bench-ordering`: paper 004's Figures 7 to 10, response times by a real clock under each approach.

A theta join of a slow and a fast stream, one tuple at a time as the clock goes (``lab/ordering_by_clock.py``). Figures
7 and 8: what a tuple costs is varied, by the length of the predicate. Figures 9 and 10: the slow stream's rate is. A
third series has evenly spaced arrivals, as the paper's equations assume, and holds the measured gap against equation 7.
The first seconds of a run are left out, in which Adaptive has not measured anything yet.

Writes ``ordering.json``, ``ordering.md`` and ``ordering.png``. Targets are reported, met or missed.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rich.console import Console

from benchmarks.ordering_report import Results, checks, draw, markdown, show
from headrace.lab.ordering_by_clock import WINDOW_S, Load, Runner, whole_load
from headrace.plan.approaches import Approach

ALPHA = 0.1
"""Adaptive then stays with Sync-Filter where that is worse by a tenth at most: alpha / (1 + alpha)."""
WARM_UP_S = 4.0
SLOW, FAST = 1.5, 15.0
TERMS = (0, 6, 15, 30, 45)
RATES = (0.4, 0.8, 1.5, 3.0)
RATE_TERMS = 15


def loads(seconds: float) -> Iterator[tuple[str, Load]]:
    """Each series' points."""
    yield from (("cost", Load(SLOW, FAST, terms, seconds)) for terms in TERMS)
    yield from (("rate", Load(rate, FAST, RATE_TERMS, seconds)) for rate in RATES)
    yield from (("regular", Load(SLOW, FAST, terms, seconds, regular=True)) for terms in TERMS[1::2])


def measured(series: str, load: Load, console: Console) -> dict[str, Any]:
    """One point: all approaches on the same arrivals."""
    point: dict[str, Any] = {"series": series, "slow": load.slow, "fast": load.fast, "terms": load.terms, "runs": {}}
    approaches = [one for one in Approach if series != "regular" or one is not Approach.ADAPTIVE]
    for approach in approaches:
        run = Runner(load, approach, ALPHA).run()
        whole = whole_load(load, run)
        assert whole is not None
        point["runs"][approach.value] = {
            "response_s": round(run.mean_s(WARM_UP_S), 4),
            "tuples": sum(arrived >= WARM_UP_S for arrived, _ in run.responses),
            "results": run.results,
            "busy": round(whole.busy, 4),
            "cost_us": round(whole.cost_s * 1e6, 3),
            "switches": run.switches,
            "last": run.last,
        }
        if approach is Approach.SYNC_FILTER:
            point |= {"busy": round(whole.busy, 4), "gain_expected": round(whole.gain, 4)}
            point |= {"sync_expected_s": whole.sync_filter_s, "filter_expected_s": whole.filter_order_s}
    told = ", ".join(f"{name} {run['response_s']:.3f} s" for name, run in point["runs"].items())
    console.print(f"{series}: {load.slow:g}/s and {load.fast:g}/s, c|w|l1 l2 = {point['busy']:.3f}: {told}")
    return point


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("out/ordering"))
    parser.add_argument("--seconds", type=float, default=14.0, help="of each run")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    console = Console()
    points = [measured(series, load, console) for series, load in loads(options.seconds)]
    setting = {"window_s": WINDOW_S, "alpha": ALPHA, "seconds": options.seconds, "warm_up_s": WARM_UP_S}
    results: Results = {"setting": setting, "points": points, "measured_at": time.strftime("%Y-%m-%d")}
    results["checks"] = checks(results)
    (options.out / "ordering.json").write_text(json.dumps(results, indent=1))
    (options.out / "ordering.md").write_text(markdown(results))
    draw(results, options.out / "ordering.png")
    show(results, console)
    return 0


if __name__ == "__main__":
    sys.exit(main())
