"""Quotas of bytes at the Produce and Fetch handlers."""

from pathlib import Path
from typing import Any

import attrs
import pytest

from barnabas.cluster.metadata.client_quotas import QuotaEntity
from barnabas.cluster.metadata.delta import MetadataDelta
from barnabas.cluster.metadata.image import MetadataImage
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.fetch import FetchRequest
from barnabas.protocol.messages.produce import ProduceRequest
from barnabas.protocol.messages.write_txn_markers import WriteTxnMarkersRequest
from barnabas.server.api.handlers.data.fetch_handler import fetch
from barnabas.server.api.handlers.data.produce_handler import produce
from barnabas.server.api.node_quotas import ClientQuotas, QuotaWindows
from tests.server.api.data_broker import DataBroker, context

USER: QuotaEntity = (("user", "ANONYMOUS"),)
PRODUCER, CONSUMER = "producer_byte_rate", "consumer_byte_rate"
PERCENTAGE = "request_percentage"


@pytest.fixture
def broker(tmp_path: Path) -> DataBroker:
    return DataBroker(tmp_path)


def limit(broker: DataBroker, key: str, value: float, entity: QuotaEntity = USER) -> None:
    broker.quotas.start(attrs.evolve(broker.image, client_quotas={(entity, key): value}))


def produced(broker: DataBroker, size: int, acks: int = 1, client_id: str = "me") -> int:
    """Return how long a Produce request of this size is throttled."""
    asked = context(broker.services, ProduceRequest(acks=acks), 9, broker.connection, client_id)
    asked.size = size
    produce(asked, asked.request)
    return asked.throttle_ms


def fetched(
    broker: DataBroker,
    offset: int = 0,
    replica_id: int = -1,
    named: bool = True,
    topic: str = "t",
    **fields: Any,
) -> tuple[Any, int]:
    """Return the response of a Fetch, and how long the client is throttled."""
    partition = FetchRequest.FetchPartition(fetch_offset=offset, partition_max_bytes=1 << 20)
    topics = [FetchRequest.FetchTopic(topic=topic, partitions=[partition])] if named else []
    settings = {"max_wait_ms": 0, "min_bytes": 1, "max_bytes": 1 << 20, "session_epoch": -1}
    request = FetchRequest(topics=topics, replica_id=replica_id, **{**settings, **fields})
    asked = context(broker.services, request, 12, broker.connection)
    return fetch(asked, request), asked.throttle_ms


def records_in(response: Any) -> int:
    return sum(len(each.records) for topic in response.responses for each in topic.partitions)


def test_quotas_follow_the_metadata() -> None:
    quotas = ClientQuotas(QuotaWindows(11, 1000), QuotaWindows(11, 1000), lambda: 0)
    image = MetadataImage()
    for value, key in ((5.0, PRODUCER), (5.0, CONSUMER), (None, PRODUCER), (None, CONSUMER)):
        delta = MetadataDelta(image)
        delta.client_quotas[USER, key] = value
        image = delta.apply(0, 0)
        quotas.apply(image, delta)
        assert (quotas.produce is not None) == ((USER, PRODUCER) in image.client_quotas)
        assert (quotas.fetch is not None) == ((USER, CONSUMER) in image.client_quotas)


@pytest.mark.parametrize("acks", [0, 1, -1])
def test_produce_above_the_quota_is_throttled(broker: DataBroker, acks: int) -> None:
    limit(broker, PRODUCER, 1000)
    assert produced(broker, 10_000, acks) == 0
    assert produced(broker, 500, acks) == 500
    broker.clock_ms = 500
    assert produced(broker, 0, acks) == 0


def test_changed_quota_keeps_the_bytes_that_were_counted(broker: DataBroker) -> None:
    limit(broker, PRODUCER, 1000)
    produced(broker, 10_000)
    limit(broker, PRODUCER, 500)
    assert produced(broker, 0) == 10_000


def test_clients_of_a_default_do_not_share_a_rate(broker: DataBroker) -> None:
    limit(broker, PRODUCER, 1000, (("client-id", None),))
    assert produced(broker, 11_000, client_id="a") == 1000
    assert produced(broker, 9000, client_id="b") == 0


def test_clients_of_a_user_share_a_rate(broker: DataBroker) -> None:
    limit(broker, PRODUCER, 1000)
    assert produced(broker, 11_000, client_id="a") == 1000
    assert produced(broker, 1000, client_id="b") == 2000


