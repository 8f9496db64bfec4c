"""The service over HTTP, without Spark: what is asked, what is answered, who may ask."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from fake_run import FakeRun

from headrace.console.access import check_token
from headrace.console.eventlog import EventLog, opened_log
from headrace.console.service import Service
from headrace.console.serving import WebServer, address_of, bound_socket
from headrace.console.web import web_app
from headrace.errors import SettingError

ROOT = Path(__file__).parents[2]
TOKEN = "0123456789abcdef"
NEW = "CREATE QUERY new AS SELECT location_id, value AS celsius FROM humidity WHERE value > 60"


class Served:
    """A service on a free port, and someone who asks it."""

    def __init__(self, out: Path, token: str | None = None, log: EventLog | None = None) -> None:
        self.run = FakeRun(out)
        self.service = Service(self.run, log)
        taken = bound_socket("127.0.0.1", 0)
        self.address = address_of(taken)
        self.server = WebServer(web_app(self.service, token), taken)
        self.client = httpx.Client(base_url=self.address, timeout=20)

    def __enter__(self) -> Served:
        self.server.__enter__()
        self.service.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.client.close()
        self.service.close()
        self.server.__exit__()
        self.service.release()

    def get(self, path: str) -> Any:
        answer = self.client.get(path)
        assert answer.status_code == 200, answer.text
        return answer.json()


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    with Served(tmp_path) as one:
        yield one


def names(served: Served) -> list[str]:
    return [one["name"] for one in served.get("/api/queries")]


def test_queries_come_and_go(served: Served) -> None:
    assert names(served) == ["near", "wide", "counted"]
    answer = served.client.post("/api/queries", json={"sql": NEW})
    assert (answer.status_code, answer.json()) == (201, {"queries": ["new"]})
    told = served.get("/api/queries/NEW")
    assert (told["text"], told["columns"], told["sink"]) == (NEW, ["location_id BIGINT", "celsius DOUBLE"], "parquet")
    assert served.client.post("/api/queries/NEW/pause").json() == {"queries": ["new"]}
    assert served.get("/api/queries/new")["is_paused"]
    assert served.client.post("/api/queries/new/resume").status_code == 200
    assert not served.get("/api/queries/new")["is_paused"]
    assert served.client.delete("/api/queries/new").status_code == 200
    assert names(served) == ["near", "wide", "counted"]
    assert [one["what"] for one in served.get("/api/pipeline")["changes"]] == ["add", "pause", "resume", "drop"]


def test_what_a_text_drops_is_told_as_dropped(served: Served) -> None:
    for sql in (f"{NEW}; DROP QUERY Near", "DROP QUERY new; DROP QUERY wide"):
        assert served.client.post("/api/queries", json={"sql": sql}).status_code == 201
    changes = [(one["what"], one["query"]) for one in served.get("/api/pipeline")["changes"]]
    assert changes == [("add", "new"), ("drop", "near"), ("drop", "wide, new")]


@pytest.mark.parametrize(
    ("method", "path", "sql", "status", "told"),
    [
        ("POST", "/api/queries", "CREATE QUERY new AS SELECT x FROM humidity", 400, "x"),
        ("POST", "/api/queries", "CREATE QUERY near AS SELECT ts FROM humidity", 400, "there is a query near already"),
        ("POST", "/api/queries", "SET shards = 3", 409, "cannot change while running"),
        (
            "POST",
            "/api/queries",
            "CREATE QUERY new AS SELECT ts FROM humidity INTO (connector = 'parquet', path = '/x')",
            403,
            "not below",
        ),
        ("DELETE", "/api/queries/nobody", None, 404, "there is no query nobody"),
        ("POST", "/api/queries/near/resume", None, 409, "query near is not paused"),
        ("GET", "/api/queries/counted/results", None, 409, "writes to count, not to files"),
        ("GET", "/api/nothing", None, 404, "there is nothing at /api/nothing"),
        ("GET", "/static/nothing.js", None, 404, "there is nothing at /static/nothing.js"),
        ("PUT", "/api/queries", None, 405, "PUT cannot be done to /api/queries"),
        ("POST", "/api/queries", None, 422, "body: Field required"),
        ("GET", "/api/queries/near/results?limit=0", None, 422, "query.limit: Input should be greater"),
    ],
)
def test_refusals_say_what_is_wrong(
    served: Served, method: str, path: str, sql: str | None, status: int, told: str
) -> None:
    answer = served.client.request(method, path, json=None if sql is None else {"sql": sql})
    assert answer.status_code == status
    assert told in answer.json()["error"]["message"]
    assert names(served) == ["near", "wide", "counted"]


def test_what_is_no_json_is_refused_as_anything_else_is(served: Served) -> None:
    for body, why in ((b"{broken", "JSON decode error"), (b'{"sql": "\xff"}', "cannot be read as JSON")):
        answer = served.client.post("/api/check", content=body, headers={"Content-Type": "application/json"})
        assert answer.status_code == 422
        assert why in answer.json()["error"]["message"]


def test_a_fault_of_ours_is_told_as_anything_else_is_and_is_in_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "log.jsonl"
    with opened_log(str(file)) as log, Served(tmp_path / "out", log=log) as served:
        monkeypatch.setattr(served.run, "plan", lambda: {}["gone"])
        answer = served.client.get("/api/plan")
        assert (answer.status_code, answer.headers["x-content-type-options"]) == (500, "nosniff")
        assert answer.json()["error"]["message"].startswith("a fault in Headrace: KeyError")
    assert any("KeyError: 'gone'" in json.loads(line).get("trace", "") for line in file.read_text().splitlines())


def test_the_page_and_health_can_be_asked_for_their_head(served: Served) -> None:
    assert [served.client.head(path).status_code for path in ("/", "/healthz")] == [200, 200]


def test_a_run_that_has_ended_is_unhealthy_and_takes_no_change(served: Served) -> None:
    assert served.get("/healthz") == {"running": True}
    served.run.is_active = False
    assert served.client.get("/healthz").status_code == 503
    assert "headrace_up 0" in served.client.get("/metrics").text
    assert served.client.delete("/api/queries/near").status_code == 503


def test_a_check_gives_the_place_of_the_mistake(served: Served) -> None:
    def check(sql: str) -> Any:
        return served.client.post("/api/check", json={"sql": sql}).json()

    assert check(NEW) == {"ok": True, "adds": ["new"], "problem": None}
    wrong = check("CREATE QUERY q AS\nSELECT location_id, valeu FROM humidity")
    assert not wrong["ok"]
    problem = wrong["problem"]
    assert (problem["line"], problem["column"], problem["length"]) == (2, 21, 5)
    assert problem["hint"] == "did you mean value?"
    assert names(served) == ["near", "wide", "counted"]


def test_explain_tells_of_the_plan_and_of_what_it_would_be(served: Served) -> None:
    assert "near (1 second)" in served.get("/api/explain")["text"]
    assert "new" in served.client.post("/api/explain", json={"sql": NEW}).json()["text"]


def test_the_plan_says_which_queries_share_which_join_and_bands(served: Served) -> None:
    plan = served.get("/api/plan")
    join = next(group for group in plan["groups"] if group["is_join"])
    assert join["windows"] == ["1 second", "10 minutes"]
    assert {one["name"]: one["window"] for one in join["queries"]} == {"near": 0, "wide": 1}
    assert [one["stream"] for one in join["inputs"]] == ["temperature", "humidity"]
    drawn = served.client.get("/api/graph.svg").text
    assert drawn.startswith("<svg")
    assert "selectivity 0.50" in drawn


def test_the_tree_of_a_query_that_adapts_is_drawn(served: Served) -> None:
    adapts = "CREATE QUERY new AS SELECT a.value FROM temperature a, humidity b WHERE a.value = b.value WINDOW 1 SECOND"
    adapts += " ON OVERLOAD ADAPT"
    assert served.client.post("/api/queries", json={"sql": adapts}).status_code == 201
    drawn = served.client.get("/api/queries/new/tree.svg")
    assert drawn.text.startswith("<svg")
    assert "probes/s" in drawn.text
    assert served.client.get("/api/queries/near/tree.svg").status_code == 409
    assert served.client.get("/api/queries/nobody/tree.svg").status_code == 404


def test_the_latest_rows_are_read_back(served: Served) -> None:
    assert served.get("/api/queries/near/results") == {"query": "near", "batches": []}
    served.run.publish({"near": [(1, 20.5), (2, 21.5)]})
    served.run.publish({"near": [(3, 30.5)], "wide": [(4, 1.0)]})
    told = served.get("/api/queries/near/results?limit=2")["batches"]
    assert [(one["batch"], one["rows"], one["total"]) for one in told] == [(0, [[2, 21.5]], 2), (1, [[3, 30.5]], 1)]
    assert served.client.get("/api/queries/near/results?limit=0").status_code == 422


def test_a_column_called_query_is_a_column_where_no_sink_is_shared(served: Served) -> None:
    served.run.add("CREATE QUERY named AS SELECT location_id AS query, value AS celsius FROM humidity")
    folder = served.run.out / "named" / "micro_batch=000000000"
    folder.mkdir(parents=True)
    pq.write_table(pa.table({"query": [7, 8], "celsius": [1.0, 2.0]}), folder / "part-0000.parquet")
    (told,) = served.get("/api/queries/named/results")["batches"]
    assert (told["columns"], told["rows"], told["total"]) == (["query", "celsius"], [[7, 1.0], [8, 2.0]], 2)


def events(served: Served, path: str, most: int, **headers: str) -> list[tuple[str, str, Any]]:
    """The first server-sent events of a stream: (kind, id, data)."""
    found = []
    with served.client.stream("GET", path, headers=headers) as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        fields: dict[str, str] = {}
        for line in answer.iter_lines():
            if line.startswith(":"):
                continue
            if line:
                name, _, value = line.partition(": ")
                fields[name] = value
            elif fields:
                found.append((fields["event"], fields.get("id", ""), json.loads(fields["data"])))
                fields = {}
                if len(found) == most:
                    break
    return found


def test_a_stream_of_rows_goes_on_after_the_last_one_seen(served: Served) -> None:
    for number in range(4):
        served.run.publish({"near": [(number, 1.0)] * 3} if number != 2 else {})
    path = "/api/queries/near/results/stream"
    first = events(served, f"{path}?after=-1&limit=2", 1)
    assert [(kind, number, len(told["rows"]), told["total"]) for kind, number, told in first] == [("rows", "0", 2, 3)]
    rest = events(served, path, 2, **{"Last-Event-ID": "0"})
    assert [number for _, number, _ in rest] == ["1", "3"]


def test_a_place_in_rows_of_another_checkpoint_is_no_place_to_wait_for(served: Served) -> None:
    served.run.publish({"near": [(0, 0.0)]})
    threading.Timer(1.0, served.run.publish, ({"near": [(1, 1.0)]},)).start()
    threading.Timer(4.0, served.run.drop, ("near",)).start()
    told = events(served, "/api/queries/near/results/stream", 1, **{"Last-Event-ID": "500"})
    assert [(kind, number, data.get("rows")) for kind, number, data in told] == [("rows", "1", [[1, 1.0]])]


def test_a_stream_of_rows_ends_with_its_query(served: Served) -> None:
    with served.client.stream("GET", "/api/queries/near/results/stream") as answer:
        lines = answer.iter_lines()
        assert next(lines) == ": begins"
        served.run.publish({"near": [(7, 1.0)]})
        assert any(line == "event: rows" for line in lines)
        served.run.drop("near")
        assert "event: dropped" in list(lines)


def test_a_stream_of_rows_ends_after_those_that_came_while_its_query_was_to_be_dropped(tmp_path: Path) -> None:
    run = FakeRun(tmp_path)
    service = Service(run)  # nobody looks: by the statistics the micro-batch that drops the query is not over
    taken = bound_socket("127.0.0.1", 0)
    path = f"{address_of(taken)}/api/queries/near/results/stream"
    with WebServer(web_app(service), taken), httpx.stream("GET", path, timeout=20) as answer:
        lines = answer.iter_lines()
        assert next(lines) == ": begins"
        run.drop("near")
        time.sleep(0.6)
        run.publish({"near": [(7, 1.0)]})
        assert next(line for line in lines if line.startswith("event: ")) == "event: rows"
        service.take_sample(1000.0)
        assert "event: dropped" in list(lines)
    service.release()


def test_statistics_curves_and_metrics(served: Served) -> None:
    served.service.take_sample(1000.0)
    served.service.take_sample(1001.0)
    stats = served.get("/api/stats")
    assert [one["query"] for one in stats["queries"]] == ["near", "wide", "counted"]
    assert stats["graph"]["operators"][0]["turns"] == 9
    history = served.get("/api/history?after_s=1000&query=wide")
    assert [one["query"] for one in history["queries"]] == ["wide"]
    assert len(history["queries"][0]["results_per_s"]) == len(history["at_s"]) >= 1
    kind, _, told = events(served, "/api/stats/stream", 1)[0]
    assert (kind, told["batches"]) == ("stats", 0)
    assert 'headrace_query_results_total{query="wide"} 2000' in served.client.get("/metrics").text


def test_metrics_say_how_old_they_are(tmp_path: Path) -> None:
    service = Service(FakeRun(tmp_path))  # nobody looks
    time.sleep(0.03)
    assert service.look_age_s >= 0.03
    with WebServer(web_app(service), taken := bound_socket("127.0.0.1", 0)):
        text = httpx.get(f"{address_of(taken)}/metrics").text
    service.release()
    (line,) = [line for line in text.splitlines() if line.startswith("headrace_statistics_age_seconds")]
    aged = service.look_age_s
    assert 0.03 <= float(line.split()[1]) <= aged
    service.take_sample(1000.0)
    assert service.look_age_s < aged


def refused(constant: str) -> None:
    raise AssertionError(f"{constant} is not JSON")


def test_a_limit_that_is_infinite_is_null_in_every_answer(served: Served) -> None:
    text = served.client.get("/api/stats").text
    with served.client.stream("GET", "/api/stats/stream") as answer:
        event = next(line for line in answer.iter_lines() if line.startswith("data: "))
    for told in (text, event.removeprefix("data: ")):
        trees = json.loads(told, parse_constant=refused)["trees"]
        assert [one["mu"] for one in trees] == [300.0, None]


def test_with_a_token_only_the_page_and_health_are_open(tmp_path: Path) -> None:
    with Served(tmp_path, TOKEN) as served:
        for path in ("/", "/healthz", "/static/console.css"):
            assert served.client.get(path).status_code == 200
        for path in ("/api/queries", "/metrics", "/openapi.json", "/api/stats/stream"):
            refused = served.client.get(path)
            assert (refused.status_code, refused.headers["www-authenticate"]) == (401, "Bearer")
            assert TOKEN not in refused.text
        wrong = served.client.get("/api/queries", headers={"Authorization": "Bearer 0123456789abcdeX"})
        assert wrong.status_code == 401
        right = served.client.get("/api/queries", headers={"Authorization": f"Bearer {TOKEN}"})
        assert right.status_code == 200
        named_otherwise = served.client.get("/api/queries", headers={"Authorization": f"bearer  {TOKEN}"})
        assert named_otherwise.status_code == 200
        for wrong_scheme in (f"Basic {TOKEN}", TOKEN, ""):
            told = served.client.get("/api/queries", headers={"Authorization": wrong_scheme})
            assert told.status_code == 401, wrong_scheme


def test_a_token_may_end_in_a_line_as_one_out_of_a_variable_does(tmp_path: Path) -> None:
    with Served(tmp_path, token=f"{TOKEN}\n") as served:
        told = served.client.get("/api/queries", headers={"Authorization": f"Bearer {TOKEN}"})
        assert told.status_code == 200
    with pytest.raises(SettingError, match="the token has 3 characters"):
        check_token("127.0.0.1", "abc" + 20 * " ")


def test_without_a_token_other_sites_are_not_served(served: Served) -> None:
    for name, value in (
        ("Host", "evil.example"),
        ("Host", "[::1"),
        ("Origin", "https://evil.example"),
        ("Origin", "//["),
    ):
        assert served.client.get("/api/queries", headers={name: value}).status_code == 403, value
    assert served.client.get("/api/queries", headers={"Origin": served.address}).status_code == 200


def test_a_token_is_required_unless_bound_to_loopback() -> None:
    check_token("127.0.0.1", None)
    check_token("0.0.0.0", TOKEN)
    with pytest.raises(SettingError, match="a token is required"):
        check_token("0.0.0.0", None)
    with pytest.raises(SettingError, match="at least 16"):
        check_token("127.0.0.1", "short")
    for token in ("schlüssel-des-hauses", "two-lines-of\nanything"):
        with pytest.raises(SettingError, match="cannot show in a header"):
            check_token("127.0.0.1", token)


def test_a_port_that_is_taken_is_refused() -> None:
    with bound_socket("127.0.0.1", 0) as taken:
        assert taken.proto == socket.IPPROTO_TCP, "asyncio turns Nagle's algorithm off only if it is told what it is"
        port = taken.getsockname()[1]
        with pytest.raises(SettingError, match="Give another --port"):
            bound_socket("127.0.0.1", port)


def test_a_request_that_is_too_long_is_refused(served: Served) -> None:
    assert served.client.post("/api/check", content=b" " * (2**20 + 1)).status_code == 413


def test_the_page_asks_nothing_of_other_hosts(served: Served) -> None:
    page = served.client.get("/")
    assert "default-src 'self'" in page.headers["content-security-policy"]
    static = ROOT / "src" / "headrace" / "console" / "static"
    for file in static.iterdir():
        assert "//cdn" not in file.read_text(), file
        assert "https://" not in file.read_text(), file


def test_every_address_is_described_and_documented(served: Served) -> None:
    described = served.get("/openapi.json")
    page = (ROOT / "docs" / "api.md").read_text()
    for path, methods in described["paths"].items():
        for method in methods:
            assert f"`{method.upper()} {path}`" in page, f"{method} {path} is not in docs/api.md"


def test_every_refusal_is_described_as_it_is_and_every_answer_by_its_type(served: Served) -> None:
    described = served.get("/openapi.json")
    assert "HTTPValidationError" not in described["components"]["schemas"]
    for path, methods in described["paths"].items():
        for method, told in methods.items():
            refusals = {status: one for status, one in told["responses"].items() if status >= "400"}
            assert {"401", "404", "413", "422", "500", "503"} <= refusals.keys(), f"{method} {path}"
            schemas = {one["content"]["application/json"]["schema"]["$ref"] for one in refusals.values()}
            assert schemas == {"#/components/schemas/Refusal"}, f"{method} {path}"
    types = {
        path: list(one["get"]["responses"]["200"]["content"])
        for path, one in described["paths"].items()
        if "get" in one
    }
    assert types["/api/stats/stream"] == types["/api/queries/{name}/results/stream"] == ["text/event-stream"]
    assert types["/api/graph.svg"] == ["image/svg+xml"]
    assert types["/metrics"] == ["text/plain"]


def test_changes_are_in_the_structured_log(tmp_path: Path) -> None:
    file = tmp_path / "log.jsonl"
    with opened_log(str(file)) as log, Served(tmp_path / "out", log=log) as served:
        served.client.post("/api/queries", json={"sql": NEW})
        served.client.post("/api/queries/near/resume")
        served.client.post(
            "/api/queries", json={"sql": f"{NEW.replace('new', 'away')} INTO (connector = 'parquet', path = '/x')"}
        )
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    told = [(one["level"], one["event"], one.get("what"), one.get("query")) for one in lines]
    assert ("info", "query_changed", "add", "new") in told
    assert ("warning", "change_refused", "resume", "near") in told
    assert ("warning", "change_refused", "add", "away") in told
    assert all({"time", "level", "event"} <= one.keys() for one in lines)
