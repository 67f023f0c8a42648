"""Which logs move between the data directories (the future logs of Kafka's `LogManager`).

How one of them gets there is in `moving`.
"""

import logging
import os
import shutil
from collections.abc import Callable, Sequence
from functools import partial

from barnabas.log.directories.directory_names import future_name
from barnabas.log.directories.log_relocation import LogRelocation, find_volume
from barnabas.log.directories.volume import Volume
from barnabas.log.partition import log_loading
from barnabas.log.partition.partition_log import PartitionLog
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.types import Uuid

logger = logging.getLogger(__name__)


class RelocationRegistry:
    """Begins, resumes and ends moves; `get` gives a partition's log, loaded, or None."""

    def __init__(
        self, volumes: Sequence[Volume], get: Callable[[str, int], PartitionLog | None]
    ) -> None:
        self.active: dict[PartitionLog, LogRelocation] = {}
        self._volumes = volumes
        self._get = get
        self._unfinished: list[tuple[Volume, str, tuple[str, int]]] = []

    def found(self, volume: Volume, path: str, key: tuple[str, int]) -> None:
        """The last run left a copy of this partition's log at `path`."""
        self._unfinished.append((volume, path, key))

    def is_active(self, move: LogRelocation) -> bool:
        """Whether it was neither finished nor called off."""
        return self.active.get(move.log) is move

    def begin(self, topic: str, partition: int, path: str) -> LogRelocation | None:
        """Begin to move a log to the data directory at `path`; None if it is there already.

        A move of it to elsewhere ends. Raises KafkaError LOG_DIR_NOT_FOUND, KAFKA_STORAGE_ERROR,
        INVALID_TOPIC_EXCEPTION for a name that is too long, or UNKNOWN_TOPIC_OR_PARTITION when
        there is no such log.
        """
        name = future_name(topic, partition)
        target = find_volume(self._volumes, path)
        log = self._get(topic, partition)
        if log is None:
            raise KafkaError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no log of {topic}-{partition}"
            )
        self.end(self.active.get(log))
        if log.volume is target:
            return None
        try:
            move = self.active[log] = LogRelocation(log, target, f"{target.path}/{name}")
        except OSError as error:
            raise target.fail(error) from error
        return move

    def unfinished(self) -> list[tuple[str, int]]:
        """The partitions of which the last run left a copy on its way."""
        return [key for _, _, key in self._unfinished]

    def take_copy(self, log: PartitionLog, topic_id: Uuid) -> bool:
        """Let the copy of a move that was not finished be the log; whether there is one. OSError.

        The node ended between telling of the move and its last step, and now the old directory is
        not there (`LogManager.recoverAbandonedFutureLogs`, KAFKA-16082).
        """
        for volume, path, key in self._unfinished:
            if key != (log.topic, log.partition) or volume is not log.volume:
                continue
            if log_loading.read_topic_id(path) == topic_id:
                logger.warning("taking the copy of a move for the log copy=%s", path)
                os.rename(path, log.directory)
                self._unfinished.remove((volume, path, key))
                return True
        return False

    def resume(self) -> list[LogRelocation]:
        """Take up the moves that the last run did not finish; the copies have to be compared.

        One of a log that moved or began anew is removed, one without a log is set aside, for it may
        be all there is, and one whose log is offline is left as it is.
        """
        moves: list[LogRelocation] = []
        for volume, path, key in self._unfinished:
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
                    aside = volume.put_aside(path, key, "stray")
                    if aside is not None:
                        logger.warning("a copy has no log copy=%s set_aside=%s", path, aside)
            except KafkaError as error:
                logger.error("cannot resume a move copy=%s error=%s", path, error)
            except OSError as error:
                volume.refused(error)
        self._unfinished.clear()
        return moves

    def end(self, move: LogRelocation | None) -> None:
        """Forget a move, finished or not, and remove what it left.

        It gets another name at once, or a start after a kill would go on with it. A copy stays when
        the log's own directory failed: it may be all that is left.
        """
        if move is None or not self.is_active(move):
            return
        log, target = move.log, move.target
        del self.active[log]
        move.is_stopped = True
        if log.volume.failure is not None or target.failure is not None:
            return
        aside = target.put_aside(move.directory, (log.topic, log.partition), "delete")
        if aside is not None:  # or it is the log's directory now
            target.deletions.add(0, partial(shutil.rmtree, aside, ignore_errors=True))
