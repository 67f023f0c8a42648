"""The registrations of this process as a broker and as a controller."""

from collections.abc import Callable, Iterable
from random import Random
from typing import Any

from barnabas import tasks
from barnabas.cluster.broker.broker_identity import NO_EPOCH, BrokerIdentity
from barnabas.cluster.controller.controller import LocalBroker
from barnabas.cluster.metadata.feature_levels import REGISTERED
from barnabas.cluster.metadata.image import Endpoint
from barnabas.protocol.messages.broker_registration import BrokerRegistrationRequest
from barnabas.protocol.messages.controller_registration import ControllerRegistrationRequest
from barnabas.protocol.types import ZERO_UUID, Uuid
from barnabas.server.quorum.quorum_setup import QuorumSetup


class NodeRegistration:
    """Builds the registrations of one run of the process."""

    def __init__(self, setup: QuorumSetup) -> None:
        self._setup = setup
        self._incarnation_id = Uuid.random(tasks.local(Random).randbytes)

    @property
    def local_broker(self) -> LocalBroker:
        """The broker of this process, as the controller in the same process knows it."""
        return LocalBroker(self._setup.node_id, self._incarnation_id)

    def unregistered(self) -> BrokerIdentity:
        """Return the broker's identity before its registration."""
        return BrokerIdentity(self._setup.node_id, self._incarnation_id, self._directory_ids())

    def of_broker(self) -> BrokerRegistrationRequest:
        """Return the broker's registration."""
        setup, request = self._setup, BrokerRegistrationRequest
        return request(
            broker_id=setup.node_id,
            cluster_id=setup.cluster_id,
            incarnation_id=self._incarnation_id,
            listeners=_listeners(request.Listener, setup.broker_endpoints),
            features=_features(request.Feature),
            rack=setup.config.rack,
            log_dirs=list(self._directory_ids()),
            previous_broker_epoch=self._previous_epoch(),
        )

    def of_controller(self) -> ControllerRegistrationRequest:
        """Return the controller's registration."""
        setup, request = self._setup, ControllerRegistrationRequest
        return request(
            controller_id=setup.node_id,
            incarnation_id=self._incarnation_id,
            listeners=_listeners(request.Listener, setup.controller_endpoints),
            features=_features(request.Feature),
        )

    def cordoned_directories(self) -> list[Uuid]:
        """Return the directories that get no new partitions (KIP-1066)."""
        volumes = self._setup.logs.volumes
        return [each.directory_id or ZERO_UUID for each in volumes if each.is_cordoned]

    def _directory_ids(self) -> tuple[Uuid, ...]:
        """The ids of the working directories that hold partitions (KIP-858)."""
        volumes = self._setup.logs.volumes
        return tuple(each.directory_id or ZERO_UUID for each in volumes if each.failure is None)

    def _previous_epoch(self) -> int:
        """The epoch in which all directories were last stopped cleanly, or -1."""
        epochs = {volume.previous_broker_epoch for volume in self._setup.logs.volumes}
        return epochs.pop() if len(epochs) == 1 else NO_EPOCH


def _listeners(listener: Callable[..., Any], endpoints: Iterable[Endpoint]) -> list[Any]:
    return [
        listener(
            name=point.name,
            host=point.host,
            port=point.port,
            security_protocol=point.security_protocol,
        )
        for point in endpoints
    ]


def _features(feature: Callable[..., Any]) -> list[Any]:
    return [
        feature(name=name, min_supported_version=low, max_supported_version=high)
        for name, (low, high) in REGISTERED.items()
    ]
