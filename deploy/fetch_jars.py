"""Fetches the jars of Spark's Kafka connector into a directory, by their coordinates: ``python fetch_jars.py DIR``.

For images and for machines without a registry: what is fetched once is given to each run by ``SET jars = 'DIR'`` (or
``HEADRACE_JARS``). Spark resolves the package, with all that it depends on, as it does with ``--packages``.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

from headrace.errors import HeadraceError
from headrace.spark.local import local_session
from headrace.spark.packages import packages_for


def fetch(directory: Path) -> list[Path]:
    """The jars, copied there from the cache that Spark fills when it starts with the package."""
    with tempfile.TemporaryDirectory() as cache:
        log = Path(cache) / "spark.log"
        conf = {"spark.jars.packages": ",".join(packages_for(["kafka"])), "spark.jars.ivy": cache}
        local_session(log, master="local[1]", conf=conf).stop()
        directory.mkdir(parents=True, exist_ok=True)
        return [Path(shutil.copy(jar, directory)) for jar in sorted(Path(cache, "jars").glob("*.jar"))]


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: fetch_jars.py DIR")
    try:
        for one in fetch(Path(sys.argv[1])):
            print(one.name)
    except HeadraceError as error:
        sys.exit(str(error))
