"""Executors in processes of their own, two of them: nothing assumes one process, nor that a Python worker lives on."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from streams import Feed, answers, assert_answers, assert_in_order, cut, declare, readings

pytestmark = pytest.mark.spark

SCRIPT = """
import shutil
import sys
from contextlib import suppress
from pathlib import Path

import psutil
import pyspark
from pyspark.sql import SparkSession

from headrace import Engine

builder = SparkSession.builder.master("local-cluster[2,1,1024]").appName("headrace-cluster-test")
for name, value in {
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.executor.memory": "1g",
    "spark.sql.session.timeZone": "UTC",
}.items():
    builder = builder.config(name, value)
spark = builder.getOrCreate()
engine = Engine(spark)
engine.sql(Path(sys.argv[1]).read_text())
seen = []
engine.sink("called", lambda query, rows, batch: seen.extend(row.h for row in rows.collect()))
run = engine.start(sys.argv[2], once=True)
killed = 0
for batches in (1, 2):
    while run.stats().batches < batches and not run.wait(0.05):
        pass
    for process in psutil.Process().children(recursive=True):
        with suppress(psutil.NoSuchProcess):  # those of a killed daemon end by themselves
            if "pyspark.daemon" in process.cmdline():
                process.kill()
                killed += 1
assert run.wait(400)
print("killed", killed)
print("executors", spark.sparkContext._jsc.sc().getExecutorMemoryStatus().size() - 1)
print("called", len(seen))
logs = Path(pyspark.__file__).parent / "work" / spark.sparkContext.applicationId
spark.stop()
shutil.rmtree(logs, ignore_errors=True)
with suppress(OSError):  # another's logs are there
    logs.parent.rmdir()
"""


def test_results_are_right_on_separate_executors_whose_workers_are_killed(tmp_path: Path) -> None:
    a = Feed(tmp_path / "a").add_all(cut(readings(1, 200, 200), 3))
    b = Feed(tmp_path / "b").add_all(cut(readings(2, 200, 200), 3))
    joined = "FROM temperature a, humidity b WHERE a.location_id = b.location_id"
    text = (
        f"SET shards = 3; SET cache_dir = '{tmp_path / 'cache'}';"
        + declare("temperature", a, max_files_per_batch="1")
        + declare("humidity", b, max_files_per_batch="1")
        + f"CREATE QUERY near AS SELECT a.value, b.value AS h, a.ts AS a_ts, b.ts AS b_ts {joined} WINDOW 5 s;"
        + f"CREATE QUERY far AS SELECT a.value, b.value AS h, a.ts AS a_ts, b.ts AS b_ts {joined} WINDOW 90 s;"
        + f"CREATE QUERY called AS SELECT b.value AS h {joined} WINDOW 20 s;"
    )
    program = tmp_path / "program.sql"
    program.write_text(text)
    script = tmp_path / "cluster.py"
    script.write_text(SCRIPT)
    done = subprocess.run(
        [sys.executable, str(script), str(program), str(tmp_path / "out")],
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
        cwd=tmp_path,
        env={
            **os.environ,
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_LOCAL_IP": "127.0.0.1",
        },
    )
    assert done.returncode == 0, done.stderr[-3000:]
    expected = answers(text, {"temperature": a.rows, "humidity": b.rows})
    assert_answers(tmp_path / "out", {query: expected[query] for query in ("near", "far")})
    for query in ("near", "far"):
        assert_in_order(tmp_path / "out" / query, slice(2, 4))
    assert f"called {len(expected['called'])}" in done.stdout
    assert "executors 2" in done.stdout
    assert "killed 0" not in done.stdout
    assert not list((tmp_path / "cache").glob("*/*"))
