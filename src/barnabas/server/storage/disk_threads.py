"""Run calls that may block on a disk in threads, while the loop waits for them.

fsync is grouped: while one runs for a log, later callers share the next one. Only calls that
release the GIL may run here, because a busy Python thread would stall the loop.
"""

import logging
from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, TypeVar, TypeVarTuple

from barnabas import tasks

if TYPE_CHECKING:
    from barnabas.cluster.replication import Partition

logger = logging.getLogger(__name__)

_T = TypeVar("_T")
_Args = TypeVarTuple("_Args")

# The maximum number of threads for reads and file operations, and again for fsync.
THREADS = 8


class _Round:
    """One fsync and the callers that share it."""

    __slots__ = ("done", "error")

    def __init__(self) -> None:
        self.done = tasks.event()
        self.error: BaseException | None = None


class _Rounds:
    """The rounds of one key: the running one, and the next one, which collects callers."""

    __slots__ = ("gathering", "running")

    def __init__(self) -> None:
        self.running: _Round | None = None
        self.gathering: _Round | None = None


class DiskThreads:
    """Runs blocking calls in a bounded number of threads."""

    def __init__(self) -> None:
        self._files = tasks.limiter(THREADS)
        self._syncs = tasks.limiter(THREADS)
        self._by_key: dict[Hashable, _Rounds] = {}
        self.fsyncs = 0

    async def run(self, call: Callable[[*_Args], _T], *args: *_Args) -> _T:
        """Return the result of `call(*args)`, which runs in a thread."""
        return await tasks.run_in_thread(call, *args, limiter=self._files)

    async def fsync(self, key: Hashable, sync: Callable[[], object]) -> None:
        """Return after a `sync()` that began after this call; callers with the same `key` share it.

        Raises the error of `sync` in each caller that shares it. It is never retried here.
        """
        rounds = self._by_key.get(key)
        if rounds is None:
            rounds = self._by_key[key] = _Rounds()
        mine = rounds.gathering
        if mine is None:
            mine = _Round()
            # Other callers may share this round, so its leader completes it even when cancelled.
            with tasks.cancel_scope(shield=True):
                await self._lead(rounds, mine, sync)
            if rounds.running is None and rounds.gathering is None:
                self._by_key.pop(key, None)
        else:
            await mine.done.wait()
        if mine.error is not None:
            raise mine.error

    async def flush(self, partition: "Partition") -> bool:
        """Make a partition's appended records durable. Return False, and log, when that fails."""
        try:
            await self.fsync(partition.log, partition.log.flush)
        except Exception:
            logger.exception("flush failed partition=%s-%d", partition.topic, partition.partition)
            return False
        return True

    async def _lead(self, rounds: _Rounds, mine: _Round, sync: Callable[[], object]) -> None:
        if rounds.running is not None:
            rounds.gathering = mine
            await rounds.running.done.wait()
            rounds.gathering = None
        rounds.running = mine
        try:
            self.fsyncs += 1
            await tasks.run_in_thread(sync, limiter=self._syncs)
        except Exception as error:
            mine.error = error
        finally:
            rounds.running = None
            mine.done.set()
