"""The end of a parent process as its child sees it: the end of a pipe on standard input.

The parent starts the child with `ENVIRONMENT` and keeps the pipe's other end open, unused. The
kernel closes that end when the parent ends in any way, so no child outlives its parent. A signal on
the parent's death (prctl) would follow the thread that started the child, and exists on Linux only.
"""

import os
import sys
from typing import Final

import trio

_VARIABLE: Final = "BARNABAS_PARENT_PIPE"

ENVIRONMENT: Final = {_VARIABLE: "1"}
"""What the parent adds to the child's environment."""


def has_parent_pipe() -> bool:
    """True when standard input is a parent's pipe."""
    return bool(os.environ.get(_VARIABLE))


async def wait_parent_end() -> None:
    """Return when the parent has ended."""
    async with trio.lowlevel.FdStream(os.dup(sys.stdin.fileno())) as pipe:
        while await pipe.receive_some():
            pass  # the parent sends nothing
