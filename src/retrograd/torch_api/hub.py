"""``torch.hub`` for scripts that import it: nothing is downloaded, and no foreign code is run."""

from __future__ import annotations

from typing import Any, NoReturn

from .missing import attach_to_module

__all__ = ["download_url_to_file", "load", "load_state_dict_from_url"]

attach_to_module(__name__)


def download_url_to_file(*args: Any, **kwargs: Any) -> NoReturn:
    """Raise: nothing is downloaded.

    Raises:
        RuntimeError: always.
    """
    raise _refusal("download_url_to_file", "download the file yourself")


def load_state_dict_from_url(*args: Any, **kwargs: Any) -> NoReturn:
    """Raise: nothing is downloaded.

    Raises:
        RuntimeError: always.
    """
    raise _refusal("load_state_dict_from_url", "download the file yourself and read it with retrograd.load(path)")


def load(*args: Any, **kwargs: Any) -> NoReturn:
    """Raise: no model is built from a repository's code.

    Raises:
        RuntimeError: always.
    """
    raise _refusal("load", "build the network yourself and read its downloaded weights with retrograd.load(path)")


def _refusal(name: str, way_out: str) -> RuntimeError:
    return RuntimeError(f"hub.{name}: nothing is downloaded, and no foreign code is run; {way_out}")
