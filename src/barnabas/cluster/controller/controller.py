"""The active controller: decides metadata changes, and leaves making them to the replayed records.

Each operation looks at the state with everything appended so far (committed or not), and returns
the records to append and the response to give once they are committed. The quorum's shell appends
them and hands the controller the image that replaying gives, so an operation sees all earlier
ones. What Kafka does in its `*ControlManager` classes is in `topic_changes`, `config_changes`,
`feature_changes` and `broker_changes`.
"""

from collections.abc import Callable, Collection

import attrs

from barnabas.cluster.controller import (
    broker_changes,
    config_changes,
    directory_changes,
    feature_changes,
    leader_elections,
    reassignment_changes,
    topic_changes,
)
from barnabas.cluster.controller.broker_changes import BrokerRegistration, ControllerRegistration
from barnabas.cluster.controller.operation_result import Context, ControllerResult, IdBlock
from barnabas.cluster.metadata.image import MetadataImage
from barnabas.config import NodeConfig
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.messages.alter_configs import AlterConfigsRequest, AlterConfigsResponse
from barnabas.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
)
from barnabas.protocol.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
)
from barnabas.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
)
from barnabas.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from barnabas.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from barnabas.protocol.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse
from barnabas.protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from barnabas.protocol.messages.update_features import (
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)
from barnabas.protocol.records.metadata_records import ProducerIdsRecord
from barnabas.protocol.types import Uuid

__all__ = ["BrokerRegistration", "Controller", "ControllerRegistration", "ControllerResult"]

# org.apache.kafka.server.common.ProducerIdsBlock
PRODUCER_ID_BLOCK_SIZE = 1000


@attrs.define(slots=True)
class Controller:
    """The controller's operations over `image`, the state with all that was appended.

    `config` gives the node's configuration as it stands, `new_id` a fresh topic id, `random(n)` a
    number below n, `kraft_version` the quorum's. `next_offset` is where the next record will stand.
    """

    config: Callable[[], NodeConfig]
    new_id: Callable[[], Uuid]
    random: Callable[[int], int]
    kraft_version: Callable[[], int]
    image: MetadataImage = attrs.field(factory=MetadataImage)
    next_offset: int = 0

    # Topics

    def create_topics(self, request: CreateTopicsRequest) -> ControllerResult[CreateTopicsResponse]:
        """Create topics, each by itself: one that is refused leaves the others."""
        return topic_changes.create_topics(self._context(), request)

    def delete_topics(
        self, request: DeleteTopicsRequest, version: int
    ) -> ControllerResult[DeleteTopicsResponse]:
        """Delete topics by name or id."""
        return topic_changes.delete_topics(self._context(), request, version)

    def create_partitions(
        self, request: CreatePartitionsRequest
    ) -> ControllerResult[CreatePartitionsResponse]:
        """Give topics more partitions."""
        return topic_changes.create_partitions(self._context(), request)

    def alter_partition_reassignments(
        self, request: AlterPartitionReassignmentsRequest
    ) -> ControllerResult[AlterPartitionReassignmentsResponse]:
        """Give partitions other replicas, or stop doing so."""
        return reassignment_changes.alter_partition_reassignments(self._context(), request)

    def elect_leaders(self, request: ElectLeadersRequest) -> ControllerResult[ElectLeadersResponse]:
        """Have partitions led by their preferred leader, or by whoever is there."""
        return leader_elections.elect_leaders(self.image, request)

    # Configuration

    def incremental_alter_configs(
        self, request: IncrementalAlterConfigsRequest, via_broker: int | None = None
    ) -> ControllerResult[IncrementalAlterConfigsResponse]:
        """Change some properties of resources; `via_broker` is who passes the request on."""
        return config_changes.incremental_alter_configs(self._context(), request, via_broker)

    def alter_configs(
        self, request: AlterConfigsRequest, via_broker: int | None = None
    ) -> ControllerResult[AlterConfigsResponse]:
        """Replace all properties of resources."""
        return config_changes.alter_configs(self._context(), request, via_broker)

    # Features

    def update_features(
        self, request: UpdateFeaturesRequest, version: int
    ) -> ControllerResult[UpdateFeaturesResponse]:
        """Finalize other levels of features, all or none."""
        return feature_changes.update_features(self.image, self.kraft_version(), request, version)

    # Brokers and controllers

    def register_controller(self, controller: ControllerRegistration) -> ControllerResult[None]:
        """Make a controller's endpoints and features known."""
        return broker_changes.register_controller(controller)

    def register_broker(self, broker: BrokerRegistration) -> ControllerResult[int]:
        """Register a (re)started broker, fenced for now; gives its epoch."""
        return broker_changes.register_broker(self.image, broker, self.next_offset)

    def broker_heartbeat(
        self,
        broker_id: int,
        broker_epoch: int,
        *,
        want_fence: bool,
        want_shutdown: bool = False,
        offline_directories: Collection[Uuid] = (),
    ) -> ControllerResult[bool]:
        """Fence or unfence a broker as it asks; gives whether it is fenced then."""
        return broker_changes.heartbeat(
            self.image,
            broker_id,
            broker_epoch,
            want_fence=want_fence,
            want_shutdown=want_shutdown,
            offline_directories=offline_directories,
        )

    def fence_broker(self, broker_id: int) -> ControllerResult[None]:
        """A broker is gone."""
        return broker_changes.fence(self.image, self.image.brokers[broker_id])

    def assign_replicas_to_dirs(
        self, request: AssignReplicasToDirsRequest
    ) -> ControllerResult[AssignReplicasToDirsResponse]:
        """Take down in which directories a broker's replicas are."""
        return directory_changes.assign_replicas_to_dirs(self.image, request)

    def allocate_producer_ids(self, broker_id: int, broker_epoch: int) -> ControllerResult[IdBlock]:
        """Give a broker the next block of producer ids (KIP-730)."""
        directory_changes.registered_broker(self.image, broker_id, broker_epoch)
        first = self.image.next_producer_id
        if first > (1 << 63) - 1 - PRODUCER_ID_BLOCK_SIZE:
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "All producer ids are used up")
        record = ProducerIdsRecord(
            broker_id=broker_id,
            broker_epoch=broker_epoch,
            next_producer_id=first + PRODUCER_ID_BLOCK_SIZE,
        )
        return ControllerResult([record], IdBlock(first, PRODUCER_ID_BLOCK_SIZE))

    def _context(self) -> Context:
        """What the operations of one request look at."""
        return Context(self.image, self.config(), self.new_id, self.random)
