"""The tests of the suites that fail on three nodes of Apache Kafka 4.3.0 too, with the reasons."""

from collections.abc import Iterable, Mapping

from compat_tests.clients.outcomes import Outcome, Result

_TLS = "starts a broker with TLS by scripts that are not in the source distribution"
_ONE_NODE = "expects a cluster of one node"
_NODE_0 = "uses a node 0, and the nodes have the ids 1 to 3"
KNOWN: Mapping[str, str] = {
    "Test848RegexBrokerResolves": (
        "counts records of __consumer_offsets instead of those of its topics (7 of 40 on Kafka)"
    ),
    "test.integration.test_admin_integration.test_create_describe_delete_acls": (
        "needs an authorizer on the brokers"
    ),
    "test.integration.test_admin_integration.test_delete_records": (
        "expects the records of all leaders in one poll, and the answers of the followers in 1 s"
    ),
    "test.integration.test_admin_integration.test_create_partitions": _NODE_0,
    "test.integration.test_ssl_integration.TestSSLConnection.test_ssl_handshake": _TLS,
    "test.integration.test_ssl_integration.TestSSLConnection.test_legacy_kafka_client_ssl": _TLS,
    "tests.test_admin.TestAdmin.test_describe_cluster": _ONE_NODE,
    "tests.test_admin.TestAdmin.test_describe_configs_broker": _ONE_NODE,
    "tests.test_admin.TestAdmin.test_metadata": _ONE_NODE,
    "tests.test_consumer.TestConsumerIntegration.test_consumer_seek_to_end": (
        "expects records with acks=1 below the high watermark at once"
    ),
    "tests.test_consumer.TestConsumerIntegration.test_manual_subscribe_pattern": (
        "takes the first 20 records for all, while the client may read a partition twice"
    ),
    "tests.test_sender.TestSender.test_sender__handler_base_do": _NODE_0,
}


def unexpected(outcomes: Iterable[Outcome]) -> list[Outcome]:
    """Return the failed tests that pass on Apache Kafka."""
    failed = (each for each in outcomes if each.result is Result.FAILED)
    return [each for each in failed if each.name not in KNOWN]
