"""The apis of a broker listener: a request of each, and what its sender needs for it.

A row is (api, first version of its layout, build, grants). `build(world, version)` returns the
request; a grant is (type of resource, name, operation), and together a row's grants suffice.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from barnabas.cluster.metadata.acls import CLUSTER_NAME, AclOperation, ResourceType
from barnabas.protocol.apis import API
from barnabas.protocol.types import Uuid

TOPIC, GROUP, CLUSTER = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER
TRANSACTION = ResourceType.TRANSACTIONAL_ID
Op = AclOperation

# Topics that exist, one that does not, and other names.
FIRST, SECOND, ABSENT, CREATED = "acl-first", "acl-second", "acl-absent", "acl-created"
TEAM, MEMBERS, TXN = "acl-team", "acl-members", "acl-txn"
UNKNOWN_ID = Uuid(b"\x07" * 16)
FOREVER = 30_000

Grant = tuple[ResourceType, str, AclOperation]


class World(NamedTuple):
    """The values that differ between the servers: the ids of topics, and a batch of records."""

    ids: dict[str, Uuid]
    batch: bytes
    transactional_batch: bytes


class Row(NamedTuple):
    """A request and what its sender needs for it; `version` None is the newest one."""

    label: str
    api: str
    build: Callable[[World, int], Any]
    grants: tuple[Grant, ...]
    version: int | None = None
    is_served: bool = True
    """False when Kafka serves what we do not yet: only refusals are compared."""


def message(api: str) -> Any:
    """Return the class of an api's request."""
    return next(each.request_type for each in API.values() if each.name == api)


def make(api: str, **fields: Any) -> Any:
    """Return a request."""
    return message(api)(**fields)


def struct(api: str, kind: str, **fields: Any) -> Any:
    """Return a struct of a request."""
    return getattr(message(api), kind)(**fields)


def on(name: str, operation: Op, kind: ResourceType = TOPIC) -> Grant:
    """Return a grant on a topic, or on another type of resource."""
    return kind, name, operation


def on_cluster(operation: Op) -> Grant:
    """Return a grant on the cluster."""
    return CLUSTER, CLUSTER_NAME, operation


def produce(batch: str, transactional_id: str | None = None) -> Callable[[World, int], Any]:
    def build(world: World, version: int) -> Any:
        topics = [
            struct(
                "Produce",
                "TopicProduceData",
                partition_data=[
                    struct("Produce", "PartitionProduceData", index=0,
                           records=getattr(world, batch))
                ],
                **({"topic_id": world.ids.get(name, UNKNOWN_ID)} if version >= 13
                   else {"name": name}),
            )
            for name in (FIRST, SECOND, ABSENT)
        ]  # fmt: skip
        return make("Produce", transactional_id=transactional_id, acks=1, timeout_ms=FOREVER,
                    topic_data=topics)  # fmt: skip

    return build


def fetch(replica: int = -1) -> Callable[[World, int], Any]:
    def build(world: World, version: int) -> Any:
        topics = [
            struct(
                "Fetch",
                "FetchTopic",
                partitions=[
                    struct("Fetch", "FetchPartition", partition=0, fetch_offset=0,
                           partition_max_bytes=1 << 20)
                ],
                **({"topic_id": world.ids.get(name, UNKNOWN_ID)} if version >= 13
                   else {"topic": name}),
            )
            for name in (FIRST, SECOND, ABSENT)
        ]  # fmt: skip
        sender: dict[str, Any] = {}
        if replica >= 0:
            sender = {"replica_id": replica}
            if version >= 15:
                state = struct("Fetch", "ReplicaState", replica_id=replica, replica_epoch=-1)
                sender = {"replica_state": state}
        return make("Fetch", max_wait_ms=0, min_bytes=0, max_bytes=1 << 20, topics=topics, **sender)

    return build


def list_offsets(_world: World, _version: int) -> Any:
    return make("ListOffsets", replica_id=-1, topics=[
        struct("ListOffsets", "ListOffsetsTopic", name=name, partitions=[
            struct("ListOffsets", "ListOffsetsPartition", partition_index=0, timestamp=-1)
        ])
        for name in (FIRST, ABSENT)
    ])  # fmt: skip


def delete_records(_world: World, _version: int) -> Any:
    return make("DeleteRecords", timeout_ms=FOREVER, topics=[
        struct("DeleteRecords", "DeleteRecordsTopic", name=name, partitions=[
            struct("DeleteRecords", "DeleteRecordsPartition", partition_index=0, offset=0)
        ])
        for name in (FIRST, ABSENT)
    ])  # fmt: skip


