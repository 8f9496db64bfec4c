"""The service on a real pipeline: many clients at once, restarts, signals; nobody else notices."""

from __future__ import annotations

import json
import os
import signal
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest
from commands import Command
from pyspark.sql import SparkSession
from streams import answers, assert_answers, output, readings
from test_live_queries import query
from test_scheduling import feeds, streams, until, windows

from headrace import Engine
from headrace.console.service import Service
from headrace.console.serving import WebServer, address_of, bound_socket
from headrace.console.web import web_app

pytestmark = pytest.mark.spark

CLIENTS = 50


def test_many_clients_add_and_drop_at_once_and_the_others_do_not_notice(spark: SparkSession, tmp_path: Path) -> None:
    both, out = feeds(tmp_path, files=2), tmp_path / "out"
    program = f"SET shards = 2; {streams(both)} {windows(5, 40)}"
    engine = Engine(spark)
    engine.sql(program)
    run = engine.start(out)
    service = Service(run)
    taken = bound_socket("127.0.0.1", 0)
    address = address_of(taken)
    with WebServer(web_app(service), taken):
        service.start()
        until(run, lambda: run.stats().batches > 0)

        def visit(number: int) -> list[int]:
            with httpx.Client(base_url=address, timeout=300) as client:
                name = f"guest{number}"
                added = client.post("/api/queries", json={"sql": query(name, f"{10 + number % 7} s", "a.value > 20")})
                read = client.get(f"/api/queries/{name}/results")
                dropped = client.delete(f"/api/queries/{name}")
                return [added.status_code, read.status_code, dropped.status_code]

        with ThreadPoolExecutor(CLIENTS) as clients:
            first = clients.map(visit, range(CLIENTS))
            for seed, feed in enumerate(both.values()):
                feed.add(readings(seed + 10, 100, 40, begin=100))
            assert list(first) == [[201, 200, 200]] * CLIENTS
        assert [one["name"] for one in httpx.get(f"{address}/api/queries").json()] == ["q5", "q40"]
        until(run, lambda: [one.query for one in run.stats().queries] == ["q5", "q40"])
        service.close()
    service.release()
    checkpoint = out / "_checkpoint"
    assert not (checkpoint / "changes.jsonl").read_text().strip()
    kinds = Counter(path.suffix for path in (checkpoint / "orders").iterdir())
    assert max(kinds.values()) <= 2, "orders of micro-batches that are over stay"
    run.stop()
    assert not [one for one in threading.enumerate() if one.name.startswith(("headrace-web", "headrace-look"))]
    again = Engine(spark)
    again.sql(program)
    assert again.start(out, once=True).wait(400)
    assert_answers(out, answers(program, {name: feed.rows for name, feed in both.items()}))


def test_a_served_pipeline_stops_by_a_signal_and_goes_on_with_its_changes(tmp_path: Path) -> None:
    both, out = feeds(tmp_path, files=1), tmp_path / "out"
    program = tmp_path / "program.sql"
    program.write_text(f"SET shards = 2; {streams(both)} {windows(5, 40)}")
    log = tmp_path / "log.jsonl"
    with bound_socket("127.0.0.1", 0) as free:
        port = free.getsockname()[1]
    address = f"http://127.0.0.1:{port}"
    for is_first in (True, False):
        with Command(program, out, "--port", str(port), "--log", str(log), verb="serve") as command:
            assert command.wait_for(lambda: _batches(address) > 0, 180)
            if is_first:
                sql = {"sql": query("later", "9 s")}
                assert httpx.post(f"{address}/api/queries", json=sql, timeout=300).status_code == 201
                assert httpx.post(f"{address}/api/queries/q40/pause", timeout=300).status_code == 200
            told = {one["name"]: one["is_paused"] for one in httpx.get(f"{address}/api/queries").json()}
            assert told == {"q5": False, "later": False, "q40": True}
            for seed, feed in enumerate(both.values()):
                feed.add(readings(seed + 10 + is_first, 100, 40, begin=200 - 100 * is_first))
            with httpx.stream("GET", f"{address}/api/queries/q5/results/stream", timeout=60) as watched:
                assert watched.status_code == 200
                os.killpg(command.process.pid, signal.SIGINT)  # as a terminal does: to all of them
                code, said, wrong = command.finish()
        assert (code, wrong) == (0, "")
        assert f"console and API are at {address}" in said
        assert "results are in" in said
    assert output(out / "later") or output(out / "q5")
    events = [json.loads(line)["event"] for line in log.read_text().splitlines()]
    assert events.count("started") == events.count("stopped") == 2
    assert {"micro_batch", "query_changed"} <= set(events)


def _batches(address: str) -> int:
    try:
        return int(httpx.get(f"{address}/api/stats").json()["batches"])
    except httpx.HTTPError:
        return 0
