"""A broker registers, catches up, is unfenced, sends heartbeats and shuts down."""

from barnabas.cluster.broker.broker_identity import BrokerIdentity
from barnabas.cluster.broker.broker_lifecycle import (
    BrokerLifecycle,
    BrokerState,
    LifecycleRequest,
    LifecycleTimeouts,
)
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.broker_heartbeat import (
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
)
from barnabas.protocol.messages.broker_registration import (
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
)
from tests.cluster.states import Cluster, registration, uuid

TIMEOUTS = LifecycleTimeouts()


def lifecycle_of(broker_id: int = 1) -> BrokerLifecycle:
    identity = BrokerIdentity(broker_id, uuid(broker_id))
    lifecycle = BrokerLifecycle(identity, registration(broker_id), TIMEOUTS)
    lifecycle.start(0)
    return lifecycle


def heartbeat_of(lifecycle: BrokerLifecycle, now_ms: int = 0) -> BrokerHeartbeatRequest:
    request = lifecycle.poll(now_ms, 50)
    assert isinstance(request, BrokerHeartbeatRequest)
    return request


def registered() -> BrokerLifecycle:
    lifecycle = lifecycle_of()
    assert isinstance(lifecycle.poll(0, 50), BrokerRegistrationRequest)
    lifecycle.on_response(BrokerRegistrationResponse(broker_epoch=40), 0)
    return lifecycle


def running() -> BrokerLifecycle:
    lifecycle = registered()
    heartbeat_of(lifecycle)
    lifecycle.on_response(BrokerHeartbeatResponse(is_caught_up=True), 0)
    lifecycle.ready_to_unfence(0)
    heartbeat_of(lifecycle)
    lifecycle.on_response(BrokerHeartbeatResponse(is_caught_up=True, is_fenced=False), 0)
    assert lifecycle.state is BrokerState.RUNNING
    return lifecycle


def test_lifecycle_start_needs_no_timer() -> None:
    """Every step up to RUNNING follows at once from the one before it."""
    lifecycle = running()
    assert lifecycle.identity == BrokerIdentity(1, uuid(1), epoch=40)
    assert lifecycle.poll(0, 50) is None
    assert lifecycle.wakeup_ms() == TIMEOUTS.heartbeat_ms


def test_lifecycle_wants_to_be_fenced_until_it_is_ready() -> None:
    lifecycle = registered()
    request = heartbeat_of(lifecycle)
    assert request.want_fence
    assert (request.broker_id, request.broker_epoch) == (1, 40)
    assert request.current_metadata_offset == 50
    lifecycle.on_response(BrokerHeartbeatResponse(is_caught_up=True), 0)
    assert lifecycle.state is BrokerState.RECOVERY
    lifecycle.ready_to_unfence(5)
    assert not heartbeat_of(lifecycle, 5).want_fence


def test_lifecycle_not_caught_up_asks_again_soon() -> None:
    lifecycle = registered()
    heartbeat_of(lifecycle)
    lifecycle.on_response(BrokerHeartbeatResponse(is_caught_up=False), 100)
    assert lifecycle.state is BrokerState.STARTING
    assert lifecycle.wakeup_ms() == 110


def test_lifecycle_failed_registration_is_repeated_with_growing_delays() -> None:
    lifecycle = lifecycle_of()
    now_ms, delays = 0, []
    for _ in range(9):
        assert isinstance(lifecycle.poll(now_ms, 0), BrokerRegistrationRequest)
        error = ErrorCode.DUPLICATE_BROKER_REGISTRATION
        lifecycle.on_response(BrokerRegistrationResponse(error_code=error), now_ms)
        assert lifecycle.last_error is error
        wakeup_ms = lifecycle.wakeup_ms()
        assert wakeup_ms is not None
        delays.append(wakeup_ms - now_ms)
        now_ms = wakeup_ms
    assert delays == [100, 200, 400, 800, 1600, 2000, 2000, 2000, 2000]


def test_lifecycle_unknown_error_code_is_a_failure() -> None:
    lifecycle = lifecycle_of()
    assert lifecycle.poll(0, 50) is not None
    lifecycle.on_response(BrokerRegistrationResponse(error_code=150), 0)
    assert lifecycle.last_error is ErrorCode.UNKNOWN_SERVER_ERROR


