"""Made-up records: the same after a restart, at the configured rate and count."""

from collections.abc import Mapping
from typing import Any

import pytest

from barnabas.pipeline.connect.connectors.datagen_source import (
    DatagenSourceConnector,
    DatagenSourceTask,
)
from barnabas.pipeline.data.records import SourceRecord


class Offsets:
    def __init__(self, offset: Mapping[str, Any] | None = None) -> None:
        self._offset = offset

    def offset(self, partition: Mapping[str, Any]) -> dict[str, Any] | None:
        return None if self._offset is None else dict(self._offset)


def records(kind: str, offset: Mapping[str, Any] | None = None) -> list[SourceRecord]:
    props = {"topic": "t", "kind": kind, "rate": "0", "count": "10"}
    (config,) = DatagenSourceConnector().task_configs(props, 1)
    task = DatagenSourceTask()
    task.start(config, Offsets(offset))
    found = task.poll()
    assert task.poll() == []
    return found


@pytest.mark.parametrize("kind", ["orders", "users", "clicks"])
def test_datagen_restart_continues_with_the_same_records(kind: str):
    whole = records(kind)
    assert len(whole) == 10
    for each in whole:
        each.value.validate()
    rest = records(kind, whole[3].source_offset)
    assert [each.value for each in rest] == [each.value for each in whole[4:]]


def test_datagen_tasks_make_different_records():
    configs = DatagenSourceConnector().task_configs({"topic": "t"}, 2)
    assert configs[0] != configs[1]
