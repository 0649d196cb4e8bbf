"""The page and the answers that it asks for, over HTTP.

    GET /               the page; the link carries the token behind the "?"
    GET /api/NAME?...   the answer NAME as JSON, see of_operator.py and of_model.py

Nothing is read from or written to a file. One answer is computed at a time: the kernel set is the process's.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import anyio
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route

from ..standalone import page
from .guard import Guard

__all__ = ["Answer", "application"]

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
    """The ASGI application.

    token: what the link must carry. hosts: the values of the Host header that name this server. served: what the page
    is told besides. answers: by name; a ValueError becomes a 400 with its text. model: the map of its layers.
    connections: how many are open now
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