def epochs(_world: World, _version: int) -> Any:
    return make("OffsetForLeaderEpoch", topics=[
        struct("OffsetForLeaderEpoch", "OffsetForLeaderTopic", topic=name, partitions=[
            struct("OffsetForLeaderEpoch", "OffsetForLeaderPartition", partition=0, leader_epoch=0)
        ])
        for name in (FIRST, ABSENT)
    ])  # fmt: skip


def metadata(
    *names: str, by_id: bool = False, create: bool = False, operations: bool = False
) -> Callable[[World, int], Any]:
    def build(world: World, version: int) -> Any:
        topics = None
        if names:
            topics = [
                struct("Metadata", "MetadataRequestTopic", name=None,
                       topic_id=world.ids.get(name, UNKNOWN_ID))
                if by_id else struct("Metadata", "MetadataRequestTopic", name=name)
                for name in names
            ]  # fmt: skip
        elif version == 0:
            topics = []
        fields: dict[str, Any] = {}
        if version >= 4:
            fields["allow_auto_topic_creation"] = create
        if operations and version >= 8:
            fields["include_topic_authorized_operations"] = True
            if version <= 10:
                fields["include_cluster_authorized_operations"] = True
        return make("Metadata", topics=topics, **fields)

    return build


def offset_commit(world: World, version: int) -> Any:
    topics = [
        struct(
            "OffsetCommit",
            "OffsetCommitRequestTopic",
            partitions=[
                struct("OffsetCommit", "OffsetCommitRequestPartition", partition_index=0,
                       committed_offset=1, committed_metadata="")
            ],
            **({"topic_id": world.ids.get(name, UNKNOWN_ID)} if version >= 10 else {"name": name}),
        )
        for name in (FIRST, SECOND, ABSENT)
    ]  # fmt: skip
    return make("OffsetCommit", group_id=TEAM, topics=topics)


def offset_fetch(*, all_topics: bool = False) -> Callable[[World, int], Any]:
    def build(world: World, version: int) -> Any:
        names = (FIRST, SECOND, ABSENT)
        if version < 8:
            topics = [
                struct("OffsetFetch", "OffsetFetchRequestTopic", name=name, partition_indexes=[0])
                for name in names
            ]
            return make("OffsetFetch", group_id=TEAM, topics=None if all_topics else topics)
        topics = [
            struct(
                "OffsetFetch",
                "OffsetFetchRequestTopics",
                partition_indexes=[0],
                **({"topic_id": world.ids.get(name, UNKNOWN_ID)} if version >= 10
                   else {"name": name}),
            )
            for name in names
        ]  # fmt: skip
        group = struct("OffsetFetch", "OffsetFetchRequestGroup", group_id=TEAM,
                       topics=None if all_topics else topics)  # fmt: skip
        return make("OffsetFetch", groups=[group])

    return build


def find_coordinator(key: str, key_type: int) -> Callable[[World, int], Any]:
    def build(_world: World, version: int) -> Any:
        if version >= 4:
            return make("FindCoordinator", key_type=key_type, coordinator_keys=[key])
        kind = {"key_type": key_type} if version else {}
        return make("FindCoordinator", key=key, **kind)

    return build


def join(_world: World, _version: int) -> Any:
    return make("JoinGroup", group_id=MEMBERS, session_timeout_ms=1, member_id="",
                protocol_type="consumer", protocols=[
        struct("JoinGroup", "JoinGroupRequestProtocol", name="range", metadata=b"")
    ])  # fmt: skip


def sync(*, complete: bool = True) -> Callable[[World, int], Any]:
    def build(_world: World, version: int) -> Any:
        names = {"protocol_type": "consumer", "protocol_name": "range"} if version >= 5 else {}
        return make("SyncGroup", group_id=TEAM, generation_id=1, member_id="m",
                    **(names if complete else {}))  # fmt: skip

    return build


def leave(_world: World, version: int) -> Any:
    if version < 3:
        return make("LeaveGroup", group_id=TEAM, member_id="m")
    return make("LeaveGroup", group_id=TEAM,
                members=[struct("LeaveGroup", "MemberIdentity", member_id="m")])  # fmt: skip


