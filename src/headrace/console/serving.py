"""The web server: a socket that is taken before anything slow is started, and a thread that serves on it.

Owns binding, starting and stopping. The thread never touches signals: whoever watches the run has them. Stopping lets
requests that are being answered end, for a few seconds.
"""

from __future__ import annotations

import socket
import threading
import time

import uvicorn

from headrace.console.access import AsgiApp
from headrace.errors import HeadraceError, SettingError

START_S = 30.0
STOP_S = 5


def bound_socket(host: str, port: int) -> socket.socket:
    """A socket of that address; port 0: any that is free."""
    try:
        family, _, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        taken = socket.socket(family, socket.SOCK_STREAM, protocol)  # named, or asyncio lets answers wait (Nagle)
        try:
            taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            taken.bind(address)
            taken.listen(128)
        except OSError:
            taken.close()
            raise
    except OSError as error:
        raise SettingError(
            f"cannot serve on {host}, port {port}: {error.strerror or error}. Give another --port, or 0 for a free one"
        ) from None
    return taken


def address_of(taken: socket.socket) -> str:
    """What to type into a browser."""
    host, port = taken.getsockname()[:2]
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"


class WebServer:
    """Serves an application on a socket, in a thread of its own."""

    def __init__(self, app: AsgiApp, taken: socket.socket) -> None:
        config = uvicorn.Config(
            app, log_config=None, access_log=False, timeout_graceful_shutdown=STOP_S, lifespan="off", ws="none"
        )
        self._server = uvicorn.Server(config)
        self._socket = taken
        self._thread = threading.Thread(target=self._serve, name="headrace-web", daemon=True)

    def _serve(self) -> None:
        self._server.run(sockets=[self._socket])

    def __enter__(self) -> WebServer:
        self._thread.start()
        deadline = time.monotonic() + START_S
        while not self._server.started:
            if not self._thread.is_alive() or time.monotonic() > deadline:
                raise HeadraceError("the web server did not start")
            time.sleep(0.02)
        return self

    def __exit__(self, *_: object) -> None:
        self._server.should_exit = True
        self._thread.join(STOP_S + 5)
        self._socket.close()
