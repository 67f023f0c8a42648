"""CreateTopics, DeleteTopics and CreatePartitions: records, errors and responses."""

import pytest

from barnabas.cluster.metadata.topic_names import refusal
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.messages.create_partitions import CreatePartitionsRequest
from barnabas.protocol.messages.create_topics import CreateTopicsRequest
from barnabas.protocol.messages.delete_topics import DeleteTopicsRequest
from barnabas.protocol.types import ZERO_UUID, Uuid
from tests.cluster.states import Cluster, uuid

Creatable = CreateTopicsRequest.CreatableTopic
Assignment = CreateTopicsRequest.CreatableReplicaAssignment


def manual(cluster: Cluster, *replicas: list[int], **fields: int) -> tuple[ErrorCode, str | None]:
    topic = Creatable(
        name="manual",
        num_partitions=fields.get("num_partitions", -1),
        replication_factor=fields.get("replication_factor", -1),
        assignments=[
            Assignment(partition_index=number, broker_ids=brokers)
            for number, brokers in enumerate(replicas)
        ],
    )
    request = CreateTopicsRequest(topics=[topic])
    (result,) = cluster.take(cluster.controller.create_topics(request)).topics
    return ErrorCode(result.error_code), result.error_message


def grow(
    cluster: Cluster, name: str, count: int, assignments: list[list[int]] | None = None
) -> tuple[ErrorCode, str | None]:
    item = CreatePartitionsRequest.CreatePartitionsAssignment
    topic = CreatePartitionsRequest.CreatePartitionsTopic(
        name=name,
        count=count,
        assignments=None if assignments is None else [item(broker_ids=ids) for ids in assignments],
    )
    request = CreatePartitionsRequest(topics=[topic])
    (result,) = cluster.take(cluster.controller.create_partitions(request)).results
    return ErrorCode(result.error_code), result.error_message


def delete(
    cluster: Cluster, *topics: tuple[str | None, Uuid], version: int = 6
) -> list[tuple[str | None, ErrorCode, str | None]]:
    state = DeleteTopicsRequest.DeleteTopicState
    request = DeleteTopicsRequest(topics=[state(name=n, topic_id=i) for n, i in topics])
    answer = cluster.take(cluster.controller.delete_topics(request, version))
    return [(r.name, ErrorCode(r.error_code), r.error_message) for r in answer.responses]


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("", "Topic name is invalid: the empty string is not allowed"),
        (".", "Topic name is invalid: '.' is not allowed"),
        ("..", "Topic name is invalid: '..' is not allowed"),
        (
            "a b",
            "Topic name is invalid: 'a b' contains one or more characters other than ASCII "
            "alphanumerics, '.', '_' and '-'",
        ),
        (
            "x" * 250,
            f"Topic name is invalid: the length of '{'x' * 250}' is longer than the max allowed "
            "length 249",
        ),
    ],
)
def test_create_topics_invalid_name_is_refused_as_by_kafka(name: str, reason: str) -> None:
    result = Cluster().create(name)
    assert (result.error_code, result.error_message) == (17, reason)


@pytest.mark.parametrize("name", ["a", "x" * 249, "...", "_.-9Z"])
def test_create_topics_valid_name_is_accepted(name: str) -> None:
    assert refusal(name) is None


def test_create_topics_records_replay_into_the_image() -> None:
    cluster = Cluster(brokers=1)
    result = cluster.create("events", partitions=3, retention_ms="1000")
    topic = cluster.image.topics_by_name["events"]
    assert (result.error_code, result.num_partitions, result.replication_factor) == (0, 3, 1)
    assert topic.id == result.topic_id
    assert cluster.image.topics_by_id[topic.id] is topic
    assert cluster.image.topic_config("events") == {"retention.ms": "1000"}
    partition = topic.partitions[2]
    assert (partition.replicas, partition.isr, partition.leader) == ((1,), (1,), 1)
    assert (partition.leader_epoch, partition.partition_epoch) == (0, 0)
    assert partition.directories == (uuid(501),)


def test_create_topics_response_has_all_properties_and_sources() -> None:
    configs = Cluster().create("events", retention_ms="1000").configs
    assert configs is not None
    told = {config.name: (config.value, config.config_source) for config in configs}
    assert told["retention.ms"] == ("1000", 1)
    assert told["cleanup.policy"] == ("delete", 5)


def test_create_topics_existing_topic_is_refused() -> None:
    cluster = Cluster()
    cluster.create("ok")
    result = cluster.create("ok")
    assert (result.error_code, result.error_message) == (36, "Topic 'ok' already exists.")