def add_partitions(version_of_brokers: bool, *names: str) -> Callable[[World, int], Any]:
    def build(_world: World, _version: int) -> Any:
        topics = [
            struct("AddPartitionsToTxn", "AddPartitionsToTxnTopic", name=name, partitions=[0])
            for name in names
        ]
        if not version_of_brokers:
            return make(
                "AddPartitionsToTxn",
                v3_and_below_transactional_id=TXN,
                v3_and_below_producer_id=1,
                v3_and_below_producer_epoch=0,
                v3_and_below_topics=topics,
            )
        transaction = struct(
            "AddPartitionsToTxn",
            "AddPartitionsToTxnTransaction",
            transactional_id=TXN,
            producer_id=1,
            producer_epoch=0,
            verify_only=True,
            topics=topics,
        )
        return make("AddPartitionsToTxn", transactions=[transaction])

    return build


def txn_commit(_world: World, _version: int) -> Any:
    return make("TxnOffsetCommit", transactional_id=TXN, group_id=TEAM, producer_id=1,
                producer_epoch=0, topics=[
        struct("TxnOffsetCommit", "TxnOffsetCommitRequestTopic", name=name, partitions=[
            struct("TxnOffsetCommit", "TxnOffsetCommitRequestPartition", partition_index=0,
                   committed_offset=1, committed_metadata="")
        ])
        for name in (FIRST, ABSENT)
    ])  # fmt: skip


def markers(_world: World, _version: int) -> Any:
    topics = [struct("WriteTxnMarkers", "WritableTxnMarkerTopic", name=ABSENT,
                     partition_indexes=[0])]  # fmt: skip
    marker = struct("WriteTxnMarkers", "WritableTxnMarker", producer_id=1, producer_epoch=0,
                    transaction_result=False, topics=topics, coordinator_epoch=0)  # fmt: skip
    return make("WriteTxnMarkers", markers=[marker])


def create_topics(_world: World, _version: int) -> Any:
    topics = [
        struct("CreateTopics", "CreatableTopic", name=name, num_partitions=1, replication_factor=1)
        for name in (CREATED, FIRST, SECOND, SECOND, "bad name", "__cluster_metadata")
    ]
    return make("CreateTopics", topics=topics, timeout_ms=FOREVER)


def delete_topics(world: World, version: int) -> Any:
    if version < 6:
        return make("DeleteTopics", topic_names=[CREATED, ABSENT], timeout_ms=FOREVER)
    states = [
        {"name": CREATED}, {"name": ABSENT}, {"topic_id": world.ids[SECOND]},
        {"topic_id": UNKNOWN_ID}, {"name": FIRST}, {"name": FIRST},
    ]  # fmt: skip
    return make("DeleteTopics", timeout_ms=FOREVER, topics=[
        struct("DeleteTopics", "DeleteTopicState", **state) for state in states
    ])  # fmt: skip


def create_partitions(_world: World, _version: int) -> Any:
    topics = [
        struct("CreatePartitions", "CreatePartitionsTopic", name=name, count=1, assignments=None)
        for name in (FIRST, ABSENT, SECOND, SECOND)
    ]
    return make("CreatePartitions", topics=topics, timeout_ms=FOREVER)


RESOURCES = ((2, FIRST), (4, "1"), (32, TEAM), (16, "metrics"))


def describe_configs(*resources: tuple[int, str]) -> Callable[[World, int], Any]:
    def build(_world: World, _version: int) -> Any:
        return make("DescribeConfigs", resources=[
            struct("DescribeConfigs", "DescribeConfigsResource", resource_type=kind,
                   resource_name=name, configuration_keys=["node.id", "retention.ms"])
            for kind, name in resources
        ])  # fmt: skip

    return build


def alter_configs(_world: World, _version: int) -> Any:
    return make("AlterConfigs", validate_only=True, resources=[
        struct("AlterConfigs", "AlterConfigsResource", resource_type=kind, resource_name=name,
               configs=[])
        for kind, name in ((2, FIRST), (4, "1"), (32, TEAM), (2, SECOND), (4, "99"))
    ])  # fmt: skip


def incremental_alter_configs(_world: World, _version: int) -> Any:
    return make("IncrementalAlterConfigs", validate_only=True, resources=[
        struct("IncrementalAlterConfigs", "AlterConfigsResource", resource_type=kind,
               resource_name=name, configs=[])
        for kind, name in ((2, FIRST), (4, "1"), (32, TEAM), (8, "1"), (2, SECOND), (4, "99"))
    ])  # fmt: skip


def alter_log_dirs(_world: World, _version: int) -> Any:
    topics = [struct("AlterReplicaLogDirs", "AlterReplicaLogDirTopic", name=FIRST, partitions=[0])]
    directory = struct("AlterReplicaLogDirs", "AlterReplicaLogDir", path="/absent", topics=topics)
    return make("AlterReplicaLogDirs", dirs=[directory])


