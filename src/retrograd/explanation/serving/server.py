"""Serve the page until Ctrl-C."""

from __future__ import annotations

import secrets
import socket
import threading
from collections.abc import Callable

import uvicorn

from ..operators import find
from .application import application

__all__ = ["serve"]


def serve(operator: str, host: str, port: int, opened: Callable[[str], None]) -> None:
    """Answer requests for the page until Ctrl-C; ``opened`` is called with its address once it is ready.

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
        app = application(token, hosts, operator)
        config = uvicorn.Config(
            app, log_level="error", access_log=False, server_header=False, lifespan="off", ws="none",
            limit_concurrency=200, timeout_keep_alive=5, timeout_graceful_shutdown=1,
        )  # fmt: skip
        server = _Announcing(config, lambda: opened(f"http://{shown}:{port}/?token={token}"))
        threading.Thread(target=_warm, args=(operator,), daemon=True).start()
        server.run(sockets=[listening])


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


def _warm(operator: str) -> None:
    """Compile the kernels of the first page while the browser starts."""
    find(operator).with_settings({}).to_dict()
