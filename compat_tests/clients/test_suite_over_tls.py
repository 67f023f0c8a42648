"""franz-go's suite on three nodes that have TLS between all, client certificates and ACLs.

The suite's user is not a super user: its rights are ACLs on topics, groups and transactional ids.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from barnabas.testing.process import ClusterProcess
from compat_tests.clients import franz_suites
from compat_tests.clients.franz_suites import ClientFiles
from compat_tests.clients.known_failures import unexpected
from compat_tests.clients.outcomes import Result, failures
from compat_tests.clients.three_nodes import logs_kept
from compat_tests.cluster.secured import Security

pytestmark = pytest.mark.timeout(600)

SUITE = "suite.example"
RECORDS = 2000
TESTS = "TestTxn|TestGroupETL|TestClient_ProduceLarge"
TIMEOUT_S = 500.0
CONFIG = {
    "default.replication.factor": "3",
    "num.partitions": "4",
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "1000",
}


def allowed(kind: ResourceType) -> AclBinding:
    """Return the ACL that lets the suite do all with all resources of a kind."""
    return AclBinding(
        kind,
        "*",
        ResourcePatternType.LITERAL,
        f"User:{SUITE}",
        "*",
        AclOperation.ALL,
        AclPermissionType.ALLOW,
    )


@pytest.fixture
def cluster(tmp_path: Path, security: Security) -> Iterator[ClusterProcess]:
    nodes, client = security.of("mutual")
    with ClusterProcess(3, tmp_path / "data", {**nodes, **CONFIG}, client=client) as started:
        admin = AdminClient({**started.client_config()})
        kinds = (ResourceType.TOPIC, ResourceType.GROUP, ResourceType.TRANSACTIONAL_ID)
        for created in admin.create_acls([allowed(kind) for kind in kinds]).values():
            created.result(60)
        yield started


@pytest.fixture
def security(tmp_path: Path) -> Security:
    return Security(tmp_path)


def test_suite_of_kgo_passes_over_tls_with_the_rights_of_acls(
    tmp_path: Path, security: Security, cluster: ClusterProcess
) -> None:
    if reason := franz_suites.missing():
        pytest.skip(reason)
    own = security.issue(tmp_path / "suite.pem", SUITE)
    with logs_kept(lambda: {i: "".join(node.log) for i, node in cluster.nodes.items()}):
        outcomes = franz_suites.run(
            "kgo",
            cluster.bootstrap,
            records=RECORDS,
            tests=TESTS,
            timeout_s=TIMEOUT_S,
            tls=ClientFiles(security.ca, own, own),
        )
        wrong = unexpected(outcomes)
        assert not wrong, failures(wrong)
    assert sum(each.result is Result.PASSED for each in outcomes) >= 5