def test_create_topics_colliding_name_is_refused() -> None:
    cluster = Cluster()
    cluster.create("a.b")
    result = cluster.create("a_b")
    assert result.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert result.error_message == "Topic 'a_b' collides with existing topic: a.b"


def test_create_topics_new_topics_of_one_request_may_collide() -> None:
    cluster = Cluster()
    topics = [Creatable(name=n, num_partitions=1, replication_factor=1) for n in ("a.b", "a_b")]
    answer = cluster.take(cluster.controller.create_topics(CreateTopicsRequest(topics=topics)))
    assert [topic.error_code for topic in answer.topics] == [0, 0]
    assert cluster.create("a-b_c").error_code == cluster.create("a-b.c.d").error_code == 0
    assert cluster.create("a.b").error_code == ErrorCode.TOPIC_ALREADY_EXISTS


@pytest.mark.parametrize(
    ("partitions", "configs", "fits"), [(9_999, 0, True), (9_998, 1, True), (9_999, 1, False)]
)
def test_create_topics_above_ten_thousand_records_is_refused(
    partitions: int, configs: int, fits: bool
) -> None:
    cluster = Cluster()
    config = CreateTopicsRequest.CreatableTopicConfig(name="retention.ms", value="5")
    large = Creatable(
        name="a", num_partitions=partitions, replication_factor=1, configs=[config] * configs
    )
    request = CreateTopicsRequest(topics=[large], validate_only=True)
    if fits:
        assert not cluster.controller.create_topics(request).response.topics[0].error_code
        return
    with pytest.raises(KafkaError, match="excessively large batch operation") as refused:
        cluster.controller.create_topics(request)
    assert refused.value.code is ErrorCode.POLICY_VIOLATION


def test_create_topics_duplicates_are_answered_last_and_not_counted() -> None:
    cluster = Cluster()
    topics = [
        Creatable(name=name, num_partitions=count, replication_factor=1)
        for name, count in (("b", 5_000), ("a", 9_999), ("b", 5_000))
    ]
    answer = cluster.take(cluster.controller.create_topics(CreateTopicsRequest(topics=topics)))
    assert [(t.name, t.error_code) for t in answer.topics] == [("a", 0), ("b", 42)]


def test_create_topics_duplicate_name_is_refused_once() -> None:
    cluster = Cluster()
    topics = [Creatable(name="a", num_partitions=1, replication_factor=1) for _ in range(2)]
    answer = cluster.take(cluster.controller.create_topics(CreateTopicsRequest(topics=topics)))
    told = [(topic.error_code, topic.error_message) for topic in answer.topics]
    assert told == [(42, "Duplicate topic name.")]
    assert "a" not in cluster.image.topics_by_name


@pytest.mark.parametrize(
    ("partitions", "replicas", "code", "message"),
    [
        (1, 3, 38, "Unable to replicate the partition 3 time(s): The target replication factor of "
         "3 cannot be reached because only 1 broker(s) are registered or some brokers have all "
         "their log directories cordoned."),
        (1, 0, 38, "Replication factor must be larger than 0, or -1 to use the default value."),
        (0, 1, 37, "Number of partitions was set to an invalid non-positive value."),
        (-2, 1, 37, "Number of partitions was set to an invalid non-positive value."),
    ],
)  # fmt: skip
def test_create_topics_invalid_sizes_are_refused(
    partitions: int, replicas: int, code: int, message: str
) -> None:
    result = Cluster().create("t", partitions, replicas)
    assert (result.error_code, result.error_message) == (code, message)


@pytest.mark.parametrize("counts", [(2**31 - 1,), (6000, 4001), (10_000, -1)])
def test_create_topics_too_many_partitions_refuse_the_request(counts: tuple[int, ...]) -> None:
    topics = [
        Creatable(name=f"t{number}", num_partitions=count, replication_factor=1)
        for number, count in enumerate(counts)
    ]
    with pytest.raises(KafkaError, match="Excessively large number") as refused:
        Cluster().controller.create_topics(CreateTopicsRequest(topics=topics))
    assert refused.value.code is ErrorCode.POLICY_VIOLATION


def test_create_topics_metadata_topic_is_refused() -> None:
    result = Cluster().create("__cluster_metadata")
    assert (result.error_code, result.error_message) == (
        42,
        "Creation of internal topic __cluster_metadata is prohibited.",
    )


def test_create_topics_response_has_values_as_they_were_given() -> None:
    result = Cluster().create("t", retention_ms=" +5 ")
    assert {config.name: config.value for config in result.configs}["retention.ms"] == " +5 "


