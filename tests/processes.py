"""Processes beside a test: those that ended, and helpers that cannot be started."""

import errno
from pathlib import Path
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


def is_alive(pid: int) -> bool:
    """True when the process has not ended; one that ended and was not waited for is not alive."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):  # the second when it ends in the read
        return False
