"""Feature levels: the rules of UpdateFeatures, and upgrading a directory of an older Kafka."""

import re
from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from barnabas.protocol.messages.api_versions import ApiVersionsRequest
from barnabas.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from barnabas.protocol.messages.describe_transactions import DescribeTransactionsRequest
from barnabas.protocol.messages.find_coordinator import FindCoordinatorRequest
from barnabas.protocol.messages.update_features import UpdateFeaturesRequest
from compat_tests import jars
from compat_tests.servers import KINDS, KafkaProcess, ServerProcess
from compat_tests.wire import call, retry

TOOLS = "org.apache.kafka.tools"
UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE = 1, 2, 3
INVALID_UPDATE_VERSION = 95
NOT_WITHOUT_TYPE = (
    "Can't downgrade the version of this feature without setting the upgrade type to either safe "
    "or unsafe downgrade."
)
SERVED = {
    "metadata.version": 30,
    "transaction.version": 2,
    "group.version": 1,
    "kraft.version": 1,
}
FAILED = "The update failed for all features since the following feature had an error: "


def update(
    bootstrap: str,
    *updates: tuple[str, int, int],
    version: int = 2,
    validate_only: bool = False,
    allow_downgrade: bool = False,
) -> tuple[int, str | None, list[tuple[str, int, str | None]]]:
    """Return the code, the message and the results of an UpdateFeatures request."""
    key = UpdateFeaturesRequest.FeatureUpdateKey
    if version == 0:
        items = [
            key(feature=name, max_version_level=level, allow_downgrade=allow_downgrade)
            for name, level, _ in updates
        ]
    else:
        items = [
            key(feature=name, max_version_level=level, upgrade_type=kind)
            for name, level, kind in updates
        ]
    request = UpdateFeaturesRequest(feature_updates=items, validate_only=validate_only)
    answer = call(bootstrap, request, version)
    results = [(each.feature, each.error_code, each.error_message) for each in answer.results]
    return answer.error_code, answer.error_message, results


def levels(bootstrap: str) -> tuple[dict[str, int], int]:
    """Return the finalized levels in ApiVersions, and their epoch."""
    answer = call(
        bootstrap, ApiVersionsRequest(client_software_name="x", client_software_version="1"), 4
    )
    finalized = {each.name: each.max_version_level for each in answer.finalized_features}
    return finalized, answer.finalized_features_epoch


@pytest.fixture(scope="module")
def changeable(start_server: Callable[..., ServerProcess]) -> str:
    """A server whose levels no other test uses."""
    return start_server().bootstrap


@pytest.mark.parametrize(
    ("wanted", "reason"),
    [
        (("foo", 1, UPGRADE), "Local controller 1 does not support this feature."),
        (("foo", 0, SAFE_DOWNGRADE), "Feature foo not found."),
        (("", 1, UPGRADE), "Local controller 1 does not support this feature."),
        (("group.version", -1, UPGRADE), "A feature version cannot be less than 0."),
        (("group.version", 9, UPGRADE), "Local controller 1 only supports versions 0-1"),
        (("metadata.version", 31, UPGRADE), "Local controller 1 only supports versions 7-30"),
        (
            ("metadata.version", 6, SAFE_DOWNGRADE),
            "Local controller 1 only supports versions 7-30",
        ),
        (("metadata.version", 29, UPGRADE), NOT_WITHOUT_TYPE),
        (("transaction.version", 1, UPGRADE), NOT_WITHOUT_TYPE),
        (("kraft.version", 0, UPGRADE), NOT_WITHOUT_TYPE),
        (("kraft.version", 0, SAFE_DOWNGRADE), "Can't downgrade the version of this feature."),
        (("group.version", 1, 0), "The controller does not support the given upgrade type."),
        (("group.version", 1, 9), "The controller does not support the given upgrade type."),
    ],
    ids=str,
)
def test_invalid_level_is_refused_with_kafkas_message(bootstrap, wanted, reason) -> None:
    words = f"{FAILED}Invalid update version {wanted[1]} for feature {wanted[0]}. {reason}"
    for version in (1, 2):
        assert update(bootstrap, wanted, version=version) == (INVALID_UPDATE_VERSION, words, [])


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        (
            SAFE_DOWNGRADE,
            "Refusing to perform the requested downgrade because it might delete metadata "
            "information.",
        ),
        (UNSAFE_DOWNGRADE, "Unsafe metadata downgrade is not supported in this version."),
    ],
)
def test_lossy_downgrade_of_metadata_version_is_refused(bootstrap, kind, reason) -> None:
    code, message, _ = update(bootstrap, ("metadata.version", 29, kind))
    assert code == INVALID_UPDATE_VERSION
    assert message == f"{FAILED}Unsupported metadata.version downgrade from 30 to 29. {reason}"