def test_create_topics_minus_one_uses_the_defaults() -> None:
    result = Cluster(num_partitions="4").create("t", -1, -1)
    assert (result.num_partitions, result.replication_factor) == (4, 1)


def test_create_topics_invalid_property_is_refused() -> None:
    result = Cluster().create("t", nope="1")
    assert (result.error_code, result.error_message) == (40, "Unknown topic config name: nope")


def test_create_topics_validate_only_writes_no_record() -> None:
    cluster = Cluster()
    topic = Creatable(name="t", num_partitions=2, replication_factor=1)
    request = CreateTopicsRequest(topics=[topic], validate_only=True)
    result = cluster.controller.create_topics(request)
    assert result.records == []
    (answer,) = result.response.topics
    assert (answer.error_code, answer.num_partitions) == (0, 2)
    assert answer.topic_id != ZERO_UUID  # unused, but Kafka returns one


def test_create_topics_manual_assignment_is_used() -> None:
    cluster = Cluster(brokers=3)
    assert manual(cluster, [3, 1], [2, 3]) == (ErrorCode.NONE, None)
    partitions = cluster.image.topics_by_name["manual"].partitions
    assert [partitions[n].replicas for n in range(2)] == [(3, 1), (2, 3)]
    assert [partitions[n].leader for n in range(2)] == [3, 2]


@pytest.mark.parametrize(
    ("replicas", "message"),
    [
        ([[1], [7]], "The manual partition assignment includes broker 7, but no such broker is "
         "registered."),
        ([[1, 1]], "The manual partition assignment includes the broker 1 more than once."),
        ([[]], "The manual partition assignment includes an empty replica list."),
        ([[1], [1, 2]], "The manual partition assignment includes a partition with 2 replica(s), "
         "but this is not consistent with previous partitions, which have 1 replica(s)."),
    ],
)  # fmt: skip
def test_create_topics_invalid_manual_assignment_is_refused(
    replicas: list[list[int]], message: str
) -> None:
    code, text = manual(Cluster(brokers=2), *replicas)
    assert (code, text) == (ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)


def test_create_topics_manual_assignment_with_counts_is_refused() -> None:
    code, _ = manual(Cluster(), [1], num_partitions=1)
    assert code is ErrorCode.INVALID_REQUEST
    code, _ = manual(Cluster(), [1], replication_factor=1)
    assert code is ErrorCode.INVALID_REQUEST


def test_create_topics_spreads_replicas_over_racks() -> None:
    cluster = Cluster(brokers=6, racks=3)
    cluster.create("t", partitions=12, replicas=3)
    racks = {broker.id: broker.rack for broker in cluster.image.brokers.values()}
    partitions = cluster.image.topics_by_name["t"].partitions.values()
    assert all(len({racks[r] for r in partition.replicas}) == 3 for partition in partitions)
    leaders = [partition.leader for partition in partitions]
    assert {leaders.count(broker) for broker in racks} == {2}


def test_create_topics_fenced_brokers_are_not_in_sync() -> None:
    cluster = Cluster(brokers=2)
    cluster.add_broker(3, fenced=True)
    cluster.create("t", partitions=6, replicas=3)
    for partition in cluster.image.topics_by_name["t"].partitions.values():
        assert partition.replicas[-1] == 3
        assert set(partition.isr) == {1, 2}


def test_delete_topics_deletes_the_configuration() -> None:
    cluster = Cluster()
    created = cluster.create("t", retention_ms="5")
    assert delete(cluster, ("t", ZERO_UUID)) == [("t", ErrorCode.NONE, None)]
    assert cluster.image.topics_by_name == cluster.image.topics_by_id == {}
    assert cluster.image.configs == {}
    assert cluster.deltas[-1].deleted_topics[created.topic_id].name == "t"


def test_delete_topics_by_id_deletes_or_is_refused() -> None:
    cluster = Cluster()
    created = cluster.create("t")
    answers = delete(
        cluster,
        (None, created.topic_id),
        (None, uuid(9)),
        ("none", ZERO_UUID),
        (None, ZERO_UUID),
        (None, ZERO_UUID),
        ("t", uuid(9)),
    )
    neither = (None, ErrorCode.INVALID_REQUEST, "Neither topic name nor id were specified.")
    assert answers == [
        neither,
        neither,
        ("t", ErrorCode.INVALID_REQUEST, "You may not specify both topic name and topic id."),
        (None, ErrorCode.UNKNOWN_TOPIC_ID, "This server does not host this topic ID."),
        (
            "none",
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            "This server does not host this topic-partition.",
        ),
        ("t", ErrorCode.NONE, None),
    ]


