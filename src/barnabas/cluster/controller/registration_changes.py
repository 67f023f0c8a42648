"""Register brokers and controllers (Kafka's `ClusterControlManager`)."""

from collections.abc import Iterable
from typing import Any

import attrs

from barnabas.cluster.controller import isr_changes
from barnabas.cluster.controller.operation_result import Context, ControllerResult
from barnabas.cluster.metadata.feature_levels import (
    METADATA_VERSION,
    supports_controller_registration,
    supports_directories,
)
from barnabas.cluster.metadata.image import (
    NO_DIRECTORY,
    BrokerImage,
    ControllerImage,
    Endpoint,
    MetadataImage,
)
from barnabas.cluster.metadata.image_records import broker_record, controller_record
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.messages.broker_registration import (
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
)
from barnabas.protocol.messages.controller_registration import (
    ControllerRegistrationRequest,
    ControllerRegistrationResponse,
)
from barnabas.protocol.messages_base import Message


def register_controller(
    image: MetadataImage, request: ControllerRegistrationRequest
) -> ControllerResult[ControllerRegistrationResponse]:
    """Record a controller's endpoints and features.

    Raises KafkaError UNSUPPORTED_VERSION when the metadata.version has no such record.
    """
    if not supports_controller_registration(image.features):
        raise KafkaError(
            ErrorCode.UNSUPPORTED_VERSION,
            "The current MetadataVersion is too old to support controller registrations.",
        )
    controller = ControllerImage(
        id=request.controller_id,
        incarnation_id=request.incarnation_id,
        endpoints=_endpoints(request.listeners),
        features=_features(request.features),
    )
    response = ControllerRegistrationResponse(error_message=None)
    if controller == image.controllers.get(controller.id):
        return ControllerResult([], response)
    return ControllerResult([controller_record(controller)], response)


def register_broker(
    context: Context,
    request: BrokerRegistrationRequest,
    next_offset: int,
    *,
    has_session: bool,
    most: int | None = None,
) -> ControllerResult[BrokerRegistrationResponse]:
    """Register a broker, fenced, under a new epoch: the offset of its record.

    A second registration of the same incarnation updates endpoints, features and directories; the
    broker keeps its epoch and its state. A new incarnation first leaves the leaderships and in-sync
    sets of the one before it, and after an unclean shutdown the eligible leader replicas. The
    registration is the last record, so that the broker registers again if only a part of the
    records is committed. With `most`, a result has at most that number of changes of partitions; it
    is not complete while there are as many. `has_session` is true when the registered incarnation
    has a valid session.

    Raises KafkaError: INCONSISTENT_CLUSTER_ID, DUPLICATE_BROKER_REGISTRATION, INVALID_REGISTRATION,
    or UNSUPPORTED_VERSION for a broker that lacks a finalized feature.
    """
    image = context.image
    known = image.brokers.get(request.broker_id)
    is_amended = known is not None and known.incarnation_id == request.incarnation_id
    _check_cluster(image, request)
    if has_session and not is_amended:
        raise KafkaError(
            ErrorCode.DUPLICATE_BROKER_REGISTRATION,
            f"Broker {request.broker_id} is registered by another process, whose session has not "
            "expired. A broker that was restarted is registered when the session expires.",
        )
    _check_directories(image, request)
    _check_features(image, request)
    records: list[Message] = []
    if not is_amended:
        is_clean = known is not None and request.previous_broker_epoch == known.epoch
        records += isr_changes.end_incarnation(context, request.broker_id, most, is_clean=is_clean)
        if len(records) == most:
            return ControllerResult(records, BrokerRegistrationResponse(), is_complete=False)
    registered = _registered(request, next_offset + len(records))
    if known is not None and is_amended:
        registered = attrs.evolve(
            registered,
            epoch=known.epoch,
            fenced=known.fenced,
            in_controlled_shutdown=known.in_controlled_shutdown,
            cordoned_directories=known.cordoned_directories,
        )
    response = BrokerRegistrationResponse(broker_epoch=registered.epoch)
    if registered == known:
        return ControllerResult([], response)
    return ControllerResult([*records, broker_record(registered)], response, is_atomic=False)


def _registered(request: BrokerRegistrationRequest, epoch: int) -> BrokerImage:
    return BrokerImage(
        id=request.broker_id,
        epoch=epoch,
        incarnation_id=request.incarnation_id,
        endpoints=_endpoints(request.listeners),
        features=_features(request.features),
        rack=request.rack,
        fenced=True,
        in_controlled_shutdown=False,
        directories=tuple(request.log_dirs),
    )


def _check_cluster(image: MetadataImage, request: BrokerRegistrationRequest) -> None:
    if request.cluster_id != image.cluster_id:
        raise KafkaError(
            ErrorCode.INCONSISTENT_CLUSTER_ID,
            f"Expected cluster ID {image.cluster_id}, but got cluster ID {request.cluster_id}",
        )


def _check_directories(image: MetadataImage, request: BrokerRegistrationRequest) -> None:
    """Raise KafkaError INVALID_REGISTRATION for missing, reserved or shared directories."""
    if not supports_directories(image.features):
        return
    directories = set(request.log_dirs)
    if not directories:
        raise _invalid("No directories specified in request")
    if directories & NO_DIRECTORY:
        raise _invalid("Reserved directory ID in request")
    if len(directories) != len(request.log_dirs):
        raise _invalid("Duplicate directory ID in request")
    for broker in image.brokers.values():
        shared = directories.intersection(broker.directories)
        if shared and broker.id != request.broker_id:
            raise _invalid(f"Broker {broker.id} is already registered with directory {min(shared)}")


def _check_features(image: MetadataImage, request: BrokerRegistrationRequest) -> None:
    """Raise KafkaError UNSUPPORTED_VERSION when the broker lacks a finalized level."""
    supported = _features(request.features)
    if METADATA_VERSION not in supported:
        raise _invalid(f"Request features do not contain '{METADATA_VERSION}'")
    for name in {**supported, **image.features}:
        low, high = supported.get(name, (0, 0))
        level = image.features.get(name, 0)
        if not low <= level <= high:
            raise KafkaError(
                ErrorCode.UNSUPPORTED_VERSION,
                f"Unable to register because the broker does not support finalized version {level} "
                f"of {name}. The broker wants a version between {low} and {high}, inclusive.",
            )


def _invalid(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REGISTRATION, message)


def _endpoints(listeners: Iterable[Any]) -> dict[str, Endpoint]:
    return {
        point.name: Endpoint(point.name, point.host, point.port, point.security_protocol)
        for point in listeners
    }


def _features(features: Iterable[Any]) -> dict[str, tuple[int, int]]:
    return {
        feature.name: (feature.min_supported_version, feature.max_supported_version)
        for feature in features
    }
