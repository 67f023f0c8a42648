"""Sending the requests of the fetchers of a simulated broker."""

from collections.abc import Callable
from typing import Final

from barnabas.cluster.replication.fetcher_assignments import FetcherKey
from barnabas.cluster.replication.fetcher_core import FetcherCore
from barnabas.cluster.replication.followed_partition import FetchState
from barnabas.cluster.replication.log_like import LogLike
from barnabas.protocol.messages.fetch import FetchResponse
from barnabas.protocol.messages.list_offsets import ListOffsetsResponse
from barnabas.protocol.types import Uuid
from barnabas.testing.simulation.network import Failure, Network
from barnabas.testing.simulation.rare_states import Divergences, RareState
from barnabas.testing.simulation.sim_partition_log import take_bytes
from barnabas.testing.simulation.world import Process

FETCH_VERSION: Final = 17
_FETCH_TIMEOUT_MS: Final = 30_000


class FetcherDriver:
    """Sends the requests of one fetcher core."""

    def __init__(
        self,
        process: Process,
        network: Network,
        key: FetcherKey,
        core: FetcherCore,
        broker_epoch: Callable[[], int],
    ) -> None:
        self.core = core
        self.is_stopped = False
        self._process = process
        self._network = network
        self._key = key
        self._broker_epoch = broker_epoch
        self._timer = 0
        self._divergences = Divergences(process.world.rare)

    def poll(self) -> None:
        """Send the request that is due, or set the timer."""
        if self.is_stopped:
            return
        now_ms = self._process.now_ms
        request = self.core.next_request(
            now_ms, version=FETCH_VERSION, broker_epoch=self._broker_epoch()
        )
        if self._ends(FetchState.THROTTLED):
            self._process.world.rare.reached(RareState.REPLICA_THROTTLED)
        if request is not None:
            self._network.ask(
                self._process,
                self._key.leader,
                "broker",
                request,
                self._answered,
                self._failed,
                purpose=f"fetcher-{self._key.number}",
                timeout_ms=_FETCH_TIMEOUT_MS,
            )
            return
        self._timer += 1
        due = self.core.wakeup_ms(now_ms)
        if due is not None:
            self._process.after_ms(max(1, due - now_ms), self._due, self._timer)

    def _due(self, timer: int) -> None:
        if timer == self._timer:
            self.poll()

    def _answered(self, response: FetchResponse | ListOffsetsResponse) -> None:
        if not self.is_stopped:
            if isinstance(response, FetchResponse):
                take_bytes(response)
                self._divergences.answered(response, self._leader_epoch)
            now_ms = self._process.now_ms
            ends = self._ends(FetchState.OUT_OF_RANGE)
            self.core.on_response(response, now_ms, wall_ms=now_ms)
            for log, end in ends.items():
                if log.log_start_offset > end:
                    self._process.world.rare.reached(RareState.LOG_RESTARTED)
            self.poll()

    def _ends(self, state: FetchState) -> dict[LogLike, int]:
        """Return the log ends of the partitions in a state."""
        logs = [each.replica.log for each in self.core.partitions.values() if each.state is state]
        return {log: log.log_end_offset for log in logs}

    def _leader_epoch(self, key: tuple[Uuid, int]) -> int:
        followed = self.core.partitions.get(key)
        return -1 if followed is None else followed.leader_epoch

    def _failed(self, _: Failure) -> None:
        if not self.is_stopped:
            self.core.on_failure(self._process.now_ms)
            self.poll()
