"""The apis that this server answers: one line each.

Dispatch, ApiVersions, the error responses and docs/reference/protocol.md read these lines. A
line gives:

- the api's name (its key and versions are in `protocol.apis`),
- the kinds of listener that answer it; the two kinds may have different handlers,
- the handler: package, module and function below `handlers`. It is imported with the first request
  for it, so that a start imports no handler,
- its authorization (`api.authorization`); an api without one cannot be registered,
- `waits`: True when its time is waiting that the client requested, so it does not count as slow,
- `errors`: where the response says that all of the request failed, if not only at its top level.
"""

from collections.abc import Callable, Iterable
from importlib import import_module
from typing import Any, Final, Literal

import attrs

from barnabas.cluster.metadata.acls import AclOperation
from barnabas.protocol.apis import ApiKey, api_by_name
from barnabas.protocol.errors import ErrorCode
from barnabas.server.api.authorization import (
    BY_CONTROLLER,
    IN_HANDLER,
    UNRESTRICTED,
    Authorization,
    ByGuard,
    OnCluster,
)
from barnabas.server.api.error_places import (
    AT_TOP_LEVEL,
    EVERY_VERSION,
    ErrorPlaces,
    in_items,
    items,
)

ListenerKind = Literal["broker", "controller"]
Handler = Callable[[Any, Any], Any]
"""Takes a `RequestContext` and the decoded request; returns the response, an awaitable of it, a
`Deferred`, or None for no response."""

_HANDLERS: Final = "barnabas.server.api.handlers"


@attrs.frozen
class ServedApi:
    """One line: an api as some kinds of listener answer it."""

    api: ApiKey
    listeners: tuple[ListenerKind, ...]
    handler_path: str
    authorization: Authorization
    waits: bool
    errors: ErrorPlaces

    @property
    def family(self) -> str:
        """The package of the handler; handlers of a family use the same parts of the node."""
        return self.handler_path.partition(".")[0]

    def handler(self) -> Handler:
        """Return the handler; its module is imported on first use."""
        module, _, function = self.handler_path.rpartition(".")
        return getattr(import_module(f"{_HANDLERS}.{module}"), function)


def _api(
    name: str,
    listeners: tuple[ListenerKind, ...],
    handler_path: str,
    authorization: Authorization,
    *,
    waits: bool = False,
    errors: ErrorPlaces = AT_TOP_LEVEL,
) -> ServedApi:
    return ServedApi(api_by_name(name), listeners, handler_path, authorization, waits, errors)


_BROKER: Final = ("broker",)
_CONTROLLER: Final = ("controller",)
_BOTH: Final = ("broker", "controller")

_ALTER: Final = OnCluster(AclOperation.ALTER)
_DESCRIBE: Final = OnCluster(AclOperation.DESCRIBE)
_CLUSTER_ACTION: Final = OnCluster(AclOperation.CLUSTER_ACTION)

_OPERATION_HANDLER: Final = "controller.operation_handler.answer_operation"
_OF_BROKERS: Final = "controller.broker_only_handler.refuse"


def _operation(
    name: str,
    authorization: Authorization,
    broker_handler_path: str = "admin.forwarding_handler.forward",
    *,
    broker_authorization: Authorization = BY_CONTROLLER,
    errors: ErrorPlaces = AT_TOP_LEVEL,
) -> tuple[ServedApi, ServedApi]:
    """Return the lines of an operation that brokers forward and the controller answers."""
    return (
        _api(name, _BROKER, broker_handler_path, broker_authorization, errors=errors),
        _api(name, _CONTROLLER, _OPERATION_HANDLER, authorization, errors=errors),
    )


def _acl_change(name: str, errors: ErrorPlaces) -> tuple[ServedApi, ServedApi]:
    """Return the lines of a change of ACLs."""
    broker_handler_path = "admin.acl_forwarding_handler.forward_acls"
    controller_handler_path = "controller.acl_operation_handler.change_acls"
    return (
        _api(name, _BROKER, broker_handler_path, BY_CONTROLLER, errors=errors),
        _api(name, _CONTROLLER, controller_handler_path, _ALTER, errors=errors),
    )