def test_current_level_is_accepted_and_reported_up_to_v1(bootstrap) -> None:
    wanted = [("metadata.version", 30, UPGRADE), ("kraft.version", 1, SAFE_DOWNGRADE)]
    assert update(bootstrap, *wanted) == (0, None, [])
    told = [(name, 0, "NONE") for name, _, _ in wanted]
    assert update(bootstrap, *wanted, version=1) == (0, None, told)
    assert update(bootstrap, version=0) == (0, None, [])


def test_repeated_feature_uses_the_last_level(bootstrap) -> None:
    right, wrong = ("group.version", 1, UPGRADE), ("group.version", 7, UPGRADE)
    assert update(bootstrap, wrong, right)[0] == 0
    assert update(bootstrap, right, wrong)[0] == INVALID_UPDATE_VERSION


def test_update_features_v0_refuses_downgrades(bootstrap) -> None:
    wanted = ("transaction.version", 1, UPGRADE)
    for allow in (False, True):
        code, message, _ = update(bootstrap, wanted, version=0, allow_downgrade=allow)
        assert (code, message.endswith(NOT_WITHOUT_TYPE)) == (INVALID_UPDATE_VERSION, True)


def test_update_features_is_atomic_and_validate_only_changes_nothing(changeable) -> None:
    before, epoch = levels(changeable)
    lower = ("transaction.version", 1, SAFE_DOWNGRADE)
    assert update(changeable, lower, validate_only=True) == (0, None, [])
    assert update(changeable, lower, ("group.version", 5, UPGRADE))[0] == INVALID_UPDATE_VERSION
    assert levels(changeable)[0] == before
    assert update(changeable, lower)[0] == 0
    retry_until(changeable, {**before, "transaction.version": 1})
    assert levels(changeable)[1] > epoch
    assert update(changeable, ("transaction.version", 0, UNSAFE_DOWNGRADE))[0] == 0
    without = {name: level for name, level in before.items() if name != "transaction.version"}
    retry_until(changeable, without)
    assert update(changeable, ("transaction.version", 2, UPGRADE))[0] == 0
    retry_until(changeable, before)


def retry_until(bootstrap: str, wanted: dict[str, int]) -> None:
    request = ApiVersionsRequest(client_software_name="x", client_software_version="1")
    retry(
        bootstrap,
        request,
        4,
        lambda answer: (
            {each.name: each.max_version_level for each in answer.finalized_features} == wanted
        ),
    )


def test_consumer_protocol_depends_on_the_group_version(changeable, unique) -> None:
    group = unique("group")
    find = FindCoordinatorRequest(key=group)
    retry(changeable, find, 1, lambda answer: answer.error_code == 0)
    heartbeat = ConsumerGroupHeartbeatRequest(
        group_id=group,
        member_id=unique("member"),
        member_epoch=0,
        rebalance_timeout_ms=10_000,
        subscribed_topic_names=["none"],
        topic_partitions=[],
    )
    update(changeable, ("group.version", 0, SAFE_DOWNGRADE))
    retry(changeable, heartbeat, 1, lambda answer: answer.error_code == 35)
    update(changeable, ("group.version", 1, UPGRADE))
    retry(changeable, heartbeat, 1, lambda answer: answer.error_code == 0)


# A directory of an older Kafka

needs_jars = jars.needed


@pytest.fixture(params=["3.9", "4.0-IV1"])
def both(request: pytest.FixtureRequest) -> Iterator[tuple[ServerProcess, KafkaProcess]]:
    """Return a server, and Apache Kafka on the same directory and addresses, both not started.

    Kafka's tool formatted the directory for an older release: 3.9 with voters in the configuration
    (kraft.version 0), 4.0-IV1 with voters in the log.
    """
    if request.config.getoption("--bootstrap"):
        pytest.skip("needs its own server, so it does not run with --bootstrap")
    server, kafka = KINDS[request.config.getoption("--server")](), KafkaProcess()
    kafka.data, kafka.port = server.data, server.port
    kafka.controller_port = server.controller_port
    voters = ["--standalone"]
    if request.param == "3.9":
        static = {
            "controller.quorum.voters": f"1@127.0.0.1:{kafka.controller_port}",
            "controller.quorum.bootstrap.servers": "",
        }
        kafka.properties.update(static)
        server.properties.update(static)
        voters = []
    kafka.write_properties()
    identity = ["-t", "MkU3OEVBNTcwNTJENDM2Qg", "--release-version", request.param]
    file = str(kafka.properties_file)
    jars.java("kafka.tools.StorageTool", "format", *identity, *voters, "-c", file)
    yield server, kafka
    server.close()
    kafka.close()