def test_lifecycle_unregistered_in_time_gives_up() -> None:
    lifecycle = lifecycle_of()
    assert lifecycle.poll(0, 0) is not None
    lifecycle.on_failure(ErrorCode.NOT_CONTROLLER, 59_999)
    assert not lifecycle.is_registration_overdue
    assert lifecycle.poll(60_000, 0) is None
    assert lifecycle.is_registration_overdue
    assert lifecycle.wakeup_ms() is None


def test_lifecycle_offline_directories_are_in_every_heartbeat() -> None:
    lifecycle = running()
    lifecycle.report_offline([uuid(7)], 500)
    for now_ms in (500, 2500, 4500):
        assert heartbeat_of(lifecycle, now_ms).offline_log_dirs == [uuid(7)]
        lifecycle.on_response(BrokerHeartbeatResponse(is_fenced=False), now_ms)
    lifecycle.report_offline([uuid(7)], 4600)  # known already
    assert lifecycle.poll(4600, 0) is None


def test_lifecycle_cordoned_directories_are_reported_after_catching_up() -> None:
    """Before, the broker does not know its dynamic configuration."""
    lifecycle = registered()
    request = lifecycle.poll(0, 50, [uuid(7)])
    assert isinstance(request, BrokerHeartbeatRequest)
    assert request.cordoned_log_dirs is None
    lifecycle.on_response(BrokerHeartbeatResponse(is_caught_up=True), 0)
    for stated in ([uuid(7)], [], None):
        request = lifecycle.poll(lifecycle.wakeup_ms() or 0, 50, stated)
        assert isinstance(request, BrokerHeartbeatRequest)
        assert request.cordoned_log_dirs == stated
        lifecycle.on_response(BrokerHeartbeatResponse(is_caught_up=True), 0)


def test_lifecycle_report_while_a_request_is_in_flight_is_sent_next() -> None:
    """Planted once: a report during a heartbeat waited for the next interval."""
    lifecycle = running()
    heartbeat_of(lifecycle, 2000)
    lifecycle.report_offline([uuid(7)], 2001)
    assert lifecycle.poll(2001, 0) is None
    lifecycle.on_response(BrokerHeartbeatResponse(is_fenced=False), 2002)
    assert heartbeat_of(lifecycle, 2002).offline_log_dirs == [uuid(7)]


def test_lifecycle_register_again_keeps_the_state() -> None:
    lifecycle = running()
    lifecycle.register_again(10)
    assert isinstance(lifecycle.poll(10, 0), BrokerRegistrationRequest)
    lifecycle.on_failure(ErrorCode.REQUEST_TIMED_OUT, 10)
    assert isinstance(lifecycle.poll(110, 0), BrokerRegistrationRequest)
    lifecycle.on_response(BrokerRegistrationResponse(broker_epoch=40), 110)
    assert isinstance(lifecycle.poll(110, 0), BrokerHeartbeatRequest)
    assert lifecycle.state is BrokerState.RUNNING


def test_lifecycle_controlled_shutdown_waits_for_the_controller() -> None:
    lifecycle = running()
    lifecycle.begin_controlled_shutdown(100)
    assert heartbeat_of(lifecycle, 100).want_shut_down
    lifecycle.on_response(BrokerHeartbeatResponse(is_fenced=False), 100)
    assert lifecycle.state is BrokerState.PENDING_CONTROLLED_SHUTDOWN
    assert lifecycle.wakeup_ms() == 150
    heartbeat_of(lifecycle, 150)
    lifecycle.on_response(BrokerHeartbeatResponse(is_fenced=False), 150)
    assert lifecycle.wakeup_ms() == 2150
    heartbeat_of(lifecycle, 2150)
    lifecycle.on_response(BrokerHeartbeatResponse(should_shut_down=True), 2150)
    assert lifecycle.state is BrokerState.SHUTTING_DOWN
    assert lifecycle.wakeup_ms() is None


def test_lifecycle_controlled_shutdown_ends_after_its_time() -> None:
    lifecycle = running()
    lifecycle.begin_controlled_shutdown(0)
    for now_ms in range(0, 300_000, 2000):
        heartbeat_of(lifecycle, now_ms)
        lifecycle.on_response(BrokerHeartbeatResponse(is_fenced=False), now_ms)
    assert lifecycle.state is BrokerState.PENDING_CONTROLLED_SHUTDOWN
    assert lifecycle.poll(300_000, 0) is None
    assert lifecycle.state is BrokerState.SHUTTING_DOWN
    assert not lifecycle.is_registration_overdue


