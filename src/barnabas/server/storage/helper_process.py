"""One helper process, seen from the node: start it, exchange frames with it, end it."""

import fcntl
import logging
import subprocess
import sys
from contextlib import suppress
from typing import Final

import attrs
import trio

from barnabas.log.helper_framing import SIZES, Fields, decode_fields, encode_head
from barnabas.protocol.batches.compression import Buffer

logger = logging.getLogger(__name__)

# The size of a pipe where the system lets a process set it: the loop serves other tasks between two
# pieces of a batch, and each wakeup costs it 40 µs.
_PIPE_BYTES: Final = 256 * 1024
_SET_PIPE_SIZE: Final[int | None] = getattr(fcntl, "F_SETPIPE_SZ", None)


class HelperGoneError(Exception):
    """The helper process ended during a job, or could not be started.

    `returncode` is that of the process, None if it did not start.
    """

    def __init__(self, message: str, returncode: int | None = None) -> None:
        super().__init__(message)
        self.returncode = returncode


@attrs.frozen
class HelperKind:
    """Priority and limits of helper processes; 0 stands for no limit.

    `cpu_s_max` is CPU time for one job. With `has_payloads`, batches
    travel with the jobs.
    """

    name: str
    niceness: int
    cpu_s_max: float = 0.0
    memory_bytes_max: int = 0
    has_payloads: bool = False


class HelperProcess:
    """A running helper process; it runs one job at a time."""

    def __init__(self, kind: HelperKind, process: trio.Process) -> None:
        self.kind = kind
        self.is_busy = False  # a job was sent whose last answer was not received
        self._process = process

    @classmethod
    async def start(cls, kind: HelperKind) -> "HelperProcess":
        """Start a process. Raises HelperGoneError when the system refuses it."""
        limits = (kind.niceness, kind.cpu_s_max, kind.memory_bytes_max)
        command = [sys.executable, "-m", "barnabas.log.helper", kind.name, *map(str, limits)]
        try:
            process = await trio.lowlevel.open_process(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                process_group=0,  # Ctrl-C must reach the node only, which then ends its helpers
            )
        except OSError as error:  # no process, descriptor or memory is free, which may pass
            raise HelperGoneError(f"cannot start a helper process: {error}") from error
        if kind.has_payloads:
            _widen(process.stdin, process.stdout)
        logger.info("started helper process kind=%s pid=%d", kind.name, process.pid)
        return cls(kind, process)

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    @property
    def has_ended(self) -> bool:
        """True when the process ended."""
        return self._process.returncode is not None

    async def send(self, fields: Fields, payload: Buffer = b"") -> None:
        """Send a job. Raises HelperGoneError."""
        self.is_busy = True
        stdin = self._process.stdin
        try:
            if stdin is not None:
                await stdin.send_all(encode_head(fields, len(payload)))
                if payload:
                    await stdin.send_all(payload)
        except trio.BrokenResourceError as error:
            raise await self._gone() from error

    async def receive(self) -> tuple[Fields, bytearray]:
        """Return the next answer to the job, and its payload. Raises HelperGoneError."""
        text_bytes, payload_bytes = SIZES.unpack(await self._receive(SIZES.size))
        fields = decode_fields(await self._receive(text_bytes))
        payload = await self._receive(payload_bytes)
        self.is_busy = fields.pop("more", False)
        return fields, payload

    async def _receive(self, size: int) -> bytearray:
        received = bytearray()
        stdout = self._process.stdout
        while len(received) < size:
            wanted = min(size - len(received), _PIPE_BYTES)
            data = b"" if stdout is None else await stdout.receive_some(wanted)
            if not data:
                raise await self._gone()
            received += data
        return received

    async def _gone(self) -> HelperGoneError:
        await self.end()
        return HelperGoneError("the helper process ended during a job", self._process.returncode)

    async def end(self) -> None:
        """Kill the process and wait for its end, even when the caller is cancelled.

        Files of an unfinished cleaning job are removed by the next start.
        """
        self._process.kill()
        with trio.CancelScope(shield=True):
            await self._process.wait()
            for pipe in (self._process.stdin, self._process.stdout):
                if pipe is not None:
                    await pipe.aclose()


def _widen(*pipes: object) -> None:
    for pipe in pipes:
        if _SET_PIPE_SIZE is not None and isinstance(pipe, trio.lowlevel.FdStream):
            with suppress(OSError):  # the user's limit of pipe memory may be reached
                fcntl.fcntl(pipe.fileno(), _SET_PIPE_SIZE, _PIPE_BYTES)
