"""The active controller: each request becomes metadata records and a response.

An operation sees the state with all appended records, committed or not. It returns the records to
append and the response to send once they are committed. Its host appends the records, replays them
and gives the controller the new image, so an operation sees the effects of all earlier ones. The
modules `topic_changes`, `config_changes`, `feature_changes` and `registration_changes` correspond
to Kafka's `*ControlManager` classes.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar

import attrs

from barnabas.cluster.controller import (
    broker_changes,
    config_changes,
    directory_changes,
    feature_changes,
    isr_changes,
    leader_elections,
    partition_alteration,
    reassignment_changes,
    registration_changes,
    topic_changes,
)
from barnabas.cluster.controller.broker_heartbeats import BrokerHeartbeats
from barnabas.cluster.controller.controller_requests import ControllerRequest, TokenOperation
from barnabas.cluster.controller.operation_result import (
    Charge,
    Context,
    ControllerResult,
    charge_nothing,
)
from barnabas.cluster.controller.sessions import BrokerSessions, SessionKey
from barnabas.cluster.metadata.feature_levels import ELIGIBLE_LEADER_REPLICAS_VERSION
from barnabas.cluster.metadata.image import MetadataImage
from barnabas.config import NodeConfig
from barnabas.protocol.messages.allocate_producer_ids import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)
from barnabas.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
)
from barnabas.protocol.messages.alter_configs import AlterConfigsRequest, AlterConfigsResponse
from barnabas.protocol.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
)
from barnabas.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
)
from barnabas.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
)
from barnabas.protocol.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
)
from barnabas.protocol.messages.broker_heartbeat import (
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
)
from barnabas.protocol.messages.broker_registration import (
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
)
from barnabas.protocol.messages.controller_registration import (
    ControllerRegistrationRequest,
    ControllerRegistrationResponse,
)
from barnabas.protocol.messages.create_acls import CreateAclsRequest, CreateAclsResponse
from barnabas.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
)
from barnabas.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from barnabas.protocol.messages.delete_acls import DeleteAclsRequest, DeleteAclsResponse
from barnabas.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from barnabas.protocol.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse
from barnabas.protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from barnabas.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from barnabas.protocol.messages.unregister_broker import (
    UnregisterBrokerRequest,
    UnregisterBrokerResponse,
)
from barnabas.protocol.messages.update_features import (
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)
from barnabas.protocol.messages_base import Message
from barnabas.protocol.records.metadata_records import FeatureLevelRecord
from barnabas.protocol.types import Uuid

MAX_CHANGES_PER_RUN: Final = 500
"""How many partitions one run changes; the loop serves other requests before the next run."""
MAX_TOKENS_PER_RUN: Final = 1000
"""How many expired tokens one run removes, as in Kafka."""

if TYPE_CHECKING:
    from barnabas.cluster.metadata.delegation_tokens import TokenProofs

T = TypeVar("T")


@attrs.frozen(slots=True)
class LocalBroker:
    """The broker in the controller's process."""

    id: int
    incarnation_id: Uuid


