"""What a new leader knows is what the former one had written."""

from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.coordinator.classic.group import ClassicGroup
from barnabas.coordinator.settings import GroupSettings
from barnabas.coordinator.shard import GroupShard
from barnabas.protocol.records.groups import (
    GroupMetadataKey,
    GroupMetadataValue,
    LegacyOffsetCommitKey,
    LegacyOffsetCommitValue,
)
from tests.coordinator.harness import Coordinator
from tests.coordinator.simulation import Simulation


def picture(coordinator: Coordinator) -> dict[str, object]:
    return {
        group_id: group.record_value({m.member_id: m.assignment for m in group.members.values()})
        for group_id, group in coordinator.shard._groups.items()
    }


def offsets(coordinator: Coordinator) -> dict[tuple[str, str, int], int]:
    table = coordinator.shard._offsets._committed
    return {(g, t, p): committed.value.offset for g, t, p, committed in table.items()}


@given(st.integers(0, 10_000))
@settings(max_examples=30, derandomize=True, deadline=None)
def test_a_shard_read_from_its_log_equals_the_one_that_wrote_it(seed: int) -> None:
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


def test_of_several_records_of_a_group_the_last_counts() -> None:
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


def test_a_record_without_a_rebalance_timeout_takes_the_session_timeout() -> None:
    group = ClassicGroup("g")
    member = GroupMetadataValue.MemberMetadata(
        member_id="a", session_timeout=7, rebalance_timeout=-1, subscription=b"", assignment=b""
    )
    group.replay(GroupMetadataValue(protocol_type="consumer", protocol="range", members=[member]))
    assert group.members["a"].rebalance_timeout_ms == 7
    assert group.state_name == "Stable"
    assert group.subscribed_topics is None


def test_offsets_of_the_first_format_are_read() -> None:
    coordinator = Coordinator()
    coordinator.shard.replay(
        LegacyOffsetCommitKey(group="g", topic="t", partition=3),
        LegacyOffsetCommitValue(offset=7, metadata="m", commit_timestamp=1),
    )
    assert offsets(coordinator) == {("g", "t", 3): 7}