def test_lifecycle_controlled_shutdown_ends_with_the_session_when_no_controller_answers() -> None:
    lifecycle = running()
    lifecycle.begin_controlled_shutdown(1000)
    heartbeat_of(lifecycle, 1000)
    lifecycle.on_failure(ErrorCode.REQUEST_TIMED_OUT, 9000)
    heartbeat_of(lifecycle, 9999)
    lifecycle.on_failure(ErrorCode.REQUEST_TIMED_OUT, 9999)
    assert lifecycle.poll(10_000, 0) is None
    assert lifecycle.state is BrokerState.SHUTTING_DOWN


def test_lifecycle_controlled_shutdown_of_the_last_broker_needs_no_controller() -> None:
    lifecycle = running()
    lifecycle.end_controlled_shutdown()
    assert lifecycle.state is BrokerState.RUNNING
    lifecycle.begin_controlled_shutdown(0)
    heartbeat_of(lifecycle, 0)
    lifecycle.on_failure(ErrorCode.REQUEST_TIMED_OUT, 1000)
    lifecycle.end_controlled_shutdown()
    assert lifecycle.state is BrokerState.SHUTTING_DOWN


def test_lifecycle_broker_that_the_controller_does_not_know_registers_again() -> None:
    for error in (ErrorCode.STALE_BROKER_EPOCH, ErrorCode.BROKER_ID_NOT_REGISTERED):
        lifecycle = running()
        heartbeat_of(lifecycle, 2000)
        lifecycle.on_failure(error, 2000)
        assert lifecycle.state is BrokerState.STARTING
        assert isinstance(lifecycle.poll(2100, 0), BrokerRegistrationRequest)
        lifecycle.on_response(BrokerRegistrationResponse(broker_epoch=90), 2100)
        assert lifecycle.identity.epoch == 90
        assert heartbeat_of(lifecycle, 2100).broker_epoch == 90
        lifecycle.on_response(BrokerHeartbeatResponse(is_caught_up=True), 2100)
        assert not heartbeat_of(lifecycle, 2100).want_fence
        lifecycle.on_response(BrokerHeartbeatResponse(is_fenced=False), 2100)
        assert lifecycle.state is BrokerState.RUNNING


def test_lifecycle_broker_replaced_during_its_shutdown_stops_at_once() -> None:
    lifecycle = running()
    lifecycle.begin_controlled_shutdown(0)
    heartbeat_of(lifecycle, 0)
    lifecycle.on_failure(ErrorCode.STALE_BROKER_EPOCH, 0)
    assert lifecycle.state is BrokerState.SHUTTING_DOWN


def test_lifecycle_controlled_shutdown_before_running_stops_at_once() -> None:
    lifecycle = registered()
    lifecycle.begin_controlled_shutdown(0)
    assert lifecycle.state is BrokerState.SHUTTING_DOWN


def drive(cluster: Cluster, lifecycle: BrokerLifecycle, now_ms: int = 0) -> list[LifecycleRequest]:
    """Send what is due to the controller; its records take effect at once."""
    sent: list[LifecycleRequest] = []
    while (request := lifecycle.poll(now_ms, cluster.image.offset)) is not None:
        sent.append(request)
        result = cluster.controller.handle(request, 2)
        lifecycle.on_response(cluster.take(result), now_ms)
    return sent


def test_lifecycle_and_controller_unfence_and_shut_down_a_broker() -> None:
    cluster = Cluster(brokers=0)
    lifecycle = lifecycle_of()
    drive(cluster, lifecycle)
    lifecycle.ready_to_unfence(0)
    drive(cluster, lifecycle)
    assert lifecycle.state is BrokerState.RUNNING
    assert cluster.image.brokers[1].is_active
    cluster.add_broker(2)
    cluster.create("t", partitions=2, replicas=2)
    lifecycle.begin_controlled_shutdown(0)
    drive(cluster, lifecycle)
    assert lifecycle.state is BrokerState.PENDING_CONTROLLED_SHUTDOWN
    assert cluster.image.brokers[1].in_controlled_shutdown
    partitions = cluster.image.topics_by_name["t"].partitions.values()
    assert [(partition.leader, partition.isr) for partition in partitions] == [(2, (2,))] * 2
    drive(cluster, lifecycle, 50)  # broker 2 has not applied that yet
    assert lifecycle.state is BrokerState.PENDING_CONTROLLED_SHUTDOWN
    cluster.unfence(2)
    drive(cluster, lifecycle, 2050)
    assert lifecycle.state is BrokerState.SHUTTING_DOWN
    assert cluster.image.brokers[1].fenced