@attrs.define(slots=True)
class Controller:
    """The controller's operations over `image`, the state with all appended records.

    `config` returns the node's current configuration, `new_id` a new topic id, `random(n)` a number
    below n, and `kraft_version` the quorum's. `next_offset` is the offset of the next record, and
    `now_ms` the time of the operation, for whose client `charge` counts; `wall_ms` returns
    milliseconds since the epoch. `local_broker` is the broker in the same process, if there is one.

    The log does not contain `heartbeats`, `sessions`, and the brokers whose change of state
    concerns more partitions than one run changes: `fencing` is the one that is being fenced,
    `ending` those that are being replaced or unregistered, `unfinished` has those of other changes.
    """

    config: Callable[[], NodeConfig]
    new_id: Callable[[], Uuid]
    random: Callable[[int], int]
    kraft_version: Callable[[], int]
    wall_ms: Callable[[], int] = attrs.field(kw_only=True)
    image: MetadataImage = attrs.field(factory=MetadataImage)
    next_offset: int = 0
    now_ms: int = 0
    charge: Charge = charge_nothing
    local_broker: LocalBroker | None = None
    heartbeats: BrokerHeartbeats = attrs.field(factory=BrokerHeartbeats)
    sessions: BrokerSessions = attrs.field(factory=BrokerSessions)
    unfinished: dict[SessionKey, None] = attrs.field(factory=dict[SessionKey, None])
    fencing: SessionKey | None = None
    ending: set[SessionKey] = attrs.field(factory=set[SessionKey])
    _token_proofs: "TokenProofs | None" = attrs.field(default=None, init=False)

    def handle(self, request: ControllerRequest, version: int) -> ControllerResult[Any]:
        """Decide an operation; `version` is the version of its request. Raises KafkaError."""
        return _OPERATIONS[type(request)](self, request, version)

    # Topics

    def create_topics(self, request: CreateTopicsRequest) -> ControllerResult[CreateTopicsResponse]:
        """Create topics; a topic that is refused does not prevent the others."""
        return topic_changes.create_topics(self._context(), request)

    def delete_topics(
        self, request: DeleteTopicsRequest, version: int
    ) -> ControllerResult[DeleteTopicsResponse]:
        """Delete topics by name or id."""
        return topic_changes.delete_topics(self._context(), request, version)

    def create_partitions(
        self, request: CreatePartitionsRequest
    ) -> ControllerResult[CreatePartitionsResponse]:
        """Add partitions to topics."""
        return topic_changes.create_partitions(self._context(), request)

    def alter_partition_reassignments(
        self, request: AlterPartitionReassignmentsRequest
    ) -> ControllerResult[AlterPartitionReassignmentsResponse]:
        """Begin or cancel reassignments of partitions."""
        return reassignment_changes.alter_partition_reassignments(self._context(), request)

    def list_partition_reassignments(
        self, request: ListPartitionReassignmentsRequest
    ) -> ControllerResult[ListPartitionReassignmentsResponse]:
        """Return the reassignments in progress."""
        return reassignment_changes.list_partition_reassignments(self.image, request)

    def elect_leaders(self, request: ElectLeadersRequest) -> ControllerResult[ElectLeadersResponse]:
        """Elect leaders: the preferred replicas, or any online replica (unclean)."""
        return leader_elections.elect_leaders(self._context(), request)

    def balance_leaders(self, most: int) -> ControllerResult[None]:
        """Let preferred replicas lead again, in `most` partitions at a time."""
        return ControllerResult(leader_elections.balance_leaders(self._context(), most), None)

    def elect_uncleanly(self, most: int) -> ControllerResult[None]:
        """Elect leaders where only an unclean election can, in `most` partitions at a time."""
        return ControllerResult(leader_elections.elect_uncleanly(self._context(), most), None)

    # Configuration

    def incremental_alter_configs(
        self, request: IncrementalAlterConfigsRequest
    ) -> ControllerResult[IncrementalAlterConfigsResponse]:
        """Change some properties of resources."""
        return config_changes.incremental_alter_configs(self._context(), request)

    def alter_configs(self, request: AlterConfigsRequest) -> ControllerResult[AlterConfigsResponse]:
        """Replace all properties of resources."""
        return config_changes.alter_configs(self._context(), request)

    # Security

    def alter_scram_credentials(
        self, request: AlterUserScramCredentialsRequest
    ) -> ControllerResult[AlterUserScramCredentialsResponse]:
        """Set and remove SCRAM credentials."""
        from barnabas.cluster.controller import scram_changes  # at the first change of users

        return scram_changes.alter_scram_credentials(self._context(), request)

    def alter_client_quotas(
        self, request: AlterClientQuotasRequest
    ) -> ControllerResult[AlterClientQuotasResponse]:
        """Set and remove quotas of clients."""
        from barnabas.cluster.controller import quota_changes  # few clusters have quotas

        return quota_changes.alter_client_quotas(self._context(), request)

    def create_acls(self, request: CreateAclsRequest) -> ControllerResult[CreateAclsResponse]:
        """Add ACLs."""
        from barnabas.cluster.controller import acl_changes  # few clusters have ACLs

        return acl_changes.create_acls(self._context(), request)

    def delete_acls(self, request: DeleteAclsRequest) -> ControllerResult[DeleteAclsResponse]:
        """Remove the ACLs that filters select."""
        from barnabas.cluster.controller import acl_changes

        return acl_changes.delete_acls(self._context(), request)

    def change_token(self, operation: TokenOperation, version: int) -> ControllerResult[Message]:
        """Create, renew or expire a delegation token."""
        from barnabas.cluster.controller import token_changes  # few clusters have tokens

        self._token_proofs = proofs = self._token_proofs or token_changes.TokenProofs()
        return token_changes.change_token(
            self._context(), proofs, operation, version, self.wall_ms()
        )

    def remove_expired_tokens(self) -> ControllerResult[None]:
        """Remove delegation tokens that have expired, MAX_TOKENS_PER_RUN at a time."""
        if not self.image.tokens:
            return ControllerResult([], None)
        from barnabas.cluster.controller import token_changes

        now_ms = self.wall_ms()
        records = token_changes.expired_tokens(self._context(), now_ms, MAX_TOKENS_PER_RUN)
        return ControllerResult(records, None, is_atomic=False)

    # Features

    def update_features(
        self, request: UpdateFeaturesRequest, version: int
    ) -> ControllerResult[UpdateFeaturesResponse]:
        """Change the finalized levels of features, all or none."""
        context = self._context()
        return feature_changes.update_features(context, self.kraft_version(), request, version)

    def bootstrap(self, records: Sequence[Message]) -> ControllerResult[None]:
        """Return what the first controller of an empty log writes: `records`, and what they need.

        Brokers must know the cluster's min.insync.replicas to keep eligible leader replicas.
        """
        levels = {
            each.name: each.feature_level
            for each in records
            if isinstance(each, FeatureLevelRecord)
        }
        has_elr = levels.get(ELIGIBLE_LEADER_REPLICAS_VERSION, 0) > 0
        extra = feature_changes.min_isr_records(self._context()) if has_elr else []
        return ControllerResult([*records, *extra], None)

    # Brokers and controllers

    def register_controller(
        self, request: ControllerRegistrationRequest
    ) -> ControllerResult[ControllerRegistrationResponse]:
        """Record a controller's endpoints and features."""
        return registration_changes.register_controller(self.image, request)

    def register_broker(
        self, request: BrokerRegistrationRequest
    ) -> ControllerResult[BrokerRegistrationResponse]:
        """Register a starting broker, fenced; the response has its epoch."""
        has_session = self._has_session(request)
        return self._end_in_runs(
            request.broker_id,
            lambda context: registration_changes.register_broker(
                context,
                request,
                self.next_offset,
                has_session=has_session,
                most=MAX_CHANGES_PER_RUN,
            ),
        )

    def _end_in_runs(
        self, broker_id: int, decide: Callable[[Context], ControllerResult[T]]
    ) -> ControllerResult[T]:
        """Decide the next run of an operation that ends a broker's registration.

        Until the last run, no ISR and no election takes the broker. Otherwise leaders add it again
        between the runs, and there is no last run.
        """
        context, broker = self._context(), self.image.brokers.get(broker_id)
        ending = set[SessionKey]()
        if broker is not None:
            ending.add(SessionKey(broker.id, broker.epoch))
        self.ending -= ending
        result = decide(context)
        if not result.is_complete:
            self.ending |= ending
        return result

    def _has_session(self, request: BrokerRegistrationRequest) -> bool:
        """True when the registered incarnation of a broker may still run.

        A directory is locked by the process that uses it. A new process that has a directory of the
        registered incarnation proves that the other one has ended, unless that one has sent a
        heartbeat to this controller: then one of the two has a copy of the directory.
        """
        known = self.image.brokers.get(request.broker_id)
        if known is None:
            return False
        session = SessionKey(known.id, known.epoch)
        shares_directory = not set(known.directories).isdisjoint(request.log_dirs)
        if shares_directory and self.sessions.is_assumed(session):
            return False
        return self.sessions.is_valid(session, self.now_ms)

    def broker_heartbeat(
        self, request: BrokerHeartbeatRequest
    ) -> ControllerResult[BrokerHeartbeatResponse]:
        """Decide a broker's next state, and record its failed directories."""
        broker = directory_changes.registered_broker(
            self.image, request.broker_id, request.broker_epoch
        )
        session = SessionKey(broker.id, broker.epoch)
        self.sessions.touch(session, self.now_ms)
        result = broker_changes.heartbeat(
            self._context(), self.heartbeats, request, self.next_offset, MAX_CHANGES_PER_RUN
        )
        if result.response.should_shut_down:
            self.sessions.remove(session)  # the process ends, and the next one registers at once
        if len(result.records) >= MAX_CHANGES_PER_RUN:
            self.unfinished[session] = None
        return result

    def finish_changes(self) -> ControllerResult[None]:
        """Change the next partitions of the broker whose change of state is unfinished."""
        for key in tuple(self.unfinished):
            broker = self.image.brokers.get(key.broker_id)
            records: list[Message] = []
            is_same = broker is not None and broker.epoch == key.epoch and not broker.fenced
            is_leaving = key == self.fencing or key in self.ending
            if broker is not None and is_same and not is_leaving:
                records = broker_changes.finish(
                    self._context(), self.heartbeats, broker, self.next_offset, MAX_CHANGES_PER_RUN
                )
            if len(records) < MAX_CHANGES_PER_RUN:
                del self.unfinished[key]
            if records:
                return ControllerResult(records, None, is_atomic=False)
        return ControllerResult([], None)

    def activate(self, image: MetadataImage, next_offset: int, now_ms: int) -> None:
        """Start as the active controller, with the state of the whole log.

        Every unfenced broker gets a new session: this controller has not received its heartbeats.
        An earlier incarnation of the local broker gets none: its process has ended.
        """
        self.image, self.next_offset, self.now_ms = image, next_offset, now_ms
        self.heartbeats = BrokerHeartbeats()
        self.fencing = None
        self.ending.clear()
        # The controller before this one may have ended in the middle of their changes.
        self.unfinished = {
            SessionKey(broker.id, broker.epoch): None
            for broker in image.brokers.values()
            if not broker.fenced
        }
        self.sessions = BrokerSessions(self.config().get_int("broker.session.timeout.ms"))
        for broker in image.brokers.values():
            local = self.local_broker
            is_replaced = (
                local is not None
                and broker.id == local.id
                and broker.incarnation_id != local.incarnation_id
            )
            if not broker.fenced and not is_replaced:
                self.sessions.assume(SessionKey(broker.id, broker.epoch), now_ms)

    def fence_broker(self, broker_id: int, most: int | None = None) -> ControllerResult[None]:
        """Fence a broker and move its leaderships, `most` partitions at a time.

        Until the last run, no ISR and no election takes the broker. Otherwise leaders add it again
        between the runs, and there is no last run.
        """
        broker = self.image.brokers[broker_id]
        records = isr_changes.fence(self._context(), broker, most)
        is_last = isr_changes.is_fenced_by(records)
        self.fencing = None if is_last else SessionKey(broker_id, broker.epoch)
        return ControllerResult(records, None, is_atomic=False)

    def assign_replicas_to_dirs(
        self, request: AssignReplicasToDirsRequest
    ) -> ControllerResult[AssignReplicasToDirsResponse]:
        """Record in which directories a broker's replicas are."""
        return directory_changes.assign_replicas_to_dirs(self._context(), request)

    def alter_partition(
        self, request: AlterPartitionRequest, version: int
    ) -> ControllerResult[AlterPartitionResponse]:
        """Change the ISRs that a partition leader proposes."""
        return partition_alteration.alter_partitions(self._context(), request, version)

    def unregister_broker(
        self, request: UnregisterBrokerRequest
    ) -> ControllerResult[UnregisterBrokerResponse]:
        """Remove a broker's registration."""
        return self._end_in_runs(
            request.broker_id,
            lambda context: broker_changes.unregister_broker(context, request, MAX_CHANGES_PER_RUN),
        )

    def allocate_producer_ids(
        self, request: AllocateProducerIdsRequest
    ) -> ControllerResult[AllocateProducerIdsResponse]:
        """Allocate the next block of producer ids to a broker (KIP-730)."""
        from barnabas.cluster.controller import producer_id_changes  # at the first producer

        return producer_id_changes.allocate_producer_ids(self.image, request)

    def _context(self) -> Context:
        keys = self.ending if self.fencing is None else self.ending | {self.fencing}
        leaving = {key.broker_id for key in keys}
        return Context(self.image, self.config(), self.new_id, self.random, leaving, self.charge)


