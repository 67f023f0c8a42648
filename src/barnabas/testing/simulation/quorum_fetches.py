"""Answers to the fetches of other replicas of the simulated quorum; some wait for new records."""

from collections import deque
from collections.abc import Callable
from typing import Final

import attrs

from barnabas.cluster.quorum.raft import RaftCore
from barnabas.cluster.quorum.raft_messages import FetchRequest, FetchResponse
from barnabas.cluster.quorum.raft_state import Entry
from barnabas.protocol.errors import ErrorCode
from barnabas.testing.simulation.network import Respond
from barnabas.testing.simulation.quorum_disk import QuorumDisk
from barnabas.testing.simulation.world import Process

FETCH_WAIT_MS: Final = 500
_RESPONSE_BATCHES_MAX: Final = 50


@attrs.frozen(slots=True)
class FetchedEntries:
    """The response of a replica to a Fetch, with the entries that follow the fetch offset."""

    response: FetchResponse
    entries: tuple[Entry, ...]


@attrs.frozen(slots=True)
class EpochStated:
    """The response of a replica to the announcement of a leader."""

    error: ErrorCode
    epoch: int
    leader_id: int | None


@attrs.define(slots=True, eq=False)
class _ParkedFetch:
    """A fetch that waits for an append or for the high watermark."""

    request: FetchRequest
    high_watermark: int
    respond: Respond
    is_over: bool = False


class FetchAnswers:
    """Answers for one life of a replica; `settle` carries out the effects of the core."""

    def __init__(
        self, process: Process, core: RaftCore, disk: QuorumDisk, settle: Callable[[], None]
    ) -> None:
        self._process = process
        self._core = core
        self._disk = disk
        self._settle = settle
        self._parked: deque[_ParkedFetch] = deque()

    @property
    def waiting(self) -> int:
        """The number of fetches that wait."""
        return sum(1 for parked in self._parked if not parked.is_over)

    def answer(self, request: FetchRequest, high_watermark: int, respond: Respond) -> None:
        """Answer a fetch of a replica that knows this high watermark, or let it wait."""
        response = self._core.on_fetch(request, self._process.now_ms)
        self._settle()
        if response.has_records and self._must_wait(request, high_watermark):
            parked = _ParkedFetch(request, high_watermark, respond)
            self._parked.append(parked)
            self._process.after_ms(FETCH_WAIT_MS, self._end_wait, parked)
            return
        self._respond(request, response, respond)

    def _must_wait(self, request: FetchRequest, high_watermark: int) -> bool:
        core = self._core
        return (
            core.is_leader
            and request.epoch == core.epoch
            and request.offset >= self._disk.end_offset
            and core.leader_high_watermark <= high_watermark
        )

    def look_again(self) -> None:
        """After a change: answer the fetches that need not wait any longer."""
        for _ in range(len(self._parked)):
            parked = self._parked.popleft()
            if parked.is_over:
                continue
            if self._must_wait(parked.request, parked.high_watermark):
                self._parked.append(parked)
            else:
                self._answer_parked(parked)

    def _end_wait(self, parked: _ParkedFetch) -> None:
        if not parked.is_over:
            self._answer_parked(parked)

    def _answer_parked(self, parked: _ParkedFetch) -> None:
        parked.is_over = True
        response = self._core.on_fetch(parked.request, self._process.now_ms)
        self._respond(parked.request, response, parked.respond)
        self._process.after_ms(0, self._settle)

    def _respond(self, request: FetchRequest, response: FetchResponse, respond: Respond) -> None:
        entries: list[Entry] = []
        if response.has_records:
            count = self._process.world.random.randrange(1, _RESPONSE_BATCHES_MAX)
            entries = self._disk.read(request.offset, count)
        respond(FetchedEntries(response, tuple(entries)))
