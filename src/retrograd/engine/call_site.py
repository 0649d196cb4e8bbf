"""Call sites: the line of user code, outside this package, that called an operator.

A call site is stored as (code object, instruction offset). This is cheaper than a file name and a line number, and
keeps no frame alive. It is formatted only when a message needs it.

Walking up the stack costs a quarter of a microsecond per frame. A layer of this package therefore stores its own call
site in ``thread.mode.site``, where the operators inside the layer read it.
"""

from __future__ import annotations

import linecache
import sys
import warnings
from types import CodeType
from typing import Any, Final

CallSite = tuple[CodeType, int]

_PACKAGE = __file__[: -len("engine/call_site.py")]


class _InPackage(dict[str, bool]):
    """File name -> whether the file belongs to this package, computed once for each name."""

    def __missing__(self, file: str) -> bool:
        found = self[file] = file.startswith(_PACKAGE)
        return found


in_package: Final = _InPackage()


def user_call_site(depth: int = 1) -> CallSite:
    """Return the call site of the innermost frame outside the package, at least `depth` callers up.

    If every frame belongs to the package, it is that of the outermost one.
    """
    try:
        frame: Any = sys._getframe(depth + 1)
    except ValueError:
        frame = sys._getframe(1)
    code = frame.f_code
    while in_package[code.co_filename]:
        back = frame.f_back
        if back is None:
            break
        frame, code = back, back.f_code
    return code, frame.f_lasti


def warn_user(text: str, category: type[Warning] = UserWarning) -> None:
    """Issue a warning that points to the line of user code."""
    frame: Any = sys._getframe(1)
    level = 2
    while in_package[frame.f_code.co_filename] and frame.f_back is not None:
        frame, level = frame.f_back, level + 1
    warnings.warn(text, category, stacklevel=level)


def apply_call_site() -> CallSite:
    """Return the call site of the running forward's `apply` in user code."""
    frame: Any = sys._getframe(1)
    while not (frame.f_code.co_name == "apply" and in_package[frame.f_code.co_filename]) and frame.f_back is not None:
        frame = frame.f_back
    while in_package[frame.f_code.co_filename] and frame.f_back is not None:
        frame = frame.f_back
    return frame.f_code, frame.f_lasti


def is_caller_in_package(depth: int) -> bool:
    """Return whether the frame ``depth`` levels above the caller of this function belongs to the package."""
    return in_package[sys._getframe(depth + 1).f_code.co_filename]


def line_number(call_site: CallSite) -> int:
    """Return the line number of a call site."""
    code, offset = call_site
    return next((line for start, end, line in code.co_lines() if start <= offset < end and line), code.co_firstlineno)


def describe_call_site(call_site: CallSite | None) -> str:
    """Format a call site as ``file.py:12: y = x * w``; without the source line if it cannot be read."""
    if call_site is None:
        return "an unknown line"
    file, line = call_site[0].co_filename, line_number(call_site)
    source = linecache.getline(file, line).strip()
    return f"{file}:{line}" + (f": {source}" if source else "")
