"""The REST API and the page: HTTP in, :class:`Service` out.

Owns the addresses, their answers and how errors look (``{"error": {"message", "hint", "line", "column", "length"}}``):
400 the SQL is wrong, 403 a sink that callers may not write to, 404 there is no such query or address, 405 nor such a
method, 409 it cannot be done now, 422 not what is asked for, 500 a fault of ours, 503 the pipeline has ended.
Server-sent events carry their micro-batch as id, so a reader that was cut off goes on where it was. Nothing here
computes; whatever may wait is done by the service's threads. Needs the extra ``console``.
"""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import Executor
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Annotated, Any, TypeVar

from fastapi import FastAPI, Header, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, JSONResponse, StreamingResponse
from fastapi.staticfiles import StaticFiles
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException

from headrace import __version__
from headrace.console.access import Access
from headrace.console.prometheus import CONTENT_TYPE, metrics_text
from headrace.console.results import BatchRows, PublishedRows
from headrace.console.service import (
    ChangeMade,
    ServedQuery,
    Service,
    UnknownQueryError,
    told_error,
)
from headrace.console.sink_places import SinkRefusedError
from headrace.console.timeline import History
from headrace.errors import HeadraceError, SqlError
from headrace.plan.picture import PlanPicture
from headrace.stats import RunStats

STATIC = Path(__file__).parent / "static"
POLL_S = 0.25
"""Between two looks for new rows, while somebody waits for them."""
QUIET_S = 15.0
"""A stream with nothing to say says so this often, so that a broken connection is noticed."""

_T = TypeVar("_T")


class SqlText(BaseModel):
    """Statements, separated by semicolons."""

    sql: str = Field(max_length=500_000, examples=["CREATE QUERY q AS SELECT a.k FROM a, b WHERE a.k = b.k WINDOW 5 s"])


class Problem(BaseModel):
    """What is wrong; of SQL, where it is (1-based, in characters) and what to write instead."""

    message: str
    hint: str | None = None
    line: int | None = None
    column: int | None = None
    length: int | None = None


class Refusal(BaseModel):
    error: Problem


class Checked(BaseModel):
    """Whether a text could be added, and which queries it would add."""

    ok: bool
    adds: list[str] = []
    problem: Problem | None = None


class Changed(BaseModel):
    """What was done; from the next micro-batch on."""

    queries: list[str]


class Explained(BaseModel):
    text: str


class Pipeline(BaseModel):
    """What does not change while it runs, and what was changed lately."""

    version: str
    is_running: bool
    settings: dict[str, str]
    changes: list[ChangeMade]


class LatestRows(BaseModel):
    """The last rows of a query, by micro-batch, the newest last."""

    query: str
    batches: list[BatchRows]


_REFUSALS: dict[int | str, dict[str, Any]] = {
    status: {"model": Refusal, "description": text}
    for status, text in (
        (400, "the SQL is wrong"),
        (401, "a token is required"),
        (403, "not from there, or not to that sink"),
        (404, "there is no such query"),
        (409, "it cannot be done now"),
        (413, "the request is too long"),
        (422, "not what is asked for"),
        (500, "a fault in Headrace"),
        (503, "the pipeline has ended"),
    )
}


def _of_type(media_type: str) -> dict[int | str, dict[str, Any]]:
    """Describes an answer that is not JSON."""
    return {200: {"content": {media_type: {"schema": {"type": "string"}}}}}


_SVG, _EVENTS, _METRICS = (_of_type(one) for one in ("image/svg+xml", "text/event-stream", "text/plain"))


def web_app(service: Service, token: str | None = None) -> Access:
    """Everything that is served, behind the check of who asks."""
    app = FastAPI(
        title="Headrace",
        version=__version__,
        summary="One pipeline of continuous queries: list, add, drop, explain, pause, read, watch.",
        docs_url=None,
        redoc_url=None,
        separate_input_output_schemas=False,
        responses=_REFUSALS,
        openapi_tags=[{"name": "queries"}, {"name": "sql"}, {"name": "pipeline"}, {"name": "operations"}],
    )
    app.exception_handler(HeadraceError)(_refusing(service))
    app.exception_handler(HTTPException)(_refuse_address)
    app.exception_handler(RequestValidationError)(_refuse_request)
    app.exception_handler(Exception)(_own_up)
    _serve_queries(app, service)
    _serve_sql(app, service)
    _serve_pipeline(app, service)
    _serve_operations(app, service)
    _serve_page(app)
    _describe_token(app, token)
    return Access(app, token)


