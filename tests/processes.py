"""Processes that cannot be started."""

import errno
from typing import Any

import pytest
import trio


def refuse_first(monkeypatch: pytest.MonkeyPatch, module: str) -> list[object]:
    """Have the system refuse the first process that is to run a module; the commands refused."""
    refused: list[object] = []
    open_process = trio.lowlevel.open_process

    async def refuse_once(command: list[str], **more: Any) -> Any:
        if module in command and not refused:
            refused.append(command)
            raise BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")
        return await open_process(command, **more)

    monkeypatch.setattr(trio.lowlevel, "open_process", refuse_once)
    return refused
