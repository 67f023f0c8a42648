"""Record work that is too large for the loop: queues of jobs for helper processes.

One helper process runs ordinary jobs in the order of the requests. Costly jobs, such as a batch
that unpacks to millions of records, go to a second one. When a job turns out to be costly only
while the first process runs it, that process ends by its CPU limit, and the second one starts the
job again. So a costly batch delays ordinary ones at most by that limit.

A caller may stop waiting for an outcome at any time. The exchange with the process continues, and
its result is dropped.
"""

import logging
import math
import signal
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, TypeVar

import trio

from barnabas.log import FileSlice
from barnabas.log.helper_framing import PAYLOAD_BYTES_MAX
from barnabas.log.record_work import Job, Outcome, Outcomes, RecordWorkNeeded
from barnabas.protocol.batches.batch_layout import HEADER_SIZE, RECORD_COUNT_AT
from barnabas.protocol.batches.compression import Buffer
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.server.storage.helper_pool import COSTLY_RECORDS, ORDINARY_RECORDS, HelperPool
from barnabas.server.storage.helper_process import HelperGoneError, HelperKind

if TYPE_CHECKING:
    from barnabas.server.storage.disk_threads import DiskThreads

logger = logging.getLogger(__name__)

_T = TypeVar("_T")

_ORDINARY_RECORDS_MAX: Final = 200_000
_JOB_S_MAX: Final = 20.0
_ATTEMPTS: Final = 2


class RecordWorkError(Exception):
    """A helper process could not run a job. Nothing was changed, and the caller may retry."""


class _CostlyError(Exception):
    """The process ended because the job reached its CPU limit."""


class _Request:
    """A job with its batch, and the caller that waits for the outcome."""

    __slots__ = ("batch", "done", "job", "outcome")

    def __init__(self, job: Job, batch: Buffer) -> None:
        self.job = job
        self.batch: Buffer | None = batch  # None: the caller stopped waiting
        self.done = trio.Event()
        self.outcome: Outcome | Exception = None


class RecordWorker:
    """Runs record work that is too large for the loop; `run` is a task of the node."""

    def __init__(self, disk: "DiskThreads", helpers: HelperPool) -> None:
        self._disk = disk
        self._helpers = helpers
        self._costly = _JobQueue(helpers, COSTLY_RECORDS)
        self._ordinary = _JobQueue(helpers, ORDINARY_RECORDS, overflow=self._costly)
        self.requested = self.waiting = 0  # jobs since the start, and jobs with a waiting caller

    async def run(self) -> None:
        """Run jobs until cancelled."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._costly.run)
            nursery.start_soon(self._ordinary.run)

    @property
    def pids(self) -> list[int]:
        """The ids of the running processes, first the one for ordinary jobs."""
        return [*self._helpers.pids(ORDINARY_RECORDS), *self._helpers.pids(COSTLY_RECORDS)]

    @property
    def starts(self) -> int:
        """The number of processes started."""
        return self._helpers.starts(ORDINARY_RECORDS) + self._helpers.starts(COSTLY_RECORDS)

    async def resolve(self, step: Callable[[Outcomes], _T], needed: RecordWorkNeeded) -> _T:
        """Run the job in `needed` and return the result of `step`; also run jobs that it needs.

        Raises what `step` raises, KafkaError for a batch that is refused, RecordWorkError, and
        OSError when the batch cannot be read.
        """
        done: dict[Job, Outcome] = {}
        while True:
            done[needed.job] = await self._outcome(needed)
            try:
                return step(done)
            except RecordWorkNeeded as another:
                needed = another

    async def _outcome(self, needed: RecordWorkNeeded) -> Outcome:
        batch = needed.batch
        if len(batch) > PAYLOAD_BYTES_MAX:
            raise KafkaError(
                ErrorCode.MESSAGE_TOO_LARGE,
                f"cannot examine the records of a batch of {len(batch)} bytes, the maximum is "
                f"{PAYLOAD_BYTES_MAX}",
            )
        if isinstance(batch, FileSlice):
            batch = await self._disk.run(batch.read)
        request = _Request(needed.job, batch)
        record_count = int.from_bytes(batch[RECORD_COUNT_AT:HEADER_SIZE], "big")
        is_costly = needed.job.is_slow or record_count > _ORDINARY_RECORDS_MAX
        (self._costly if is_costly else self._ordinary).add(request)
        self.requested += 1
        self.waiting += 1
        try:
            await request.done.wait()
        finally:
            self.waiting -= 1
            request.batch = None
        if isinstance(request.outcome, Exception):
            raise request.outcome
        return request.outcome


class _JobQueue:
    """Jobs that wait for one process of a kind; jobs over its CPU limit go to `overflow`."""

    def __init__(
        self, helpers: HelperPool, kind: HelperKind, overflow: "_JobQueue | None" = None
    ) -> None:
        self._helpers = helpers
        self._kind = kind
        self._overflow = overflow
        self._queue_in, self._queue_out = trio.open_memory_channel[_Request](math.inf)

    def add(self, request: _Request) -> None:
        """Append a job to the queue."""
        self._queue_in.send_nowait(request)

    async def run(self) -> None:
        """Run jobs until cancelled."""
        async for request in self._queue_out:
            if request.batch is not None:
                await self._run(request, request.batch)

    async def _run(self, request: _Request, batch: Buffer) -> None:
        try:
            with trio.fail_after(_JOB_S_MAX):
                request.outcome = await self._attempt(request.job, batch)
        except _CostlyError:
            if self._overflow is not None:
                self._overflow.add(request)
                return
        except trio.TooSlowError:
            logger.warning("record job took too long bytes=%d", len(batch))
            message = f"examining the records took more than {_JOB_S_MAX:.0f} s"
            request.outcome = RecordWorkError(message)
        request.done.set()

    async def _attempt(self, job: Job, batch: Buffer) -> Outcome | Exception:
        from barnabas.log.record_work.job_messages import decode_outcome, encode_job

        for _ in range(_ATTEMPTS):
            try:
                async with self._helpers.borrow(self._kind) as helper:
                    await helper.send(encode_job(job), batch)
                    return decode_outcome(*await helper.receive())
            except KafkaError as error:
                return error
            except HelperGoneError as error:
                if error.returncode == -signal.SIGPROF:
                    raise _CostlyError from None
                logger.warning("record job failed bytes=%d error=%s", len(batch), error)
            except Exception as error:
                logger.exception("record job failed")
                return RecordWorkError(str(error))
        return RecordWorkError("the helper process for records ended during the job")