def _token_change(name: str, function: str) -> tuple[ServedApi, ServedApi]:
    """Return the lines of a change of delegation tokens; both handlers check the client."""
    return (
        _api(name, _BROKER, f"admin.token_forwarding_handler.{function}", IN_HANDLER),
        _api(name, _CONTROLLER, f"controller.token_operation_handler.{function}", IN_HANDLER),
    )


# Items that several apis share.
_TOPICS = items("topics", "topics", "name")
_PARTITIONS = items("partitions", "partitions", "partition_index")
_INDEXES = items("partition_indexes", "partitions", "partition_index")
_FETCHED = in_items((
    items("topics", "responses", "topic", "topic_id"),
    items("partitions", "partitions", partition_index="partition"),
), beside_top_before=13)  # fmt: skip
_RESOURCES = items("resources", "responses", "resource_type", "resource_name")

SERVED: Final = (
    # Data
    _api("Produce", _BROKER, "data.produce_handler.produce",
         ByGuard("data_guards.produce"), errors=in_items(
        (
            items("topic_data", "responses", "name", "topic_id"),
            items("partition_data", "partition_responses", "index"),
        ),
        # Java's idempotent producer gives up on -1 and loses its place (KAFKA-14034).
        unexpected=ErrorCode.KAFKA_STORAGE_ERROR,
    )),
    _api("Fetch", _BROKER, "data.fetch_handler.fetch", IN_HANDLER, waits=True, errors=_FETCHED),
    _api("ListOffsets", _BROKER, "data.list_offsets_handler.list_offsets",
         ByGuard("data_guards.list_offsets"),
         errors=in_items((_TOPICS, _PARTITIONS))),
    _api("DeleteRecords", _BROKER, "data.delete_records_handler.delete_records",
         ByGuard("data_guards.delete_records"),
         errors=in_items((_TOPICS, _PARTITIONS))),
    _api("OffsetForLeaderEpoch", _BROKER,
         "data.offset_for_leader_epoch_handler.offset_for_leader_epoch",
         ByGuard("data_guards.offset_for_leader_epoch"), errors=in_items((
        items("topics", "topics", "topic"),
        items("partitions", "partitions", "partition"),
    ))),

    # Metadata
    _api("ApiVersions", _BOTH, "metadata.api_versions_handler.api_versions", UNRESTRICTED),
    _api("Metadata", _BROKER, "metadata.metadata_handler.metadata",
         ByGuard("metadata_guards.metadata"), errors=in_items(
        (items("topics", "topics", "name", "topic_id"),), beside_top_before=EVERY_VERSION,
    )),
    _api("DescribeCluster", _BROKER, "metadata.describe_cluster_handler.describe_brokers",
         ByGuard("metadata_guards.describe_cluster")),
    _api("DescribeCluster", _CONTROLLER, "metadata.describe_cluster_handler.describe_controllers",
         ByGuard("metadata_guards.describe_controllers")),
    _api("DescribeTopicPartitions", _BROKER,
         "metadata.describe_cluster_handler.describe_topic_partitions",
         ByGuard("metadata_guards.describe_topic_partitions"),
         errors=in_items((_TOPICS,))),

    # Groups and their offsets
    _api("FindCoordinator", _BROKER, "groups.find_coordinator_handler.find_coordinator",
         ByGuard("group_guards.find_coordinator"),
         errors=in_items((items("coordinator_keys", "coordinators", "key"),))),
    _api("JoinGroup", _BROKER, "groups.group_handlers.join_group",
         ByGuard("group_guards.join_group"), waits=True),
    _api("SyncGroup", _BROKER, "groups.group_handlers.sync_group",
         ByGuard("group_guards.sync_group"), waits=True),
    _api("Heartbeat", _BROKER, "groups.group_handlers.heartbeat",
         ByGuard("group_guards.heartbeat")),
    _api("LeaveGroup", _BROKER, "groups.group_handlers.leave_group",
         ByGuard("group_guards.leave_group")),
    _api("ListGroups", _BROKER, "groups.group_handlers.list_groups",
         ByGuard("group_guards.list_groups")),
    _api("DescribeGroups", _BROKER, "groups.group_handlers.describe_groups",
         ByGuard("group_guards.describe_groups"),
         errors=in_items((items("groups", "groups", "group_id"),))),
    _api("DeleteGroups", _BROKER, "groups.group_handlers.delete_groups",
         ByGuard("group_guards.delete_groups"),
         errors=in_items((items("groups_names", "results", "group_id"),))),
    _api("ConsumerGroupHeartbeat", _BROKER,
         "groups.consumer_group_handlers.consumer_group_heartbeat",
         ByGuard("group_guards.consumer_group_heartbeat")),
    _api("ConsumerGroupDescribe", _BROKER,
         "groups.consumer_group_handlers.consumer_group_describe",
         ByGuard("group_guards.consumer_group_describe"),
         errors=in_items((items("group_ids", "groups", "group_id"),))),
    _api("ShareGroupDescribe", _BROKER, "groups.other_group_handlers.share_group_describe",
         ByGuard("group_guards.share_group_describe"),
         errors=in_items((items("group_ids", "groups", "group_id"),))),
    _api("StreamsGroupDescribe", _BROKER, "groups.other_group_handlers.streams_group_describe",
         ByGuard("group_guards.streams_group_describe"),
         errors=in_items((items("group_ids", "groups", "group_id"),))),
    _api("OffsetCommit", _BROKER, "groups.offset_handlers.offset_commit",
         ByGuard("offset_guards.offset_commit"), errors=in_items(
        (items("topics", "topics", "name", "topic_id"), _PARTITIONS),
    )),
    _api("OffsetFetch", _BROKER, "groups.offset_handlers.offset_fetch",
         ByGuard("offset_guards.offset_fetch"), errors=in_items(
        (items("groups", "groups", "group_id"),),
        (_TOPICS, _INDEXES),  # version 1 has no other code
    )),
    _api("OffsetDelete", _BROKER, "groups.offset_handlers.offset_delete",
         ByGuard("offset_guards.offset_delete")),

    # Idempotent producers and transactions
    _api("InitProducerId", _BROKER, "transactions.init_producer_id_handler.init_producer_id",
         ByGuard("transaction_guards.init_producer_id")),
    _api("AddPartitionsToTxn", _BROKER, "transactions.transaction_handlers.add_partitions_to_txn",
         ByGuard("transaction_guards.add_partitions_to_txn"),
         errors=in_items((
        items("v3_and_below_topics", "results_by_topic_v3_and_below", "name"),
        items("partitions", "results_by_partition", "partition_index"),
    ))),
    _api("AddOffsetsToTxn", _BROKER, "transactions.transaction_handlers.add_offsets_to_txn",
         ByGuard("transaction_guards.add_offsets_to_txn")),
    _api("EndTxn", _BROKER, "transactions.transaction_handlers.end_txn",
         ByGuard("transaction_guards.end_txn")),
    _api("DescribeTransactions", _BROKER,
         "transactions.transaction_handlers.describe_transactions",
         ByGuard("transaction_guards.describe_transactions"), errors=in_items(
        (items("transactional_ids", "transaction_states", "transactional_id"),),
    )),
    _api("ListTransactions", _BROKER, "transactions.transaction_handlers.list_transactions",
         ByGuard("transaction_guards.list_transactions")),
    _api("TxnOffsetCommit", _BROKER, "transactions.txn_offset_commit_handler.txn_offset_commit",
         ByGuard("transaction_guards.txn_offset_commit"),
         errors=in_items((_TOPICS, _PARTITIONS))),
    _api("WriteTxnMarkers", _BROKER, "transactions.producer_handlers.write_txn_markers",
         ByGuard("transaction_guards.write_txn_markers"),
         errors=in_items((items("markers", "markers", "producer_id"), _TOPICS, _INDEXES))),
    _api("DescribeProducers", _BROKER, "transactions.producer_handlers.describe_producers",
         ByGuard("transaction_guards.describe_producers"),
         errors=in_items((_TOPICS, _INDEXES))),

    # Administration
    *_operation("CreateTopics", ByGuard("topic_guards.create_topics"), errors=in_items((_TOPICS,))),
    *_operation("DeleteTopics", ByGuard("topic_guards.delete_topics"), errors=in_items(
        (items("topics", "responses", "name", "topic_id"),),
        (items("topic_names", "responses", "name"),),
    )),
    *_operation("CreatePartitions", ByGuard("topic_guards.create_partitions"),
                errors=in_items((items("topics", "results", "name"),))),
    _api("DescribeConfigs", _BOTH, "configs.describe_configs_handler.describe_configs",
         ByGuard("config_guards.describe_configs"),
         errors=in_items((items("resources", "results", "resource_type", "resource_name"),))),
    *_operation("AlterConfigs",
                ByGuard("config_guards.alter_configs"), "admin.alter_configs_handler.alter_configs",
                errors=in_items((_RESOURCES,))),
    *_operation("IncrementalAlterConfigs", ByGuard("config_guards.incremental_alter_configs"),
                "admin.alter_configs_handler.incremental_alter_configs",
                broker_authorization=IN_HANDLER, errors=in_items((_RESOURCES,))),
    _api("ListConfigResources", _BROKER, "configs.describe_configs_handler.list_config_resources",
         OnCluster(AclOperation.DESCRIBE_CONFIGS)),
    _api("DescribeLogDirs", _BROKER, "log_dirs.describe_log_dirs_handler.describe_log_dirs",
         ByGuard("log_dir_guards.describe_log_dirs")),
    _api("AlterReplicaLogDirs", _BROKER,
         "log_dirs.alter_replica_log_dirs_handler.alter_replica_log_dirs", _ALTER, errors=in_items((
        items("dirs", ""),  # the request lists directories, the response topics
        items("topics", "results", topic_name="name"),
        _PARTITIONS,
    ))),
    *_operation("ElectLeaders", _ALTER, errors=in_items(
        (
            items("topic_partitions", "replica_election_results", "topic"),
            items("partitions", "partition_result", "partition_id"),
        ),
        beside_top_before=EVERY_VERSION,
    )),
    *_operation("AlterPartitionReassignments", _ALTER, errors=in_items(
        (items("topics", "responses", "name"), _PARTITIONS), beside_top_before=EVERY_VERSION,
    )),
    *_operation("ListPartitionReassignments", _DESCRIBE),
    *_operation("UpdateFeatures", _ALTER),

    # Brokers and controllers
    _api("BrokerRegistration", _CONTROLLER, _OPERATION_HANDLER, _CLUSTER_ACTION),
    _api("BrokerHeartbeat", _CONTROLLER, _OPERATION_HANDLER, _CLUSTER_ACTION),
    _api("AllocateProducerIds", _CONTROLLER, _OPERATION_HANDLER, _CLUSTER_ACTION),
    _api("ControllerRegistration", _CONTROLLER, _OPERATION_HANDLER, _CLUSTER_ACTION),
    _api("AssignReplicasToDirs", _CONTROLLER, _OPERATION_HANDLER, _CLUSTER_ACTION),
    _api("Envelope", _CONTROLLER, "envelope.envelope_handler.envelope",
         _CLUSTER_ACTION, waits=True),
    _api("AlterPartition", _CONTROLLER, _OPERATION_HANDLER, _CLUSTER_ACTION),
    *_operation("UnregisterBroker", _ALTER),

    # The metadata quorum
    _api("Fetch", _CONTROLLER, "controller.raft_handlers.fetch",
         _CLUSTER_ACTION, waits=True, errors=_FETCHED),
    _api("Vote", _CONTROLLER, "controller.raft_handlers.vote", _CLUSTER_ACTION),
    _api("BeginQuorumEpoch", _CONTROLLER, "controller.raft_handlers.begin_quorum_epoch",
         _CLUSTER_ACTION),
    _api("EndQuorumEpoch", _CONTROLLER, "controller.raft_handlers.end_quorum_epoch",
         _CLUSTER_ACTION),
    _api("AddRaftVoter", _BROKER, "admin.forwarding_handler.forward", BY_CONTROLLER),
    _api("AddRaftVoter", _CONTROLLER, "controller.voter_handlers.add_raft_voter", _ALTER),
    _api("RemoveRaftVoter", _BROKER, "admin.forwarding_handler.forward", BY_CONTROLLER),
    _api("RemoveRaftVoter", _CONTROLLER, "controller.voter_handlers.remove_raft_voter", _ALTER),
    _api("UpdateRaftVoter", _CONTROLLER, "controller.voter_handlers.update_raft_voter",
         _CLUSTER_ACTION),
    _api("FetchSnapshot", _CONTROLLER, "controller.raft_handlers.fetch_snapshot", _CLUSTER_ACTION),
    _api("DescribeQuorum", _BROKER, "admin.forwarding_handler.forward", BY_CONTROLLER),
    _api("DescribeQuorum", _CONTROLLER, "controller.describe_quorum_handler.describe_quorum",
         _DESCRIBE),

    # Security
    _api("SaslHandshake", _BOTH, "security.sasl_handlers.sasl_handshake", UNRESTRICTED),
    _api("SaslAuthenticate", _BOTH, "security.sasl_handlers.sasl_authenticate", UNRESTRICTED),
    *_token_change("CreateDelegationToken", "create_delegation_token"),
    *_token_change("RenewDelegationToken", "renew_delegation_token"),
    *_token_change("ExpireDelegationToken", "expire_delegation_token"),
    _api("DescribeDelegationToken", _BROKER,
         "security.delegation_token_handlers.describe_delegation_token", IN_HANDLER),
    _api("DescribeDelegationToken", _CONTROLLER, _OF_BROKERS, UNRESTRICTED),
    _api("DescribeClientQuotas", _BROKER, "security.client_quota_handlers.describe_client_quotas",
         ByGuard("quota_guards.describe_client_quotas")),
    *_operation("AlterClientQuotas", ByGuard("quota_guards.alter_client_quotas"),
                errors=in_items((items("entries", "entries"),))),
    _api("DescribeUserScramCredentials", _BROKER,
         "security.scram_handlers.describe_user_scram_credentials",
         ByGuard("scram_guards.describe_user_scram_credentials")),
    _api("DescribeUserScramCredentials", _CONTROLLER, _OF_BROKERS, UNRESTRICTED, errors=in_items(
        (items("users", "results"),), beside_top_before=EVERY_VERSION,
    )),
    *_operation("AlterUserScramCredentials", _ALTER, errors=in_items(
        (items("deletions", "results", user="name"),),
        (items("upsertions", "results", user="name"),),
        is_union=True,
    )),
    _api("DescribeAcls", _BOTH, "security.acl_handlers.describe_acls", _DESCRIBE),
    *_acl_change("CreateAcls", in_items((items("creations", "results"),))),
    *_acl_change("DeleteAcls", in_items((items("filters", "filter_results"),))),
)  # fmt: skip


def by_listener(lines: Iterable[ServedApi]) -> dict[ListenerKind, dict[int, ServedApi]]:
    """Return the lines by kind of listener and api key, in the order of the keys.

    Raises ValueError when a listener has two lines for an api, or Kafka does not serve it there.
    """
    found: dict[ListenerKind, dict[int, ServedApi]] = {"broker": {}, "controller": {}}
    for line in sorted(lines, key=lambda line: line.api.key):
        for listener in line.listeners:
            if line.api.key in found[listener] or listener not in line.api.listeners:
                raise ValueError(f"{line.api.name} cannot be registered for a {listener} listener")
            found[listener][line.api.key] = line
    return found


REGISTRY: Final = by_listener(SERVED)
"""The lines by kind of listener and api key."""
