"""The tail of a flow to Apache Kafka is killed at each point, with both versions of transactions.

The flow runs without Spark; Apache Kafka is killed, too.
"""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from subprocess import Popen

import pytest
import trio

from barnabas.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from barnabas.protocol.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
)
from barnabas.protocol.messages.update_features import UpdateFeaturesRequest
from barnabas.testing import Node
from compat_tests import jars
from compat_tests.servers import KINDS, ServerProcess
from compat_tests.wire import retry
from tests.pipeline.mirror.killed_tails import DEADLINE_S, Load, prepare, process, until

pytestmark = [jars.needed, pytest.mark.timeout(600), pytest.mark.barnabas_only]

CALLS = {2: 6, 1: 8}
"""Calls of the first transaction of a tail, by `transaction.version`."""
KILLED_AFTER = 3
"""The last calls of the transaction, after each of which the flow is killed."""
UNSAFE_DOWNGRADE = 3
BETWEEN = 100


@pytest.fixture
def target() -> Iterator[ServerProcess]:
    server = KINDS["kafka"]()
    try:
        server.start()
        yield server
    finally:
        server.close()


def set_level(server: ServerProcess, level: int) -> None:
    """Lower `transaction.version`, and wait until the broker has it."""
    feature = UpdateFeaturesRequest.FeatureUpdateKey(
        feature="transaction.version", max_version_level=level, upgrade_type=UNSAFE_DOWNGRADE
    )
    request = UpdateFeaturesRequest(feature_updates=[feature])
    retry(server.bootstrap, request, 1, lambda answer: answer.error_code == 0)
    wait_level(server, level)


def wait_level(server: ServerProcess, level: int) -> None:
    def has_level(answer: ApiVersionsResponse) -> bool:
        found = {each.name: each.max_version_level for each in answer.finalized_features}
        return found.get("transaction.version") == level

    request = ApiVersionsRequest(client_software_name="tests", client_software_version="1")
    retry(server.bootstrap, request, 3, has_level)


def kill_flows(source: Node, target: ServerProcess, level: int) -> None:
    for call in range(CALLS[level] - KILLED_AFTER, CALLS[level]):
        point = str(2 * call + 1)
        with process(source, target, "assigned", point) as killed:
            assert killed.wait(DEADLINE_S) == -signal.SIGKILL, f"version {level}, point {point}"


@contextmanager
def stopped(flow: Popen[str], target: ServerProcess) -> Iterator[None]:
    """Stop a flow with its transaction not begun, open or complete.

    When Apache Kafka 4.3.0 is killed between the end of a transaction and its markers, it completes
    the transaction without them as it starts again: the log says that it "couldn't find leader
    endpoint" for the partitions. Offsets of the group then stay pending until they are aborted.
    """

    def is_settled(answer: ListTransactionsResponse) -> bool:
        return answer.error_code == 0 and not answer.transaction_states

    flow.send_signal(signal.SIGSTOP)
    try:
        request = ListTransactionsRequest(state_filters=["PrepareCommit", "PrepareAbort"])
        retry(target.bootstrap, request, 1, is_settled)
        yield
    finally:
        flow.send_signal(signal.SIGCONT)


def test_no_record_is_lost_or_repeated(target: ServerProcess) -> None:
    with Node() as source:
        trio.run(prepare, source.bootstrap)
        with Load(source.bootstrap) as load:
            wait_level(target, 2)
            kill_flows(source, target, 2)
            with process(source, target, "assigned") as flow:
                trio.run(until, target, load.written + BETWEEN)
                with stopped(flow, target):
                    target.kill()
                target.start()
                trio.run(until, target, load.written + BETWEEN)
            set_level(target, 1)
            kill_flows(source, target, 1)
        with process(source, target, "assigned"):
            found = trio.run(until, target, load.written)
        assert found == list(range(load.written))