def _refusing(service: Service) -> Callable[[Request, Exception], Awaitable[Response]]:
    """Answers what the service or the run refuses."""

    async def refuse(_request: Request, error: Exception) -> Response:
        assert isinstance(error, HeadraceError)
        status = 409
        if isinstance(error, UnknownQueryError):
            status = 404
        elif isinstance(error, SqlError):
            status = 400
        elif isinstance(error, SinkRefusedError):
            status = 403
        elif not service.run.is_active:
            status = 503
        return JSONResponse({"error": told_error(error)}, status)

    return refuse


async def _refuse_address(request: Request, error: Exception) -> Response:
    """Answers what has no place here: an address, a method of one, or a body that is no JSON at all."""
    assert isinstance(error, HTTPException)
    message = {
        400: "body: it cannot be read as JSON",
        404: f"there is nothing at {request.url.path}: see /openapi.json",
        405: f"{request.method} cannot be done to {request.url.path}: see /openapi.json",
    }.get(error.status_code, error.detail)
    status = 422 if error.status_code == 400 else error.status_code  # 400 is for SQL, with its place
    return JSONResponse({"error": {"message": message}}, status, error.headers)


async def _refuse_request(_request: Request, error: Exception) -> Response:
    """Answers a request that is not as described: names what is wrong with which part."""
    assert isinstance(error, RequestValidationError)
    wrong = [f"{'.'.join(str(one) for one in told['loc'])}: {told['msg']}" for told in error.errors()]
    return JSONResponse({"error": {"message": "; ".join(wrong)}}, 422)


async def _own_up(_request: Request, error: Exception) -> Response:
    """Answers when it is us who are wrong; the whole story is in the log."""
    message = f"a fault in Headrace: {type(error).__name__}; what was asked for may or may not have been done"
    return JSONResponse({"error": {"message": message}}, 500)


async def _done_by(threads: Executor, work: Callable[..., _T], *given: Any) -> _T:
    return await asyncio.get_running_loop().run_in_executor(threads, partial(work, *given))


