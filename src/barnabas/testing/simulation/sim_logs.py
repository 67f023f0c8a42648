"""The logs of partitions on the disks of a simulated broker, as `ReplicaManager` uses them."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from barnabas.log import LogConfig, Volume
from barnabas.log.checkpoints import UNREGISTERED
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.types import Uuid
from barnabas.testing.simulation.sim_partition_log import LogObserver, SimPartitionLog
from barnabas.testing.simulation.sim_volume import PartitionName, SimVolume


class NoRelocations:
    """No log is moved between directories."""

    def __init__(self) -> None:
        self.active: dict[Any, Any] = {}

    def resume(self) -> list[Any]:
        """Return no interrupted move."""
        return []

    def interrupted(self) -> list[PartitionName]:
        """Return no partition."""
        return []


class SimLogs:
    """The partitions' logs of one broker, in one or several directories.

    They outlive the process: `crash` and `lose_power` prepare them for its next life, and `start`
    finds what the working directories have.
    """

    def __init__(self, broker_id: int, directories: Sequence[Uuid], observer: LogObserver) -> None:
        self.broker_id = broker_id
        self.volumes = [SimVolume(directory) for directory in directories]
        self.lost: set[PartitionName] = set()
        """Partitions whose logs were on a disk that has failed or was replaced."""
        self.metadata_volume: Volume
        self.broker_epoch: Callable[[], int] = lambda: UNREGISTERED
        self.relocations = NoRelocations()
        self._observer = observer
        self._logs: dict[PartitionName, SimPartitionLog] = {}
        self._duplicates: list[SimPartitionLog] = []

    def start(self) -> None:
        """The broker starts: find the logs of the directories that work."""
        self._logs.clear()
        self._duplicates.clear()
        for volume in self.volumes:
            volume.start()
            for name, log in volume.logs.items():
                log.unload()
                if volume.failure is not None:
                    self.lost.add(name)
                elif name in self._logs:
                    self._duplicates.append(log)
                else:
                    self._logs[name] = log

    # As `LogManager`

    def get(self, topic: str, partition: int) -> SimPartitionLog | None:
        """Return a log, loaded, or None."""
        log = self._logs.get((topic, partition))
        if log is not None:
            log.load()
        return log

    def known(self, topic: str, partition: int) -> SimPartitionLog | None:
        """Return a log, loaded or not, or None."""
        return self._logs.get((topic, partition))

    def logs(self) -> Iterator[SimPartitionLog]:
        """Yield all logs."""
        yield from self._logs.values()

    def create(
        self,
        topic: str,
        topic_id: Uuid,
        partition: int,
        config: LogConfig,
        directory_id: Uuid | None,
    ) -> SimPartitionLog:
        """Create an empty log in a directory, or in the one with the fewest logs.

        Raises KafkaError KAFKA_STORAGE_ERROR when that directory is offline, or all are.
        """
        volume = self._place(directory_id)
        volume.check()
        log = SimPartitionLog(self.broker_id, topic, partition, topic_id, config, self._observer)
        log.volume = volume
        self._logs[topic, partition] = volume.logs[topic, partition] = log
        return log

    def _place(self, directory_id: Uuid | None) -> SimVolume:
        working = self.volumes_of_new_logs()
        if directory_id is not None:
            working = [volume for volume in working if volume.directory_id == directory_id]
        if not working:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "the directory is offline")
        return min(working, key=lambda volume: len(volume.logs))

    def volumes_of_new_logs(self) -> list[SimVolume]:
        """Return the online directories; none is cordoned."""
        return [volume for volume in self.volumes if volume.failure is None]

    def delete(self, topic: str, partition: int) -> None:
        """Delete a log; it stays on a disk that has failed."""
        log = self._logs.pop((topic, partition), None)
        if log is not None and log.volume.failure is None:
            log.volume.logs.pop((topic, partition), None)

    quarantine = delete

    def resolve_duplicates(self, rank: Callable[[Any], tuple[bool, ...]]) -> None:
        """For a partition in two directories, use the log of the higher rank."""
        duplicates, self._duplicates = self._duplicates, []
        for log in duplicates:
            name = log.topic, log.partition
            both = (log, self._logs[name])
            used, other = sorted(
                both, key=lambda each: (rank(each), each.log_end_offset), reverse=True
            )
            self._logs[name] = used
            other.volume.logs.pop(name, None)

    @property
    def has_offline(self) -> bool:
        """True when a directory is offline."""
        return any(volume.failure is not None for volume in self.volumes)

    @property
    def is_lost(self) -> bool:
        """True when no directory is online: the broker must stop."""
        failed = self.metadata_volume.failure is not None
        return failed or all(volume.failure is not None for volume in self.volumes)

    def is_online(self, directory_id: Uuid) -> bool:
        """True when the broker has the directory with that id online."""
        return directory_id in self.online

    @property
    def online(self) -> list[Uuid]:
        """The ids of the directories that are online."""
        return [volume.directory_id for volume in self.volumes if volume.failure is None]

    def checkpoint(self) -> None:
        """Make high watermarks and log starts durable."""
        for log in self._logs.values():
            if log.volume.failure is None:
                log.checkpoint()

    checkpoint_high_watermarks = checkpoint_log_start_offsets = checkpoint

    def recover(self) -> None:
        """Check nothing: batches are on a disk or not."""

    def due_deletions(self, now_ms: int) -> list[Any]:
        """Return nothing: the files of deleted logs are gone at once."""
        del now_ms
        return []

    def take_rolled(self) -> list[SimPartitionLog]:
        """Return no log: segments are synced when they are complete."""
        return []

    # Ends of the process, and of disks

    def _on_disks(self) -> Iterator[SimPartitionLog]:
        for volume in self.volumes:
            yield from volume.logs.values()

    def close(self, clean: bool) -> None:
        """The process stops; with `clean`, sync all logs and write clean shutdown files."""
        for log in self._on_disks():
            if clean and log.volume.failure is None:
                log.flush()
                log.checkpoint()
            log.crash()
        for volume in self.volumes:
            if clean and volume.failure is None:
                volume.mark_clean(self.broker_epoch())
        self.metadata_volume.unlock()

    def crash(self) -> None:
        """The process was killed."""
        for log in self._on_disks():
            log.crash()

    def lose_power(self, random: Callable[[int, int], int]) -> None:
        """The power was lost: a random part of the unsynced batches remains."""
        for log in self._on_disks():
            unsynced = sum(1 for header, _ in log.batches if header.last_offset >= log.synced_end)
            log.lose_power(random(0, unsynced))

    def replace_disk(self, index: int, directory_id: Uuid) -> None:
        """Put an empty disk in the place of one, while the broker does not run."""
        self.lost.update(self.volumes[index].logs)
        self.volumes[index] = SimVolume(directory_id)
