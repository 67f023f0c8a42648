"""The moves of logs between data directories that are in progress (Kafka's future logs).

`log_relocation` has the steps of one move.
"""

import logging
import os
import shutil
from collections.abc import Callable, Sequence
from functools import partial

from barnabas.log.directories.log_relocation import LogRelocation, find_volume
from barnabas.log.directory_names import future_name
from barnabas.log.partition import log_loading
from barnabas.log.partition.partition_log import PartitionLog
from barnabas.log.volume import Volume
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.types import Uuid

logger = logging.getLogger(__name__)


class RelocationRegistry:
    """Begins, resumes and ends moves; `get` returns a partition's log, loaded, or None."""

    def __init__(
        self, volumes: Sequence[Volume], get: Callable[[str, int], PartitionLog | None]
    ) -> None:
        self.active: dict[PartitionLog, LogRelocation] = {}
        self._volumes = volumes
        self._get = get
        self._interrupted: list[tuple[Volume, str, tuple[str, int]]] = []

    def add_interrupted(self, volume: Volume, path: str, key: tuple[str, int]) -> None:
        """The last run left a copy of this partition's log at `path`."""
        self._interrupted.append((volume, path, key))

    def is_active(self, move: LogRelocation) -> bool:
        """True until the move is finished or cancelled."""
        return self.active.get(move.log) is move

    def begin(self, topic: str, partition: int, path: str) -> LogRelocation | None:
        """Begin to move a log to the data directory at `path`; None if it is already there.

        A move of this log to another directory ends. Raises KafkaError LOG_DIR_NOT_FOUND,
        KAFKA_STORAGE_ERROR, INVALID_REPLICA_ASSIGNMENT for a cordoned directory,
        INVALID_TOPIC_EXCEPTION for a name that is too long, or UNKNOWN_TOPIC_OR_PARTITION when the
        log does not exist.
        """
        name = future_name(topic, partition)
        target = self.target(path)
        log = self._get(topic, partition)
        if log is None:
            raise KafkaError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{topic}-{partition} has no log here"
            )
        self.end(self.active.get(log))
        if log.volume is target:
            return None
        try:
            move = self.active[log] = LogRelocation(log, target, f"{target.path}/{name}")
        except OSError as error:
            raise target.fail(error) from error
        return move

    def target(self, path: str) -> Volume:
        """Return the data directory at `path`, to which logs may move.

        Raises KafkaError LOG_DIR_NOT_FOUND, KAFKA_STORAGE_ERROR or INVALID_REPLICA_ASSIGNMENT.
        """
        found = find_volume(self._volumes, path)
        if found.is_cordoned:
            raise KafkaError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"Log directory {path} is cordoned"
            )
        return found

    def interrupted(self) -> list[tuple[str, int]]:
        """Return the partitions of which the last run left a copy."""
        return [key for _, _, key in self._interrupted]

    def use_copy(self, log: PartitionLog, topic_id: Uuid) -> bool:
        """Rename the copy of an interrupted move to the log. Return False when there is none.

        For a node that ended after the metadata named the new directory and before the last step,
        when the old directory is missing now (`LogManager.recoverAbandonedFutureLogs`,
        KAFKA-16082). Raises OSError.
        """
        for volume, path, key in self._interrupted:
            if key != (log.topic, log.partition) or volume is not log.volume:
                continue
            if log_loading.read_topic_id(path) == topic_id:
                logger.warning("using the copy of an interrupted move as the log copy=%s", path)
                os.rename(path, log.directory)
                self._interrupted.remove((volume, path, key))
                return True
        return False

    def resume(self) -> list[LogRelocation]:
        """Begin the moves that the last run did not finish; `LogRelocation.resume` must follow.

        A copy is removed when its log already moved there or was created again. A copy without a
        log is quarantined, because it may be the only one. A copy whose log is offline stays.
        """
        moves: list[LogRelocation] = []
        for volume, path, key in self._interrupted:
            try:
                log = self._get(*key)
                if log is not None and log.volume.failure is not None:
                    continue
                if log is not None and log.volume is not volume and log not in self.active:
                    move = self.active[log] = LogRelocation(log, volume, path)
                    moves.append(move)
                elif log is not None:
                    volume.deletions.add(0, partial(shutil.rmtree, path, ignore_errors=True))
                elif not any(each.failure for each in self._volumes):
                    renamed = volume.rename_directory(path, key, "stray")
                    if renamed is not None:
                        logger.warning(
                            "quarantining the copy of an interrupted move, its log is missing"
                            " copy=%s renamed_to=%s",
                            path,
                            renamed,
                        )
            except KafkaError as error:
                logger.error("cannot resume interrupted move copy=%s error=%s", path, error)
            except OSError as error:
                volume.refused(error)
        self._interrupted.clear()
        return moves

    def end(self, move: LogRelocation | None) -> None:
        """End a move, finished or not, and remove its copy.

        The copy is renamed at once: otherwise a start after a kill would resume the move. When a
        disk of the move failed, the copy stays, because it may be all that remains.
        """
        if move is None or not self.is_active(move):
            return
        log, target = move.log, move.target
        del self.active[log]
        move.is_stopped = True
        if log.volume.failure is not None or target.failure is not None:
            return
        renamed = target.rename_directory(move.directory, (log.topic, log.partition), "delete")
        if renamed is not None:  # None when the copy is the log's directory now
            target.deletions.add(0, partial(shutil.rmtree, renamed, ignore_errors=True))