def _serve_queries(app: FastAPI, service: Service) -> None:
    @app.get("/api/queries", tags=["queries"])
    async def list_queries() -> list[ServedQuery]:
        """All queries: their text, columns, sink and statistics; paused ones last."""
        return await _done_by(service.readers, service.queries)

    @app.post("/api/queries", tags=["queries"], status_code=201)
    async def add_queries(given: SqlText) -> Changed:
        """Adds queries (CREATE QUERY, also DROP QUERY) while the pipeline runs; answers when the next micro-batch will
        have them."""
        return Changed(queries=list(await _done_by(service.askers, service.add, given.sql)))

    @app.get("/api/queries/{name}", tags=["queries"])
    async def read_query(name: str) -> ServedQuery:
        """One query."""
        return await _done_by(service.readers, service.query, name)

    @app.delete("/api/queries/{name}", tags=["queries"])
    async def drop_query(name: str) -> Changed:
        """Drops a query; its results stay where they are."""
        return Changed(queries=[await _done_by(service.askers, service.drop, name)])

    @app.post("/api/queries/{name}/pause", tags=["queries"])
    async def pause_query(name: str) -> Changed:
        """Takes a query out of the plan until it is resumed: it costs nothing and gives nothing, also after a
        restart."""
        return Changed(queries=[await _done_by(service.askers, service.pause, name)])

    @app.post("/api/queries/{name}/resume", tags=["queries"])
    async def resume_query(name: str) -> Changed:
        """Lets a paused query go on, with the tuples held then."""
        return Changed(queries=[await _done_by(service.askers, service.resume, name)])

    @app.get("/api/queries/{name}/tree.svg", tags=["queries"], response_class=Response, responses=_SVG)
    async def tree(name: str) -> Response:
        """The tree that a query's join runs by, if it does, with the probes it is allowed now, drawn."""
        query = await _done_by(service.readers, service.query, name)
        drawn = await _done_by(service.readers, service.run.draw, query.name)
        return Response(drawn, media_type="image/svg+xml")

    @app.get("/api/queries/{name}/results", tags=["queries"])
    async def latest_results(name: str, limit: Annotated[int, Query(ge=1, le=10_000)] = 100) -> LatestRows:
        """The last rows that were published."""
        rows = await _done_by(service.readers, service.rows, name)
        return LatestRows(query=rows.query, batches=await _done_by(service.readers, rows.latest, limit))

    @app.get(
        "/api/queries/{name}/results/stream", tags=["queries"], response_class=StreamingResponse, responses=_EVENTS
    )
    async def stream_results(
        name: str,
        limit: Annotated[
            int, Query(ge=1, le=100_000, description="rows of a micro-batch; the event has its total")
        ] = 200,
        after: Annotated[int | None, Query(ge=-1, description="the micro-batch to go on after")] = None,
        last_event_id: Annotated[int | None, Header()] = None,
    ) -> StreamingResponse:
        """Rows as they are published, as server-sent events `rows`, one for each micro-batch with rows; the event's id
        is the micro-batch. With `after` or `Last-Event-ID` none is missed."""
        rows = await _done_by(service.readers, service.rows, name)
        begin = last_event_id if last_event_id is not None else after
        return _events(_new_rows(service, rows, begin, limit))


async def _new_rows(service: Service, rows: PublishedRows, begin: int | None, limit: int) -> AsyncIterator[bytes]:
    """Events with the rows of each micro-batch after one (or from now on), until the query is gone."""
    newest = max(await _done_by(service.readers, rows.newest), _batch(service))
    # A place that was never come to is one of another checkpoint: its reader goes on with what comes here.
    seen = newest if begin is None else min(begin, newest)
    quiet_s = 0.0
    yield b": begins\n\n"
    while not service.closing.is_set():
        is_there = service.has(rows.query)  # asked first: what it had until it went is published by then
        upto = _batch(service)
        for batch in await _done_by(service.readers, rows.after, seen, upto):
            told = await _done_by(service.readers, rows.read, batch, limit)
            if told is not None:
                yield _event("rows", asdict(told), batch)
                quiet_s = 0.0
        seen = max(seen, upto)
        if not is_there:
            yield _event("dropped", {"query": rows.query})
            return
        quiet_s += POLL_S
        if quiet_s >= QUIET_S:
            yield b": quiet\n\n"
            quiet_s = 0.0
        await asyncio.sleep(POLL_S)


def _batch(service: Service) -> int:
    last = service.run.last_batch
    return -1 if last is None else last


def _serve_sql(app: FastAPI, service: Service) -> None:
    @app.post("/api/check", tags=["sql"])
    async def check(given: SqlText) -> Checked:
        """Whether a text could be added now; if not, what is wrong, where, and what to write instead."""
        try:
            return Checked(ok=True, adds=list(await _done_by(service.readers, service.check, given.sql)))
        except HeadraceError as error:
            return Checked(ok=False, problem=Problem(**told_error(error)))

    @app.post("/api/explain", tags=["sql"])
    async def explain_text(given: SqlText) -> Explained:
        """The part of the plan that a text's queries would be in."""
        return Explained(text=await _done_by(service.readers, service.run.explain, given.sql))

    @app.get("/api/explain", tags=["sql"])
    async def explain_all() -> Explained:
        """The whole plan as it runs."""
        return Explained(text=await _done_by(service.readers, service.run.explain))


