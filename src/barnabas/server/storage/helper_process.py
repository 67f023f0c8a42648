"""Helper processes: record-level work beside the loop; most are asked and answer in JSON lines."""

import json
import logging
import subprocess
import sys
from typing import Any, Final

import trio

logger = logging.getLogger(__name__)

_READ_BYTES: Final = 65_536


class HelperGoneError(Exception):
    """The helper process ended in the middle of its work, or could not be started."""


async def open_helper(module: str, *arguments: str) -> trio.Process:
    """Start a helper that runs `module`; OSError."""
    # A group of its own: Ctrl-C is for the node, which then ends its helper.
    process = await trio.lowlevel.open_process(
        [sys.executable, "-m", module, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        process_group=0,
    )
    logger.info("helper process started module=%s pid=%d", module, process.pid)
    return process


async def end_helper(process: trio.Process) -> None:
    """End a helper at once, cancelled or not."""
    process.kill()
    with trio.CancelScope(shield=True):
        await process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                await pipe.aclose()


class Helper:
    """A process that works on records; low in priority, its memory bounded by its jobs.

    `module` is what it runs.
    """

    def __init__(self, module: str) -> None:
        self._module = module
        self._process: trio.Process | None = None
        self._received = bytearray()

    async def _started(self) -> trio.Process:
        process = self._process
        if process is None or process.returncode is not None:
            self._received.clear()
            try:
                process = self._process = await open_helper(self._module)
            except OSError as error:  # out of processes, descriptors or memory, which may pass
                raise HelperGoneError(str(error)) from error
        return process

    async def send(self, job: dict[str, Any]) -> None:
        """Give it a job; HelperGoneError."""
        process = await self._started()
        if process.stdin is None:
            raise HelperGoneError
        try:
            await process.stdin.send_all(json.dumps(job).encode() + b"\n")
        except trio.BrokenResourceError as error:
            raise HelperGoneError from error

    async def message(self) -> dict[str, Any]:
        """What it says next; HelperGoneError."""
        process = self._process
        if process is None or process.stdout is None:
            raise HelperGoneError
        while b"\n" not in self._received:
            data = await process.stdout.receive_some(_READ_BYTES)
            if not data:
                await process.wait()
                raise HelperGoneError
            self._received += data
        line, _, rest = self._received.partition(b"\n")
        self._received = rest
        return json.loads(line)

    async def kill(self) -> None:
        """End it at once: what it leaves are `.cleaned` files, which the next start removes."""
        process, self._process = self._process, None
        if process is not None:
            await end_helper(process)