def describe_log_dirs(_world: World, _version: int) -> Any:
    topics = [struct("DescribeLogDirs", "DescribableLogDirTopic", topic=FIRST, partitions=[0])]
    return make("DescribeLogDirs", topics=topics)


def elect(_world: World, version: int) -> Any:
    topics = [struct("ElectLeaders", "TopicPartitions", topic=ABSENT, partitions=[0])]
    kind = {"election_type": 0} if version else {}
    return make("ElectLeaders", topic_partitions=topics, timeout_ms=FOREVER, **kind)


def reassign(_world: World, _version: int) -> Any:
    partition = struct("AlterPartitionReassignments", "ReassignablePartition", partition_index=0)
    topics = [struct("AlterPartitionReassignments", "ReassignableTopic", name=ABSENT,
                     partitions=[partition])]  # fmt: skip
    return make("AlterPartitionReassignments", topics=topics)


def offset_delete(_world: World, _version: int) -> Any:
    return make("OffsetDelete", group_id=TEAM, topics=[
        struct("OffsetDelete", "OffsetDeleteRequestTopic", name=name, partitions=[
            struct("OffsetDelete", "OffsetDeleteRequestPartition", partition_index=0)
        ])
        for name in (SECOND, ABSENT)
    ])  # fmt: skip


def alter_quotas(_world: World, _version: int) -> Any:
    entity = [struct("AlterClientQuotas", "EntityData", entity_type="user", entity_name="u")]
    op = struct("AlterClientQuotas", "OpData", key="producer_byte_rate", value=1.0, remove=False)
    entry = struct("AlterClientQuotas", "EntryData", entity=entity, ops=[op])
    return make("AlterClientQuotas", entries=[entry], validate_only=True)


def describe_quorum(_world: World, _version: int) -> Any:
    partition = struct("DescribeQuorum", "PartitionData", partition_index=0)
    topic = struct("DescribeQuorum", "TopicData", topic_name="__cluster_metadata",
                   partitions=[partition])  # fmt: skip
    return make("DescribeQuorum", topics=[topic])


def update_features(_world: World, version: int) -> Any:
    update = struct("UpdateFeatures", "FeatureUpdateKey", feature="absent.version",
                    max_version_level=1)  # fmt: skip
    validate = {"validate_only": True} if version else {}
    return make("UpdateFeatures", feature_updates=[update], **validate)


def scram_users(_world: World, _version: int) -> Any:
    # Kafka does not answer a refused request for all users.
    user = struct("DescribeUserScramCredentials", "UserName", name="absent")
    return make("DescribeUserScramCredentials", users=[user])


def alter_scram_users(_world: World, _version: int) -> Any:
    deletion = struct("AlterUserScramCredentials", "ScramCredentialDeletion", name="absent",
                      mechanism=1)  # fmt: skip
    return make("AlterUserScramCredentials", deletions=[deletion], upsertions=[])


def producers(_world: World, _version: int) -> Any:
    return make("DescribeProducers", topics=[
        struct("DescribeProducers", "TopicRequest", name=name, partition_indexes=[0])
        for name in (FIRST, ABSENT, "bad name")
    ])  # fmt: skip


def heartbeat_848(regex: bool = False) -> Callable[[World, int], Any]:
    def build(_world: World, version: int) -> Any:
        names: dict[str, Any] = {"subscribed_topic_names": [FIRST, ABSENT]}
        if regex:
            names = {"subscribed_topic_regex": "acl-.*"}
        member = "" if version == 0 else "acl-member"
        return make("ConsumerGroupHeartbeat", group_id=MEMBERS, member_id=member, member_epoch=0,
                    rebalance_timeout_ms=FOREVER, topic_partitions=[], **names)  # fmt: skip

    return build


def topic_partitions(*names: str) -> Callable[[World, int], Any]:
    def build(_world: World, _version: int) -> Any:
        return make("DescribeTopicPartitions", topics=[
            struct("DescribeTopicPartitions", "TopicRequest", name=name) for name in names
        ])  # fmt: skip

    return build


def acl_filter(_world: World, _version: int) -> Any:
    return make("DescribeAcls", resource_type_filter=2, resource_name_filter="absent",
                pattern_type_filter=3, principal_filter=None, host_filter=None, operation=1,
                permission_type=1)  # fmt: skip


