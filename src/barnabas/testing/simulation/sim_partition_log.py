"""Logs of partitions in the simulation, and the disk of a broker that holds them."""

from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import attrs

from barnabas.log import AppendInfo, LogConfig
from barnabas.log.partition.batch_validation import Origin
from barnabas.protocol.types import Uuid
from barnabas.testing.sim_log import SimLog

_NO_LIMIT = 1 << 62


class SimRecords:
    """Batches that a fetch has read; they are in memory, so they have no file."""

    __slots__ = ("batches", "data", "size")
    file = None

    def __init__(self, batches: list[bytes]) -> None:
        self.data = b"".join(batches)
        self.size = len(self.data)

    def __len__(self) -> int:
        return self.size


class LogObserver:
    """An observer of the logs of all brokers; it checks the invariants."""

    def appended(self, log: "SimPartitionLog", leader_epoch: int) -> None:
        """A leader appended a batch."""

    def high_watermark_raised(self, log: "SimPartitionLog") -> None:
        """A replica knows that the records below its high watermark are committed."""

    def shortened(self, log: "SimPartitionLog") -> None:
        """A replica removed records from the end."""


class SimPartitionLog(SimLog):
    """A partition's log on one broker; `is_durable` makes every append survive a loss of power."""

    def __init__(
        self,
        broker_id: int,
        topic: str,
        partition: int,
        topic_id: Uuid,
        config: LogConfig,
        observer: LogObserver,
        *,
        is_durable: bool,
    ) -> None:
        super().__init__()
        self.broker_id = broker_id
        self.topic = topic
        self.partition = partition
        self.topic_id = topic_id
        self.config = config
        self.volume = SimpleNamespace(failure=None)
        self._observer = observer
        self._is_durable = is_durable

    def __repr__(self) -> str:
        return f"<log of {self.topic}-{self.partition} on broker {self.broker_id}>"

    @property
    def last_stable_offset(self) -> int:
        """The end of what READ_COMMITTED sees; there are no transactions here."""
        return self.high_watermark

    def update_config(self, config: LogConfig) -> None:
        """Use another configuration."""
        self.config = config

    def append_as_leader(
        self,
        records: bytearray | memoryview,
        *,
        leader_epoch: int,
        now_ms: int,
        origin: Origin = "client",
        done: object = None,
    ) -> AppendInfo:
        """Append one batch of a producer."""
        del done
        info = super().append_as_leader(
            records, leader_epoch=leader_epoch, now_ms=now_ms, origin=origin
        )
        self._written()
        self._observer.appended(self, leader_epoch)
        return info

    def append_as_follower(
        self,
        records: bytes | bytearray | memoryview,
        *,
        now_ms: int,
        leader_epoch: int = _NO_LIMIT,
    ) -> None:
        """Append batches of the leader."""
        super().append_as_follower(records, now_ms=now_ms, leader_epoch=leader_epoch)
        self._written()

    def _written(self) -> None:
        if self._is_durable:
            self.flush()

    def advance_high_watermark(self, offset: int) -> None:
        """Note that the records below `offset` are committed."""
        super().advance_high_watermark(offset)
        self._observer.high_watermark_raised(self)

    def truncate_to(self, offset: int) -> None:
        """Remove the records from `offset` on."""
        super().truncate_to(offset)
        self._observer.shortened(self)

    def truncate_fully_and_start_at(self, offset: int) -> None:
        """Remove all records."""
        super().truncate_fully_and_start_at(offset)
        self._observer.shortened(self)

    def read(
        self,
        offset: int,
        max_bytes: int,
        *,
        upper_bound: int,
        min_one_message: bool = False,
    ) -> SimRecords:
        """Return batches from the one with `offset` on, below `upper_bound`."""
        found: list[bytes] = []
        size = 0
        for index in range(self._index_of(offset), len(self.batches)):
            header, data = self.batches[index]
            if header.base_offset >= upper_bound:
                break
            if size + len(data) > max_bytes and not (min_one_message and not found):
                break
            found.append(data)
            size += len(data)
        return SimRecords(found)

    def _index_of(self, offset: int) -> int:
        low, high = 0, len(self.batches)
        while low < high:
            middle = (low + high) // 2
            if self.batches[middle][0].last_offset < offset:
                low = middle + 1
            else:
                high = middle
        return low


@attrs.define(slots=True, eq=False)
class SimLogs:
    """The partitions' logs of one broker, as `ReplicaManager` uses a `LogManager`.

    They outlive the process: `crash` and `lose_power` prepare them for its next life.
    """

    broker_id: int
    directory_id: Uuid
    observer: LogObserver
    is_durable: bool
    has_offline: bool = False
    _logs: dict[tuple[str, int], SimPartitionLog] = attrs.field(
        factory=dict[tuple[str, int], SimPartitionLog]
    )

    def get(self, topic: str, partition: int) -> SimPartitionLog | None:
        """Return a log, or None."""
        return self._logs.get((topic, partition))

    known = get

    def logs(self) -> Iterator[SimPartitionLog]:
        """Yield all logs."""
        yield from self._logs.values()

    def create(
        self, topic: str, topic_id: Uuid, partition: int, config: LogConfig, _: Uuid | None
    ) -> SimPartitionLog:
        """Create an empty log."""
        log = SimPartitionLog(
            self.broker_id,
            topic,
            partition,
            topic_id,
            config,
            self.observer,
            is_durable=self.is_durable,
        )
        self._logs[topic, partition] = log
        return log

    def delete(self, topic: str, partition: int) -> None:
        """Delete a log."""
        self._logs.pop((topic, partition), None)

    quarantine = delete

    def resolve_duplicates(self, rank: Callable[[Any], Any]) -> None:
        """Do nothing: there is one directory."""

    def is_online(self, directory: Uuid) -> bool:
        """True for the only directory."""
        return directory == self.directory_id

    def checkpoint(self) -> None:
        """Make high watermarks and log starts durable."""
        for log in self._logs.values():
            log.checkpoint()

    def crash(self) -> None:
        """The process was killed."""
        for log in self._logs.values():
            log.crash()

    def lose_power(self, random: Callable[[int, int], int]) -> None:
        """The power was lost: a random part of the unsynced batches remains."""
        for log in self._logs.values():
            unsynced = sum(1 for header, _ in log.batches if header.last_offset >= log.synced_end)
            log.lose_power(random(0, unsynced))
