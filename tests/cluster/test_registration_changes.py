"""The checks of registrations, with Kafka's error codes."""

import pytest

from barnabas.cluster.metadata.feature_levels import METADATA_VERSION
from barnabas.cluster.metadata.image import DIRECTORY_LOST
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.messages.broker_registration import BrokerRegistrationRequest
from barnabas.protocol.messages.controller_registration import ControllerRegistrationRequest
from barnabas.protocol.records.metadata_records import FeatureLevelRecord, RegisterBrokerRecord
from tests.cluster.states import Cluster, registration, uuid


def refusal_of(cluster: Cluster, request: BrokerRegistrationRequest) -> ErrorCode:
    with pytest.raises(KafkaError) as refusal:
        cluster.controller.register_broker(request)
    return refusal.value.code


def test_register_broker_second_process_is_refused_while_the_session_is_valid() -> None:
    cluster = Cluster()
    other = registration(1, incarnation=77)
    cluster.controller.now_ms = 8999
    assert refusal_of(cluster, other) is ErrorCode.DUPLICATE_BROKER_REGISTRATION
    cluster.controller.now_ms = 9000
    assert cluster.take(cluster.controller.register_broker(other)).broker_epoch > 1


def test_register_broker_fenced_broker_with_heartbeats_has_a_session_too() -> None:
    cluster = Cluster(brokers=0)
    cluster.add_broker(1, fenced=True)
    other = registration(1, incarnation=77)
    cluster.take(cluster.controller.broker_heartbeat(cluster.heartbeat(1, want_fence=True)))
    assert refusal_of(cluster, other) is ErrorCode.DUPLICATE_BROKER_REGISTRATION


def test_register_broker_same_process_registers_again_within_its_session() -> None:
    cluster = Cluster()
    epoch = cluster.image.brokers[1].epoch
    amended = registration(1, rack="elsewhere")
    assert cluster.take(cluster.controller.register_broker(amended)).broker_epoch == epoch
    assert cluster.image.brokers[1].rack == "elsewhere"


def test_register_broker_epoch_is_the_offset_of_its_record() -> None:
    """The records that clean up after the earlier incarnation precede it."""
    cluster = Cluster(brokers=2)
    cluster.create("t", partitions=4, replicas=2)
    next_offset = cluster.controller.next_offset
    cluster.controller.now_ms = 9000
    result = cluster.controller.register_broker(registration(1, incarnation=77))
    assert len(result.records) == 5
    assert isinstance(result.records[-1], RegisterBrokerRecord)
    assert result.response.broker_epoch == next_offset + 4
    assert not result.is_atomic


def test_register_broker_directories_must_be_its_own() -> None:
    cluster = Cluster(brokers=1)
    for directories in (
        [],
        [uuid(7), uuid(7)],
        [uuid(7), DIRECTORY_LOST],
        [uuid(7), uuid(501)],  # broker 1 has it
    ):
        request = registration(2)
        request.log_dirs = directories
        assert refusal_of(cluster, request) is ErrorCode.INVALID_REGISTRATION
    cluster.register(registration(1, uuid(501), uuid(7)))


def test_register_broker_finalized_features_must_be_supported() -> None:
    cluster = Cluster()
    cluster.replay([FeatureLevelRecord(name="a.feature", feature_level=1)])
    request = registration(2)
    assert refusal_of(cluster, request) is ErrorCode.UNSUPPORTED_VERSION
    feature = BrokerRegistrationRequest.Feature(name="a.feature", max_supported_version=2)
    request.features.append(feature)
    cluster.register(request)
    feature.min_supported_version = 2
    assert refusal_of(cluster, request) is ErrorCode.UNSUPPORTED_VERSION
    request.features = [each for each in request.features if each.name != METADATA_VERSION]
    assert refusal_of(cluster, request) is ErrorCode.INVALID_REGISTRATION


def test_register_broker_needs_the_metadata_version_of_the_cluster() -> None:
    cluster = Cluster()
    request = registration(2)
    (level,) = (each for each in request.features if each.name == METADATA_VERSION)
    level.max_supported_version = cluster.image.features[METADATA_VERSION] - 1
    assert refusal_of(cluster, request) is ErrorCode.UNSUPPORTED_VERSION


def test_register_controller_is_refused_by_an_old_metadata_version() -> None:
    cluster = Cluster()
    request = ControllerRegistrationRequest(controller_id=3, incarnation_id=uuid(3))
    cluster.take(cluster.controller.register_controller(request))
    assert cluster.controller.register_controller(request).records == []
    cluster.replay([FeatureLevelRecord(name=METADATA_VERSION, feature_level=14)])
    with pytest.raises(KafkaError) as refusal:
        cluster.controller.register_controller(request)
    assert refusal.value.code is ErrorCode.UNSUPPORTED_VERSION


def test_activate_earlier_incarnation_of_the_local_broker_has_no_session() -> None:
    """A node that was killed registers at once when its own controller leads again."""
    from barnabas.cluster.controller.controller import LocalBroker

    cluster = Cluster(brokers=2)
    controller = cluster.controller
    controller.local_broker = LocalBroker(1, uuid(77))
    controller.activate(cluster.image, controller.next_offset, 100)
    result = controller.register_broker(registration(1, incarnation=77))
    assert cluster.take(result).broker_epoch > 0
    other = registration(2, uuid(900), incarnation=78)
    assert refusal_of(cluster, other) is ErrorCode.DUPLICATE_BROKER_REGISTRATION


def test_register_broker_after_activation_is_accepted_with_a_directory_of_the_old_process() -> None:
    """A node that was killed together with the controller registers at once."""
    cluster = Cluster(brokers=2)
    controller = cluster.controller
    controller.activate(cluster.image, controller.next_offset, 100)
    old = cluster.image.brokers[2].epoch
    assert (
        cluster.take(controller.register_broker(registration(2, incarnation=78))).broker_epoch > old
    )


def test_register_broker_after_a_heartbeat_is_refused_with_a_copy_of_a_directory() -> None:
    cluster = Cluster(brokers=2)
    controller = cluster.controller
    controller.activate(cluster.image, controller.next_offset, 100)
    cluster.take(controller.broker_heartbeat(cluster.heartbeat(2)))
    other = registration(2, incarnation=78)
    assert refusal_of(cluster, other) is ErrorCode.DUPLICATE_BROKER_REGISTRATION


def test_register_broker_after_a_controlled_shutdown_is_accepted_at_once() -> None:
    cluster = Cluster(brokers=2)
    controller = cluster.controller
    response = cluster.take(controller.broker_heartbeat(cluster.heartbeat(2, want_shut_down=True)))
    assert response.should_shut_down
    old = cluster.image.brokers[2].epoch
    other = registration(2, incarnation=78, previous_epoch=old)
    assert cluster.take(controller.register_broker(other)).broker_epoch > old
