"""A network of two namespaces on this machine: slow_link.py FIRST SECOND SECONDS.

Carries frames between a network device in each, SECONDS after they were sent. Cuts the link when it reads something.
"""

import ctypes
import fcntl
import os
import select
import struct
import sys
import time
from collections import deque
from contextlib import suppress

_NEW_NETWORK = 0x40000000  # CLONE_NEWNET
_SET_INTERFACE, _TAP_WITHOUT_HEADER = 0x400454CA, 0x1002
libc = ctypes.CDLL(None, use_errno=True)


def device(namespace, name):
    """An open network device in a namespace."""
    place = os.open(f"/run/netns/{namespace}", os.O_RDONLY)
    if libc.setns(place, _NEW_NETWORK):
        raise OSError(ctypes.get_errno(), "setns")
    os.close(place)
    handle = os.open("/dev/net/tun", os.O_RDWR)
    fcntl.ioctl(handle, _SET_INTERFACE, struct.pack("16sH22x", name.encode(), _TAP_WITHOUT_HEADER))
    return handle


first, second, delay = sys.argv[1], sys.argv[2], float(sys.argv[3])
ends = [device(first, "wire"), device(second, "wire")]
print("ready", flush=True)
under_way = deque()
while True:
    pause = None if not under_way else max(0.0, under_way[0][0] - time.monotonic())
    readable, _, _ = select.select([*ends, sys.stdin], [], [], pause)
    if sys.stdin in readable:
        break
    for end in readable:
        under_way.append((time.monotonic() + delay, ends[end == ends[0]], os.read(end, 65536)))
    while under_way and under_way[0][0] <= time.monotonic():
        _, end, frame = under_way.popleft()
        with suppress(OSError):  # it is not up yet
            os.write(end, frame)
time.sleep(3600)  # the devices remain, but forward nothing
