"""`barnabas acl` and `barnabas user` on a node with an authorizer and SCRAM."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.conftest import Barnabas
from tests.secured_node import SecuredNode, secured_node


@pytest.fixture(scope="module")
def node() -> Iterator[SecuredNode]:
    with secured_node() as found:
        yield found


@pytest.fixture(scope="module")
def bootstrap(node: SecuredNode) -> str:
    return node.bootstrap


def added(barnabas: Barnabas, *arguments: str) -> list[dict[str, str]]:
    outcome = barnabas("acl", "add", *arguments, "--json")
    assert outcome.code == 0, outcome.err
    return outcome.data


def entry(resource: str, name: str, principal: str, operation: str, **more: str) -> dict[str, str]:
    return {
        "resource_type": resource,
        "resource_name": name,
        "pattern": "literal",
        "principal": principal,
        "host": "*",
        "operation": operation,
        "permission": "allow",
        **more,
    }


def test_acls_are_added_once_listed_and_removed(barnabas: Barnabas) -> None:
    wanted = ("--allow", "User:ann", "--operation", "read", "--operation", "Describe",
              "--resource", "topic:first", "--resource", "group:g")  # fmt: skip
    expected = [
        entry("topic", "first", "User:ann", "read"),
        entry("topic", "first", "User:ann", "describe"),
        entry("group", "g", "User:ann", "read"),
        entry("group", "g", "User:ann", "describe"),
    ]
    assert added(barnabas, *wanted, "--dry-run") == expected
    assert barnabas("acl", "list", "--principal", "User:ann", "--json").data == []
    assert added(barnabas, *wanted) == expected
    assert added(barnabas, *wanted) == []
    assert barnabas("acl", "list", "--principal", "User:ann", "--json").data == expected
    assert barnabas("acl", "list", "--resource", "group:g").lines == [
        "RESOURCE  PATTERN  PRINCIPAL  HOST  OPERATION  PERMISSION",
        "group:g   literal  User:ann   *     read       allow",
        "group:g   literal  User:ann   *     describe   allow",
    ]
    again = barnabas("acl", "add", *wanted)
    assert again.lines[-1] == "0 ACLs added, 4 ACLs existed"
    kept = barnabas("acl", "remove", "--resource", "group:g", "--dry-run", "--json").data
    assert kept == expected[2:]
    assert barnabas("acl", "list", "--principal", "User:ann", "--json").data == expected
    removed = barnabas("acl", "remove", "--principal", "User:ann", "--operation", "read")
    assert removed.lines[-1] == "2 ACLs removed"
    left = barnabas("acl", "list", "--principal", "User:ann", "--json").data
    assert left == [expected[1], expected[3]]


def test_acls_of_every_type_of_resource_are_listed(barnabas: Barnabas) -> None:
    """librdkafka has neither users and tokens nor operations on them."""
    principal = ("--deny", "User:types", "--host", "10.0.0.1")
    added(barnabas, *principal, "--operation", "create-tokens", "--resource", "user:x")
    added(barnabas, *principal, "--operation", "describe", "--resource", "delegation-token:x")
    added(barnabas, *principal, "--operation", "cluster-action", "--resource", "cluster")
    two_phase = ("--operation", "two-phase-commit", "--resource", "transactional-id:tx-")
    added(barnabas, *principal, *two_phase, "--prefixed")
    deny = {"permission": "deny", "host": "10.0.0.1"}
    listed = barnabas("acl", "list", "--principal", "User:types", "--json").data
    assert listed == [
        entry("cluster", "kafka-cluster", "User:types", "cluster-action", **deny),
        entry("transactional-id", "tx-", "User:types", "two-phase-commit", pattern="prefixed",
              **deny),
        entry("delegation-token", "x", "User:types", "describe", **deny),
        entry("user", "x", "User:types", "create-tokens", **deny),
    ]  # fmt: skip
    match = ("--resource", "transactional-id:tx-7", "--pattern", "match")
    assert barnabas("acl", "list", *match, "--json").data == listed[1:2]
    users = barnabas("acl", "list", "--resource-type", "user", "--json").data
    assert users == listed[3:]


def test_rule_that_decides_is_named(barnabas: Barnabas) -> None:
    added(barnabas, "--allow", "User:*", "--operation", "read", "--resource", "topic:why-",
          "--prefixed")  # fmt: skip
    added(barnabas, "--deny", "User:eve", "--operation", "all", "--resource", "topic:why-not",
          "--host", "10.0.0.9")  # fmt: skip

    def explained(principal: str, operation: str, resource: str, *more: str) -> dict[str, object]:
        asked = ("--principal", principal, "--operation", operation, "--resource", resource)
        outcome = barnabas("acl", "explain", *asked, *more, "--json")
        assert outcome.code == 0, outcome.err
        return outcome.data

    by_prefix = entry("topic", "why-", "User:*", "read", pattern="prefixed")
    found = explained("User:eve", "describe", "topic:why-not")
    assert (found["allowed"], found["acl"]) == (True, by_prefix)
    found = explained("User:eve", "describe", "topic:why-not", "--host", "10.0.0.9")
    assert found["allowed"] is False
    denied = entry("topic", "why-not", "User:eve", "all", permission="deny", host="10.0.0.9")
    assert found["acl"] == denied
    found = explained("User:eve", "write", "topic:why-not")
    assert (found["allowed"], found["rule"], found["acl"]) == (False, "DefaultDeny", None)
    found = explained("User:eve", "write", "topic:no-acl-applies")
    assert (found["allowed"], found["rule"]) == (None, "allow.everyone.if.no.acl.found")
    text = barnabas("acl", "explain", "--principal", "User:eve", "--operation", "read",
                    "--resource", "topic:why-x")  # fmt: skip
    assert text.lines[0] == "read of topic:why-x by User:eve: allowed by the ACL"
    assert text.lines[2] == "topic:why-  prefixed  User:*     *     read       allow"


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("list", "--resource", "table:x"), "'table:x' must be cluster, or TYPE:NAME"),
        (("list", "--resource", "topic:"), "'topic:' must be cluster, or TYPE:NAME"),
        (("list", "--principal", "ann"), "'ann' must be TYPE:NAME, for example User:alice"),
        (("remove", "--yes"), "Select ACLs, for example with --principal"),
        (("remove", "--all", "--host", "*"), "or use --all alone"),
        (("add", "--operation", "read", "--resource", "cluster"), "use --allow or --deny"),
        (
            ("list", "--resource", "topic:x", "--resource-type", "group"),
            "--resource and --resource-type name different types",
        ),
    ],
)
def test_wrong_use_of_acl_is_refused(
    barnabas: Barnabas, arguments: tuple[str, ...], reason: str
) -> None:
    outcome = barnabas("acl", *arguments)
    assert outcome.code == 2
    assert reason in outcome.err


def test_users_are_added_described_and_removed(
    barnabas: Barnabas, node: SecuredNode, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert barnabas("user", "list", "--json").data == []
    monkeypatch.setenv("SECRET", "ann-secret")
    tried = barnabas("user", "add", "ann", "--password-env", "SECRET", "--dry-run")
    assert tried.out == "ann could be added (SCRAM-SHA-256, SCRAM-SHA-512)\n"
    assert barnabas("user", "list", "--json").data == []
    assert barnabas("user", "add", "ann", "--password-env", "SECRET").code == 0
    more = ("--mechanism", "scram-sha-256", "--iterations", "8192", "--password-file", "-")
    outcome = barnabas("user", "add", "bob", *more, "--json", stdin=b"bob-secret\n")
    bob = {"user": "bob", "mechanisms": [{"name": "SCRAM-SHA-256", "iterations": 8192}]}
    assert outcome.data == {**bob, "existed": False}
    assert barnabas("user", "list").lines == [
        "USER  MECHANISM      ITERATIONS",
        "ann   SCRAM-SHA-256  4096",
        "ann   SCRAM-SHA-512  4096",
        "bob   SCRAM-SHA-256  8192",
    ]
    assert barnabas("user", "describe", "bob", "--json").data == [bob]
    monkeypatch.setenv("BARNABAS_BOOTSTRAP", node.sasl)
    file = tmp_path / "client.properties"
    jaas = 'ScramLoginModule required username="bob" password="bob-secret";'
    file.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=SCRAM-SHA-256\n"
        f"sasl.jaas.config=org.apache.kafka.common.security.scram.{jaas}\n"
    )
    # By librdkafka, and by the project's own client.
    assert barnabas("topic", "list", "--command-config", str(file), "--json").data == []
    refused = barnabas("user", "list", "--command-config", str(file))
    assert refused.code == 1
    assert "CLUSTER_AUTHORIZATION_FAILED" in refused.err
    file.write_text(file.read_text().replace("bob-secret", "wrong"))
    for command in ("topic", "user"):
        wrong = barnabas(command, "list", "--client-config", str(file), "--timeout", "5")
        assert wrong.code == 1
        assert "invalid credentials" in wrong.err
        assert "bob-secret" not in wrong.err + wrong.out
    monkeypatch.setenv("BARNABAS_BOOTSTRAP", node.bootstrap)
    kept = barnabas("user", "remove", "ann", "--mechanism", "SCRAM-SHA-512", "--dry-run")
    assert kept.out == "ann could be removed (SCRAM-SHA-512)\n"
    assert barnabas("user", "remove", "ann", "--mechanism", "SCRAM-SHA-512").code == 0
    again = barnabas("user", "remove", "ann", "--mechanism", "SCRAM-SHA-512")
    assert (again.code, "user ann has no SCRAM-SHA-512" in again.err) == (1, True)
    assert barnabas("user", "remove", "ann").out == "ann removed (SCRAM-SHA-256)\n"
    assert barnabas("user", "remove", "bob").code == 0
    assert barnabas("user", "list", "--json").data == []
    gone = barnabas("user", "describe", "ann")
    assert (gone.code, "user ann does not exist" in gone.err) == (1, True)


def test_user_without_a_password_is_refused(
    barnabas: Barnabas, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NO_SECRET", raising=False)
    empty = tmp_path / "empty"
    empty.write_text("\n")
    for arguments, reason in (
        ((), "no terminal to prompt for the password"),
        (("--password-env", "NO_SECRET"), "the variable NO_SECRET has no password"),
        (("--password-file", str(empty)), f"the file {empty} has no password"),
    ):
        outcome = barnabas("user", "add", "carl", *arguments)
        assert outcome.code == 1
        assert reason in outcome.err
    assert barnabas("user", "list", "--json").data == []
