"""The node's side of the helper processes for records (see `barnabas.log.record_work`).

One does ordinary jobs in the order in which they were asked for. Those that cost much CPU, as a
batch that unpacks to millions of records does, are for a second one. Where that shows only while
the first is at work, it ends, and the second begins the job anew: so nobody keeps the batches of
others waiting for longer than that.

A process is started with its first job, and ended when nothing was asked for a while and with the
node. Whoever waits for an outcome may stop waiting at any time: the exchange with the process goes
on, and nobody takes its result.
"""

import fcntl
import logging
import math
import signal
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Final, TypeVar

import trio

from barnabas.log import FileSlice
from barnabas.log.record_work import Job, Outcome, Outcomes, RecordWorkNeeded
from barnabas.log.record_work.job_framing import (
    BATCH_BYTES_MAX,
    SIZES,
    decode_outcome,
    encode_job,
)
from barnabas.protocol.batches.compression import Buffer
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.server.storage.helper_process import end_helper, open_helper

if TYPE_CHECKING:
    from barnabas.server.storage.disk_threads import DiskThreads

logger = logging.getLogger(__name__)

_T = TypeVar("_T")

# An ordinary batch of 1 MB takes 0.01 s, a record 0.7 µs: more takes what was made to.
_ORDINARY_CPU_S_MAX: Final = 0.25
_ORDINARY_RECORDS_MAX: Final = 200_000
_JOB_S_MAX: Final = 20.0
_RECORD_COUNT: Final = slice(57, 61)  # of a batch
_ATTEMPTS: Final = 2
_IDLE_S: Final = 300.0
# What a pipe holds, where it can be told: the loop serves others between two pieces of a batch, and
# each wakeup costs it 40 µs.
_PIECE_BYTES: Final = 256 * 1024
_SET_PIPE_SIZE: Final[int | None] = getattr(fcntl, "F_SETPIPE_SZ", None)


class RecordHelperError(Exception):
    """The helper process did not do a job: nothing came of it, and it may be asked again."""


class _ProcessGoneError(Exception):
    """The process ended in the middle of a job."""


class _CostlyError(Exception):
    """The process ended because the job took all the CPU that it may."""


class _Asked:
    """A job, and who waits for it."""

    __slots__ = ("batch", "done", "job", "outcome")

    def __init__(self, job: Job, batch: Buffer) -> None:
        self.job = job
        self.batch: Buffer | None = batch  # None: nobody waits any more
        self.done = trio.Event()
        self.outcome: Outcome | Exception = None


