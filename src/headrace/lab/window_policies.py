"""What paper 000's figures run: its policies on Table 1's windows, by a clock, told in numbers.

Owns ``runs_of`` (all policies on the same tuples), ``setting_of`` and what a report says of it. By the wall clock the
policies' cost is found out first, on some blocks.
"""

from __future__ import annotations

from functools import lru_cache

from headrace.lab.experiment import Clock, Numbers, Setup
from headrace.lab.window_runs import ModelClock, PolicyRun, Setting, WallClock, Yardstick, recorded, run_policy

POLICIES = {"LWO": "lwo", "SWF": "swf", "MQT": "mqt"}
TABLE_1 = {
    "Uniform": (1, 100, 200, 300, 400, 500, 600),
    "Mostly-Small": (1, 5, 15, 30, 60, 300, 600),
    "Mostly-Large": (1, 60, 300, 420, 510, 570, 600),
    "Small-Large": (1, 5, 15, 300, 510, 570, 600),
}
LOAD, WALL_LOAD = 0.9, 0.8
"""Of the time, by the mean rate. By the wall clock what a turn takes varies, and more would be too much at times."""
WALL_FASTER, WALL_KEYS = 200, 12
"""By the wall clock so many tuples come together where one does in the paper, windows are so much shorter, and there
are fewer keys: what a turn finds outweighs what it costs to begin one."""
TIMED_BLOCKS = 40
"""Of a run by the wall clock, as many are run once before, to know what they take."""


@lru_cache(maxsize=256)
def runs_of(setting: Setting, clock: Clock) -> dict[str, Numbers]:
    """All policies on the same tuples."""
    rows = recorded(setting)
    if clock is Clock.MODEL:
        return {
            name: _told(run_policy(setting, rows, policy, ModelClock(setting, rows.times_s)), setting)
            for name, policy in POLICIES.items()
        }
    measure, some = Yardstick(), rows.first(TIMED_BLOCKS)
    plain = [
        run_policy(setting, some, one, WallClock(setting, some.times_s, 1e-9, measure)) for one in POLICIES.values()
    ]
    block_s = max(one.busy_s for one in plain) / 1e-9 / len(some.blocks)
    stretch = setting.load * setting.block_rows / (2 * setting.rate * block_s)
    return {
        name: _told(run_policy(setting, rows, policy, WallClock(setting, rows.times_s, stretch, measure)), setting)
        for name, policy in POLICIES.items()
    }


def _told(run: PolicyRun, setting: Setting) -> Numbers:
    queries = [[f"w{at + 1}q{one + 1}" for one in range(count)] for at, count in enumerate(setting.asked)]
    asked = [[run.responses[name] for name in names if name in run.responses] for names in queries]
    weighed = [(one[0].mean_s, count) for one, count in zip(asked, setting.asked, strict=True) if one]
    return {
        "mean_s": sum(mean * count for mean, count in weighed) / sum(count for _, count in weighed),
        "means_s": [one[0].mean_s if one else None for one in asked],
        "longest_s": [max(each.longest_s for each in one) if one else None for one in asked],
        "turns": run.turns,
        "busy": run.busy_s / run.lasted_s,
        "input_share": run.input_bytes / run.join_bytes,
        "output_share": run.output_bytes / run.join_bytes,
    }


def setting_of(setup: Setup, distribution: str, *, burst: float = 1.0, queries: tuple[int, ...] = ()) -> Setting:
    """Table 1's windows by a clock: by the wall clock faster and shorter."""
    few = 300 if burst > 1 else 100  # bursts have heavy tails
    tuples = (few if setup.is_model else 40 * WALL_FASTER) if setup.is_quick else 100_000
    faster = 1 if setup.is_model else WALL_FASTER
    windows = tuple(one / faster for one in TABLE_1[distribution])
    return Setting(
        windows,
        queries,
        rate=100.0 * faster,
        keys=500 if setup.is_model else WALL_KEYS,
        burst=burst,
        tuples=tuples,
        load=LOAD if setup.is_model else WALL_LOAD,
        block_rows=faster,
        seed=setup.seed,
        is_counted=setup.is_model,
    )


def ours_of(setup: Setup) -> dict[str, str]:
    shown = setting_of(setup, "Uniform")
    block = "1 tuple" if setup.is_model else f"{shown.block_rows} tuples"
    told = {
        "new tuples": f"{shown.tuples:,}",
        "load": f"{shown.load:.0%} of the time, by the mean rate",
        "block": block,
    }
    if setup.is_model:
        costs = f"{shown.pair_cost_s * 1e6:.3g} us a pair, {shown.probe_cost_s * 1e6:.3g} us a probe"
        return {**told, "clock": f"model: {costs}"}
    faster = {
        "rate": f"100 times {shown.block_rows} tuples/s a stream",
        "windows": f"Table 1's over {WALL_FASTER}",
        "selectivity": f"{1 / WALL_KEYS:g}",
    }
    return {**told, **faster, "clock": "processor time, stretched so that the dearest policy has the load"}
