"""Request validation before any answer is computed: host, origin, token, and limits of size and number.

The page is for the person at this machine. A web page from elsewhere that is open in the same browser can send requests
to loopback too, so every request must name this server as its Host, one that has an Origin must come from the page
itself, and one for data must carry the token that stands in the link.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable, Iterable

from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

__all__ = ["LONGEST_QUERY", "MOST_CONNECTIONS", "Guard"]

LONGEST_QUERY = 4096  # bytes
MOST_CONNECTIONS = 200
_WAITING = 64  # requests at a time


class Guard:
    """Refuses what is not from the page, is too large, or too much at once; the rest goes to the application.

    hosts: the values of the Host header that name this server
    token: what the link carries
    connections: how many are open now
    """

    def __init__(
        self, app: ASGIApp, hosts: Iterable[str], token: str, connections: Callable[[], int] = lambda: 1
    ) -> None:
        self._app, self._hosts, self._token = app, frozenset(hosts), token
        self._connections = connections
        self._origins = frozenset(f"http://{host}" for host in self._hosts)
        self._active = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or refuse it with a 4xx and one sentence."""
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
            return 405, f"{scope['method']} is not answered here; the page only asks, with GET"
        if headers.get("host", "") not in self._hosts:
            return 403, "this server answers only to its own address, which the command printed"
        if headers.get("origin", "") not in ("", *self._origins):
            return 403, "this server answers only to its own page"
        if len(scope["query_string"]) > LONGEST_QUERY or len(scope["path"]) > LONGEST_QUERY:
            return 414, f"the address is longer than {LONGEST_QUERY} bytes"
        if headers.get("content-length", "0") != "0" or "transfer-encoding" in headers:
            return 413, "a request has no body here"
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
        headers["Connection"] = "close"  # makes room for others
    return JSONResponse({"error": error}, status, headers)
