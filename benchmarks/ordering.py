"""`make bench-ordering`: paper 004's Figures 7 to 10, response times by a real clock under each approach.

A theta join of a slow and a fast stream, one tuple at a time as the clock goes (``lab/ordering_by_clock.py``). Figures
7 and 8: what a pair of tuples costs is varied, by the length of the predicate, which every pair is held against; the
lengths are such that c|w|l1 l2 is about what ``COSTS`` says, by the speed of this machine. Figures 9 and 10: the slow
stream's rate is. A third series has evenly spaced arrivals, as the paper's equations assume, and holds the measured gap
against equation 7. The first seconds of a run are left out.

Writes ``ordering.json``, ``ordering.md`` and ``ordering.png``. Targets are reported, met or missed. ``--series``
measures some of the points and takes the others from what is there.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.console import Console

from benchmarks.ordering_report import Results, checks, draw, markdown, show
from headrace.lab.ordering_by_clock import MEASURED_S, WINDOW_S, Clocked, Load, terms_for, whole_load
from headrace.plan.approaches import Approach

ALPHA = 0.06
"""Adaptive then stays with Sync-Filter where that is worse by a tenth at most: by equation 7 alpha / (1 + alpha), with
exponential arrivals half as much again."""
WARM_UP_S = 2.0
SLOW, FAST = 3.0, 30.0
COSTS = (0.0, 0.04, 0.15, 0.27, 0.38)
"""c|w|l1 l2; 0: the shortest predicate."""
RATES, RATES_FAST = (0.3, 1.8, 2.5, 3.3), 10.0
"""The first is below alpha, the others above. The fast stream is slower here: what a step costs, whatever it finds, is
then little against what pairs do, and c|w|l1 l2 falls nearly as the slow stream's rate does."""
RATES_BUSY = 0.25
"""c|w|l1 l2 at the highest of the rates."""
REPEATED = 100
"""How long texts are (``Load.pairwise``), at ``FAST``; longer, as pairs are fewer."""
REGULAR = (0.15, 0.3, 0.4)
"""Within capacity: joining takes twice this, so at most four fifths of the time."""
SERIES = ("cost", "rate", "regular")


def loads(series: str, seconds: float) -> Iterator[Load]:
    """A series' points."""
    base = Load(SLOW, FAST, 0, seconds, pairwise=REPEATED)
    if series == "rate":
        base = replace(base, fast=RATES_FAST, pairwise=round(REPEATED * FAST / RATES_FAST))
        terms = terms_for(replace(base, slow=RATES[-1]), RATES_BUSY)
        yield from (replace(base, slow=rate, terms=terms) for rate in RATES)
    else:
        for busy in COSTS if series == "cost" else REGULAR:
            yield replace(base, terms=terms_for(base, busy) if busy else 0, regular=series == "regular")


def measured(series: str, load: Load, console: Console) -> dict[str, Any]:
    """One point: all approaches on the same arrivals."""
    point: dict[str, Any] = {"series": series, "slow": load.slow, "fast": load.fast, "terms": load.terms, "runs": {}}
    clocked = Clocked(load)
    for approach in Approach:
        run = clocked.run(approach, ALPHA)
        whole = whole_load(clocked, run)
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
    parser.add_argument("--series", nargs="+", choices=SERIES, default=SERIES, help="what to measure; default: all")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    console, stored = Console(), options.out / "ordering.json"
    before = json.loads(stored.read_text())["points"] if stored.exists() else []
    points = [one for one in before if one["series"] not in options.series]
    for series in options.series:
        points += [measured(series, load, console) for load in loads(series, options.seconds)]
    if missing := set(SERIES) - {one["series"] for one in points}:
        stored.write_text(json.dumps({"points": points}, indent=1))
        console.print(f"still to be measured: {', '.join(sorted(missing))}")
        return 0
    setting = {
        "window_s": WINDOW_S,
        "alpha": ALPHA,
        "seconds": options.seconds,
        "warm_up_s": WARM_UP_S,
        "measured_s": MEASURED_S,
    }
    results: Results = {"setting": setting, "points": points, "measured_at": time.strftime("%Y-%m-%d")}
    results["checks"] = checks(results)
    stored.write_text(json.dumps(results, indent=1))
    (options.out / "ordering.md").write_text(markdown(results))
    draw(results, options.out / "ordering.png")
    show(results, console)
    return 0


if __name__ == "__main__":
    sys.exit(main())
