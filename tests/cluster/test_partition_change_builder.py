"""The change of one partition, for each kind of change; the expected records are Kafka's.

With Kafka 4.3's `PartitionChangeBuilderTest` as the source of the cases.
"""

from collections.abc import Callable
from typing import Any

import attrs
import pytest

from barnabas.cluster.controller.partition_change_builder import (
    RECOVERED,
    RECOVERING,
    Election,
    ElectionRules,
    PartitionChangeBuilder,
)
from barnabas.cluster.metadata.delta import MetadataDelta
from barnabas.cluster.metadata.image import (
    DIRECTORY_LOST,
    DIRECTORY_UNASSIGNED,
    MetadataImage,
    PartitionImage,
)
from barnabas.protocol.records.metadata_records import (
    PartitionChangeRecord,
    PartitionRecord,
    TopicRecord,
)
from tests.cluster.states import uuid

TOPIC = uuid(1)
# metadata.version 3.3, 3.5, 3.6, 3.7-IV2 and 4.0.
OLDEST, SHRINK_BUMPS, SHRINK_KEEPS, WITH_DIRECTORIES, WITH_ELR = 7, 11, 12, 17, 23
DIRECTORIES = {1: uuid(101), 2: uuid(102), 3: uuid(103)}


def state(replicas: list[int], isr: list[int], leader: int, **fields: Any) -> PartitionImage:
    return PartitionImage(
        replicas=tuple(replicas),
        directories=tuple(DIRECTORIES.get(each, DIRECTORY_UNASSIGNED) for each in replicas),
        isr=tuple(isr),
        leader=leader,
        leader_epoch=100,
        partition_epoch=200,
        **fields,
    )


FOO = state([2, 1, 3], [2, 1, 3], 1)
BAR = state([1, 2, 3, 4], [1, 2, 3], 1, removing_replicas=(1,), adding_replicas=(4,))
BAZ = state([2, 1, 3], [1, 3], 3)


def build(
    partition: PartitionImage,
    accepts: Callable[[int], bool],
    *,
    version: int = WITH_ELR,
    election: Election = Election.ONLINE,
    min_isr: int = 2,
    **wanted: Any,
) -> PartitionChangeRecord | None:
    rules = ElectionRules(
        accepts=accepts,
        min_isr=min_isr,
        has_elr=version >= WITH_ELR,
        metadata_version=version,
        new_directory=lambda _: DIRECTORY_UNASSIGNED,
        election=election,
    )
    builder = PartitionChangeBuilder.of(partition, rules)
    for name, value in wanted.items():
        setattr(builder, name, value)
    return builder.build(TOPIC, 0)


def change(**fields: Any) -> PartitionChangeRecord:
    return PartitionChangeRecord(topic_id=TOPIC, partition_id=0, **fields)


def merged(partition: PartitionImage, record: PartitionChangeRecord | None) -> PartitionImage:
    """Return the partition after the record, as every node replays it."""
    assert record is not None
    first = PartitionRecord(partition_id=0, topic_id=TOPIC, replicas=list(partition.replicas))
    delta = MetadataDelta(MetadataImage())
    delta.replay(TopicRecord(name="t", topic_id=TOPIC))
    delta.replay(first)
    delta.topics[TOPIC].changed[0] = partition
    delta.replay(record)
    return delta.topics[TOPIC].partition(0)


def all_but(*ids: int) -> Callable[[int], bool]:
    return lambda broker_id: broker_id not in ids


def leader_after(partition: PartitionImage, record: PartitionChangeRecord | None) -> int:
    return partition.leader if record is None or record.leader == -2 else record.leader


@pytest.mark.parametrize("version", [OLDEST, WITH_DIRECTORIES])
@pytest.mark.parametrize(
    ("election", "isr", "replicas", "leader", "unclean"),
    [
        (Election.PREFERRED, [2, 1, 3], [2, 1, 3], 2, False),
        (Election.ONLINE, [2, 1, 3], [2, 1, 3], 1, False),
        (Election.UNCLEAN, [2, 1, 3], [2, 1, 3], 1, False),
        (Election.ONLINE, [1, 3], [2, 1, 3], 1, False),
        (Election.UNCLEAN, [1, 3], [2, 1, 3], 1, False),
        (Election.ONLINE, [3], [2, 1, 3], -1, False),
        (Election.UNCLEAN, [3], [2, 1, 3], 2, True),
        (Election.UNCLEAN, [4], [2, 1, 3, 4], 4, False),
    ],
)
def test_election_elects_in_kafkas_order(
    version: int,
    election: Election,
    isr: list[int],
    replicas: list[int],
    leader: int,
    unclean: bool,
) -> None:
    record = build(FOO, all_but(3), version=version, election=election, isr=isr, replicas=replicas)
    assert leader_after(FOO, record) == leader
    assert (record is not None and record.leader_recovery_state == RECOVERING) == unclean


