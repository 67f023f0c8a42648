"""The apis of a controller listener: those of brokers that it serves too, and those of nodes.

The requests of nodes change nothing when they are permitted: they name another cluster, a stale
epoch, or a broker that does not exist.
"""

from typing import Any, Final

from barnabas.cluster.metadata.acls import AclOperation as Op
from barnabas.cluster.metadata.image import METADATA_TOPIC, METADATA_TOPIC_ID
from barnabas.protocol.apis import API
from barnabas.protocol.types import Uuid
from compat_tests.authorizer_rows import ROWS as ROWS_OF_BROKERS
from compat_tests.authorizer_rows import Row, World, make, on_cluster, plain, struct

_CLUSTER_ACTION: Final = (on_cluster(Op.CLUSTER_ACTION),)
_ID: Final = Uuid(b"\x08" * 16)
_OTHER_CLUSTER: Final = "another-cluster"
_ABSENT_BROKER, _STALE = 99, 0


def quorum(api: str, **fields: Any) -> Any:
    """Return a builder of a request about the quorum's partition, with another cluster's id."""
    topic = struct(
        api,
        "TopicData",
        topic_name=METADATA_TOPIC,
        partitions=[struct(api, "PartitionData", partition_index=0, **fields)],
    )
    return plain(api, cluster_id=_OTHER_CLUSTER, topics=[topic])


def fetch(_world: World, version: int) -> Any:
    named = {"topic_id": METADATA_TOPIC_ID} if version >= 13 else {"topic": METADATA_TOPIC}
    partition = struct(
        "Fetch", "FetchPartition", partition=0, fetch_offset=0, partition_max_bytes=1
    )
    topic = struct("Fetch", "FetchTopic", partitions=[partition], **named)
    return make(
        "Fetch",
        max_wait_ms=0,
        min_bytes=0,
        topics=[topic],
        **({"cluster_id": _OTHER_CLUSTER} if version >= 12 else {}),
    )


def snapshot(_world: World, _version: int) -> Any:
    api = "FetchSnapshot"
    found = struct(api, "SnapshotId", end_offset=1, epoch=1)
    partition = struct(
        api, "PartitionSnapshot", partition=0, current_leader_epoch=1, snapshot_id=found, position=0
    )
    topic = struct(api, "TopicSnapshot", name=METADATA_TOPIC, partitions=[partition])
    return make(api, cluster_id=_OTHER_CLUSTER, topics=[topic])


def alter_partition(world: World, version: int) -> Any:
    api = "AlterPartition"
    isr: dict[str, Any] = {"new_isr": [_ABSENT_BROKER]}
    if version >= 3:
        isr = {"new_isr_with_epochs": [struct(api, "BrokerState", broker_id=_ABSENT_BROKER)]}
    partition = struct(
        api,
        "PartitionData",
        partition_index=0,
        leader_epoch=0,
        leader_recovery_state=0,
        partition_epoch=0,
        **isr,
    )
    topic = struct(
        api, "TopicData", topic_id=next(iter(world.ids.values()), _ID), partitions=[partition]
    )
    return make(api, broker_id=_ABSENT_BROKER, broker_epoch=_STALE, topics=[topic])


def registration(_world: World, _version: int) -> Any:
    api = "BrokerRegistration"
    listener = struct(
        api, "Listener", name="PLAINTEXT", host="127.0.0.1", port=1, security_protocol=0
    )
    return make(
        api,
        broker_id=_ABSENT_BROKER,
        cluster_id=_OTHER_CLUSTER,
        incarnation_id=_ID,
        listeners=[listener],
        features=[],
        rack=None,
        is_migrating_zk_broker=False,
    )


def controller_registration(_world: World, _version: int) -> Any:
    return make(
        "ControllerRegistration",
        controller_id=_ABSENT_BROKER,
        incarnation_id=_ID,
        zk_migration_ready=True,  # which KRaft refuses
        listeners=[],
        features=[],
    )


def directories(_world: World, _version: int) -> Any:
    api = "AssignReplicasToDirs"
    directory = struct(api, "DirectoryData", id=_ID, topics=[])
    return make(api, broker_id=_ABSENT_BROKER, broker_epoch=_STALE, directories=[directory])


def updated_voter(_world: World, _version: int) -> Any:
    api = "UpdateRaftVoter"
    feature = struct(api, "KRaftVersionFeature", min_supported_version=0, max_supported_version=1)
    return make(
        api,
        cluster_id=_OTHER_CLUSTER,
        current_leader_epoch=1,
        voter_id=_ABSENT_BROKER,
        voter_directory_id=_ID,
        listeners=[],
        kraft_version_feature=feature,
    )


# fmt: off
ROWS_OF_NODES: Final = [
    Row("fetch of the quorum", "Fetch", fetch, _CLUSTER_ACTION),
    Row("vote", "Vote",
        quorum("Vote", replica_epoch=1, replica_id=_ABSENT_BROKER, replica_directory_id=_ID,
               voter_directory_id=_ID, last_offset_epoch=1, last_offset=1, pre_vote=True),
        _CLUSTER_ACTION),
    Row("begin an epoch", "BeginQuorumEpoch",
        quorum("BeginQuorumEpoch", voter_directory_id=_ID, leader_id=_ABSENT_BROKER,
               leader_epoch=1),
        _CLUSTER_ACTION),
    Row("end an epoch", "EndQuorumEpoch",
        quorum("EndQuorumEpoch", leader_id=_ABSENT_BROKER, leader_epoch=1,
               preferred_successors=[], preferred_candidates=[]),
        _CLUSTER_ACTION),
    Row("fetch a snapshot", "FetchSnapshot", snapshot, _CLUSTER_ACTION),
    Row("alter partitions", "AlterPartition", alter_partition, _CLUSTER_ACTION),
    Row("register a broker", "BrokerRegistration", registration, _CLUSTER_ACTION),
    Row("register a controller", "ControllerRegistration", controller_registration,
        _CLUSTER_ACTION),
    Row("heartbeat of a broker", "BrokerHeartbeat",
        plain("BrokerHeartbeat", broker_id=_ABSENT_BROKER, broker_epoch=_STALE,
              current_metadata_offset=0, want_fence=False, want_shut_down=False),
        _CLUSTER_ACTION),
    Row("allocate producer ids", "AllocateProducerIds",
        plain("AllocateProducerIds", broker_id=_ABSENT_BROKER, broker_epoch=_STALE),
        _CLUSTER_ACTION),
    Row("assign directories", "AssignReplicasToDirs", directories, _CLUSTER_ACTION),
    Row("update a voter", "UpdateRaftVoter", updated_voter, _CLUSTER_ACTION),
    Row("envelope", "Envelope",
        plain("Envelope", request_data=b"\0", request_principal=b"\0",
              client_host_address=b"\x7f\0\0\1"),
        _CLUSTER_ACTION),
]
# fmt: on


def rows() -> list[Row]:
    """Return the rows of a controller listener."""
    own = {row.api for row in ROWS_OF_NODES}
    served = {api.name for api in API.values() if "controller" in api.listeners}
    shared = [row for row in ROWS_OF_BROKERS if row.api in served - own]
    return [*shared, *ROWS_OF_NODES]
