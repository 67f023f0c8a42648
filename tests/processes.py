"""Helper processes that cannot be started."""

import errno
from typing import Any

import pytest
import trio


def refuse_first(monkeypatch: pytest.MonkeyPatch, kind: str) -> list[object]:
    """Have the system refuse the first helper process of a kind; return the refused commands."""
    refused: list[object] = []
    open_process = trio.lowlevel.open_process

    async def refuse_once(command: list[str], **more: Any) -> Any:
        if kind in command and not refused:
            refused.append(command)
            raise BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")
        return await open_process(command, **more)

    monkeypatch.setattr(trio.lowlevel, "open_process", refuse_once)
    return refused