def create_acls(_world: World, _version: int) -> Any:
    fields: dict[str, Any] = {
        "resource_type": 2, "resource_name": "absent", "resource_pattern_type": 3,
        "principal": "User:p", "host": "1.2.3.4", "operation": 3, "permission_type": 3,
    }  # fmt: skip
    broken = [
        {}, {}, {"principal": "p"}, {"resource_name": ""}, {"resource_type": 4},
    ]  # fmt: skip
    return make("CreateAcls", creations=[
        struct("CreateAcls", "AclCreation", **{**fields, **other}) for other in broken
    ])  # fmt: skip


def delete_acls(_world: World, _version: int) -> Any:
    fields: dict[str, Any] = {
        "resource_name_filter": None, "principal_filter": None, "host_filter": "1.2.3.4",
        "operation": 1, "permission_type": 1, "resource_type_filter": 1,
    }  # fmt: skip
    filters = [
        {"resource_name_filter": "none", "pattern_type_filter": 3},
        {"resource_name_filter": "absent", "pattern_type_filter": 2},
        {"pattern_type_filter": 1},
    ]
    return make("DeleteAcls", filters=[
        struct("DeleteAcls", "DeleteAclsFilter", **{**fields, **other}) for other in filters
    ])  # fmt: skip


def plain(api: str, **fields: Any) -> Callable[[World, int], Any]:
    """Return the builder of a request with the same fields in every version."""
    return lambda _world, _version: make(api, **fields)


def with_operations(api: str, since: int, **fields: Any) -> Callable[[World, int], Any]:
    """Return the builder of a request that asks for the authorized operations."""

    def build(_world: World, version: int) -> Any:
        asks = {"include_authorized_operations": True} if version >= since else {}
        return make(api, **fields, **asks)

    return build


READ_GROUP, DESCRIBE_GROUP = on(TEAM, Op.READ, GROUP), on(TEAM, Op.DESCRIBE, GROUP)
WRITE_TXN = on(TXN, Op.WRITE, TRANSACTION)
ALTER, DESCRIBE = on_cluster(Op.ALTER), on_cluster(Op.DESCRIBE)
CLUSTER_ACTION = on_cluster(Op.CLUSTER_ACTION)
HMAC = {"hmac": b"x"}