@pytest.fixture
def older(both: tuple[ServerProcess, KafkaProcess]) -> ServerProcess:
    """Start a server on a directory of an older release."""
    both[0].start()
    return both[0]


def features(bootstrap: str, *arguments: str, check: bool = True) -> str:
    tool = f"{TOOLS}.FeatureCommand"
    return jars.java(tool, "--bootstrap-server", bootstrap, *arguments, check=check).stdout


def transact_with_java(bootstrap: str, topic: str, transactional_id: str) -> None:
    """Run transactions of Kafka's own producer."""
    jars.java(
        f"{TOOLS}.ProducerPerformance",
        *("--topic", topic, "--num-records", "300", "--record-size", "20", "--throughput", "300"),
        *("--transactional-id", transactional_id, "--transaction-duration-ms", "100"),
        *("--bootstrap-server", bootstrap),
    )


def producer_epoch(bootstrap: str, transactional_id: str) -> int:
    request = DescribeTransactionsRequest(transactional_ids=[transactional_id])
    (state,) = call(bootstrap, request, 0).transaction_states
    assert (state.error_code, state.transaction_state) == (0, "CompleteCommit")
    return state.producer_epoch


@needs_jars
def test_older_directory_is_upgraded_by_kafkas_tool(older, unique) -> None:
    at = older.bootstrap
    finalized, _ = levels(at)
    assert "transaction.version" not in finalized
    assert finalized["metadata.version"] in (21, 23)
    admin = AdminClient({"bootstrap.servers": at})
    admin.create_topics([NewTopic("before", 2, 1)])["before"].result(30)
    transact_with_java(at, "before", "first")
    # The first version bumps the epoch when the producer initializes, not when a transaction ends.
    assert producer_epoch(at, "first") == 0

    wanted = ["metadata.version=30", "transaction.version=2", "group.version=1", "kraft.version=1"]
    flags = [word for feature in wanted for word in ("--feature", feature)]
    out = features(at, "upgrade", *flags, "--dry-run")
    assert "transaction.version can be upgraded to 2." in out
    assert levels(at)[0] == finalized
    out = features(at, "upgrade", *flags)
    assert "transaction.version was upgraded to 2." in out
    out = features(at, "describe")
    told = dict(re.findall(r"Feature: (\S+)\s.*FinalizedVersionLevel: (\S+)\s", out))
    assert told["metadata.version"] == "4.3-IV0"
    assert (told["transaction.version"], told["kraft.version"]) == ("2", "1")

    transact_with_java(at, "before", "second")
    # The second version bumps it at the end of each transaction.
    assert producer_epoch(at, "second") >= 3
    assert levels(at)[0].items() >= SERVED.items()

    older.stop()
    older.start()
    assert levels(at)[0].items() >= SERVED.items()
    producer = Producer({"bootstrap.servers": at, "transactional.id": "third"})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce("before", b"after")
    producer.commit_transaction(30)


@needs_jars
@pytest.mark.barnabas_only
def test_older_directory_returns_to_kafka_before_and_after_the_upgrade(both) -> None:
    ours, kafka = both
    at = ours.bootstrap
    ours.start()
    before = levels(at)
    create(at, "ours")
    ours.stop()
    kafka.start()
    assert levels(at)[0] == before[0]
    create(at, "kafkas")
    kafka.stop()
    ours.start()
    wanted = [(name, level, UPGRADE) for name, level in SERVED.items()]
    assert update(at, *wanted) == (0, None, [])
    create(at, "raised")
    ours.stop()
    kafka.start()
    assert levels(at)[0].items() >= SERVED.items()
    topics = AdminClient({"bootstrap.servers": at}).list_topics(timeout=30).topics
    assert {"ours", "kafkas", "raised"} <= topics.keys()
    assert {len(topics[name].partitions) for name in ("ours", "kafkas", "raised")} == {2}


def create(bootstrap: str, topic: str) -> None:
    """Create a topic and write a record to it."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(topic, 2, 1)])[topic].result(30)
    producer = Producer({"bootstrap.servers": bootstrap})
    producer.produce(topic, b"value")
    assert producer.flush(30) == 0
