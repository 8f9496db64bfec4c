"""Jars by their Maven coordinates, into a directory: for images, and for machines that reach no registry.

    python -m headrace.spark.fetching DIR       the jars of Spark's Kafka connector; then SET jars = 'DIR'

They are resolved by Ivy, which PySpark brings along, as Spark itself does it. The connector is that of the installed
Spark; where Maven Central does not have it, ``STAND_IN`` is taken, the last one that is there as a whole, and it
is said so: its classes are those of another version. A network that hangs is one that cannot be reached.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pyspark

from headrace.errors import HeadraceError, SourceError
from headrace.spark.packages import packages_for

STAND_IN = (
    "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0",
    "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.0.0",
    "org.apache.kafka:kafka-clients:3.9.2",
    "org.apache.commons:commons-pool2:2.13.1",
)
"""Each without what it depends on."""
FETCH_S = 300.0
"""How long a coordinate may take."""


class UnreachedError(SourceError):
    """Maven Central cannot be reached, or does not have what is wanted."""

    def __init__(self, coordinate: str) -> None:
        super().__init__(f"Maven Central cannot be reached, or does not have {coordinate}")


def fetch_connector(directory: Path, cache: Path, timeout_s: float = FETCH_S) -> str:
    """Puts the jars of the Kafka connector into a directory; the coordinate of what was found."""
    (wanted,) = packages_for(["kafka"])
    if is_fetched(wanted, directory, cache, is_whole=True, timeout_s=timeout_s):
        return wanted
    if not all(is_fetched(one, directory, cache, is_whole=False, timeout_s=timeout_s) for one in STAND_IN):
        raise UnreachedError(wanted)
    return STAND_IN[0]


def is_fetched(coordinate: str, directory: Path, cache: Path, *, is_whole: bool, timeout_s: float = FETCH_S) -> bool:
    """Resolves a coordinate into the directory, with all that it depends on or alone; False: it cannot be had."""
    command = [
        _java(), "-jar", str(_ivy()), "-cache", str(cache), "-confs", "default", "-types", "jar", "bundle",
        "-dependency", *coordinate.split(":"), *([] if is_whole else ["-notransitive"]),
        "-retrieve", f"{directory}/[artifact]-[revision].[ext]",
    ]  # fmt: skip
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=timeout_s)
    except subprocess.TimeoutExpired:
        raise UnreachedError(coordinate) from None
    except OSError as error:
        raise HeadraceError(
            f"Java cannot be started ({error.strerror}): it is needed on PATH or in JAVA_HOME"
        ) from None
    return done.returncode == 0 and any(directory.glob("*.jar"))


def _ivy() -> Path:
    found = next((Path(pyspark.__file__).parent / "jars").glob("ivy-*.jar"), None)
    if found is None:
        raise HeadraceError("the installed PySpark has no jars of its own: install it with pip")
    return found


def _java() -> str:
    home = os.environ.get("JAVA_HOME")
    return str(Path(home) / "bin" / "java") if home else "java"


def main(arguments: list[str]) -> None:
    """Fetches the connector into the directory that is named, and prints the jars."""
    if len(arguments) != 1:
        sys.exit("usage: python -m headrace.spark.fetching DIR")
    directory = Path(arguments[0])
    try:
        with tempfile.TemporaryDirectory() as aside:
            found = fetch_connector(Path(aside, "jars"), Path(aside, "cache"))
            directory.mkdir(parents=True, exist_ok=True)
            for jar in sorted(Path(aside, "jars").glob("*.jar")):
                print(shutil.copy(jar, directory))
    except HeadraceError as error:
        sys.exit(str(error))
    (wanted,) = packages_for(["kafka"])
    if found != wanted:
        print(f"Maven Central does not have {wanted}: {found} stands in for it", file=sys.stderr)


if __name__ == "__main__":
    main(sys.argv[1:])