def test_quota_of_others_does_not_throttle(broker: DataBroker) -> None:
    limit(broker, PRODUCER, 1, (("user", "other"),))
    assert produced(broker, 1 << 30) == 0
    assert broker.quotas.produce is not None
    assert not broker.quotas.produce.meters


def test_fetch_above_the_quota_is_empty_and_does_not_count(broker: DataBroker) -> None:
    broker.append(b"a" * 6000)
    limit(broker, CONSUMER, 1000)
    response, throttle_ms = fetched(broker)
    assert records_in(response) > 6000
    assert throttle_ms == 0
    for _ in range(2):  # equal, as the response that is not sent does not count
        response, throttle_ms = fetched(broker)
        assert (response.responses, response.error_code) == ([], ErrorCode.NONE)
        assert 2000 < throttle_ms < 2500
    broker.clock_ms = 11_000  # the first response is outside the windows
    response, throttle_ms = fetched(broker)
    assert records_in(response) > 6000
    assert throttle_ms == 0


def test_throttled_fetch_of_a_session_is_repeated_by_the_next_one(broker: DataBroker) -> None:
    broker.append(b"a" * 6000)
    limit(broker, CONSUMER, 1000)
    response, _ = fetched(broker, session_epoch=0)
    session = response.session_id
    assert session
    response, throttle_ms = fetched(broker, session_id=session, session_epoch=1, named=False)
    assert (response.responses, response.session_id) == ([], session)
    assert throttle_ms > 0
    broker.clock_ms = 11_000
    response, _ = fetched(broker, session_id=session, session_epoch=2, named=False)
    assert records_in(response) > 6000


def test_throttled_first_fetch_begins_no_session(broker: DataBroker) -> None:
    broker.append(b"a" * 6000)
    limit(broker, CONSUMER, 1000)
    fetched(broker)
    response, _ = fetched(broker, session_epoch=0)
    assert (response.session_id, len(broker.services.fetch_sessions)) == (0, 0)


def test_fetch_returns_no_more_than_the_windows_allow(broker: DataBroker) -> None:
    for _ in range(20):
        broker.append(b"a" * 1000)
    limit(broker, CONSUMER, 300)
    _, throttle_ms = fetched(broker, min_bytes=1 << 19, max_wait_ms=60_000)
    assert 0 < throttle_ms < 300  # for the bytes around the records
    broker.clock_ms = throttle_ms
    response, throttle_ms = fetched(broker, min_bytes=1 << 19, max_wait_ms=60_000)
    assert (records_in(response), throttle_ms) == (10 * 300, 0)


def test_fetch_waits_for_no_more_than_its_most_bytes(broker: DataBroker) -> None:
    """Kafka's `fetchMinBytes`; without a quota too."""
    broker.append(b"a" * 1000)
    response, _ = fetched(broker, min_bytes=5000, max_bytes=1000, max_wait_ms=60_000)
    assert records_in(response) > 1000


def test_follower_has_no_quota(broker: DataBroker) -> None:
    broker.append(b"a" * 60_000, topic="replicated")
    limit(broker, CONSUMER, 1000)
    for _ in range(2):
        response, throttle_ms = fetched(broker, replica_id=2, topic="replicated")
        assert records_in(response) > 60_000
        assert throttle_ms == 0


def test_meters_of_idle_clients_are_forgotten(broker: DataBroker) -> None:
    limit(broker, PRODUCER, 1000, (("client-id", None),))
    quota = broker.quotas.produce
    assert quota is not None
    produced(broker, 1, client_id="first")
    broker.clock_ms = 3_599_999
    produced(broker, 1, client_id="second")
    assert list(quota.meters) == [("", "first"), ("", "second")]
    broker.clock_ms += 1
    produced(broker, 1, client_id="third")
    assert list(quota.meters) == [("", "second"), ("", "third")]


