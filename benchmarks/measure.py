"""Runs one contender in a process of its own, follows its progress and samples the memory of its process tree.

Memory is the peak, over samples 0.2 s apart, of the sum over the tree: resident memory (RSS) of the JVM, which shares
nothing, and proportional memory (PSS) of the Python processes, which are forked from each other and map the same files,
so that a shared page counts once. (PSS of the JVM would be the same number, but walking its pages would slow down
whoever has the largest heap.)
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import psutil

from benchmarks.contenders import Outcome, Spec

SAMPLE_S = 0.2
Progress = Callable[[int, float], None]
"""Called with the micro-batches done and the memory in bytes."""


@dataclass(slots=True)
class Measured:
    """A contender's run: its own account, or why there is none, and what was seen from outside."""

    outcome: Outcome | None
    failure: str | None
    peak_bytes: int
    process_s: float


class MemorySampler:
    """Samples a process tree from a thread until stopped."""

    def __init__(self, pid: int) -> None:
        self.now_bytes = 0
        self.peak_bytes = 0
        self._root = psutil.Process(pid)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._stop.wait(SAMPLE_S):
            self.now_bytes = tree_bytes(self._root)
            self.peak_bytes = max(self.peak_bytes, self.now_bytes)

    def stop(self) -> int:
        self._stop.set()
        self._thread.join()
        return self.peak_bytes


def tree_bytes(root: psutil.Process) -> int:
    """The memory of a process and its descendants; those that end while we look count as nothing."""
    total = 0
    try:
        processes = [root, *root.children(recursive=True)]
    except psutil.NoSuchProcess:
        return 0
    for process in processes:
        try:
            is_java = process.name().startswith("java")
            total += process.memory_info().rss if is_java else pss_bytes(process.pid)
        except (psutil.NoSuchProcess, ProcessLookupError, FileNotFoundError):
            continue
    return total


def pss_bytes(pid: int) -> int:
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) * 1024
    return 0


def run(spec: Spec, log: Path, timeout_s: float, progress: Progress) -> Measured:
    """Runs the contender to its end, or stops it when its time is over; never raises for the contender's faults."""
    out = Path(spec.out)
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    log.parent.mkdir(parents=True, exist_ok=True)
    started = time.perf_counter()
    with log.open("w") as errors:
        process = subprocess.Popen(
            [sys.executable, "-m", spec.module, spec.text()],
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            env={**os.environ, "PYSPARK_PYTHON": sys.executable},
        )
        sampler = MemorySampler(process.pid)
        deadline = threading.Timer(timeout_s, stop_tree, [process.pid])
        deadline.start()
        try:
            follow(process, sampler, progress)
        except BaseException:
            stop_tree(process.pid)
            raise
        finally:
            timed_out = not deadline.is_alive()
            deadline.cancel()
            peak_bytes = sampler.stop()
    outcome = read_outcome(out / "result.json") if process.returncode == 0 else None
    failure = None if outcome else explain(process.returncode, timed_out, timeout_s, log)
    return Measured(outcome, failure, peak_bytes, time.perf_counter() - started)


def follow(process: subprocess.Popen[str], sampler: MemorySampler, progress: Progress) -> None:
    assert process.stdout is not None
    for line in process.stdout:
        name, _, number = line.partition(" ")
        if name == "batch" and number.strip().isdigit():
            progress(int(number), sampler.now_bytes)
    process.wait()


def stop_tree(pid: int) -> None:
    try:
        processes = [psutil.Process(pid), *psutil.Process(pid).children(recursive=True)]
    except psutil.NoSuchProcess:
        return
    for process in processes:
        try:
            process.kill()
        except psutil.NoSuchProcess:
            continue


def read_outcome(path: Path) -> Outcome | None:
    return Outcome(**json.loads(path.read_text())) if path.exists() else None


def not_done(timeout_s: float) -> str:
    """What is said of a contender that was stopped."""
    return f"not done after {timeout_s:.0f} s"


def explain(code: int, timed_out: bool, timeout_s: float, log: Path) -> str:
    if timed_out:
        return not_done(timeout_s)
    lines = [line for line in log.read_text(errors="replace").splitlines() if line.strip()]
    last = next((line for line in reversed(lines) if "Error" in line or "Exception" in line), "no message")
    return f"exit code {code}: {last.strip()[:200]}"
