"""Jars that a program needs and Spark does not bring along: which, and how a new Spark session gets them.

Spark fetches packages by their Maven coordinates when its process starts, with all that they depend on, into Ivy's
cache; jars that are there already are named one by one instead. Both are configuration of a session that is yet to be
made: one that runs, or that spark-submit starts, was given its jars before (``spark-submit --packages``).
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pyspark
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from headrace.config import Settings
from headrace.errors import HeadraceError, SettingError, setting_parts
from headrace.model import Catalog, Options
from headrace.plan.queries import Query

PACKAGES = {"kafka": "org.apache.spark:spark-sql-kafka-0-10_2.13"}
"""By Spark's name of a format, the package that has it; its version is Spark's own."""


def formats_of(catalog: Catalog, queries: Iterable[Query]) -> frozenset[str]:
    """Spark's names of the formats that streams and queries use, as far as they name them."""
    given = [*(stream.options for stream in catalog.streams), *(query.into for query in queries)]
    return frozenset(one for options in given if (one := format_of(options)) is not None)


def format_of(options: Options) -> str | None:
    """The format of Spark's that a connector stands for, or None: it needs nothing but what Spark has."""
    told = dict(options)
    if told.get("connector") == "spark":
        return told["format"].lower()
    return "kafka" if told.get("connector") == "kafka" else None


def packages_for(formats: Iterable[str]) -> tuple[str, ...]:
    """The coordinates of the packages that have these formats."""
    return tuple(f"{PACKAGES[one]}:{pyspark.__version__}" for one in sorted(formats) if one in PACKAGES)


def jars_conf(settings: Settings, formats: Iterable[str] = ()) -> dict[str, str]:
    """What a new session is told, so that it has its jars."""
    if settings.jars is not None:
        return {"spark.jars": ",".join(_jar_files(settings.jars))}
    packages = packages_for(formats) if settings.packages is None else settings.packages
    return {"spark.jars.packages": ",".join(packages)} if packages else {}


_JARS_HINT = "write a directory of jars, or files parted by commas"


def _jar_files(text: str) -> list[str]:
    if "," not in text and Path(text).is_dir():
        found = sorted(str(path.absolute()) for path in Path(text).glob("*.jar"))
        if not found:
            raise SettingError(f"setting jars: there is no jar in {text}", _JARS_HINT, setting_parts("jars"))
        return found
    files = [one.strip() for one in text.split(",")]
    for one in files:
        if "://" not in one and not Path(one).is_file():
            raise SettingError(f"setting jars: there is no {one}", _JARS_HINT, setting_parts("jars"))
    return files


def check_format(spark: SparkSession, name: str, who: str, error: type[HeadraceError]) -> None:
    """Refuses a format that the session does not have, before anything runs. ``who``: whose it is, for the message."""
    try:
        java = spark._jsparkSession
        source = spark._jvm.org.apache.spark.sql.execution.datasources.DataSource
        source.lookupDataSource(name, java.sessionState().conf())
    except (Py4JJavaError, PySparkException):
        package = PACKAGES.get(name.lower())
        hint = (
            f"start Spark with --packages {package}:{pyspark.__version__}, or without it with SET jars = 'DIR'"
            if package
            else "check the name, and name the package that has it: SET packages = 'group:artifact:version'"
        )
        raise error(f"{who}: this Spark has no format {name}. {hint[0].upper()}{hint[1:]}") from None
