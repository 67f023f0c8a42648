"""The pool of helper processes: it starts them when they are needed, and ends them when idle.

A process belongs to one kind, because a process can lower its priority but not raise it again. Who
borrows a process has it alone; how many are used at a time is up to the borrowers: the record
worker uses one of each of its kinds, the cleaner `log.cleaner.threads`, the scrubber one.
"""

from collections import Counter
from typing import Final

import trio

from barnabas.server.storage.helper_process import HelperKind, HelperProcess

_IDLE_S: Final = 300.0
# Address space: a batch unpacked to 256 MB and compressed again, and zstd's largest tables.
_RECORDS_MEMORY_BYTES_MAX: Final = 2 << 30

# Priorities: behind the loop come ordinary batches, which a produce request waits for, then costly
# batches and cleaning, then scrubbing.
ORDINARY_RECORDS: Final = HelperKind(
    "ordinary-records",
    niceness=5,
    # A batch of 1 MB usually takes 0.01 s, at 0.7 µs per record.
    cpu_s_max=0.25,
    memory_bytes_max=_RECORDS_MEMORY_BYTES_MAX,
    has_payloads=True,
)
COSTLY_RECORDS: Final = HelperKind(
    "costly-records", niceness=10, memory_bytes_max=_RECORDS_MEMORY_BYTES_MAX, has_payloads=True
)
CLEANING: Final = HelperKind("cleaning", niceness=10)
SCRUBBING: Final = HelperKind("scrubbing", niceness=15)


class HelperPool:
    """All helper processes of a node; `run` is a task of the node."""

    def __init__(self) -> None:
        self._processes: list[HelperProcess] = []
        self._idle: dict[HelperProcess, float] = {}  # when to end it, by the loop's clock
        self._starts: Counter[str] = Counter()
        self._is_closed = False
        self._has_idle = trio.Event()

    async def run(self) -> None:
        """End idle processes after a while; end all when cancelled."""
        try:
            while True:
                # A process that was used meanwhile only has a later deadline, so a job does not
                # have to wake this task.
                if self._idle:
                    await trio.sleep_until(min(self._idle.values()))
                    await self._end_idle(until=trio.current_time())
                else:
                    self._has_idle = trio.Event()
                    await self._has_idle.wait()
        finally:
            self._is_closed = True
            await self._end_idle()

    def borrow(self, kind: HelperKind) -> "Loan":
        """Use an idle process of this kind, or a new one, in an `async with` block.

        Raises HelperGoneError when no process can be started. Afterwards the process is idle again;
        it is ended if the block ends during a job.
        """
        return Loan(self, kind)

    async def take(self, kind: HelperKind) -> HelperProcess:
        """Return an idle process of this kind, or a new one. Raises HelperGoneError."""
        return self._take_idle(kind) or await self._start(kind)

    async def give_back(self, process: HelperProcess) -> None:
        """Keep a process as idle, or end it if it is broken or still busy."""
        if process.is_busy or process.has_ended or self._is_closed:
            await self._end(process)
        else:
            self._idle[process] = trio.current_time() + _IDLE_S
            self._has_idle.set()

    async def end_idle(self, kind: HelperKind) -> None:
        """End the idle processes of a kind that is not needed for a while."""
        await self._end_idle(kind)

    def pids(self, kind: HelperKind) -> list[int]:
        """Return the ids of the processes of this kind."""
        return [each.pid for each in self._processes if each.kind.name == kind.name]

    def starts(self, kind: HelperKind) -> int:
        """Return how many processes of this kind were started."""
        return self._starts[kind.name]

    def _take_idle(self, kind: HelperKind) -> HelperProcess | None:
        for process in list(self._idle):
            if process.kind == kind:
                del self._idle[process]
                if not process.has_ended:
                    return process
                self._processes.remove(process)
        return None

    async def _start(self, kind: HelperKind) -> HelperProcess:
        process = await HelperProcess.start(kind)
        self._processes.append(process)
        self._starts[kind.name] += 1
        return process

    async def _end_idle(self, kind: HelperKind | None = None, until: float = float("inf")) -> None:
        for process, deadline in list(self._idle.items()):
            if deadline <= until and kind in (None, process.kind) and process in self._idle:
                del self._idle[process]
                await self._end(process)

    async def _end(self, process: HelperProcess) -> None:
        self._processes.remove(process)
        await process.end()


class Loan:
    """A borrowed process, as a context manager."""

    __slots__ = ("_kind", "_pool", "_process")

    def __init__(self, pool: HelperPool, kind: HelperKind) -> None:
        self._pool = pool
        self._kind = kind
        self._process: HelperProcess | None = None

    async def __aenter__(self) -> HelperProcess:
        self._process = await self._pool.take(self._kind)
        return self._process

    async def __aexit__(self, *_: object) -> None:
        if self._process is not None:
            await self._pool.give_back(self._process)
