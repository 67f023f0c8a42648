"""Short parts of clients' own test suites, and Kafka's Java tools, on three nodes.

One module, so that the tests share three nodes: `make compat` runs modules in several processes.
"""

from collections.abc import Iterator

import pytest

from compat_tests import jars
from compat_tests.clients import franz_suites, python_suites
from compat_tests.clients.java_tools import SCENARIOS, Scenario
from compat_tests.clients.known_failures import unexpected
from compat_tests.clients.outcomes import Outcome, Result, failures
from compat_tests.clients.three_nodes import logs_kept, three_nodes
from compat_tests.cluster.clusters import TrialCluster

pytestmark = pytest.mark.timeout(600)

KGO_RECORDS = 10_000
JAVA_RECORDS = 2000
TIMEOUT_S = 500.0
KGO_TESTS = "TestTxn|TestGroup|TestPause|TestConsume|TestDirect|TestClient_ProduceLarge|Test848"

KAFKA_PYTHON_TESTS = "consumer_integration or producer_integration or admin_integration"


@pytest.fixture(scope="module")
def cluster(request: pytest.FixtureRequest) -> Iterator[TrialCluster]:
    if request.config.getoption("--bootstrap"):
        pytest.skip("needs three nodes, so not with --bootstrap")
    with three_nodes(request.config.getoption("--server")) as started:
        yield started


def check(outcomes: list[Outcome], passed: int) -> None:
    """Raises AssertionError when a test failed, or fewer passed than this number."""
    wrong = unexpected(outcomes)
    assert not wrong, failures(wrong)
    assert sum(each.result is Result.PASSED for each in outcomes) >= passed


def test_suite_of_kgo_passes(cluster: TrialCluster) -> None:
    if reason := franz_suites.missing():
        pytest.skip(reason)
    with logs_kept(cluster.logs):
        outcomes = franz_suites.run(
            "kgo", cluster.bootstrap, records=KGO_RECORDS, tests=KGO_TESTS, timeout_s=TIMEOUT_S
        )
        check(outcomes, passed=10)


def test_suite_of_kafka_python_passes(cluster: TrialCluster) -> None:
    if reason := python_suites.missing_kafka_python():
        pytest.skip(reason)
    with logs_kept(cluster.logs):
        outcomes = python_suites.run_kafka_python(
            cluster.addresses[1], tests=KAFKA_PYTHON_TESTS, timeout_s=TIMEOUT_S
        )
        check(outcomes, passed=25)


@jars.needed
@pytest.mark.parametrize("scenario", SCENARIOS, ids=[each.__name__ for each in SCENARIOS])
def test_java_tool_ends_without_an_error(cluster: TrialCluster, scenario: Scenario) -> None:
    with logs_kept(cluster.logs):
        scenario(cluster.bootstrap, JAVA_RECORDS)