# The operation of each request; it receives the controller, the request and its version.
_OPERATIONS: dict[
    type[ControllerRequest], Callable[[Controller, Any, int], ControllerResult[Any]]
] = {
    CreateTopicsRequest: lambda controller, request, _: controller.create_topics(request),
    DeleteTopicsRequest: Controller.delete_topics,
    CreatePartitionsRequest: lambda controller, request, _: controller.create_partitions(request),
    AlterPartitionReassignmentsRequest: (
        lambda controller, request, _: controller.alter_partition_reassignments(request)
    ),
    ListPartitionReassignmentsRequest: (
        lambda controller, request, _: controller.list_partition_reassignments(request)
    ),
    ElectLeadersRequest: lambda controller, request, _: controller.elect_leaders(request),
    AlterConfigsRequest: lambda controller, request, _: controller.alter_configs(request),
    IncrementalAlterConfigsRequest: (
        lambda controller, request, _: controller.incremental_alter_configs(request)
    ),
    UpdateFeaturesRequest: Controller.update_features,
    ControllerRegistrationRequest: (
        lambda controller, request, _: controller.register_controller(request)
    ),
    BrokerRegistrationRequest: lambda controller, request, _: controller.register_broker(request),
    BrokerHeartbeatRequest: lambda controller, request, _: controller.broker_heartbeat(request),
    AssignReplicasToDirsRequest: (
        lambda controller, request, _: controller.assign_replicas_to_dirs(request)
    ),
    AllocateProducerIdsRequest: (
        lambda controller, request, _: controller.allocate_producer_ids(request)
    ),
    AlterPartitionRequest: Controller.alter_partition,
    UnregisterBrokerRequest: lambda controller, request, _: controller.unregister_broker(request),
    AlterUserScramCredentialsRequest: (
        lambda controller, request, _: controller.alter_scram_credentials(request)
    ),
    AlterClientQuotasRequest: (
        lambda controller, request, _: controller.alter_client_quotas(request)
    ),
    CreateAclsRequest: lambda controller, request, _: controller.create_acls(request),
    DeleteAclsRequest: lambda controller, request, _: controller.delete_acls(request),
    TokenOperation: Controller.change_token,
}
