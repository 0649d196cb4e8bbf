"""What the server answers: the page, and explanations for it.

    GET /                                           the page; the link carries the token behind the "?"
    GET /api/explanation?operator=conv2d&stride=2   the document of an operator with these settings, see document.py
    GET /api/traces?...                             its code that ran, line by line
    GET /api/faults?...                             its failure lab

Nothing is read from or written to a file. One explanation is computed at a time: the kernel set is the process's.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import lru_cache, partial
from typing import Any

import anyio
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route

from ..document import as_dict, faults, traces
from ..explanation import Explanation
from ..operators import find, names
from ..standalone import page
from .guard import Guard

__all__ = ["application"]

_HEADERS = {
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Cross-Origin-Resource-Policy": "same-origin",
}


def application(token: str, hosts: list[str], first: str = "conv2d") -> Guard:
    """The ASGI application.

    token: what the link must carry. hosts: the values of the Host header that name this server. first: the operator
    that the page begins with
    """
    lines = anyio.CapacityLimiter(1)

    async def start(request: Request) -> Response:
        given = request.query_params.get("token", "")
        if given != token:
            text = "The token is missing or wrong: open the link that the command printed."
            return Response(text, 401, _HEADERS, "text/plain")
        served = {"token": token, "operators": names(), "first": first}
        return HTMLResponse(page([], served), headers=_HEADERS)

    async def answer(make: Callable[[Explanation], Any], request: Request) -> Response:
        try:
            body = await anyio.to_thread.run_sync(
                partial(_computed, make, dict(request.query_params)), limiter=lines
            )
        except ValueError as error:
            return JSONResponse({"error": str(error)}, 400, _HEADERS)
        return Response(body, 200, _HEADERS, "application/json")

    makers = {"explanation": as_dict, "traces": traces, "faults": faults}
    routes = [Route("/", start), *(Route(f"/api/{name}", partial(answer, make)) for name, make in makers.items())]
    return Guard(Starlette(routes=routes), hosts, token)


def _computed(make: Callable[[Explanation], Any], query: Mapping[str, str]) -> bytes:
    """The answer to a query as JSON."""
    settings = {name: value for name, value in query.items() if name != "operator"}
    explanation = _explanation(query.get("operator", ""), tuple(sorted(settings.items())))
    return json.dumps(make(explanation), separators=(",", ":"), allow_nan=False).encode()


@lru_cache(maxsize=32)
def _explanation(operator: str, settings: tuple[tuple[str, str], ...]) -> Explanation:
    found = find(operator)
    kinds = {setting.name: type(setting.value) for setting in found.settings}
    return found.with_settings({name: _as(kinds.get(name, str), name, value) for name, value in settings})


def _as(kind: type, name: str, value: str) -> Any:
    try:
        return kind(value)
    except ValueError:
        raise ValueError(f"explain: {name}={value[:40]!r} must be a whole number") from None
