"""A new leader has the state that the former one wrote, with compaction or without."""

from collections import Counter
from collections.abc import Iterator
from random import Random
from typing import Any

import attrs
from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.coordinator.groups.classic.classic_group import ClassicGroup
from barnabas.coordinator.groups.consumer.consumer_group import ConsumerGroup
from barnabas.coordinator.groups.consumer.subscription_counts import Subscriptions
from barnabas.coordinator.groups.group_settings import GroupSettings
from barnabas.coordinator.groups.group_shard import GroupShard
from barnabas.coordinator.transactions.transaction import NO_EPOCH, Transaction
from barnabas.coordinator.transactions.transaction_shard import TransactionShard
from barnabas.protocol.records.group_records import (
    GroupMetadataKey,
    GroupMetadataValue,
    LegacyOffsetCommitKey,
    LegacyOffsetCommitValue,
    decode_group_record,
)
from barnabas.protocol.records.transaction_records import decode_transaction_record
from tests.coordinator.groups.classic.classic_simulation import Simulation
from tests.coordinator.groups.consumer.consumer_simulation import World
from tests.coordinator.groups.group_harness import Coordinator
from tests.coordinator.transactions import transaction_simulation

Log = list[tuple[bytes, bytes | None]]


def picture(coordinator: Coordinator) -> dict[str, object]:
    return {
        group_id: group.record_value({m.member_id: m.assignment for m in group.members.values()})
        for group_id, group in coordinator.shard._groups.items()
    }


def offsets(coordinator: Coordinator) -> dict[tuple[str, str, int], int]:
    return offsets_of(coordinator.shard)


def offsets_of(shard: GroupShard) -> dict[tuple[str, str, int], int]:
    table = shard._offsets._committed
    return {(g, t, p): committed.value.offset for g, t, p, committed in table.items()}


def consumer_groups(shard: GroupShard) -> dict[str, Any]:
    """Return the state of consumer groups that is in records; times of metadata checks are not."""
    return {
        group_id: plain(vars(group) | {"metadata_epoch": None})
        for group_id, group in shard._groups.items()
        if isinstance(group, ConsumerGroup)
    }


def plain(value: Any) -> Any:
    """Leave out what only shows that an entry existed."""
    if isinstance(value, Subscriptions):
        return plain(vars(value))
    if isinstance(value, Counter):
        counts: Counter[Any] = value
        return {key: count for key, count in counts.items() if count}
    if isinstance(value, dict):
        entries: dict[Any, Any] = value
        return {key: held for key, each in entries.items() if (held := plain(each)) != {}}
    return value


def transactions(shard: TransactionShard) -> dict[str, Transaction]:
    """Return the state that is in records."""
    return {
        name: attrs.evolve(transaction, last_producer_epoch=NO_EPOCH)
        for name, transaction in shard._transactions.items()
    }


def compacted(log: Log, end: int, *, keeps_tombstones: bool) -> Iterator[tuple[int, Any, Any]]:
    """The log with its offsets after the cleaner went over it up to `end`."""
    last = {key: offset for offset, (key, _) in enumerate(log[:end])}
    for offset, (key, value) in enumerate(log):
        is_last = last.get(key) == offset and (keeps_tombstones or value is not None)
        if offset >= end or is_last:
            yield offset, key, value


@given(st.integers(0, 10_000))
@settings(max_examples=30, derandomize=True, deadline=None)
def test_group_shard_replayed_log_gives_the_same_state(seed: int) -> None:
    simulation = Simulation(seed)
    for client in simulation.clients:
        simulation.at(Random(seed).randrange(4_000), client.start)
    simulation.faulty = False
    simulation.run_until(30_000)
    before = simulation.coordinator
    assert [g.state_name for g in before.shard._groups.values()] == ["Stable"]
    written, known = picture(before), offsets(before)
    before.restart()
    assert picture(before) == written
    assert offsets(before) == known


@given(st.integers(0, 10_000), st.integers(30_000, 120_000), st.floats(0, 1), st.booleans())
@settings(max_examples=60, derandomize=True, deadline=None)
def test_consumer_group_replayed_log_gives_the_same_state(
    seed: int, until_ms: int, cleaned: float, keeps_tombstones: bool
) -> None:
    world = World(seed)
    for client in world.clients:
        world.at(world.random.randrange(10_000), client.start)
    world.at(5_000, world.fault)
    world.run_until(until_ms)
    before, log = world.coordinator.shard, world.coordinator.log
    shard = GroupShard(world.coordinator.settings)
    end = int(cleaned * len(log))
    for offset, key, value in compacted(log, end, keeps_tombstones=keeps_tombstones):
        shard.replay(*decode_group_record(key, value), record_offset=offset)
    assert consumer_groups(shard) == consumer_groups(before)
    assert offsets_of(shard) == offsets_of(before)


@given(st.integers(0, 10_000), st.integers(5_000, 60_000), st.floats(0, 1))
@settings(max_examples=60, derandomize=True, deadline=None)
def test_transactions_replayed_log_gives_the_same_state(
    seed: int, until_ms: int, cleaned: float
) -> None:
    simulation = transaction_simulation.Simulation(seed)
    for name in ("a", "b"):
        simulation.start(name, 0)
    simulation.at(2_000, simulation.fault)
    simulation.run_until(until_ms)
    coordinator = simulation.coordinator
    shard = TransactionShard(coordinator.settings, lambda: coordinator.transaction_version)
    end = int(cleaned * len(coordinator.log))
    for _, key, value in compacted(coordinator.log, end, keeps_tombstones=False):
        shard.replay(*decode_transaction_record(key, value))
    assert transactions(shard) == transactions(coordinator.shard)


def test_group_shard_last_record_of_a_group_wins() -> None:
    shard = GroupShard(GroupSettings())
    pictures = [
        GroupMetadataValue(
            protocol_type="consumer",
            generation=generation,
            protocol=protocol,
            leader="a",
            members=[
                GroupMetadataValue.MemberMetadata(
                    member_id="a",
                    client_host=f"/127.0.0.{generation}",
                    session_timeout=generation,
                    rebalance_timeout=generation,
                    subscription=protocol.encode(),
                )
            ],
        )
        for generation, protocol in enumerate(["range", "cooperative-sticky"], 1)
    ]
    for value in pictures:
        shard.replay(GroupMetadataKey(group="g"), value)
    shard.loaded(0)
    assert shard._groups["g"].record_value({}) == pictures[-1]


def test_group_record_without_a_rebalance_timeout_uses_the_session_timeout() -> None:
    group = ClassicGroup("g")
    member = GroupMetadataValue.MemberMetadata(
        member_id="a", session_timeout=7, rebalance_timeout=-1, subscription=b"", assignment=b""
    )
    group.replay(GroupMetadataValue(protocol_type="consumer", protocol="range", members=[member]))
    assert group.members["a"].rebalance_timeout_ms == 7
    assert group.state_name == "Stable"
    assert group.subscribed_topics is None


def test_offset_record_of_the_first_format_is_read() -> None:
    coordinator = Coordinator()
    coordinator.shard.replay(
        LegacyOffsetCommitKey(group="g", topic="t", partition=3),
        LegacyOffsetCommitValue(offset=7, metadata="m", commit_timestamp=1),
    )
    assert offsets(coordinator) == {("g", "t", 3): 7}
