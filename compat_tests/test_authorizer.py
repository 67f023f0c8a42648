"""Authorization of every api of both kinds of listeners, compared with Apache Kafka."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from barnabas.protocol.apis import API
from compat_tests import jars
from compat_tests.authorizer_oracle import (
    PROPERTIES,
    Secured,
    both,
    cases,
    is_refusal,
    only_in_one,
    versions,
)
from compat_tests.authorizer_rows import FIRST, ROWS, Row, message
from compat_tests.controller_rows import rows as controller_rows
from compat_tests.servers import BarnabasProcess, KafkaProcess

CONTROLLER_ROWS = controller_rows()
pytestmark = [jars.needed, pytest.mark.barnabas_only]


@pytest.fixture(scope="module")
def servers() -> Iterator[list[Secured]]:
    """Return our server and Apache Kafka, started alike."""
    started = [Secured(BarnabasProcess(PROPERTIES)), Secured(KafkaProcess(PROPERTIES))]
    try:
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(Secured.prepare, started))
        yield started
    finally:
        for each in started:
            each.close()


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.label)
def test_answer_to_each_set_of_rights_is_kafkas(servers: list[Secured], row: Row) -> None:
    for label, acls in cases(row):
        ours, theirs = both(servers, lambda server, acls=acls: server.answer(row, acls))
        if not (row.is_served or is_refusal(theirs)):
            assert not is_refusal(ours)
            continue
        assert (label, *only_in_one(ours, theirs)) == (label, [], [])


@pytest.mark.parametrize(
    "row", [row for row in ROWS if row.version is None and row.is_served], ids=lambda row: row.label
)
def test_refusal_in_every_version_is_kafkas(servers: list[Secured], row: Row) -> None:
    for version in versions(row):
        ours, theirs = both(servers, lambda server, version=version: server.refusal(row, version))
        assert (version, *only_in_one(ours, theirs)) == (version, [], [])


def test_every_api_of_the_broker_listener_has_a_row(servers: list[Secured]) -> None:
    asked = message("ApiVersions")(client_software_name="a", client_software_version="1")
    listed = {each.api_key for each in servers[0].call(asked, 4).api_keys}
    rows = {message(row.api).API_KEY for row in ROWS}
    assert {API[key].name for key in listed - rows} == set()


@pytest.mark.parametrize("row", CONTROLLER_ROWS, ids=lambda row: row.label)
def test_answer_of_a_controller_to_each_set_of_rights_is_kafkas(
    servers: list[Secured], row: Row
) -> None:
    for label, acls in cases(row):
        ours, theirs = both(
            servers, lambda server, acls=acls: server.answer(row, acls, server.controller)
        )
        if not (row.is_served or is_refusal(theirs)):
            assert not is_refusal(ours)
            continue
        assert (label, *only_in_one(ours, theirs)) == (label, [], [])


@pytest.mark.parametrize(
    "row",
    [row for row in CONTROLLER_ROWS if row.version is None and row.is_served],
    ids=lambda row: row.label,
)
def test_refusal_of_a_controller_in_every_version_is_kafkas(
    servers: list[Secured], row: Row
) -> None:
    for version in versions(row):
        ours, theirs = both(
            servers,
            lambda server, version=version: server.refusal(row, version, server.controller),
        )
        assert (version, *only_in_one(ours, theirs)) == (version, [], [])


def test_every_api_of_the_controller_listener_has_a_row(servers: list[Secured]) -> None:
    asked = message("ApiVersions")(client_software_name="a", client_software_version="1")
    listed = {each.api_key for each in servers[0].controller_admin.call(asked, 4).api_keys}
    rows = {message(row.api).API_KEY for row in CONTROLLER_ROWS}
    assert {API[key].name for key in listed - rows} == set()


@pytest.mark.parametrize("label", ["produce", "produce in a transaction", "delete records"])
def test_denied_request_leaves_the_log_unchanged(servers: list[Secured], label: str) -> None:
    (row,) = (row for row in ROWS if row.label == label)
    ours = servers[0]
    before = ours.end_offset(FIRST)
    ours.answer(row, [])
    assert ours.end_offset(FIRST) == before


ACL_COMMANDS = [
    "--add --allow-principal User:alice --operation Read --topic tool- "
    "--resource-pattern-type prefixed",
    "--add --deny-principal User:bob --deny-host 10.0.0.1 --operation All --group tool-group",
    "--add --allow-principal User:carol --producer --topic tool-topic "
    "--transactional-id tool-txn --idempotent",
    "--list --topic tool-topic --resource-pattern-type match",
    "--remove --force --topic tool-topic",
    "--list --principal User:bob --principal User:carol",
]


def test_output_of_kafka_acls_is_kafkas(servers: list[Secured]) -> None:
    for arguments in ACL_COMMANDS:
        ours, theirs = both(
            servers,
            lambda server, arguments=arguments: (
                jars.java(
                    "org.apache.kafka.tools.AclCommand",
                    "--bootstrap-server",
                    server.process.bootstrap,
                    *arguments.split(),
                ).stdout
            ),
        )
        assert sorted(ours.splitlines()) == sorted(theirs.splitlines()), arguments