def test_delete_topics_duplicate_topic_is_not_deleted() -> None:
    cluster = Cluster()
    by_name, by_id = ("t", ZERO_UUID), (None, cluster.create("t").topic_id)
    invalid = ErrorCode.INVALID_REQUEST
    assert delete(cluster, by_name, by_name) == [("t", invalid, "Duplicate topic name.")]
    assert delete(cluster, by_id, by_id) == [(None, invalid, "Duplicate topic id.")]
    both = "The provided topic name maps to an ID that was already supplied."
    assert delete(cluster, by_name, by_id) == [("t", invalid, both)]
    assert delete(cluster, by_id, by_name) == [("t", invalid, both)]
    assert "t" in cluster.image.topics_by_name


def test_create_partitions_adds_after_the_existing_ones() -> None:
    cluster = Cluster()
    cluster.create("t", 1)
    assert grow(cluster, "t", 3) == (ErrorCode.NONE, None)
    assert sorted(cluster.image.topics_by_name["t"].partitions) == [0, 1, 2]
    assert set(cluster.deltas[-1].topics[cluster.image.topics_by_name["t"].id].changed) == {1, 2}


def test_create_partitions_invalid_count_is_refused() -> None:
    cluster = Cluster()
    cluster.create("ok", 3)
    refusals = {
        grow(cluster, "ok", 3): (37, "Topic already has 3 partition(s)."),
        grow(cluster, "ok", 2): (
            37,
            "The topic ok currently has 3 partition(s); 2 would not be an increase.",
        ),
        grow(cluster, "none", 2): (3, None),
        grow(cluster, "ok", 5, [[1]]): (
            39,
            "Attempted to add 2 additional partition(s), but only 1 assignment(s) were specified.",
        ),
        grow(cluster, "ok", 4, [[9]]): (
            39,
            "The manual partition assignment includes broker 9, but no such broker is registered.",
        ),
    }
    for answered, expected in refusals.items():
        assert answered == expected


class Tokens:
    """A quota that allows a number of partitions."""

    def __init__(self, left: int) -> None:
        self.left = left
        self.asked: list[int] = []

    def __call__(self, partitions: int) -> None:
        self.asked.append(partitions)
        if self.left <= 0:
            raise KafkaError(ErrorCode.THROTTLING_QUOTA_EXCEEDED, "exceeded")
        self.left -= partitions


EXCEEDED = (ErrorCode.THROTTLING_QUOTA_EXCEEDED, "exceeded")


def test_topics_above_the_quota_of_their_client_are_not_created() -> None:
    cluster = Cluster()
    cluster.controller.charge = quota = Tokens(5)
    names = {"a": 3, "no/name": 1, "b": 4, "c": 1}
    topics = [Creatable(name=n, num_partitions=p, replication_factor=1) for n, p in names.items()]
    answer = cluster.take(cluster.controller.create_topics(CreateTopicsRequest(topics=topics)))
    codes = {each.name: ErrorCode(each.error_code) for each in answer.topics}
    invalid = ErrorCode.INVALID_TOPIC_EXCEPTION
    assert codes == {"a": 0, "no/name": invalid, "b": 0, "c": EXCEEDED[0]}
    assert quota.asked == [3, 4, 1]
    assert set(cluster.image.topics_by_name) == {"a", "b"}


def test_topics_above_the_quota_of_their_client_are_not_deleted() -> None:
    cluster = Cluster()
    for name in ("a", "b"):
        cluster.create(name, partitions=2)
    cluster.controller.charge = quota = Tokens(1)
    topics = (("missing", ZERO_UUID), ("a", ZERO_UUID), ("b", ZERO_UUID))
    answers = {name: code for name, code, _ in delete(cluster, *topics)}
    assert answers["a"] == ErrorCode.NONE
    assert answers["b"] == EXCEEDED[0]
    assert quota.asked == [2, 2]
    assert set(cluster.image.topics_by_name) == {"b"}


def test_partitions_above_the_quota_of_their_client_are_not_added() -> None:
    cluster = Cluster()
    cluster.create("a", partitions=2)
    cluster.controller.charge = quota = Tokens(1)
    assert grow(cluster, "a", 1)[0] == ErrorCode.INVALID_PARTITIONS
    assert grow(cluster, "a", 5)[0] == ErrorCode.NONE
    assert grow(cluster, "a", 6) == EXCEEDED
    assert quota.asked == [3, 1]
    assert len(cluster.image.topics_by_name["a"].partitions) == 5
