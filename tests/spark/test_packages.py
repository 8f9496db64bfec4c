"""Which jars a program needs, and how a new session is told of them; no Spark is started."""

from __future__ import annotations

from pathlib import Path

import pyspark
import pytest

from headrace.config import Settings
from headrace.errors import SettingError
from headrace.spark import local
from headrace.spark.packages import formats_of, jars_conf
from headrace.spark.session import Engine

KAFKA = f"org.apache.spark:spark-sql-kafka-0-10_2.13:{pyspark.__version__}"
TOPIC = "CREATE STREAM s (ts TIMESTAMP) WITH (connector = 'kafka', servers = 'b:9092', topic = 't');"
FILES = "CREATE STREAM f (ts TIMESTAMP) WITH (connector = 'files', path = 'x');"


@pytest.mark.parametrize(
    ("text", "formats"),
    [
        (FILES, set()),
        (TOPIC, {"kafka"}),
        (FILES + "SELECT * FROM f INTO (connector = 'kafka', servers = 'b:9092')", {"kafka"}),
        (FILES + "SELECT * FROM f INTO (connector = 'spark', format = 'Delta')", {"delta"}),
    ],
)
def test_formats_are_those_of_streams_and_sinks(text: str, formats: set[str]) -> None:
    script = Engine().sql(text)
    assert formats_of(script.catalog, script.queries) == formats


def test_packages_follow_the_connectors_unless_they_are_given() -> None:
    assert jars_conf(Settings(), {"kafka", "delta"}) == {"spark.jars.packages": KAFKA}
    assert jars_conf(Settings(), {"delta"}) == {}
    given = Settings().with_text("packages", "org.example:one:1, org.example:two_2.13:2")
    assert jars_conf(given, {"kafka"}) == {"spark.jars.packages": "org.example:one:1,org.example:two_2.13:2"}
    assert jars_conf(Settings().with_text("packages", "none"), {"kafka"}) == {}


def test_jars_that_are_there_take_the_place_of_packages(tmp_path: Path) -> None:
    for name in ("b.jar", "a.jar", "note.txt"):
        (tmp_path / name).touch()
    told = jars_conf(Settings().with_text("jars", str(tmp_path)), {"kafka"})
    assert told == {"spark.jars": f"{tmp_path}/a.jar,{tmp_path}/b.jar"}
    two = jars_conf(Settings().with_text("jars", f"{tmp_path}/b.jar, hdfs://n/c.jar"))
    assert two == {"spark.jars": f"{tmp_path}/b.jar,hdfs://n/c.jar"}


def test_jars_that_are_not_there_are_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match="there is no jar in"):
        jars_conf(Settings().with_text("jars", str(tmp_path)))
    with pytest.raises(SettingError, match=r"there is no .*gone\.jar"):
        jars_conf(Settings().with_text("jars", f"{tmp_path}/gone.jar"))


def test_packages_that_are_no_coordinates_are_refused() -> None:
    with pytest.raises(SettingError, match="write group:artifact:version"):
        Settings().with_text("packages", "kafka")


def test_an_engine_without_a_session_makes_one_with_its_jars_on_its_master(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[object, dict[str, object]]] = []
    monkeypatch.setattr(local, "local_session", lambda log, **told: asked.append((log, told)))
    engine = Engine()
    engine.sql(TOPIC + "SET master = 'spark://host:7077';")
    engine.open_session(Path("log"))
    assert asked == [(Path("log"), {"master": "spark://host:7077", "conf": {"spark.jars.packages": KAFKA}})]


def test_packages_that_cannot_be_fetched_are_named(tmp_path: Path) -> None:
    log = tmp_path / "_spark.log"
    log.write_text(":: UNRESOLVED DEPENDENCIES ::")
    told = local.not_started(RuntimeError("[JAVA_GATEWAY_EXITED] ..."), {"spark.jars.packages": KAFKA}, log)
    assert told.startswith(f"Spark could not fetch {KAFKA} from Maven Central (all of it is in {log}): ")
    assert "SET jars = 'DIR'" in told
    assert told.endswith("fetching kafka-jars, then the same command with --set jars=kafka-jars")
    other = local.not_started(RuntimeError("x"), {"spark.jars.packages": "org.example:one:1"}, log)
    assert "stands in" not in other, "that is a matter of Kafka's"
    assert "Java 17" in local.not_started(RuntimeError("x"), {}, None)
