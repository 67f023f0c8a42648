"""`barnabas acl` and `barnabas user` beside Apache Kafka's own tools, on the same server."""

import contextlib
import io
import json
import re
from collections.abc import Iterator

import pytest

from barnabas.cli.main import run
from compat_tests import jars
from compat_tests.servers import KINDS

pytestmark = jars.needed

_RESOURCE = re.compile(r"ResourcePattern\(resourceType=(\w+), name=(.*), patternType=(\w+)\)")
_ENTRY = re.compile(r"\(principal=(.*), host=(.*), operation=(\w+), permissionType=(\w+)\)")


@pytest.fixture(scope="module")
def authorized(request: pytest.FixtureRequest) -> Iterator[str]:
    """Return the address of a server with an authorizer, of which every client is a super user."""
    if request.config.getoption("--bootstrap"):
        pytest.skip("needs a server with an authorizer")
    process = KINDS[request.config.getoption("--server")]()
    process.properties.update(
        {
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:ANONYMOUS",
        }
    )
    try:
        process.start()
        yield process.bootstrap
    finally:
        process.close()


def barnabas(bootstrap: str, *arguments: str, stdin: str = "") -> str:
    """Return the output of a command, which runs in this process."""
    output = io.StringIO()
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(output):
        patch.setattr("sys.stdin", io.StringIO(stdin))
        assert run([*arguments, "--bootstrap", bootstrap]) == 0
    return output.getvalue()


def listed_by_kafka(text: str) -> set[tuple[str, ...]]:
    """Return the ACLs that `kafka-acls --list` prints."""
    found, resource = set[tuple[str, ...]](), tuple[str, ...]()
    for line in text.splitlines():
        if match := _RESOURCE.search(line):
            resource = match.groups()
        elif match := _ENTRY.search(line):
            found.add((*resource, *match.groups()))
    return found


def listed_by_barnabas(text: str) -> set[tuple[str, ...]]:
    """Return the ACLs that `barnabas acl list --json` prints, in Kafka's words."""

    def words(each: dict[str, str], *names: str) -> tuple[str, ...]:
        return tuple(each[name].upper().replace("-", "_") for name in names)

    return {
        (
            *words(each, "resource_type"),
            each["resource_name"],
            *words(each, "pattern"),
            each["principal"],
            each["host"],
            *words(each, "operation", "permission"),
        )
        for each in json.loads(text)
    }


def test_acl_list_shows_what_kafka_acls_shows(authorized: str) -> None:
    tool = ("org.apache.kafka.tools.AclCommand", "--bootstrap-server", authorized)
    jars.java(*tool, "--add", "--allow-principal", "User:ann", "--allow-principal", "User:a, b",
              "--producer", "--topic", "orders", "--transactional-id", "tx")  # fmt: skip
    for resource, *arguments in (
        ("topic:pre-", "--prefixed", "--allow", "User:*", "--operation", "all"),
        ("topic:*", "--deny", "User:eve", "--operation", "read", "--host", "10.0.0.1"),
        ("group:*", "--allow", "User:CN=ann,O=x", "--operation", "read"),
        ("cluster", "--allow", "User:ann", "--operation", "alter-configs"),
        ("transactional-id:tx", "--allow", "User:ann", "--operation", "two-phase-commit"),
        ("user:ann", "--allow", "User:bob", "--operation", "create-tokens"),
        ("delegation-token:t", "--allow", "User:bob", "--operation", "describe"),
    ):
        barnabas(authorized, "acl", "add", "--resource", resource, *arguments)
    theirs = listed_by_kafka(jars.java(*tool, "--list").stdout)
    assert len(theirs) == 17
    assert listed_by_barnabas(barnabas(authorized, "acl", "list", "--json")) == theirs
    removed = barnabas(authorized, "acl", "remove", "--resource", "topic:orders", "--json")
    assert listed_by_barnabas(removed) == {each for each in theirs if each[1] == "orders"}
    left = listed_by_barnabas(barnabas(authorized, "acl", "list", "--json"))
    assert left == theirs - listed_by_barnabas(removed)


def test_users_of_both_tools_are_the_same(authorized: str) -> None:
    tool = ("kafka.admin.ConfigCommand", "--bootstrap-server", authorized)
    added = ("--entity-type", "users", "--entity-name", "ann", "--add-config")
    jars.java(*tool, "--alter", *added, "SCRAM-SHA-512=[iterations=8192,password=x]")
    secret = ("--mechanism", "SCRAM-SHA-256", "--password-file", "-")
    barnabas(authorized, "user", "add", "bob", *secret, stdin="bob-secret\n")
    shown = jars.java(*tool, "--describe", "--entity-type", "users").stdout
    assert sorted(shown.splitlines()) == [
        "SCRAM credential configs for user-principal 'ann' are SCRAM-SHA-512=iterations=8192",
        "SCRAM credential configs for user-principal 'bob' are SCRAM-SHA-256=iterations=4096",
    ]
    found = json.loads(barnabas(authorized, "user", "list", "--json"))
    assert [(each["user"], each["mechanisms"]) for each in found] == [
        ("ann", [{"name": "SCRAM-SHA-512", "iterations": 8192}]),
        ("bob", [{"name": "SCRAM-SHA-256", "iterations": 4096}]),
    ]
