"""Random administration keeps the invariants, and the simulation finds planted mistakes."""

from typing import Any

import pytest

from barnabas.cluster.metadata import delta as replaying
from barnabas.cluster.metadata.delta import MetadataDelta
from barnabas.protocol.messages_base import Message
from barnabas.protocol.records.metadata_records import ConfigRecord, RemoveTopicRecord
from tests.cluster import admin_simulation
from tests.cluster.admin_simulation import encode_at


@pytest.mark.parametrize("first", range(0, 12, 4))
def test_random_administration_keeps_the_invariants(first: int) -> None:
    for seed in range(first, first + 4):
        try:
            admin_simulation.run(seed)
        except AssertionError as error:
            raise AssertionError(f"seed {seed}") from error


def test_simulation_finds_the_configuration_of_a_deleted_topic(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    replay: Any = replaying._REPLAY[RemoveTopicRecord]

    def keep(delta: MetadataDelta, record: Message) -> None:
        configs = dict(delta.configs)
        replay(delta, record)
        delta.configs = configs

    monkeypatch.setitem(replaying._REPLAY, RemoveTopicRecord, keep)
    with pytest.raises(AssertionError, match="CF: of b"):
        admin_simulation.run(8)


def test_simulation_finds_records_whose_bytes_say_something_else(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def other(record: Message, level: int) -> bytes:
        if isinstance(record, ConfigRecord):
            record.value = "1"
        return encode_at(record, level)

    monkeypatch.setattr(admin_simulation, "encode_at", other)
    with pytest.raises(AssertionError, match="RP: the records give another image"):
        admin_simulation.run(0)