class RecordHelper:
    """Does record work that is too large for the loop; `run` is a task of the node."""

    def __init__(self, disk: "DiskThreads") -> None:
        self._disk = disk
        self._costly = _Lane()
        self._ordinary = _Lane(beyond=self._costly)
        self.asked = self.waiting = 0  # jobs ever, and jobs that somebody waits for

    async def run(self) -> None:
        """Have jobs done until cancelled."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._costly.run)
            nursery.start_soon(self._ordinary.run)

    @property
    def pids(self) -> list[int]:
        """The processes that run, the one for ordinary jobs first."""
        lanes = (self._ordinary, self._costly)
        return [lane.process.pid for lane in lanes if lane.process is not None]

    @property
    def starts(self) -> int:
        """How many processes were started."""
        return self._ordinary.starts + self._costly.starts

    async def resolve(self, step: Callable[[Outcomes], _T], needed: RecordWorkNeeded) -> _T:
        """What `step` gives once the work that it needs is done: `needed`, and whatever follows.

        Raises what `step` raises, KafkaError for a batch that is refused, RecordHelperError, and
        OSError for one that cannot be read.
        """
        done: dict[Job, Outcome] = {}
        while True:
            done[needed.job] = await self._do(needed)
            try:
                return step(done)
            except RecordWorkNeeded as another:
                needed = another

    async def _do(self, needed: RecordWorkNeeded) -> Outcome:
        batch = needed.batch
        if len(batch) > BATCH_BYTES_MAX:
            raise KafkaError(
                ErrorCode.MESSAGE_TOO_LARGE,
                f"a batch of {len(batch)} bytes is too large for its records to be looked at: "
                f"{BATCH_BYTES_MAX} are allowed",
            )
        if isinstance(batch, FileSlice):
            batch = await self._disk.run(batch.read)
        asked = _Asked(needed.job, batch)
        count = int.from_bytes(batch[_RECORD_COUNT], "big")
        is_costly = needed.job.is_slow or count > _ORDINARY_RECORDS_MAX
        (self._costly if is_costly else self._ordinary).ask(asked)
        self.asked += 1
        self.waiting += 1
        try:
            await asked.done.wait()
        finally:
            self.waiting -= 1
            asked.batch = None
        if isinstance(asked.outcome, Exception):
            raise asked.outcome
        return asked.outcome


class _Lane:
    """A process and the jobs that wait for it; those that cost it much go to the lane `beyond`."""

    def __init__(self, beyond: "_Lane | None" = None) -> None:
        self.process: trio.Process | None = None
        self.starts = 0
        self._beyond = beyond
        self._cpu_s_max = 0.0 if beyond is None else _ORDINARY_CPU_S_MAX  # 0: no bound
        self._queue_in, self._queue_out = trio.open_memory_channel[_Asked](math.inf)

    def ask(self, asked: _Asked) -> None:
        """Have a job done behind those that wait already."""
        self._queue_in.send_nowait(asked)

    async def run(self) -> None:
        """Have jobs done until cancelled."""
        try:
            while True:
                asked: _Asked | None = None
                with trio.move_on_after(math.inf if self.process is None else _IDLE_S):
                    asked = await self._queue_out.receive()
                if asked is None:
                    await self._end()
                elif asked.batch is not None:
                    await self._do(asked, asked.batch)
        finally:
            await self._end()

    async def _do(self, asked: _Asked, batch: Buffer) -> None:
        try:
            with trio.fail_after(_JOB_S_MAX):
                asked.outcome = await self._outcome(asked.job, batch)
        except _CostlyError:
            if self._beyond is not None:
                self._beyond.ask(asked)
                return
        except trio.TooSlowError:
            logger.warning("record helper process took too long bytes=%d", len(batch))
            await self._end()
            message = f"looking at records took more than {_JOB_S_MAX:.0f} s"
            asked.outcome = RecordHelperError(message)
        asked.done.set()

    async def _outcome(self, job: Job, batch: Buffer) -> Outcome | Exception:
        for _ in range(_ATTEMPTS):
            try:
                return await self._exchange(job, batch)
            except KafkaError as error:
                return error
            except _ProcessGoneError:
                if await self._end() == -signal.SIGPROF:
                    raise _CostlyError from None
                logger.warning("record helper process ended in a job bytes=%d", len(batch))
            except Exception as error:
                logger.exception("record helper process failed")
                await self._end()
                return RecordHelperError(str(error))
        return RecordHelperError("the helper process for records ended")

    async def _exchange(self, job: Job, batch: Buffer) -> Outcome:
        process = await self._started()
        if process.stdin is None:
            raise _ProcessGoneError
        try:
            await process.stdin.send_all(encode_job(job, batch))
            await process.stdin.send_all(batch)
        except trio.BrokenResourceError as error:
            raise _ProcessGoneError from error
        text_bytes, batch_bytes = SIZES.unpack(await self._receive(process, SIZES.size))
        text = await self._receive(process, text_bytes)
        return decode_outcome(text, await self._receive(process, batch_bytes))

    async def _receive(self, process: trio.Process, size: int) -> bytearray:
        received = bytearray()
        while len(received) < size:
            wanted = min(size - len(received), _PIECE_BYTES)
            data = b"" if process.stdout is None else await process.stdout.receive_some(wanted)
            if not data:
                raise _ProcessGoneError
            received += data
        return received

    async def _started(self) -> trio.Process:
        process = self.process
        if process is None:
            module, limit = "barnabas.log.record_work", str(self._cpu_s_max)
            process = self.process = await open_helper(module, limit)
            self.starts += 1
            _widen(process.stdin, process.stdout)
        return process

    async def _end(self) -> int | None:
        """End the process, if there is one; what it returned."""
        process, self.process = self.process, None
        if process is None:
            return None
        await end_helper(process)
        return process.returncode


def _widen(*pipes: object) -> None:
    for pipe in pipes:
        if _SET_PIPE_SIZE is not None and isinstance(pipe, trio.lowlevel.FdStream):
            with suppress(OSError):  # the user's pipes may be many
                fcntl.fcntl(pipe.fileno(), _SET_PIPE_SIZE, _PIECE_BYTES)
