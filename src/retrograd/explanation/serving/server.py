"""Serve the page until Ctrl-C."""

from __future__ import annotations

import secrets
import socket
import threading
from collections.abc import Callable, Mapping
from typing import Any

import uvicorn

from ..explanation import Explanation
from ..model import ModelExplanation
from ..operators import names
from ..operators.operator import Operator
from . import of_model, of_operator
from .application import Answer, application

__all__ = ["serve"]

Subject = Operator | Explanation | ModelExplanation


def serve(subject: Subject, host: str, port: int, opened: Callable[[str], None]) -> None:
    """Answer requests for the page until Ctrl-C; ``opened`` is called with its address once it is ready.

    subject: a model or an operator that ran; or the operator that the page begins with, where one of the user's own is
        offered besides those of the library
    host: an address of this machine; 127.0.0.1 is reached from this machine only
    port: 0 takes a free one

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
        return {}, of_model.answers_of(subject), subject.to_dict()
    if isinstance(subject, Explanation):
        return {"operators": [subject.case.name]}, of_operator.answers_about(subject), None
    operators = sorted({*names(), subject.name})
    return {"operators": operators, "first": subject.name}, of_operator.answers_of(subject), None


class _Announcing(uvicorn.Server):
    """Says when it is ready."""

    def __init__(self, config: uvicorn.Config, ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._ready = ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start to listen, then say so."""
        await super().startup(sockets)
        if self.started:
            self._ready()


def _warm(operator: Operator) -> None:
    """Compile the kernels of the first page while the browser starts."""
    operator.with_settings({}).to_dict(whole=False)