def test_number_of_meters_is_bounded(broker: DataBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("barnabas.server.api.client_meters._METERS_MAX", 2)
    limit(broker, PRODUCER, 1000, (("client-id", None),))
    quota = broker.quotas.produce
    assert quota is not None
    for client_id in ("a", "b", "a", "c"):
        produced(broker, 1, client_id=client_id)
    assert list(quota.meters) == [("", "a"), ("", "c")]


def timed(broker: DataBroker, milliseconds: int, request: Any = None, version: int = 9) -> Any:
    """Return the context of a request that the loop has worked on for a time."""
    request = request or ProduceRequest(acks=1)
    asked = context(broker.services, request, version, broker.connection)
    times = broker.quotas.request_time
    assert times is not None
    times.start(asked)
    if asked.timer is not None:
        asked.timer._spent_ns = milliseconds * 1_000_000
    return asked


def throttled_for(broker: DataBroker, milliseconds: int) -> int:
    """Return how long a request that takes this time is throttled, about."""
    asked = timed(broker, milliseconds)
    assert broker.quotas.request_time is not None
    broker.quotas.request_time.charge(asked)
    return asked.throttle_ms


def test_request_time_above_the_quota_is_throttled_for_at_most_one_window(
    broker: DataBroker,
) -> None:
    limit(broker, PERCENTAGE, 10)
    assert throttled_for(broker, 990) == 0  # in ten windows
    assert throttled_for(broker, 60) == pytest.approx(500, abs=50)
    assert throttled_for(broker, 1000) == 1000
    counts = broker.quotas.counts[PERCENTAGE]
    assert counts.number == 2
    assert counts.total_ms == pytest.approx(1500, abs=50)


def test_longest_time_of_several_quotas_counts(broker: DataBroker) -> None:
    quotas = {(USER, PERCENTAGE): 10.0, (USER, PRODUCER): 1000.0}
    broker.quotas.start(attrs.evolve(broker.image, client_quotas=quotas))
    asked = timed(broker, 1050)
    asked.size = 10_100
    produce(asked, asked.request)
    assert asked.throttle_ms == 100
    assert broker.quotas.request_time is not None
    broker.quotas.request_time.charge(asked)
    assert asked.throttle_ms == pytest.approx(500, abs=50)
    asked = timed(broker, 0)
    asked.size = 10_000
    produce(asked, asked.request)
    broker.quotas.request_time.charge(asked)
    assert asked.throttle_ms == 10_100


def test_fetch_above_the_quota_of_request_time_is_empty_and_its_bytes_do_not_count(
    broker: DataBroker,
) -> None:
    broker.append(b"a" * 6000)
    quotas = {(USER, PERCENTAGE): 10.0, (USER, CONSUMER): 1000.0}
    broker.quotas.start(attrs.evolve(broker.image, client_quotas=quotas))
    partition = FetchRequest.FetchPartition(partition_max_bytes=1 << 20)
    request = FetchRequest(
        topics=[FetchRequest.FetchTopic(topic="t", partitions=[partition])],
        max_wait_ms=0,
        min_bytes=1,
        max_bytes=1 << 20,
        session_epoch=-1,
    )
    for _ in range(3):  # the bytes of two would exceed the other quota
        asked = timed(broker, 1050, request, 12)
        assert fetch(asked, request).responses == []
        assert 0 < asked.throttle_ms <= 1000
        assert asked.timer is None
    assert broker.quotas.counts[CONSUMER].number == 0


def test_time_of_brokers_is_exempt(broker: DataBroker) -> None:
    broker.append(b"a" * 10, topic="replicated")
    limit(broker, PERCENTAGE, 1)
    partition = FetchRequest.FetchPartition(partition_max_bytes=1 << 20)
    topics = [FetchRequest.FetchTopic(topic="replicated", partitions=[partition])]
    request = FetchRequest(topics=topics, replica_id=2, max_wait_ms=0, min_bytes=1)
    request.max_bytes, request.session_epoch = 1 << 20, -1
    asked = timed(broker, 5000, request, 12)
    assert records_in(fetch(asked, request))
    markers = timed(broker, 5000, WriteTxnMarkersRequest(markers=[]), 1)
    assert broker.quotas.request_time is not None
    broker.quotas.request_time.charge(markers)
    assert (asked.throttle_ms, markers.throttle_ms) == (0, 0)
    assert broker.quotas.counts[PERCENTAGE].exempt_ns == pytest.approx(10e9, rel=0.1)


def test_time_on_controller_listeners_is_not_counted(broker: DataBroker) -> None:
    limit(broker, PERCENTAGE, 1)
    asked = context(broker.services, ProduceRequest(), 9, broker.connection)
    asked.route.listener = "controller"
    assert broker.quotas.request_time is not None
    broker.quotas.request_time.start(asked)
    assert asked.timer is None


def test_counts_outlast_the_quota_and_its_meters(broker: DataBroker) -> None:
    limit(broker, PRODUCER, 1000)
    produced(broker, 11_000)
    broker.quotas.start(broker.image)
    assert broker.quotas.produce is None
    limit(broker, PRODUCER, 1000)
    produced(broker, 11_000)
    counts = broker.quotas.counts[PRODUCER]
    assert (counts.number, counts.total_ms) == (2, 2000)
