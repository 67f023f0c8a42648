"""The state that the records of Connect's topics describe: connectors, tasks, statuses, offsets.

`StoreState` changes by replaying records only, in an active runner and on standby alike.
Task configurations count once their commit record is read, and only if all
are there: compaction or an interrupted writer may leave some of an older generation.
"""

import json
from collections.abc import Mapping
from typing import Final

import attrs

from barnabas.pipeline.jobs.core.job_supervision import TargetState
from barnabas.pipeline.jobs.core.store_records import (
    ActiveTopicRecord,
    CommitRecord,
    ConfigRecord,
    ConnectorRecord,
    FencingRecord,
    JsonObject,
    LoggerRecord,
    OffsetRecord,
    RestartRecord,
    SessionKeyRecord,
    SourceTopicRecord,
    StatusRecord,
    TargetRecord,
    TaskRecord,
)

Properties = Mapping[str, str | None]

_TARGETS: Final = {state.value: state for state in TargetState}


@attrs.define
class ConnectorEntry:
    """One connector: its configuration, tasks and target state."""

    config: Properties
    generation: int
    """How often this process saw the configuration change."""
    target: TargetState = TargetState.STARTED
    tasks: list[Properties] = attrs.Factory(list[Properties])
    """The committed configurations of its tasks."""
    tasks_generation: int = 0
    """The generation of the configuration when its tasks were committed."""
    is_inconsistent: bool = False
    """True when a commit named tasks whose configurations are missing."""


@attrs.define
class ConnectorStatuses:
    """The states of a connector and of its tasks."""

    connector: StatusRecord | None = None
    tasks: dict[int, StatusRecord] = attrs.Factory(dict[int, StatusRecord])


class StoreState:
    """Replays records; other parts read it only."""

    def __init__(self) -> None:
        self.connectors: dict[str, ConnectorEntry] = {}
        self.statuses: dict[str, ConnectorStatuses] = {}
        self.topics: dict[str, dict[str, ActiveTopicRecord]] = {}
        """The active topics of each connector."""
        self.offsets: dict[str, dict[str, OffsetRecord]] = {}
        """The offsets of each source connector, by their partition as sorted JSON."""
        self.source_topics: dict[str, dict[str, str]] = {}
        """The ids of the topics that each job reads, by name."""
        self.fencing: dict[str, int] = {}
        self.loggers: dict[str, str] = {}
        self._targets: dict[str, TargetState] = {}
        self._pending_tasks: dict[str, dict[int, Properties]] = {}
        self._generation = 0

    def replay_config(self, record: ConfigRecord) -> None:
        """Apply a record of the configs topic."""
        match record:
            case ConnectorRecord(connector, properties):
                if properties is None:
                    self.connectors.pop(connector, None)
                else:
                    self._configure(connector, properties)
            case TargetRecord(connector, state):
                self._set_target(connector, state)
            case TaskRecord(connector, task, properties):
                pending = self._pending_tasks.setdefault(connector, {})
                if properties is None:
                    pending.pop(task, None)
                else:
                    pending[task] = properties
            case CommitRecord(connector, tasks):
                self._commit(connector, tasks or 0)
            case FencingRecord(connector, task_count):
                if task_count is None:
                    self.fencing.pop(connector, None)
                else:
                    self.fencing[connector] = task_count
            case LoggerRecord(logger, level):
                if level is not None:
                    self.loggers[logger] = level
            case RestartRecord() | SessionKeyRecord():
                pass  # requests of the moment: the runner acts on new ones, replay has no state

    def _configure(self, connector: str, properties: Properties) -> None:
        self._generation += 1
        entry = self.connectors.get(connector)
        if entry is None:
            target = self._targets.get(connector, TargetState.STARTED)
            self.connectors[connector] = ConnectorEntry(properties, self._generation, target)
        else:
            entry.config, entry.generation = properties, self._generation

    def _set_target(self, connector: str, state: str | None) -> None:
        """An unknown state is ignored, as Java does: a later version may know it."""
        target = TargetState.STARTED if state is None else _TARGETS.get(state)
        if target is None:
            return
        if state is None:
            self._targets.pop(connector, None)
        else:
            self._targets[connector] = target
        if connector in self.connectors:
            self.connectors[connector].target = target

    def _commit(self, connector: str, count: int) -> None:
        pending = self._pending_tasks.get(connector, {})
        entry = self.connectors.get(connector)
        if entry is None:
            return
        entry.is_inconsistent = any(task not in pending for task in range(count))
        if entry.is_inconsistent:
            return
        entry.tasks = [pending[task] for task in range(count)]
        entry.tasks_generation = entry.generation
        self._pending_tasks[connector] = {task: pending[task] for task in range(count)}

    def replay_status(self, record: StatusRecord | ActiveTopicRecord) -> None:
        """Apply a record of the status topic."""
        if isinstance(record, ActiveTopicRecord):
            topics = self.topics.setdefault(record.connector, {})
            if record.task is None:
                topics.pop(record.topic, None)
            else:
                topics[record.topic] = record
            return
        found = self.statuses.setdefault(record.connector, ConnectorStatuses())
        gone = record.state is None
        if record.task is None:
            found.connector = None if gone else record
        elif gone:
            found.tasks.pop(record.task, None)
        else:
            found.tasks[record.task] = record
        if found.connector is None and not found.tasks:
            del self.statuses[record.connector]

    def replay_offset(self, record: OffsetRecord | SourceTopicRecord) -> None:
        """Apply a record of the offsets topic."""
        if isinstance(record, SourceTopicRecord):
            topics = self.source_topics.setdefault(record.connector, {})
            if record.topic_id is None:
                topics.pop(record.topic, None)
            else:
                topics[record.topic] = record.topic_id
            return
        offsets = self.offsets.setdefault(record.connector, {})
        key = partition_key(record.partition)
        if record.offset is None:
            offsets.pop(key, None)
        else:
            offsets[key] = record


def partition_key(partition: JsonObject) -> str:
    """Return a text that is equal for equal partitions, in any order of their fields."""
    return json.dumps(partition, sort_keys=True, separators=(",", ":"))
