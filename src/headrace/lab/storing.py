"""Results on disk: a JSON file for each experiment, and what all of them were run with.

DIR/results/000-figure-6.json     the numbers; by the model clock the same bytes each time
DIR/run.json                      versions: what may differ from one machine to the next
DIR/report.html, DIR/report.md    made of the files above
"""

from __future__ import annotations

import json
import platform
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

from headrace import __version__
from headrace.errors import SinkError, SourceError
from headrace.lab.departures import why_not
from headrace.lab.experiment import Claim, Clock, Experiment, Numbers, Picture, Setup, Size, rounded

PACKAGES = ("pyspark", "pyarrow", "numpy", "sqlglot")


@dataclass(frozen=True, slots=True)
class Result:
    """An experiment with its numbers."""

    experiment: Experiment
    setup: Setup
    numbers: Numbers

    @property
    def claims(self) -> list[Claim]:
        return [one if one.holds else self._explained(one) for one in self.experiment.claims(self.numbers)]

    def _explained(self, claim: Claim) -> Claim:
        known = why_not(self.experiment.name, claim.says, self.setup.clock, self.setup.size)
        if known is not None:
            return replace(claim, why=known, is_known=True)
        return replace(claim, why=self.experiment.by_wall if self.setup.clock is Clock.WALL else "")

    @property
    def pictures(self) -> list[Picture]:
        return list(self.experiment.pictures(self.numbers))

    def text(self) -> str:
        """As it is stored."""
        told = {
            "experiment": self.experiment.name,
            "clock": self.setup.clock.value,
            "size": self.setup.size.value,
            "seed": self.setup.seed,
            "numbers": self.numbers,
            "claims": [
                {"says": one.says, "expected": one.expected, "found": one.found, "holds": one.holds}
                for one in self.claims
            ],
        }
        return json.dumps(told, indent=1, ensure_ascii=False) + "\n"


def result_of(experiment: Experiment, setup: Setup) -> Result:
    """Runs it. Numbers are as they will be read again."""
    return Result(experiment, setup, json.loads(json.dumps(rounded(experiment.measure(setup)))))


def write_result(result: Result, out: Path) -> Path:
    file = out / "results" / f"{result.experiment.name}.json"
    write(file, result.text())
    return file


def read_result(experiment: Experiment, out: Path) -> Result | None:
    """The stored one, if there is one."""
    file = out / "results" / f"{experiment.name}.json"
    if not file.exists():
        return None
    try:
        told = json.loads(file.read_text(encoding="utf-8"))
        setup = Setup(Clock(told["clock"]), Size(told["size"]), int(told["seed"]))
        result = Result(experiment, setup, told["numbers"])
        assert result.claims
        assert result.pictures
    except (ValueError, LookupError, TypeError, AssertionError, OSError):
        raise SourceError(f"{file} is not what this version stores: remove it, or run the experiment again") from None
    return result


def write(file: Path, text: str) -> None:
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    except OSError as error:
        raise SinkError(f"cannot write {file}: {error.strerror}") from None


def versions() -> dict[str, str]:
    """Of everything that results depend on."""
    found = {"headrace": __version__, "python": platform.python_version()}
    return found | {name: version(name) for name in PACKAGES}


def write_run(out: Path, told: dict[str, Any]) -> None:
    write(out / "run.json", json.dumps(told, indent=1, ensure_ascii=False, sort_keys=True) + "\n")


def read_run(out: Path) -> dict[str, Any]:
    file = out / "run.json"
    if not file.exists():
        return {}
    try:
        told = json.loads(file.read_text(encoding="utf-8"))
        if not isinstance(told["versions"], dict):
            raise TypeError
    except (ValueError, LookupError, TypeError, OSError):
        raise SourceError(f"{file} is not what this version stores: remove it, or run the experiments again") from None
    return dict(told)
