"""The files of ``deploy``: what can be checked of them without building an image or starting a container."""

from __future__ import annotations

import json
import re
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from headrace.console.access import check_token
from headrace.errors import SettingError
from headrace.sql import read_script

ROOT = Path(__file__).parents[1]
DEPLOY = ROOT / "deploy"
INSTRUCTIONS = {
    "FROM",
    "RUN",
    "COPY",
    "ENV",
    "WORKDIR",
    "USER",
    "VOLUME",
    "ENTRYPOINT",
    "CMD",
    "ARG",
    "EXPOSE",
    "LABEL",
}


def instructions() -> list[tuple[str, str]]:
    """The Dockerfile's (instruction, arguments), with lines that go on put together."""
    lines = [line for line in (DEPLOY / "Dockerfile").read_text().splitlines() if not line.lstrip().startswith("#")]
    whole = re.sub(r"\\\n", " ", "\n".join(lines))
    return [(line.split()[0], line.split(None, 1)[1].strip()) for line in whole.splitlines() if line.strip()]


@pytest.fixture(scope="module")
def compose() -> dict[str, Any]:
    return dict(yaml.safe_load((DEPLOY / "compose.yaml").read_text()))


def test_dockerfile_has_known_instructions_and_begins_with_an_image_of_a_fixed_version() -> None:
    given = instructions()
    assert {name for name, _ in given} <= INSTRUCTIONS
    assert given[0][0] == "FROM"
    for _, image in [one for one in given if one[0] == "FROM"]:
        assert re.match(r"[\w./-]+:\d[\w.-]*( AS \w+)?$", image), image


def test_dockerfile_copies_what_there_is_and_what_is_sent_to_the_builder() -> None:
    sent = (ROOT / ".dockerignore").read_text().splitlines()
    assert "*" in sent, "nothing but what is named: no environment, no results"
    stages = {image.split(" AS ")[1] for name, image in instructions() if name == "FROM" and " AS " in image}
    for name, text in instructions():
        if name == "COPY":
            words = text.split()
            flags = [word for word in words if word.startswith("--")]
            taken = [flag.removeprefix("--from=") for flag in flags if flag.startswith("--from=")]
            assert set(taken) <= stages
            if not taken:
                assert all((ROOT / source).exists() for source in words[len(flags) : -1]), text
                assert all(f"!{source.split('/')[0]}" in sent for source in words[len(flags) : -1]), text


def test_dockerfile_runs_what_a_shell_can_read_and_not_as_root() -> None:
    given = instructions()
    for name, text in given:
        if name == "RUN":
            subprocess.run(["sh", "-n", "-c", text], check=True)
        if name in ("ENTRYPOINT", "CMD"):
            assert isinstance(json.loads(text), list), "a list, so that signals reach the program"
    users = [text for name, text in given if name == "USER"]
    assert users
    assert users[-1] != "root"


def test_services_name_what_is_declared_and_files_that_there_are(compose: dict[str, Any]) -> None:
    services = compose["services"]
    for name, service in services.items():
        assert "image" in service or "build" in service, name
        assert set(service.get("depends_on", ())) <= set(services), name
        for volume in service.get("volumes", ()):
            source = volume.split(":")[0]
            assert source in compose["volumes"] or (DEPLOY / source).exists(), volume
        if "build" in service:
            context = (DEPLOY / service["build"]["context"]).resolve()
            assert (context / service["build"]["dockerfile"]).samefile(DEPLOY / "Dockerfile")


def test_spark_processes_share_the_output_and_speak_to_one_master(compose: dict[str, Any]) -> None:
    services = compose["services"]
    for name in ("master", "worker", "headrace"):
        assert "data:/data" in services[name]["volumes"]
    master = services["headrace"]["environment"]["HEADRACE_MASTER"]
    assert master == services["worker"]["command"][-1] == "spark://master:7077"
    assert services["worker"]["deploy"]["replicas"] == 2


def test_the_service_is_published_on_this_machine_and_asks_for_a_token(compose: dict[str, Any]) -> None:
    service = compose["services"]["headrace"]
    command = service["command"]
    assert command[0] == "serve"
    port = command[command.index("--port") + 1]
    with pytest.raises(SettingError):
        check_token(command[command.index("--host") + 1], None)  # so it listens beyond the container's loopback
    assert service["ports"] == [f"127.0.0.1:{port}:{port}"]
    assert service["environment"]["HEADRACE_TOKEN"].startswith("${HEADRACE_TOKEN:?")
    assert f":{port}/healthz" in service["healthcheck"]["test"][-1]
    compile(service["healthcheck"]["test"][-1], "healthcheck", "exec")
    assert ("EXPOSE", port) in instructions()


def test_program_is_read_and_writes_to_the_broker_of_the_compose_file(compose: dict[str, Any]) -> None:
    (query,) = read_script((DEPLOY / "queries.sql").read_text()).queries
    host, _, port = dict(query.into)["servers"].partition(":")
    assert host in compose["services"]
    assert f"PLAINTEXT://{host}:{port}" == compose["services"][host]["environment"]["KAFKA_ADVERTISED_LISTENERS"]


def test_wheel_has_the_extras_that_are_documented() -> None:
    told = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert {"kafka", "console", "plot"} <= told["project"]["optional-dependencies"].keys()
    assert told["project"]["scripts"]["headrace"] == "headrace.cli:main"
