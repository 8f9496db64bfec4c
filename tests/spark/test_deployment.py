"""A real standalone cluster of two workers: the demo is submitted to it, a worker is killed, the answers are exact."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from commands import Submitted
from streams import answers, assert_answers

from headrace.demo import DEMO_SQL
from headrace.model import Stream
from headrace.spark.generator import pace_of, spec_of
from headrace.sql import read_script
from headrace.workload import Position, batches_until

pytestmark = pytest.mark.spark

ROOT = Path(__file__).parents[2]
SECONDS = 48


def cluster(*arguments: object) -> str:
    command = [sys.executable, str(ROOT / "scripts" / "cluster"), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=400).stdout.strip()


@pytest.fixture
def master(tmp_path: Path) -> Iterator[str]:
    yield cluster("start", tmp_path / "cluster")
    cluster("stop", tmp_path / "cluster")


def test_the_demo_on_two_workers_one_of_which_is_killed_gives_the_right_answers(master: str, tmp_path: Path) -> None:
    pace = f"start = '2026-01-31', duration = '{SECONDS} seconds', speed = '0', step = '5 seconds'"
    text = DEMO_SQL.replace("history = '10 minutes'", pace)
    program, out = tmp_path / "demo.sql", tmp_path / "out"
    program.write_text(text + f"SET shards = 2; SET cache_dir = '{tmp_path / 'cache'}';")
    with Submitted(master, program, out, "--once") as run:
        commits = out / "_checkpoint" / "spark" / "commits"
        assert run.wait_for(lambda: len(list(commits.glob("[0-9]*"))) > 2)
        cluster("kill", tmp_path / "cluster", 1)
        assert run.is_running, "it is killed while it works"
        code, _, said = run.finish()
    assert code == 0, said[-3000:]
    log = (tmp_path / "cluster" / "master.log").read_text()
    assert log.count("Launching executor") >= 2
    assert "Removing worker" in log or "lost" in log or "disassociated" in log
    script = read_script(text)
    rows = {stream.name: _rows(stream) for stream in script.catalog.streams}
    expected = answers(script, rows)
    assert all(expected.values())
    assert_answers(out, expected)


def _rows(stream: Stream) -> list[dict[str, object]]:
    """What the generator makes of a stream, whoever reads it."""
    spec = spec_of(stream, pace_of(stream).begins_us(0))
    assert spec.last_us is not None
    return [row for batch in batches_until(spec, Position.at_start(spec), spec.last_us) for row in batch.to_pylist()]