@pytest.mark.parametrize("version", [OLDEST, WITH_DIRECTORIES, WITH_ELR])
def test_build_without_a_change_returns_none(version: int) -> None:
    for election in (Election.ONLINE, Election.UNCLEAN):
        assert build(FOO, all_but(3), version=version, election=election) is None
        assert build(BAR, all_but(3), version=version, election=election) is None
        assert build(BAZ, all_but(), version=version, election=election) is None
    assert build(BAZ, all_but(), version=version, election=Election.PREFERRED) is None


@pytest.mark.parametrize(
    ("version", "isr", "leader"),
    [
        (SHRINK_BUMPS, [2, 1], 1),
        (SHRINK_KEEPS, [2, 1], -2),
        (WITH_ELR, [2, 1], -2),
        (SHRINK_BUMPS, [2, 1, 3], -2),
    ],
)
def test_smaller_isr_starts_a_leader_epoch_before_3_6_only(
    version: int, isr: list[int], leader: int
) -> None:
    record = build(FOO, all_but(3), version=version, isr=isr)
    assert leader == (-2 if record is None else record.leader)


@pytest.mark.parametrize("version", [SHRINK_BUMPS, SHRINK_KEEPS, WITH_DIRECTORIES, WITH_ELR])
def test_removed_replica_starts_a_leader_epoch(version: int) -> None:
    """Planted once: a removed replica counted in the epoch that it knew."""
    record = build(FOO, all_but(3), version=version, replicas=[2, 1, 4])
    assert record is not None
    assert record.leader == 1


def test_isr_change_that_loses_the_leader_elects_another() -> None:
    assert build(FOO, all_but(3), isr=[2, 3]) == change(isr=[2, 3], leader=2)


@pytest.mark.parametrize("version", [OLDEST, WITH_DIRECTORIES])
def test_reordered_replicas_take_their_directories_along(version: int) -> None:
    expected = change(replicas=[3, 2, 1])
    if version >= WITH_DIRECTORIES:
        expected.directories = [uuid(103), uuid(102), uuid(101)]
    assert build(FOO, all_but(3), version=version, replicas=[3, 2, 1]) == expected


def test_isr_with_all_added_replicas_completes_the_reassignment() -> None:
    assert build(BAR, all_but(3), isr=[1, 2, 3, 4]) == change(
        replicas=[2, 3, 4],
        directories=[uuid(102), uuid(103), DIRECTORY_UNASSIGNED],
        isr=[2, 3, 4],
        leader=2,
        removing_replicas=[],
        adding_replicas=[],
    )


@pytest.mark.parametrize("isr", [[1, 2], [1, 2, 3]])
def test_isr_without_an_added_replica_does_not_complete_the_reassignment(isr: list[int]) -> None:
    """Planted once: a reassignment completed without all added replicas."""
    wide = attrs.evolve(BAR, adding_replicas=(4, 5), replicas=(1, 2, 3, 4, 5))
    record = build(wide, all_but(), isr=[*isr, 4])
    assert record is not None
    assert (record.replicas, record.adding_replicas, record.leader) == (None, None, -2)


def test_reassignment_to_fewer_replicas_waits_for_all_of_them() -> None:
    smaller = state(
        [2, 3, 4, 5, 0, 1], [0, 1, 5], 0, adding_replicas=(5,), removing_replicas=(0, 1)
    )
    assert build(smaller, all_but()) is None
    record = build(smaller, all_but(), isr=[0, 1, 2, 3, 4, 5])
    assert record is not None
    assert (record.replicas, record.isr, record.leader) == ([2, 3, 4, 5], [2, 3, 4, 5], 2)


def test_reverted_reassignment_keeps_the_leader_in_a_new_epoch() -> None:
    assert build(
        BAR, all_but(3), replicas=[1, 2, 3], isr=[1, 2, 3], removing=[], adding=[]
    ) == change(
        replicas=[1, 2, 3],
        directories=[uuid(101), uuid(102), uuid(103)],
        leader=1,
        removing_replicas=[],
        adding_replicas=[],
    )


def test_reassignment_that_only_removes_completes_at_once() -> None:
    assert build(FOO, all_but(3), replicas=[1, 2, 3], removing=[3]) == change(
        replicas=[1, 2], directories=[uuid(101), uuid(102)], isr=[2, 1], leader=1
    )


def test_reassignment_that_adds_waits_for_the_isr() -> None:
    assert build(FOO, all_but(3), replicas=[1, 2, 3, 4], adding=[4]) == change(
        replicas=[1, 2, 3, 4],
        directories=[uuid(101), uuid(102), uuid(103), DIRECTORY_UNASSIGNED],
        adding_replicas=[4],
    )


def test_new_directories_of_replicas_are_recorded() -> None:
    directories = {3: uuid(9), 1: DIRECTORY_LOST}
    assert build(FOO, all_but(), directories=directories) == change(
        directories=[uuid(102), DIRECTORY_LOST, uuid(9)]
    )
    assert build(FOO, all_but(), version=OLDEST, directories=directories) is None


def test_unclean_election_leaves_only_the_leader_in_sync_and_recovering() -> None:
    record = build(FOO, all_but(3), election=Election.UNCLEAN, isr=[3], min_isr=1)
    assert record == change(isr=[2], leader=2, leader_recovery_state=RECOVERING)


