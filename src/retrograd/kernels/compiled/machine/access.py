"""Whether another user could change a file, a folder, or a folder on its path.

On Windows nothing is checked: a folder below the user's profile is private.
"""

from __future__ import annotations

import errno
import os
import stat
import sys
from collections.abc import Iterator
from pathlib import Path

_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
_LONGEST_WAY = 1000  # folders and links


def is_own(status: os.stat_result) -> bool:
    """Whether it belongs to this user and nobody else may write to it."""
    return sys.platform == "win32" or (status.st_uid == os.geteuid() and not status.st_mode & _OTHERS_WRITE)


def way_in(path: Path) -> str:
    """Explain how others could change the contents of ``path``, a subfolder of our own folder, or replace either.

    Empty if they cannot. Checked from the root down, so that nothing checked can be replaced later.
    """
    if sys.platform == "win32":
        return ""
    owners = {os.geteuid(), 0, os.stat("/").st_uid}  # in some containers root has another number
    for each in _passed(path):
        status = os.lstat(each)
        if status.st_uid not in owners:
            return f"{each} belongs to another user"
        # in a folder with the sticky bit, as /tmp, nobody can move or remove what others made
        if stat.S_ISDIR(status.st_mode) and not status.st_mode & stat.S_ISVTX and _others_write(status):
            return f"others may write to {each}"
    for each in (path.parent, path):
        if not is_own(os.stat(each)):
            return f"{each} belongs to another user, or others may write to it"
    return ""


def _others_write(status: os.stat_result) -> bool:
    """Whether somebody else may write to it; the user's private group, without other members, is allowed."""
    if not status.st_mode & stat.S_IWGRP or status.st_mode & stat.S_IWOTH:
        return bool(status.st_mode & _OTHERS_WRITE)
    import grp
    import pwd

    try:
        user, group = pwd.getpwuid(os.geteuid()).pw_name, grp.getgrgid(status.st_gid)
    except KeyError:
        return True
    return group.gr_name != user or not set(group.gr_mem) <= {user}


def _passed(path: Path) -> Iterator[Path]:
    """Every folder and every link that is followed on the way to ``path``, which is absolute."""
    here, ahead = Path(path.anchor), list(reversed(path.parts[1:]))
    yield here
    for _ in range(_LONGEST_WAY):
        if not ahead:
            return
        part = ahead.pop()
        if part == "..":
            here = here.parent
            continue
        yield here / part
        try:
            link = Path(os.readlink(here / part))
        except OSError:  # not a link
            here /= part
            continue
        if link.is_absolute():
            here = Path(link.anchor)
        ahead.extend(reversed(link.parts[link.is_absolute() :]))
    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))