ROWS = [
    Row("produce", "Produce", produce("batch"), (on(FIRST, Op.WRITE),)),
    Row("produce by name", "Produce", produce("batch"), (on(FIRST, Op.WRITE),), 12),
    Row("produce in a transaction", "Produce", produce("transactional_batch", TXN),
        (on(FIRST, Op.WRITE), WRITE_TXN), 11),
    Row("produce without the transactional id", "Produce", produce("transactional_batch"),
        (on(FIRST, Op.WRITE),)),
    Row("fetch", "Fetch", fetch(), (on(FIRST, Op.READ),)),
    Row("fetch by name", "Fetch", fetch(), (on(FIRST, Op.READ),), 12),
    Row("forged follower fetch", "Fetch", fetch(replica=7), (on(FIRST, Op.READ),)),
    Row("forged follower fetch by name", "Fetch", fetch(replica=7), (on(FIRST, Op.READ),), 12),
    Row("list offsets", "ListOffsets", list_offsets, (on(FIRST, Op.DESCRIBE),)),
    Row("list offsets of all", "ListOffsets", list_offsets,
        (on(FIRST, Op.READ), on(ABSENT, Op.WRITE))),
    Row("delete records", "DeleteRecords", delete_records, (on(FIRST, Op.DELETE),)),
    Row("epoch ends", "OffsetForLeaderEpoch", epochs, (on(FIRST, Op.DESCRIBE),)),
    Row("epoch ends for a broker", "OffsetForLeaderEpoch", epochs, (CLUSTER_ACTION,)),
    Row("all topics", "Metadata", metadata(operations=True), (on(FIRST, Op.DESCRIBE),)),
    Row("all topics v0", "Metadata", metadata(), (on(FIRST, Op.DESCRIBE),), 0),
    Row("all topics v8", "Metadata", metadata(operations=True),
        (on(FIRST, Op.DESCRIBE), DESCRIBE), 8),
    Row("topics by name", "Metadata", metadata(FIRST, SECOND, ABSENT, operations=True),
        (on(FIRST, Op.READ), on(ABSENT, Op.DESCRIBE))),
    Row("topics by name v0", "Metadata", metadata(SECOND), (), 0),
    Row("topics by id", "Metadata", metadata(FIRST, SECOND, ABSENT, by_id=True),
        (on(FIRST, Op.DESCRIBE),)),
    Row("created topic", "Metadata", metadata("acl-auto-one", create=True),
        (on("acl-auto-one", Op.CREATE), on("acl-auto-one", Op.DESCRIBE))),
    Row("created topic by the cluster's right", "Metadata", metadata("acl-auto-two", create=True),
        (on_cluster(Op.CREATE), on("acl-auto-two", Op.DESCRIBE))),
    Row("commit", "OffsetCommit", offset_commit, (READ_GROUP, on(FIRST, Op.READ))),
    Row("commit by name", "OffsetCommit", offset_commit, (READ_GROUP, on(FIRST, Op.READ)), 9),
    Row("fetch offsets", "OffsetFetch", offset_fetch(), (DESCRIBE_GROUP, on(FIRST, Op.DESCRIBE))),
    Row("fetch offsets v9", "OffsetFetch", offset_fetch(),
        (DESCRIBE_GROUP, on(FIRST, Op.DESCRIBE)), 9),
    Row("fetch offsets v7", "OffsetFetch", offset_fetch(),
        (DESCRIBE_GROUP, on(FIRST, Op.DESCRIBE)), 7),
    Row("fetch offsets v1", "OffsetFetch", offset_fetch(),
        (DESCRIBE_GROUP, on(FIRST, Op.DESCRIBE)), 1),
    Row("fetch all offsets", "OffsetFetch", offset_fetch(all_topics=True),
        (DESCRIBE_GROUP, on(FIRST, Op.DESCRIBE))),
    Row("fetch all offsets v7", "OffsetFetch", offset_fetch(all_topics=True),
        (DESCRIBE_GROUP, on(FIRST, Op.DESCRIBE)), 7),
    Row("group coordinator", "FindCoordinator", find_coordinator(TEAM, 0), (DESCRIBE_GROUP,)),
    Row("group coordinator v3", "FindCoordinator", find_coordinator(TEAM, 0), (DESCRIBE_GROUP,), 3),
    Row("transaction coordinator", "FindCoordinator", find_coordinator(TXN, 1),
        (on(TXN, Op.DESCRIBE, TRANSACTION),)),
    Row("transaction coordinator v2", "FindCoordinator", find_coordinator(TXN, 1),
        (on(TXN, Op.DESCRIBE, TRANSACTION),), 2),
    Row("share coordinator", "FindCoordinator", find_coordinator("bad key", 2), (CLUSTER_ACTION,)),
    Row("join", "JoinGroup", join, (on(MEMBERS, Op.READ, GROUP),)),
    Row("join v5", "JoinGroup", join, (on(MEMBERS, Op.READ, GROUP),), 5),
    Row("heartbeat", "Heartbeat", plain("Heartbeat", group_id=TEAM, generation_id=1, member_id="m"),
        (READ_GROUP,)),
    Row("leave", "LeaveGroup", leave, (READ_GROUP,)),
    Row("leave v2", "LeaveGroup", leave, (READ_GROUP,), 2),
    Row("sync", "SyncGroup", sync(), (READ_GROUP,)),
    Row("sync without a protocol", "SyncGroup", sync(complete=False), (READ_GROUP,)),
    Row("describe groups", "DescribeGroups",
        with_operations("DescribeGroups", 3, groups=[TEAM, "acl-other"]), (DESCRIBE_GROUP,)),
    Row("list groups", "ListGroups", plain("ListGroups"), (DESCRIBE_GROUP,)),
    Row("list all groups", "ListGroups", plain("ListGroups"), (DESCRIBE,)),
    Row("delete groups", "DeleteGroups", plain("DeleteGroups", groups_names=["acl-gone", "acl-go"]),
        (on("acl-gone", Op.DELETE, GROUP),)),
    Row("SASL handshake", "SaslHandshake", plain("SaslHandshake", mechanism="PLAIN"), ()),
    Row("SASL authenticate", "SaslAuthenticate", plain("SaslAuthenticate", auth_bytes=b""), ()),
    Row("versions", "ApiVersions",
        plain("ApiVersions", client_software_name="a", client_software_version="1"), (),
        is_served=False),
    Row("create topics", "CreateTopics", create_topics,
        (on(CREATED, Op.CREATE), on(CREATED, Op.DESCRIBE_CONFIGS), on(FIRST, Op.CREATE))),
    Row("create all topics", "CreateTopics", create_topics, (on_cluster(Op.CREATE),)),
    Row("delete topics", "DeleteTopics", delete_topics,
        (on(CREATED, Op.DELETE), on(ABSENT, Op.DESCRIBE))),
    Row("delete described topics", "DeleteTopics", delete_topics,
        (on(SECOND, Op.DESCRIBE), on(CREATED, Op.DESCRIBE))),
    Row("delete topics v5", "DeleteTopics", delete_topics, (on(CREATED, Op.DELETE),), 5),
    Row("delete topics v3", "DeleteTopics", delete_topics, (on_cluster(Op.DELETE),), 3),
    Row("producer id", "InitProducerId",
        plain("InitProducerId", transactional_id=None, transaction_timeout_ms=FOREVER),
        (on_cluster(Op.IDEMPOTENT_WRITE),)),
    Row("producer id of a writer", "InitProducerId",
        plain("InitProducerId", transactional_id=None, transaction_timeout_ms=FOREVER),
        (on(FIRST, Op.WRITE),)),
    Row("transactional producer id", "InitProducerId",
        plain("InitProducerId", transactional_id=TXN, transaction_timeout_ms=FOREVER),
        (WRITE_TXN,)),
    Row("add partitions", "AddPartitionsToTxn", add_partitions(False, FIRST, ABSENT),
        (WRITE_TXN, on(FIRST, Op.WRITE), on(ABSENT, Op.WRITE)), 3),
    Row("add partitions of internal topics", "AddPartitionsToTxn",
        add_partitions(False, FIRST, "__consumer_offsets"),
        (WRITE_TXN, on(FIRST, Op.WRITE), on("__consumer_offsets", Op.WRITE)), 3),
    Row("add partitions for a broker", "AddPartitionsToTxn", add_partitions(True, FIRST),
        (CLUSTER_ACTION,)),
    Row("add offsets", "AddOffsetsToTxn",
        plain("AddOffsetsToTxn", transactional_id=TXN, producer_id=1, producer_epoch=0,
              group_id=TEAM), (WRITE_TXN, READ_GROUP)),
    Row("end a transaction", "EndTxn",
        plain("EndTxn", transactional_id=TXN, producer_id=1, producer_epoch=0, committed=False),
        (WRITE_TXN,)),
    Row("markers of a broker", "WriteTxnMarkers", markers, (CLUSTER_ACTION,)),
    Row("markers of an administrator", "WriteTxnMarkers", markers, (ALTER,)),
    Row("commit in a transaction", "TxnOffsetCommit", txn_commit,
        (WRITE_TXN, READ_GROUP, on(FIRST, Op.READ))),
    Row("describe ACLs", "DescribeAcls", acl_filter, (DESCRIBE,)),
    Row("create ACLs", "CreateAcls", create_acls, (ALTER,)),
    Row("delete ACLs", "DeleteAcls", delete_acls, (ALTER,)),
    Row("describe configs", "DescribeConfigs", describe_configs(*RESOURCES),
        (on(FIRST, Op.DESCRIBE_CONFIGS), on(TEAM, Op.DESCRIBE_CONFIGS, GROUP),
         on_cluster(Op.DESCRIBE_CONFIGS))),
    Row("describe configs by alter", "DescribeConfigs", describe_configs(*RESOURCES),
        (on(FIRST, Op.ALTER_CONFIGS), on_cluster(Op.ALTER_CONFIGS))),
    Row("describe configs of an unknown type", "DescribeConfigs",
        describe_configs((99, "x"), (2, FIRST)), ()),
    Row("alter configs", "AlterConfigs", alter_configs,
        (on(FIRST, Op.ALTER_CONFIGS), on(TEAM, Op.ALTER_CONFIGS, GROUP),
         on_cluster(Op.ALTER_CONFIGS))),
    Row("alter configs incrementally", "IncrementalAlterConfigs", incremental_alter_configs,
        (on(FIRST, Op.ALTER_CONFIGS), on(TEAM, Op.ALTER_CONFIGS, GROUP),
         on_cluster(Op.ALTER_CONFIGS))),
    Row("move replicas", "AlterReplicaLogDirs", alter_log_dirs, (ALTER,)),
    Row("log directories", "DescribeLogDirs", describe_log_dirs, (DESCRIBE,)),
    Row("log directories v2", "DescribeLogDirs", describe_log_dirs, (DESCRIBE,), 2),
    Row("create partitions", "CreatePartitions", create_partitions,
        (on(FIRST, Op.ALTER), on(ABSENT, Op.ALTER))),
    Row("create a token", "CreateDelegationToken",
        plain("CreateDelegationToken", owner_principal_type=None, owner_principal_name=None,
              renewers=[], max_lifetime_ms=-1), ()),
    Row("renew a token", "RenewDelegationToken",
        plain("RenewDelegationToken", renew_period_ms=-1, **HMAC), ()),
    Row("expire a token", "ExpireDelegationToken",
        plain("ExpireDelegationToken", expiry_time_period_ms=-1, **HMAC), ()),
    Row("describe tokens", "DescribeDelegationToken",
        plain("DescribeDelegationToken", owners=None), ()),
    Row("elect leaders", "ElectLeaders", elect, (ALTER,)),
    Row("reassign partitions", "AlterPartitionReassignments", reassign, (ALTER,)),
    Row("reassignments", "ListPartitionReassignments",
        plain("ListPartitionReassignments", topics=None), (DESCRIBE,)),
    Row("delete offsets", "OffsetDelete", offset_delete,
        (on(TEAM, Op.DELETE, GROUP), on(SECOND, Op.READ))),
    Row("describe quotas", "DescribeClientQuotas",
        plain("DescribeClientQuotas", components=[], strict=False),
        (on_cluster(Op.DESCRIBE_CONFIGS),)),
    Row("alter quotas", "AlterClientQuotas", alter_quotas, (on_cluster(Op.ALTER_CONFIGS),),
        is_served=False),
    Row("describe SCRAM users", "DescribeUserScramCredentials",
        scram_users, (DESCRIBE,)),
    Row("alter SCRAM users", "AlterUserScramCredentials", alter_scram_users, (ALTER,)),
    Row("describe the quorum", "DescribeQuorum", describe_quorum, (DESCRIBE,)),
    Row("update features", "UpdateFeatures", update_features, (ALTER,)),
    Row("describe the cluster", "DescribeCluster",
        plain("DescribeCluster", include_cluster_authorized_operations=True), (DESCRIBE,)),
    Row("describe producers", "DescribeProducers", producers, (on(FIRST, Op.READ),)),
    Row("unregister a broker", "UnregisterBroker", plain("UnregisterBroker", broker_id=99),
        (ALTER,)),
    Row("describe transactions", "DescribeTransactions",
        plain("DescribeTransactions", transactional_ids=[TXN, "acl-none"]),
        (on(TXN, Op.DESCRIBE, TRANSACTION),)),
    Row("list transactions", "ListTransactions",
        plain("ListTransactions", state_filters=[], producer_id_filters=[]),
        (on(TXN, Op.DESCRIBE, TRANSACTION),)),
    Row("consumer group heartbeat", "ConsumerGroupHeartbeat", heartbeat_848(),
        (on(MEMBERS, Op.READ, GROUP), on(FIRST, Op.DESCRIBE), on(ABSENT, Op.DESCRIBE))),
    Row("describe consumer groups", "ConsumerGroupDescribe",
        with_operations("ConsumerGroupDescribe", 0, group_ids=[MEMBERS, TEAM]),
        (on(MEMBERS, Op.DESCRIBE, GROUP), on(FIRST, Op.DESCRIBE))),
    Row("config resources", "ListConfigResources", plain("ListConfigResources"),
        (on_cluster(Op.DESCRIBE_CONFIGS),)),
    Row("topic partitions", "DescribeTopicPartitions", topic_partitions(FIRST, SECOND, ABSENT),
        (on(FIRST, Op.DESCRIBE), on(ABSENT, Op.DESCRIBE))),
    Row("partitions of all topics", "DescribeTopicPartitions", topic_partitions(),
        (on(FIRST, Op.DESCRIBE),)),
    Row("describe share groups", "ShareGroupDescribe",
        plain("ShareGroupDescribe", group_ids=["acl-share"]),
        (on("acl-share", Op.DESCRIBE, GROUP),)),
    Row("add a voter", "AddRaftVoter",
        plain("AddRaftVoter", cluster_id="other", timeout_ms=1, voter_id=9,
              voter_directory_id=UNKNOWN_ID, listeners=[]), (ALTER,)),
    Row("remove a voter", "RemoveRaftVoter",
        plain("RemoveRaftVoter", cluster_id="other", voter_id=9, voter_directory_id=UNKNOWN_ID),
        (ALTER,)),
    Row("describe streams groups", "StreamsGroupDescribe",
        plain("StreamsGroupDescribe", group_ids=["acl-streams"]),
        (on("acl-streams", Op.DESCRIBE, GROUP),)),
]  # fmt: skip
