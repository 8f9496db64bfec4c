"""`make bench-api`: many clients of ``headrace serve`` add and drop queries at once, while others stay.

A service is started as a user would start it. Files keep arriving; three queries stay from beginning to end. So many
clients, each with a connection of its own, add a query, read its results and the statistics, and drop it, over and
over. Then everybody leaves, the service is stopped by a signal, and what it had not read is taken by
``headrace run --once``.

Looked at: answers that are not those expected (errors), threads, open files and memory of the service's process at the
beginning, while clients are there and after they left, what is left in the checkpoint, and, row for row by DuckDB, the
results of the queries that stayed and of those that came and went (which may have only rows that are right).
The exit code tells whether all of it is as it should be; times are told and change nothing.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

import duckdb
import httpx
import numpy as np
import psutil
import pyarrow as pa
from rich.console import Console

from benchmarks.contenders import COLUMNS, stream_sql
from benchmarks.inputs import SCHEMA, START_US, STREAMS, file_name, write_file

WINDOWS_S = {"stays_1": 1, "stays_10": 10, "stays_40": 40}
KEYS = 200
ROWS_PER_S = 200
FEED_S = 1.0
PATIENCE_S = 180.0
STARTS = 5
LOOKED_AT = 12
"""Queries that came and went whose rows are looked at."""
GUEST_WINDOWS_S = (2, 5, 10, 20, 30)
MOST_GROWTH = {"threads": 2, "files": 5, "service_mb": 64}
"""What the service may hold more when everybody has left than after a first visit of as many. Of memory: what an
allocator keeps for so many threads. A thousand changes that leave 64 KiB each are found."""


def select(window_s: int, above: float = -1.0) -> str:
    return (
        "SELECT a.key, a.value AS va, a.ts AS ta, b.value AS vb, b.ts AS tb FROM a, b "
        f"WHERE a.key = b.key AND a.value > {above} WINDOW {window_s} SECONDS"
    )


@dataclass(frozen=True, slots=True)
class Guest:
    """A query that comes and goes; many ask for the same, as dashboards do."""

    name: str
    window_s: int
    above: float

    @property
    def sql(self) -> str:
        return f"CREATE QUERY {self.name} AS {select(self.window_s, self.above)}"


@dataclass(slots=True)
class Seen:
    """What clients saw; filled from many threads."""

    errors: list[str] = field(default_factory=list)
    waits_s: list[float] = field(default_factory=list)
    requests: Counter[str] = field(default_factory=Counter)
    guests: list[Guest] = field(default_factory=list)

    def asked(self, what: str, answer: httpx.Response, expected: int, began: float) -> None:
        self.requests[what] += 1
        if answer.status_code != expected:
            self.errors.append(f"{what}: {answer.status_code} {answer.text[:200]}")
        elif what in ("add", "drop"):
            self.waits_s.append(time.monotonic() - began)


class Feeder:
    """Writes a file a stream and second, until told to stop; a reader never sees half of one."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.files = 0
        self._stop = threading.Event()
        self._chance = np.random.default_rng(7)
        for stream in STREAMS:
            for name in (stream, f".{stream}"):
                (directory / name).mkdir(parents=True)
        self.write()
        self._thread = threading.Thread(target=self._feed, daemon=True)

    def write(self) -> None:
        for stream in STREAMS:
            keys = self._chance.integers(0, KEYS, ROWS_PER_S)
            ts = START_US + self.files * 1_000_000 + np.arange(ROWS_PER_S) * (1_000_000 // ROWS_PER_S)
            values = self._chance.random(ROWS_PER_S) * 100
            columns = [pa.array(keys), pa.array(values), pa.array(ts).cast(SCHEMA.types[2])]
            aside = self.directory / f".{stream}"
            write_file(aside, self.files, pa.Table.from_arrays(columns, schema=SCHEMA))
            os.rename(aside / file_name(self.files), self.directory / stream / file_name(self.files))
        self.files += 1

    def _feed(self) -> None:
        while not self._stop.wait(FEED_S):
            self.write()

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()


class Server:
    """``headrace serve`` in a process of its own."""

    def __init__(self, program: Path, out: Path, port: int) -> None:
        self.address = f"http://127.0.0.1:{port}"
        self._told = (out.parent / "service.txt").open("w")
        command = [sys.executable, "-m", "headrace", "serve", str(program), "--out", str(out), "--port", str(port)]
        self.process = subprocess.Popen([*command, "--log", str(out.parent / "log.jsonl")], stdout=self._told)
        self._watched = psutil.Process(self.process.pid)

    def is_ready(self) -> bool:
        """Waits for the first micro-batch; False if the service ended instead, as it does where the machine is so busy
        that Spark gives up waiting for a Python process."""
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline and self.process.poll() is None:
            try:
                if httpx.get(f"{self.address}/api/stats").json()["batches"]:
                    return True
            except httpx.HTTPError:
                time.sleep(0.5)
        return False

    def held(self) -> dict[str, int]:
        """Threads, open files and megabytes of the service's process and of all that it started."""
        with self._watched.oneshot():
            threads, files = self._watched.num_threads(), self._watched.num_fds()
        everyone = [self._watched, *self._watched.children(recursive=True)]
        memory = sum(one.memory_info().rss for one in everyone if one.is_running())
        mine = self._watched.memory_info().rss
        return {"threads": threads, "files": files, "service_mb": mine >> 20, "with_spark_mb": memory >> 20}

    def stop(self) -> int:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
        code = self.process.wait(PATIENCE_S)
        self._told.close()
        return code


def client(number: int, address: str, until: float, seen: Seen) -> None:
    """Adds, reads, drops, once at least, until it is time to go."""
    chance = np.random.default_rng(number)
    with httpx.Client(base_url=address, timeout=PATIENCE_S) as web:
        turn = 0
        while turn == 0 or time.monotonic() < until:
            window_s = int(chance.choice(GUEST_WINDOWS_S))
            guest = Guest(f"guest_{number}_{turn}_{int(until)}", window_s, float(chance.choice((50.0, 80.0, 95.0))))
            turn += 1
            try:
                began = time.monotonic()
                seen.asked("add", web.post("/api/queries", json={"sql": guest.sql}), 201, began)
                seen.guests.append(guest)
                seen.asked("results", web.get(f"/api/queries/{guest.name}/results"), 200, began)
                seen.asked("stats", web.get("/api/stats"), 200, began)
                time.sleep(float(chance.random()))
                began = time.monotonic()
                seen.asked("drop", web.delete(f"/api/queries/{guest.name}"), 200, began)
            except httpx.HTTPError as error:
                seen.errors.append(f"client {number}: {error!r}")


# --- what is right ---------------------------------------------------------------------------------------------------


def rows(directory: Path) -> str:
    return f"read_parquet('{directory}/**/*.parquet', hive_partitioning = false)"


def joined(data: Path, window_s: int, above: float) -> str:
    """What a query's rows should be."""
    return (
        f"SELECT a.key, a.value AS va, a.ts AS ta, b.value AS vb, b.ts AS tb FROM {rows(data / 'a')} a, "
        f"{rows(data / 'b')} b WHERE a.key = b.key AND a.value > {above} "
        f"AND abs(epoch_us(a.ts) - epoch_us(b.ts)) <= {window_s * 1_000_000}"
    )


def got(out: Path, name: str) -> str | None:
    """What they are; None if there are none."""
    is_there = any((out / name).glob("micro_batch=*"))
    return f"SELECT key, va, ta, vb, tb FROM {rows(out / name)}" if is_there else None


def wrong_rows(data: Path, out: Path, guest: Guest) -> tuple[int, int]:
    """Rows of a query, and how many of them should not be there."""
    mine = got(out, guest.name)
    if mine is None:
        return 0, 0
    return count(mine), count(f"({mine}) EXCEPT ALL ({joined(data, guest.window_s, guest.above)})")


def missing_rows(data: Path, out: Path, guest: Guest) -> int:
    wanted = joined(data, guest.window_s, guest.above)
    mine = got(out, guest.name)
    return count(wanted if mine is None else f"({wanted}) EXCEPT ALL ({mine})")


def count(sql: str) -> int:
    return int(duckdb.execute(f"SELECT count(*) FROM ({sql})").fetchall()[0][0])


# --- all of it -------------------------------------------------------------------------------------------------------


def run(directory: Path, clients: int, seconds: float, port: int, console: Console) -> bool:
    shutil.rmtree(directory, ignore_errors=True)
    data, out = directory / "data", directory / "out"
    feeder = Feeder(data)
    program = directory / "program.sql"
    stay = "".join(f"CREATE QUERY {name} AS {select(window_s)};\n" for name, window_s in WINDOWS_S.items())
    streams = [stream_sql(stream, COLUMNS, data).replace(", max_files_per_batch = '1'", "") for stream in STREAMS]
    program.write_text("\n".join([*streams, stay]))
    server = started(program, out, port, console)
    seen = Seen()
    try:
        feeder.start()
        visit(server, clients, 0.0, seen)  # what is made once, such as threads for as many clients, is there now
        before = server.held()
        console.print(f"{clients} clients add and drop queries for {seconds:g} s ...")
        during = visit(server, clients, seconds, seen)
        after = server.held()
        left = httpx.get(f"{server.address}/api/queries").json()
        batches = httpx.get(f"{server.address}/api/stats").json()["batches"]
    finally:
        feeder.stop()
        code = server.stop()
    rest = [sys.executable, "-m", "headrace", "run", str(program), "--out", str(out), "--once"]
    subprocess.run(rest, check=True, stdout=subprocess.DEVNULL)
    return told(console, seen, before, during, after, [one["name"] for one in left], batches, code, data, out)


def started(program: Path, out: Path, port: int, console: Console) -> Server:
    """The service, ready; one that ends before it is ready is started again, as a supervisor would."""
    for _ in range(STARTS):
        server = Server(program, out, port)
        if server.is_ready():
            return server
        console.print(f"the service ended before it was ready (exit {server.stop()}): started again")
    raise SystemExit("the service did not start")


def visit(server: Server, clients: int, seconds: float, seen: Seen) -> dict[str, int]:
    """Has clients come for so long; what the service held in the middle."""
    until = time.monotonic() + seconds
    threads = [threading.Thread(target=client, args=(n, server.address, until, seen)) for n in range(clients)]
    for thread in threads:
        thread.start()
    time.sleep(seconds / 2)
    held = server.held()
    for thread in threads:
        thread.join()
    return held


def told(
    console: Console,
    seen: Seen,
    before: dict[str, int],
    during: dict[str, int],
    after: dict[str, int],
    left: list[str],
    batches: int,
    code: int,
    data: Path,
    out: Path,
) -> bool:
    """Prints what was seen; whether all is as it should be."""
    waits = sorted(seen.waits_s)
    console.print(f"requests: {dict(seen.requests)}; {len(seen.errors)} errors; {batches} micro-batches; exit {code}")
    for error in seen.errors[:5]:
        console.print(f"  {error}", markup=False)
    console.print(
        f"a change took {median(waits):.2f} s (median), {waits[int(len(waits) * 0.99)]:.2f} s (p99), "
        f"{waits[-1]:.2f} s (longest)"
    )
    for name in before:
        console.print(f"{name}: {before[name]} before, {during[name]} with clients, {after[name]} after")
    checkpoint = out / "_checkpoint"
    kept = {name: len(os.listdir(checkpoint / name)) for name in ("orders", "requests")}
    changes = (checkpoint / "changes.jsonl").read_text().strip()
    console.print(f"queries left: {', '.join(left)}; kept in the checkpoint: {kept}, {len(changes)} bytes of changes")
    is_right = sorted(left) == sorted(WINDOWS_S)
    for name, window_s in WINDOWS_S.items():
        stays = Guest(name, window_s, -1.0)
        (found, wrong), missing = wrong_rows(data, out, stays), missing_rows(data, out, stays)
        console.print(f"{name}: {found:,} rows, {wrong} wrong, {missing} missing")
        is_right &= bool(found) and not wrong and not missing
    picked = seen.guests[:: max(len(seen.guests) // LOOKED_AT, 1)]
    some = [wrong_rows(data, out, one) for one in picked]
    found, wrong = sum(one for one, _ in some), sum(one for _, one in some)
    console.print(f"{len(picked)} of {len(seen.guests)} that came and went: {found:,} rows, {wrong} wrong")
    is_right &= not wrong
    leaking = [*leaks(before, after), *(["changes"] if changes else [])]
    if leaking:
        console.print(f"grows without end: {', '.join(leaking)}")
    is_right &= not seen.errors and not leaking and code == 0
    console.print("all as it should be" if is_right else "NOT RIGHT")
    return is_right


def leaks(before: dict[str, int], after: dict[str, int]) -> list[str]:
    """What of the service has grown by more than it may."""
    return [name for name, most in MOST_GROWTH.items() if after[name] > before[name] + most]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("out/bench-api"))
    parser.add_argument("--clients", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=120.0)
    parser.add_argument("--port", type=int, default=8431)
    given = parser.parse_args()
    sys.exit(0 if run(given.out, given.clients, given.seconds, given.port, Console(soft_wrap=True)) else 1)


if __name__ == "__main__":
    main()