@pytest.mark.parametrize("isr", [[], [2]])
def test_unclean_election_clears_the_eligible_replicas(isr: list[int]) -> None:
    """Planted once: the ELR kept replicas that lack what the new leader accepts."""
    offline = state([2, 1, 3], [], -1, elr=(3,), last_known_elr=(2,))
    record = build(offline, lambda each: each == 1, election=Election.UNCLEAN, isr=isr)
    assert record == change(
        isr=[1],
        leader=1,
        leader_recovery_state=RECOVERING,
        eligible_leader_replicas=[],
        last_known_elr=[],
    )


def test_clean_election_keeps_the_recovery_state() -> None:
    recovering = state([1, 2, 3], [1], 1, leader_recovery_state=RECOVERING)
    record = build(recovering, all_but(1, 2, 3), version=OLDEST, isr=[])
    assert record == change(leader=-1)
    offline = merged(recovering, record)
    assert (offline.isr, offline.leader_recovery_state) == ((1,), RECOVERING)
    assert build(offline, all_but(), version=OLDEST) == change(leader=1)
    assert build(recovering, all_but(), recovery_state=RECOVERED, min_isr=1) == change(
        leader_recovery_state=RECOVERED
    )


def test_last_in_sync_replica_stays_in_the_isr_without_elr() -> None:
    """Planted once: the last in-sync replica was dropped with ELR off."""
    record = build(state([1, 2], [1], 1), all_but(1), version=WITH_DIRECTORIES, isr=[])
    assert record == change(leader=-1)


def test_replicas_that_leave_a_small_isr_become_eligible() -> None:
    four = state([1, 2, 3, 4], [1, 2, 3, 4], 1)
    shrunk = merged(four, build(four, all_but(), min_isr=3, isr=[1, 2]))
    assert (shrunk.isr, shrunk.elr) == ((1, 2), (3, 4))
    grown = merged(shrunk, build(shrunk, all_but(), min_isr=3, isr=[1, 2, 3]))
    assert (grown.isr, grown.elr) == ((1, 2, 3), ())
    enough = merged(four, build(four, all_but(), min_isr=3, isr=[1, 2, 3]))
    assert enough.elr == ()


def test_replica_after_an_unclean_shutdown_is_not_eligible() -> None:
    """Planted once: a broker that lost its page cache stayed in the ELR."""
    partition = state([1, 2, 3, 4], [1], 1, elr=(2, 3))
    assert build(partition, all_but(), min_isr=3, unclean_shutdown=(3,)) == change(
        eligible_leader_replicas=[2]
    )


def test_eligible_replica_is_elected_from_an_empty_isr() -> None:
    partition = state([1, 2, 3, 4], [1], 1, elr=(3,))
    record = build(partition, all_but(1), election=Election.PREFERRED, min_isr=3, isr=[])
    assert record == change(isr=[3], eligible_leader_replicas=[1], leader=3)


def test_isr_becomes_empty_with_elr_and_the_last_leader_is_remembered() -> None:
    partition = state([1, 2, 3, 4], [1, 2, 3, 4], 1)
    record = build(partition, all_but(1, 2, 3, 4), min_isr=3, isr=[])
    assert record == change(
        isr=[], leader=-1, eligible_leader_replicas=[1, 2, 3, 4], last_known_elr=[1]
    )
    offline = merged(partition, record)
    again = build(offline, all_but(1, 2, 3, 4), min_isr=3, unclean_shutdown=(2,))
    assert again == change(eligible_leader_replicas=[1, 3, 4])


def test_last_known_leader_is_elected_uncleanly_without_eligible_replicas() -> None:
    offline = state([1, 2, 3, 4], [], -1, last_known_elr=(1,))
    elected = change(isr=[1], leader=1, leader_recovery_state=RECOVERING, last_known_elr=[])
    for election in Election:
        assert build(offline, all_but(), min_isr=3, election=election) == elected


def test_last_known_leader_is_not_elected_while_another_is_eligible_or_when_it_is_away() -> None:
    eligible = state([1, 2, 3, 4], [], -1, elr=(3,), last_known_elr=(1,))
    assert build(eligible, all_but(3), min_isr=3, election=Election.PREFERRED) is None
    offline = state([1, 2, 3, 4], [], -1, last_known_elr=(1,))
    for election in Election:
        assert build(offline, all_but(1, 2, 3, 4), min_isr=3, election=election) is None
    several = state([1, 2, 3, 4], [], -1, last_known_elr=(1, 2))
    assert build(several, all_but(), min_isr=3) is None


def test_partition_without_leader_has_no_last_known_leader_of_minus_one() -> None:
    """A reassignment of a leaderless partition; Kafka records -1 there."""
    offline = state([1, 2], [], -1)
    record = build(offline, all_but(1, 2), replicas=[2, 1], min_isr=1)
    assert record is not None
    assert record.last_known_elr is None
    replaced = build(offline, all_but(1, 2), replicas=[2], min_isr=1)
    assert replaced is not None
    assert (replaced.leader, replaced.last_known_elr) == (-1, None)
