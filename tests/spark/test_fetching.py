"""Jars by their coordinates, with a Java that only does as if; no Spark is started."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

from headrace.errors import HeadraceError
from headrace.spark.fetching import STAND_IN, UnreachedError, fetch_connector, main

ROOT = Path(__file__).parents[2]
KAFKA = f"org.apache.spark:spark-sql-kafka-0-10_2.13:{pyspark.__version__}"
JAVA = """#!/bin/sh
while [ $# -gt 0 ]; do
  case "$1" in
    -dependency) artifact="$3"; revision="$4";;
    -retrieve) directory="${2%/*}";;
  esac
  shift
done
echo "$artifact:$revision" >> "$ASKED"
case " $MISSING " in *" $artifact:$revision "*|*" all "*) exit 1;; *" hangs "*) exec sleep 60;; esac
mkdir -p "$directory" && touch "$directory/$artifact-$revision.jar"
"""


class Maven:
    """Maven Central as the tests have it: what it lacks, and what was asked of it."""

    def __init__(self, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        java = directory / "home" / "bin" / "java"
        java.parent.mkdir(parents=True)
        java.write_text(JAVA)
        java.chmod(0o755)
        self._log = directory / "asked"
        self._patch = monkeypatch
        monkeypatch.setenv("JAVA_HOME", str(java.parents[1]))
        monkeypatch.setenv("ASKED", str(self._log))
        self.lacks("nothing")

    def lacks(self, *names: str) -> None:
        self._patch.setenv("MISSING", " ".join(names))

    @property
    def asked(self) -> list[str]:
        return self._log.read_text().split() if self._log.exists() else []


@pytest.fixture
def maven(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Maven:
    return Maven(tmp_path, monkeypatch)


def short(coordinate: str) -> str:
    return coordinate.partition(":")[2]


def test_the_connector_of_the_installed_spark_comes_first(maven: Maven, tmp_path: Path) -> None:
    assert fetch_connector(tmp_path / "jars", tmp_path / "cache") == KAFKA
    assert maven.asked == [short(KAFKA)]


def test_another_connector_stands_in_where_it_is_not_there(
    maven: Maven, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    maven.lacks(short(KAFKA))
    main([str(tmp_path / "jars")])
    assert maven.asked == [short(one) for one in (KAFKA, *STAND_IN)]
    wanted = sorted(f"{short(one).replace(':', '-')}.jar" for one in STAND_IN)
    assert sorted(one.name for one in (tmp_path / "jars").iterdir()) == wanted
    assert f"does not have {KAFKA}: {STAND_IN[0]} stands in for it" in capsys.readouterr().err


def test_who_has_neither_is_told_and_nothing_is_left_behind(maven: Maven, tmp_path: Path) -> None:
    maven.lacks("all")
    with pytest.raises(UnreachedError, match="cannot be reached, or does not have"):
        fetch_connector(tmp_path / "jars", tmp_path / "cache")
    with pytest.raises(SystemExit, match="cannot be reached"):
        main([str(tmp_path / "jars")])
    assert not (tmp_path / "jars").exists()


def test_a_network_that_hangs_is_not_reached(maven: Maven, tmp_path: Path) -> None:
    maven.lacks("hangs")
    with pytest.raises(UnreachedError):
        fetch_connector(tmp_path / "jars", tmp_path / "cache", timeout_s=0.1)
    assert maven.asked == [short(KAFKA)], "who hangs is asked once"


def test_without_java_it_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(HeadraceError, match="Java cannot be started"):
        fetch_connector(tmp_path / "jars", tmp_path / "cache")


def script(monkeypatch: pytest.MonkeyPatch, cache: Path, seconds: str = "30") -> subprocess.CompletedProcess[str]:
    monkeypatch.setenv("HEADRACE_JAR_CACHE", str(cache))
    monkeypatch.setenv("HEADRACE_FETCH_S", seconds)
    command = [sys.executable, str(ROOT / "scripts" / "kafka"), "fetch"]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


def test_the_script_takes_what_stands_in_and_says_so(
    maven: Maven, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    maven.lacks(short(KAFKA))
    done = script(monkeypatch, tmp_path / "cache")
    assert done.returncode == 0, done.stderr
    assert f"connector {tmp_path}/cache/connector-stand-in" in done.stdout
    assert "stands in for it" in done.stderr


def test_the_script_says_that_a_network_that_hangs_is_not_reached(
    maven: Maven, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    maven.lacks("hangs")
    done = script(monkeypatch, tmp_path / "cache", "0.1")
    assert (done.returncode, "cannot be reached" in done.stderr) == (3, True), done.stderr
    assert [one for one in (tmp_path / "cache").glob("*") if one.name != "ivy"] == []
