"""Cluster states for tests, made by replaying records as a server does."""

from typing import Any, TypeVar

from barnabas.cluster.controller.controller import Controller
from barnabas.cluster.controller.operation_result import ControllerResult
from barnabas.cluster.controller.sessions import SessionKey
from barnabas.cluster.metadata.delta import MetadataDelta
from barnabas.cluster.metadata.feature_levels import (
    METADATA_VERSION,
    METADATA_VERSION_LATEST,
    REGISTERED,
)
from barnabas.cluster.metadata.image import MetadataImage
from barnabas.config import NodeConfig
from barnabas.protocol.messages.broker_heartbeat import (
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
)
from barnabas.protocol.messages.broker_registration import BrokerRegistrationRequest
from barnabas.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from barnabas.protocol.messages_base import Message
from barnabas.protocol.records.metadata_records import FeatureLevelRecord
from barnabas.protocol.types import Uuid

T = TypeVar("T")
CLUSTER_ID = "MkU3OEVBNTcwNTJENDM2Qg"


def uuid(number: int) -> Uuid:
    return Uuid(number.to_bytes(16, "big"))


class Cluster:
    """A controller whose results take effect at once."""

    def __init__(self, brokers: int = 1, racks: int = 1, **overrides: str) -> None:
        given = {key.replace("_", "."): value for key, value in overrides.items()}
        self.config = NodeConfig.load(None, given)
        self.kraft_version = 1
        self.wall_ms = 0
        self._ids = 1000
        self.controller = Controller(
            lambda: self.config,
            self._new_id,
            lambda below: 0,
            lambda: self.kraft_version,
            MetadataImage(cluster_id=CLUSTER_ID, controller_id=1),
            wall_ms=lambda: self.wall_ms,
        )
        self.deltas: list[MetadataDelta] = []
        level = FeatureLevelRecord(name=METADATA_VERSION, feature_level=METADATA_VERSION_LATEST)
        self.replay([level])
        for broker_id in range(1, brokers + 1):
            self.add_broker(broker_id, rack=f"rack-{broker_id % racks}")

    def _new_id(self) -> Uuid:
        self._ids += 1
        return uuid(self._ids)

    @property
    def image(self) -> MetadataImage:
        return self.controller.image

    def add_broker(self, broker_id: int, *, rack: str | None = None, fenced: bool = False) -> int:
        epoch = self.register(registration(broker_id, rack=rack))
        if not fenced:
            self.unfence(broker_id)
        return epoch

    def register(self, request: BrokerRegistrationRequest) -> int:
        """Register a broker after the session of its earlier incarnation has ended."""
        known = self.image.brokers.get(request.broker_id)
        if known is not None and known.incarnation_id != request.incarnation_id:
            self.controller.sessions.remove(SessionKey(known.id, known.epoch))
        return self.take(self.controller.register_broker(request)).broker_epoch

    def unfence(self, broker_id: int) -> BrokerHeartbeatResponse:
        return self.take(self.controller.broker_heartbeat(self.heartbeat(broker_id)))

    def heartbeat(self, broker_id: int, **fields: Any) -> BrokerHeartbeatRequest:
        """Return a heartbeat of a broker that has applied all metadata and wants to be unfenced."""
        return BrokerHeartbeatRequest(
            broker_id=broker_id,
            broker_epoch=self.image.brokers[broker_id].epoch,
            current_metadata_offset=self.image.offset,
            **fields,
        )

    def take(self, result: ControllerResult[T]) -> T:
        self.replay(result.records)
        return result.response

    def replay(self, records: list[Message]) -> MetadataDelta:
        delta = MetadataDelta(self.image)
        for record in records:
            delta.replay(record)
        self.controller.next_offset += len(records)
        self.controller.image = delta.apply(self.controller.next_offset - 1, 1)
        self.deltas.append(delta)
        return delta

    def create(
        self, name: str, partitions: int = 1, replicas: int = 1, **configs: str
    ) -> CreateTopicsResponse.CreatableTopicResult:
        topic = CreateTopicsRequest.CreatableTopic(
            name=name,
            num_partitions=partitions,
            replication_factor=replicas,
            configs=[
                CreateTopicsRequest.CreatableTopicConfig(name=key.replace("_", "."), value=value)
                for key, value in configs.items()
            ],
        )
        request = CreateTopicsRequest(topics=[topic])
        (result,) = self.take(self.controller.create_topics(request)).topics
        return result


def registration(
    broker_id: int,
    *directories: Uuid,
    rack: str | None = None,
    incarnation: int | None = None,
    previous_epoch: int = -1,
    cluster_id: str = CLUSTER_ID,
) -> BrokerRegistrationRequest:
    request = BrokerRegistrationRequest
    listener = request.Listener(name="PLAINTEXT", host="127.0.0.1", port=9000 + broker_id)
    return request(
        broker_id=broker_id,
        cluster_id=cluster_id,
        incarnation_id=uuid(broker_id if incarnation is None else incarnation),
        listeners=[listener],
        features=[
            request.Feature(name=name, min_supported_version=low, max_supported_version=high)
            for name, (low, high) in REGISTERED.items()
        ],
        rack=rack,
        log_dirs=list(directories) or [uuid(500 + broker_id)],
        previous_broker_epoch=previous_epoch,
    )
