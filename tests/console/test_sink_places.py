"""Where queries that come over the API may write."""

from __future__ import annotations

from pathlib import Path

import pytest
from fake_run import PROGRAM, FakeRun

from headrace.console.service import Service
from headrace.console.sink_places import SinkRefusedError
from headrace.spark.staging import claim

BROKERS = "connector = 'kafka', servers = 'one:9092, two:9092', option.kafka.security.protocol = 'SSL'"
WITH_KAFKA = f"{PROGRAM} CREATE QUERY sent AS SELECT location_id FROM humidity INTO ({BROKERS}, topic = 't');"


@pytest.fixture
def service(tmp_path: Path) -> Service:
    return Service(FakeRun(tmp_path / "out", WITH_KAFKA))


def text(into: str) -> str:
    return f"CREATE QUERY new AS SELECT location_id FROM humidity INTO ({into})"


def refused(service: Service, into: str, why: str) -> None:
    for ask in (service.check, service.add):
        with pytest.raises(SinkRefusedError, match=why):
            ask(text(into))
    assert "new" not in [one.name for one in service.queries()]


def test_files_are_written_below_the_output_directory_only(service: Service, tmp_path: Path) -> None:
    out = service.run.out
    out.mkdir()
    (out / "away").symlink_to(tmp_path)
    for path in (tmp_path, tmp_path / "out2", out, out / ".." / "x", out / "away" / "x", Path("relative")):
        refused(service, f"connector = 'parquet', path = '{path}'", "is not below")
        refused(service, f"connector = 'spark', format = 'JSON', mode = 'overwrite', path = '{path}'", "is not below")
    refused(service, f"connector = 'spark', format = 'json', path = 'file:{out}/x'", "is not below")
    assert service.add(text(f"connector = 'parquet', path = '{out}/below/{{query}}'")) == ("new",)


def test_a_path_of_the_pipelines_own_or_of_other_results_is_refused(service: Service) -> None:
    out = service.run.out
    overwrite = "connector = 'spark', format = 'parquet', mode = 'overwrite'"
    claim(out / "dropped", "some checkpoint")
    for path in ("_checkpoint", "_checkpoint/spark", ".staging", "_spark.log"):
        refused(service, f"connector = 'parquet', path = '{out}/{path}'", "the pipeline's own")
        refused(service, f"{overwrite}, path = '{out}/{path}'", "the pipeline's own")
    refused(service, f"{overwrite}, path = '{out}/dropped'", "where other results are")
    refused(service, f"{overwrite}, path = '{out}/near'", "where other results are")
    refused(service, f"{overwrite}, path = '{out}/dropped/x'", "inside other results")
    refused(service, f"connector = 'parquet', path = '{out}/dropped/x'", "inside other results")
    assert service.add(text(f"{overwrite}, path = '{out}/free'")) == ("new",)


def test_a_checkpoint_elsewhere_below_the_output_is_the_pipelines_own_too(tmp_path: Path) -> None:
    run = FakeRun(tmp_path / "out")
    run.checkpoint = run.out / "kept" / "checkpoint"
    for path in ("kept", "kept/checkpoint", "kept/checkpoint/state"):
        refused(Service(run), f"connector = 'parquet', path = '{run.out}/{path}'", "the pipeline's own")


@pytest.mark.parametrize(
    ("into", "why"),
    [
        ("format = 'jdbc', option.url = 'jdbc:derby:/tmp/x;create=true'", "writes as jdbc"),
        ("format = 'org.apache.spark.sql.json', path = '{out}/x'", "may write anywhere"),
        ("format = 'json'", "without a path"),
        ("format = 'json', path = '{out}/x', option.fs.defaultFS = 'hdfs://other'", "has the option fs.defaultFS"),
        ("format = 'delta', path = '{out}/x', option.checkpointLocation = '/x'", "has the option checkpointLocation"),
    ],
)
def test_formats_and_options_that_may_lead_elsewhere_are_refused(service: Service, into: str, why: str) -> None:
    refused(service, f"connector = 'spark', {into.format(out=service.run.out)}", why)


def test_formats_that_write_nowhere_or_with_options_of_their_own_are_taken(service: Service) -> None:
    out = service.run.out
    for into in ("format = 'noop'", f"format = 'csv', path = '{out}/x', option.sep = '/', option.header = 'true'"):
        assert service.check(text(f"connector = 'spark', {into}")) == ("new",)


def test_brokers_and_their_options_are_those_of_the_program(service: Service) -> None:
    refused(service, "connector = 'kafka', servers = 'else:9092'", "the brokers else:9092")
    keys = "option.kafka.ssl.keystore.location = '/x'"
    refused(service, f"{BROKERS}, {keys}", "has the option option.kafka.ssl.keystore.location")
    refused(service, BROKERS.replace("SSL", "PLAINTEXT"), "has the option option.kafka.security.protocol")
    assert service.add(text(f"{BROKERS.replace(' two', 'two')}, topic = 'mine'")) == ("new",)


def test_who_allows_any_sink_has_any(tmp_path: Path) -> None:
    service = Service(FakeRun(tmp_path / "out"), allows_any_sink=True)
    assert service.add(text(f"connector = 'spark', format = 'json', path = '{tmp_path}/else'")) == ("new",)
