"""The command line in a process group of its own, for tests that interrupt or kill it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Self

import pyspark


class Command:
    """A started ``headrace run``, or another verb; ``kill`` ends it and all that it started, Spark's JVM and workers
    included."""

    def __init__(self, program: Path, out: Path, *arguments: str, verb: str = "run") -> None:
        self.out = out
        self.process = subprocess.Popen(
            [*self.starter(), verb, str(program), "--out", str(out), *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            env={**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"},
        )

    def starter(self) -> list[str]:
        return [sys.executable, "-m", "headrace"]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    @property
    def is_running(self) -> bool:
        return self.process.poll() is None

    def wait_for(self, condition: Callable[[], bool], timeout_s: float = 400) -> bool:
        """Waits until the condition holds; False if the process ended first."""
        end = time.monotonic() + timeout_s
        while not condition():
            if not self.is_running:
                return False
            assert time.monotonic() < end, "it takes too long"
            time.sleep(0.005)
        return True

    def send(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def finish(self, timeout_s: float = 500) -> tuple[int, str, str]:
        """Waits for the end; gives the exit code, and what it printed on standard output and error."""
        out, err = self.process.communicate(timeout=timeout_s)
        return self.process.returncode, out, err

    def kill(self) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.communicate()


class Submitted(Command):
    """The same through spark-submit, on a cluster."""

    def __init__(self, master: str, program: Path, out: Path, *arguments: str) -> None:
        self.master = master
        super().__init__(program, out, *arguments)

    def starter(self) -> list[str]:
        submit = Path(pyspark.__file__).parent / "bin" / "spark-submit"
        conf = {"spark.ui.enabled": "false", "spark.driver.host": "127.0.0.1", "spark.executor.memory": "700m"}
        options = [part for name, value in conf.items() for part in ("--conf", f"{name}={value}")]
        return [str(submit), "--master", self.master, *options, str(Path(__file__).parents[2] / "deploy" / "main.py")]
