"""Who may ask: a token, or nobody but this machine.

      Authorization: Bearer TOKEN        where there is a token, on everything but the page's own files and health
      Host and Origin of this machine    where there is none: a web page from elsewhere cannot ask through the browser

Owns the rule that a token is required unless bound to loopback, and the check of each request. The token is compared in
constant time and is never in an address, a log or an error.
"""

from __future__ import annotations

import hmac
import ipaddress
import json
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass
from typing import Any, TypeAlias
from urllib.parse import SplitResult, urlsplit

from headrace.errors import SettingError

LEAST_TOKEN = 16
"""Characters; fewer can be guessed."""
MOST_BYTES = 2**20
"""Of a request's body."""
OPEN_PATHS = ("/", "/healthz", "/favicon.ico")
OPEN_PREFIX = "/static/"

HEADERS = (
    (b"content-security-policy", b"default-src 'self'; img-src 'self' data:; frame-ancestors 'none'; base-uri 'none'"),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
)
"""Of every answer: the page loads nothing from elsewhere and is in no other page's frame."""

Scope: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send: TypeAlias = Callable[[MutableMapping[str, Any]], Awaitable[None]]
AsgiApp: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]


def is_loopback(host: str) -> bool:
    """
    >>> [is_loopback(host) for host in ("localhost", "127.0.0.1", "::1", "0.0.0.0", "example.org")]
    [True, True, True, False, False]
    """
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def check_token(host: str, token: str | None) -> None:
    """Refuses to be open to a network without a token, and a token that can be guessed."""
    if token is None and not is_loopback(host):
        raise SettingError(
            f"--host {host}: whoever reaches it could change queries, so a token is required: set HEADRACE_TOKEN, "
            "give --token-file, or bind to 127.0.0.1"
        )
    if token is None:
        return
    shown = token.strip()
    if len(shown) < LEAST_TOKEN:
        raise SettingError(
            f"the token has {len(shown)} characters: give at least {LEAST_TOKEN}, such as from: openssl rand -hex 16"
        )
    if not (shown.isascii() and shown.isprintable()):
        raise SettingError(
            "the token has characters that callers cannot show in a header: make it of ASCII letters and digits, such "
            "as from: openssl rand -hex 16"
        )


@dataclass(frozen=True, slots=True)
class Access:
    """Lets requests through to an application, or answers them."""

    app: AsgiApp
    token: str | None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_more(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), *HEADERS]
            await send(message)

        refusal = self.refusal(scope) if scope["type"] == "http" else None
        if refusal is None:
            await self.app(scope, receive, send_more)
        else:
            await _answer(send_more, *refusal)

    def refusal(self, scope: Scope) -> tuple[int, str] | None:
        """Why a request is not let through, or None."""
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        length = headers.get("content-length", "0")
        if not length.isdigit() or int(length) > MOST_BYTES or "transfer-encoding" in headers:
            return 413, f"a request has a length, of at most {MOST_BYTES} bytes"
        if self.token is None:
            return self._from_elsewhere(headers)
        if scope["path"] in OPEN_PATHS or scope["path"].startswith(OPEN_PREFIX):
            return None
        scheme, _, given = headers.get("authorization", "").partition(" ")
        # Neither has blanks around it: HTTP takes them off, and a token out of a file or a variable may end in a line.
        is_right = hmac.compare_digest(given.strip().encode("latin-1"), self.token.strip().encode())
        return (
            None
            if is_right and scheme.lower() == "bearer"
            else (401, "a token is required: Authorization: Bearer TOKEN")
        )

    def _from_elsewhere(self, headers: dict[str, str]) -> tuple[int, str] | None:
        host, origin = headers.get("host", ""), headers.get("origin")
        if not is_loopback(_split(f"//{host}").hostname or ""):
            return 403, "without a token only this machine is served: ask for localhost"
        if origin is not None and _split(origin).netloc != host:
            return 403, "requests of other sites are not served"
        return None


def _split(address: str) -> SplitResult:
    """The parts of an address; of what is none, nothing."""
    try:
        return urlsplit(address)
    except ValueError:
        return urlsplit("")


async def _answer(send: Send, status: int, message: str) -> None:
    headers = [(b"content-type", b"application/json")]
    if status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": json.dumps({"error": {"message": message}}).encode()})
