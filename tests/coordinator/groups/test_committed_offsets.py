from barnabas.coordinator.groups.group_settings import GroupSettings
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.offset_fetch import OffsetFetchRequest
from barnabas.protocol.records.group_records import OffsetCommitKey, OffsetCommitValue
from barnabas.protocol.types import ZERO_UUID, Uuid
from tests.coordinator.groups.group_harness import Coordinator, commit_request, fetch_request

ONE, OTHER = Uuid(b"1" * 16), Uuid(b"2" * 16)


def commit(coordinator: Coordinator, offset: int, topic_id: Uuid = ZERO_UUID) -> None:
    request = commit_request({("t", 0): offset})
    request.topics[0].topic_id = topic_id
    coordinator.do(
        coordinator.shard.commit_offsets, request, 10, coordinator.now_ms, token="commit"
    )


def fetched(
    coordinator: Coordinator, topic_id: Uuid = ZERO_UUID, *, stable: bool = False
) -> tuple[int, int]:
    topic = OffsetFetchRequest.OffsetFetchRequestTopics(
        name="t", topic_id=topic_id, partition_indexes=[0]
    )
    request = OffsetFetchRequest.OffsetFetchRequestGroup(group_id="g", topics=[topic])
    output = coordinator.shard.fetch_offsets(request, require_stable=stable, token=None)
    partition = output.replies[0].response.topics[0].partitions[0]
    return partition.committed_offset, partition.error_code


def pend(coordinator: Coordinator, offset: int, producer_id: int, record_offset: int) -> None:
    coordinator.shard.replay(
        OffsetCommitKey(group="g", topic="t", partition=0),
        OffsetCommitValue(offset=offset, metadata=""),
        record_offset=record_offset,
        producer_id=producer_id,
    )


def test_offset_fetch_recreated_topic_has_no_offset() -> None:
    coordinator = Coordinator()
    commit(coordinator, 5, ONE)
    assert fetched(coordinator, ONE) == (5, 0)
    assert fetched(coordinator, OTHER) == (-1, 0)
    assert fetched(coordinator) == (5, 0)


def test_deleted_topic_loses_its_offsets_and_its_successor_keeps_them() -> None:
    coordinator = Coordinator()
    commit(coordinator, 5, ONE)
    coordinator.carry_out(coordinator.shard.topics_deleted({"t": OTHER, "u": ONE}))
    assert fetched(coordinator) == (5, 0)
    coordinator.carry_out(coordinator.shard.topics_deleted({"t": ONE}))
    assert fetched(coordinator) == (-1, 0)


def test_offset_fetch_without_topics_returns_all() -> None:
    coordinator = Coordinator()
    request = commit_request({("t", 0): 5, ("t", 1): 6, ("u", 0): 7})
    coordinator.do(coordinator.shard.commit_offsets, request, 9, 0, token=None)
    output = coordinator.shard.fetch_offsets(fetch_request(None), require_stable=True, token=None)
    assert {
        (topic.name, part.partition_index): part.committed_offset
        for topic in output.replies[0].response.topics
        for part in topic.partitions
    } == {("t", 0): 5, ("t", 1): 6, ("u", 0): 7}


def test_offset_metadata_length_is_counted_as_in_java() -> None:
    coordinator = Coordinator(GroupSettings(offset_metadata_max_size=4))
    for metadata, error in [
        ("abcd", ErrorCode.NONE),
        ("abcde", ErrorCode.OFFSET_METADATA_TOO_LARGE),
        ("äöüß", ErrorCode.NONE),
        ("\U0001f600\U0001f600", ErrorCode.NONE),
        ("\U0001f600\U0001f600!", ErrorCode.OFFSET_METADATA_TOO_LARGE),
    ]:
        request = commit_request({("t", 0): 5})
        request.topics[0].partitions[0].committed_metadata = metadata
        response = coordinator.do(coordinator.shard.commit_offsets, request, 9, 0, token="x")
        assert response.topics[0].partitions[0].error_code == error


def test_offset_of_an_open_transaction_is_unstable() -> None:
    coordinator = Coordinator()
    commit(coordinator, 5)
    pend(coordinator, 9, producer_id=1, record_offset=1)
    assert fetched(coordinator) == (5, 0)
    assert fetched(coordinator, stable=True) == (-1, ErrorCode.UNSTABLE_OFFSET_COMMIT)
    coordinator.shard.end_transaction(1, commit=True)
    assert fetched(coordinator, stable=True) == (9, 0)


def test_offset_of_an_aborted_transaction_is_dropped() -> None:
    coordinator = Coordinator()
    commit(coordinator, 5)
    pend(coordinator, 9, producer_id=1, record_offset=1)
    coordinator.shard.end_transaction(1, commit=False)
    assert fetched(coordinator, stable=True) == (5, 0)


def test_offset_committed_after_the_transactions_own_stays() -> None:
    coordinator = Coordinator()
    pend(coordinator, 9, producer_id=1, record_offset=0)
    coordinator.log.append((b"", None))  # the place of the transaction's record
    commit(coordinator, 5)
    coordinator.shard.end_transaction(1, commit=True)
    assert fetched(coordinator) == (5, 0)


def test_deleted_group_loses_its_pending_offsets() -> None:
    coordinator = Coordinator()
    pend(coordinator, 9, producer_id=1, record_offset=0)
    coordinator.do(coordinator.shard.delete_groups, ["g"], token=None)
    coordinator.shard.end_transaction(1, commit=True)
    assert fetched(coordinator) == (-1, 0)