def _serve_pipeline(app: FastAPI, service: Service) -> None:
    @app.get("/api/pipeline", tags=["pipeline"])
    async def pipeline() -> Pipeline:
        """Version, settings, and the latest changes."""
        return Pipeline(
            version=__version__,
            is_running=service.run.is_active,
            settings=service.settings(),
            changes=list(service.changes),
        )

    @app.get("/api/plan", tags=["pipeline"])
    async def plan() -> PlanPicture:
        """Which queries share which join and bands."""
        return await _done_by(service.readers, service.picture)

    @app.get("/api/graph.svg", tags=["pipeline"], response_class=Response, responses=_SVG)
    async def graph() -> Response:
        """The operators and the queues between them, with what was measured of them, drawn."""
        drawn = await _done_by(service.readers, service.run.draw)
        return Response(drawn, media_type="image/svg+xml")

    @app.get("/api/stats", tags=["pipeline"])
    async def stats() -> RunStats:
        """The statistics, about a second old."""
        return service.stats

    @app.get("/api/stats/stream", tags=["pipeline"], response_class=StreamingResponse, responses=_EVENTS)
    async def stream_stats() -> StreamingResponse:
        """The statistics as server-sent events `stats`, one a second."""
        return _events(_new_stats(service))

    @app.get("/api/history", tags=["pipeline"])
    async def history(
        after_s: Annotated[float, Query(description="seconds since the epoch")] = 0.0,
        query: Annotated[list[str] | None, Query(description="whose curves; by default the most active")] = None,
    ) -> History:
        """The last quarter of an hour, a sample a second."""
        return await _done_by(service.readers, service.timeline.history, after_s, query)


async def _new_stats(service: Service) -> AsyncIterator[bytes]:
    told: RunStats | None = None
    while not service.closing.is_set():
        if service.stats is not told:
            told = service.stats
            yield _event("stats", asdict(told))
        await asyncio.sleep(POLL_S)


def _serve_operations(app: FastAPI, service: Service) -> None:
    @app.get("/metrics", tags=["operations"], response_class=Response, responses=_METRICS)
    async def metrics() -> Response:
        """The statistics for Prometheus."""
        paused = len(service.run.queries.paused)
        extra = [("changes", "Queries added, dropped, paused or resumed.", float(service.changes_made))]
        text = metrics_text(
            service.stats, is_up=service.run.is_active, paused=paused, age_s=service.look_age_s, extra=extra
        )
        return Response(text, media_type=CONTENT_TYPE)

    @app.head("/healthz", include_in_schema=False)
    @app.get("/healthz", tags=["operations"])
    async def health() -> Response:
        """200 while the pipeline runs, 503 when it has ended; needs no token."""
        is_running = service.run.is_active
        return JSONResponse({"running": is_running}, 200 if is_running else 503)


def _serve_page(app: FastAPI) -> None:
    @app.head("/", include_in_schema=False)
    @app.get("/", include_in_schema=False)
    async def page() -> FileResponse:
        return FileResponse(STATIC / "index.html")

    app.mount("/static", StaticFiles(directory=STATIC), name="static")


def _describe_token(app: FastAPI, token: str | None) -> None:
    """Says in the description of the API how to show the token."""
    if token is None:
        return
    described = app.openapi()
    schemes = described.setdefault("components", {}).setdefault("securitySchemes", {})
    schemes["token"] = {"type": "http", "scheme": "bearer"}
    described["security"] = [{"token": []}]


def _events(events: AsyncIterator[bytes]) -> StreamingResponse:
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    return StreamingResponse(events, media_type="text/event-stream", headers=headers)


def _event(kind: str, told: Any, number: int | None = None) -> bytes:
    head = f"event: {kind}\n" + (f"id: {number}\n" if number is not None else "")
    return f"{head}data: {json.dumps(_finite(told), allow_nan=False)}\n\n".encode()


def _finite(told: Any) -> Any:
    """The same without numbers that JSON does not have: what is unlimited or unknown is null, as in other answers."""
    if isinstance(told, float):
        return told if math.isfinite(told) else None
    if isinstance(told, dict):
        return {name: _finite(one) for name, one in told.items()}
    return [_finite(one) for one in told] if isinstance(told, list | tuple) else told
