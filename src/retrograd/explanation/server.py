"""The HTTP server of the page: request validation, routes, and serving until Ctrl-C.

The page is for the user of this machine only. A foreign web page open in the same browser can also send requests to
loopback. Every request must therefore name this server as its Host; one with an Origin must come from the page itself;
and a request for data must have the token from the link.

    GET /               the page; the link has the token after the "?"
    GET /api/NAME?...   the answer NAME as JSON, see operator_page.py and model_page.py

No file is read or written. One answer is computed at a time, because the kernel set is global to the process.
"""

from __future__ import annotations

import hmac
import json
import secrets
import socket
import threading
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

import anyio
import uvicorn
from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from . import model_page, operator_page
from .explanation import Explanation
from .html_page import page
from .model import ModelExplanation
from .operators import names
from .operators.operator import Operator

__all__ = ["Answer", "Guard", "LONGEST_QUERY", "MOST_CONNECTIONS", "application", "serve"]


# ---- Request validation before any answer is computed ---------------------------------------------------------------

LONGEST_QUERY = 4096  # bytes
MOST_CONNECTIONS = 200
_WAITING = 64  # concurrent requests


class Guard:
    """Rejects requests that are not from the page, too large, or too many; passes the rest to the application.

    hosts: the values of the Host header that name this server
    token: the token in the link
    connections: the number of connections open now
    """

    def __init__(
        self, app: ASGIApp, hosts: Iterable[str], token: str, connections: Callable[[], int] = lambda: 1
    ) -> None:
        self._app, self._hosts, self._token = app, frozenset(hosts), token
        self._connections = connections
        self._origins = frozenset(f"http://{host}" for host in self._hosts)
        self._active = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or reject it with a 4xx status and one sentence."""
        if scope["type"] == "lifespan":
            return await self._app(scope, receive, send)
        if scope["type"] != "http":
            return None  # a WebSocket is closed
        refusal = self._refusal(scope)
        if refusal is not None:
            return await _answer(*refusal)(scope, receive, send)
        self._active += 1
        try:
            await self._app(scope, receive, send)
        finally:
            self._active -= 1
        return None

    def _refusal(self, scope: Scope) -> tuple[int, str] | None:
        headers = Headers(scope=scope)
        if self._connections() > MOST_CONNECTIONS:
            return 429, f"more than {MOST_CONNECTIONS} connections are open; try again in a moment"
        if scope["method"] not in ("GET", "HEAD"):
            return 405, f"{scope['method']} is not supported; the page sends only GET requests"
        if headers.get("host", "") not in self._hosts:
            return 403, "this server answers only to its own address, which the command printed"
        if headers.get("origin", "") not in ("", *self._origins):
            return 403, "this server answers only to its own page"
        if len(scope["query_string"]) > LONGEST_QUERY or len(scope["path"]) > LONGEST_QUERY:
            return 414, f"the address is longer than {LONGEST_QUERY} bytes"
        if headers.get("content-length", "0") != "0" or "transfer-encoding" in headers:
            return 413, "requests must have no body"
        if scope["path"].startswith("/api/") and not self._has_token(headers.get("x-retrograd-token", "")):
            return 401, "the token is missing or wrong: open the link that the command printed"
        if self._active >= _WAITING:
            return 429, f"{_WAITING} requests are being answered; try again in a moment"
        return None

    def _has_token(self, given: str) -> bool:
        return hmac.compare_digest(given.encode(), self._token.encode())


def _answer(status: int, error: str) -> JSONResponse:
    headers = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}
    if status == 429:
        headers["Connection"] = "close"  # frees the connection for others
    return JSONResponse({"error": error}, status, headers)


# ---- The page and the answers that it requests, over HTTP -----------------------------------------------------------

Answer = Callable[[Mapping[str, str]], dict[str, Any]]

_HEADERS = {
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Cross-Origin-Resource-Policy": "same-origin",
}


def application(
    token: str,
    hosts: list[str],
    served: Mapping[str, Any],
    answers: Mapping[str, Answer],
    model: Mapping[str, Any] | None = None,
    connections: Callable[[], int] = lambda: 1,
) -> Guard:
    """Return the ASGI application.

    token: required in the link. hosts: the values of the Host header that name this server. served: additional data for
    the page. answers: by name; a ValueError becomes a 400 with its text. model: the map of its layers. connections: the
    number of connections open now
    """
    one_at_a_time = anyio.CapacityLimiter(1)

    async def start(request: Request) -> Response:
        if request.query_params.get("token", "") != token:
            text = "The token is missing or wrong: open the link that the command printed."
            return Response(text, 401, _HEADERS, "text/plain")
        return HTMLResponse(page([], {"token": token, **served}, model), headers=_HEADERS)

    async def answer(make: Answer, request: Request) -> Response:
        query = dict(request.query_params)
        try:
            body = await anyio.to_thread.run_sync(partial(_as_json, make, query), limiter=one_at_a_time)
        except ValueError as error:
            return JSONResponse({"error": str(error)}, 400, _HEADERS)
        return Response(body, 200, _HEADERS, "application/json")

    routes = [Route("/", start), *(Route(f"/api/{name}", partial(answer, make)) for name, make in answers.items())]
    return Guard(Starlette(routes=routes), hosts, token, connections)


def _as_json(make: Answer, query: Mapping[str, str]) -> bytes:
    return json.dumps(make(query), separators=(",", ":"), allow_nan=False).encode()


# ---- Serving until Ctrl-C -------------------------------------------------------------------------------------------

Subject = Operator | Explanation | ModelExplanation


def serve(subject: Subject, host: str, port: int, opened: Callable[[str], None]) -> None:
    """Serve the page until Ctrl-C; call ``opened`` with its address once the server is ready.

    subject: a model or an operator that ran; or the operator that the page shows first, offered together with those of
        the library
    host: an address of this machine; 127.0.0.1 is reachable only from this machine
    port: 0 chooses a free port

    Raises:
        OSError: the address or port is not available.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((host, port))
        port = listening.getsockname()[1]
        token = secrets.token_urlsafe(24)
        shown = f"[{host}]" if ":" in host else host
        hosts = [f"{name}:{port}" for name in {shown, "localhost", "127.0.0.1"}]
        # the guard counts connections: uvicorn's own limit_concurrency answers 503, without a sentence
        config = uvicorn.Config(
            application(token, hosts, *_of(subject), connections=lambda: len(server.server_state.connections)),
            log_level="error",
            access_log=False,
            server_header=False,
            lifespan="off",
            ws="none",
            timeout_keep_alive=5,
            timeout_graceful_shutdown=1,
        )
        server = _Announcing(config, lambda: opened(f"http://{shown}:{port}/?token={token}"))
        if isinstance(subject, Operator):
            threading.Thread(target=_warm, args=(subject,), daemon=True).start()
        server.run(sockets=[listening])


def _of(subject: Subject) -> tuple[Mapping[str, Any], Mapping[str, Answer], Mapping[str, Any] | None]:
    """Return the page's data, the answers that it can request, and the map of a model's layers."""
    if isinstance(subject, ModelExplanation):
        return {}, model_page.answers_of(subject), subject.to_dict()
    if isinstance(subject, Explanation):
        return {"operators": [subject.case.name]}, operator_page.answers_about(subject), None
    operators = sorted({*names(), subject.name})
    return {"operators": operators, "first": subject.name}, operator_page.answers_of(subject), None


class _Announcing(uvicorn.Server):
    """A server that calls back when it is ready."""

    def __init__(self, config: uvicorn.Config, ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._ready = ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start to listen, then call back."""
        await super().startup(sockets)
        if self.started:
            self._ready()


def _warm(operator: Operator) -> None:
    """Compile the kernels of the first page while the browser starts."""
    operator.with_settings({}).to_dict(whole=False)
