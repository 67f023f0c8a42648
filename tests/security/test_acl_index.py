"""Decisions over ACLs, compared with an independent scan and with cases of Kafka's tests."""

from collections.abc import Iterable, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.cluster.metadata.acls import (
    Acl,
    AclOperation,
    AclPattern,
    AclPermission,
    ResourceType,
)
from barnabas.security.acl_index import DEFAULT_ALLOW, DEFAULT_DENY, AclIndex
from barnabas.security.java_address import java_address

TOPIC, GROUP = ResourceType.TOPIC, ResourceType.GROUP
LITERAL, PREFIXED = AclPattern.LITERAL, AclPattern.PREFIXED
ALLOW, DENY = AclPermission.ALLOW, AclPermission.DENY
Op = AclOperation


def acl(
    kind: ResourceType,
    name: str,
    pattern: AclPattern,
    principal: str,
    operation: Op,
    permission: AclPermission,
    host: str = "*",
) -> Acl:
    return Acl(kind, name, pattern, principal, host, operation, permission)


def index(acls: Iterable[Acl]) -> AclIndex:
    return AclIndex().updated(acls, ())


# The cases of StandardAuthorizerTest: ACLs, then (principal, host, operation, type, name, allowed).
MANY = (
    acl(TOPIC, "green2", LITERAL, "User:*", Op.READ, ALLOW),
    acl(TOPIC, "green", PREFIXED, "User:bob", Op.READ, ALLOW),
    acl(TOPIC, "betamax4", LITERAL, "User:bob", Op.READ, ALLOW),
    acl(TOPIC, "betamax", LITERAL, "User:bob", Op.READ, ALLOW),
    acl(TOPIC, "beta", PREFIXED, "User:*", Op.READ, ALLOW),
    acl(TOPIC, "alpha", PREFIXED, "User:*", Op.READ, ALLOW),
    acl(TOPIC, "alp", PREFIXED, "User:bob", Op.READ, DENY),
    acl(GROUP, "*", LITERAL, "User:bob", Op.WRITE, ALLOW),
    acl(GROUP, "wheel", LITERAL, "User:*", Op.WRITE, DENY),
)
PREFIXES = (
    acl(TOPIC, "fooa", PREFIXED, "User:alice", Op.ALL, ALLOW),
    acl(TOPIC, "foobar", LITERAL, "User:bob", Op.ALL, ALLOW),
    acl(TOPIC, "f", PREFIXED, "User:bob", Op.ALL, ALLOW),
)
HOST_1, HOST_2, LOCAL = "192.168.1.1", "192.168.1.2", "127.0.0.1"
HOSTS = (
    acl(TOPIC, "foo", LITERAL, "User:alice", Op.READ, DENY, HOST_1),
    acl(TOPIC, "foo", LITERAL, "User:alice", Op.READ, ALLOW),
    acl(TOPIC, "bar", LITERAL, "User:bob", Op.READ, ALLOW, HOST_2),
    acl(TOPIC, "bar", LITERAL, "User:*", Op.DESCRIBE, ALLOW, LOCAL),
)
KAFKA_CASES = [
    (MANY, "User:bob", LOCAL, Op.READ, TOPIC, "green1", True),
    (MANY, "User:bob", LOCAL, Op.WRITE, GROUP, "wheel", False),
    (MANY, "User:bob", LOCAL, Op.READ, TOPIC, "alpha", False),
    (MANY, "User:bob", LOCAL, Op.WRITE, GROUP, "arbitrary", True),
    (MANY, "User:bob", LOCAL, Op.READ, TOPIC, "ala", False),
    (PREFIXES, "User:bob", LOCAL, Op.WRITE, TOPIC, "foobarr", True),
    (PREFIXES, "User:bob", LOCAL, Op.READ, TOPIC, "goobar", False),
    (PREFIXES, "User:bob", LOCAL, Op.READ, TOPIC, "fooa", True),
    (PREFIXES, "User:alice", LOCAL, Op.DESCRIBE, TOPIC, "fooa", True),
    (PREFIXES, "User:alice", LOCAL, Op.WRITE, TOPIC, "bar", False),
    (PREFIXES, "User:alice", LOCAL, Op.READ, TOPIC, "baz", False),
    *((HOSTS, *case) for case in [
        ("User:alice", LOCAL, Op.READ, TOPIC, "foo", True),
        ("User:alice", LOCAL, Op.READ, TOPIC, "bar", False),
        ("User:alice", LOCAL, Op.DESCRIBE, TOPIC, "bar", True),
        ("User:alice", HOST_1, Op.READ, TOPIC, "foo", False),
        ("User:alice", HOST_1, Op.DESCRIBE, TOPIC, "bar", False),
        ("User:alice", HOST_2, Op.READ, TOPIC, "foo", True),
        ("User:bob", LOCAL, Op.READ, TOPIC, "foo", False),
        ("User:bob", LOCAL, Op.DESCRIBE, TOPIC, "bar", True),
        ("User:bob", HOST_1, Op.READ, TOPIC, "bar", False),
        ("User:bob", HOST_2, Op.READ, TOPIC, "bar", True),
        ("User:bob", HOST_2, Op.DESCRIBE, TOPIC, "bar", True),
    ]),
    *(
        ((acl(TOPIC, "foo_", PREFIXED, "User:bob", op, ALLOW),),
         "User:bob", LOCAL, Op.DESCRIBE, TOPIC, "foo_bar", True)
        for op in (Op.DESCRIBE, Op.READ, Op.WRITE, Op.DELETE, Op.ALTER)
    ),
    *(
        ((acl(TOPIC, "foo_", PREFIXED, "User:bob", op, ALLOW),),
         "User:bob", LOCAL, Op.DESCRIBE_CONFIGS, TOPIC, "foo_bar", True)
        for op in (Op.DESCRIBE_CONFIGS, Op.ALTER_CONFIGS)
    ),
    ((acl(TOPIC, "foo_", PREFIXED, "User:bob", Op.CREATE, ALLOW),),
     "User:bob", LOCAL, Op.DESCRIBE, TOPIC, "foo_bar", False),
    ((acl(TOPIC, "foo_", PREFIXED, "User:bob", Op.WRITE, ALLOW),),
     "User:bob", LOCAL, Op.DESCRIBE_CONFIGS, TOPIC, "foo_bar", False),
    *(
        ((acl(TOPIC, "*", LITERAL, "User:bob", Op.ALL, ALLOW),
          acl(TOPIC, "foo_", PREFIXED, "User:bob", op, DENY)),
         "User:bob", LOCAL, Op.DESCRIBE, TOPIC, "foo_bar", True)
        for op in (Op.READ, Op.WRITE, Op.DELETE, Op.ALTER)
    ),
    *(
        ((acl(TOPIC, "*", LITERAL, "User:bob", Op.READ, ALLOW),
          acl(TOPIC, "foo_", PREFIXED, "User:bob", op, DENY)),
         "User:bob", LOCAL, Op.DESCRIBE, TOPIC, "foo_bar", False)
        for op in (Op.DESCRIBE, Op.ALL)
    ),
]  # fmt: skip


@pytest.mark.parametrize(
    ("acls", "principal", "host", "operation", "kind", "name", "allowed"), KAFKA_CASES
)
def test_decision_is_that_of_kafkas_test(
    acls: Sequence[Acl],
    principal: str,
    host: str,
    operation: Op,
    kind: ResourceType,
    name: str,
    allowed: bool,
) -> None:
    rule = index(acls).decide(principal, host, operation, kind, name, without_acl=DEFAULT_DENY)
    assert rule.allowed == allowed


def test_rule_has_the_text_of_kafkas_audit_log() -> None:
    rule = index(MANY).decide("User:bob", LOCAL, Op.READ, TOPIC, "alpha", without_acl=DEFAULT_DENY)
    assert rule.text == (
        "MatchingAcl(acl=StandardAcl[resourceType=TOPIC, resourceName=alp, patternType=PREFIXED, "
        "principal=User:bob, host=*, operation=READ, permissionType=DENY])"
    )


@pytest.mark.parametrize(("name", "text"), [("topic1", "DefaultDeny"), ("topic2", "DefaultAllow")])
def test_resource_with_any_acl_is_closed_to_others(name: str, text: str) -> None:
    """allow.everyone.if.no.acl.found concerns resources that no ACL names."""
    one = index([acl(TOPIC, "topic1", LITERAL, "User:Alice", Op.READ, ALLOW)])
    rule = one.decide("User:Bob", LOCAL, Op.READ, TOPIC, name, without_acl=DEFAULT_ALLOW)
    assert rule.text == text


# An independent reading of the rules: every ACL is looked at, one after the other.

DESCRIBE_TOO = {Op.READ, Op.WRITE, Op.DELETE, Op.ALTER, Op.DESCRIBE}


def applies(each: Acl, kind: ResourceType, name: str) -> bool:
    if each.resource_type != kind:
        return False
    if each.pattern_type == PREFIXED:
        return name.startswith(each.resource_name)
    return each.resource_name in ("*", name)


def concerns(each: Acl, principal: str, host: str, operation: Op) -> bool:
    operations = {each.operation}
    if each.operation == Op.ALL:
        operations = set(Op)
    elif each.permission == ALLOW and each.operation in DESCRIBE_TOO:
        operations.add(Op.DESCRIBE)
    elif each.permission == ALLOW and each.operation == Op.ALTER_CONFIGS:
        operations.add(Op.DESCRIBE_CONFIGS)
    return (
        each.principal in (principal, "User:*")
        and each.host in (host, "*")
        and operation in operations
    )


def scan(
    acls: Iterable[Acl], principal: str, host: str, operation: Op, kind: ResourceType, name: str
) -> bool | None:
    """Return the decision; None for a resource without ACLs."""
    applying = [each for each in acls if applies(each, kind, name)]
    concerning = [each for each in applying if concerns(each, principal, host, operation)]
    if any(each.permission == DENY for each in concerning):
        return False
    if concerning:
        return True
    return False if applying else None


NAMES = st.sampled_from(["a", "ab", "abc", "b", "*", "*a", "hardcode"])
PRINCIPALS = st.sampled_from(["User:x", "User:y", "Group:x"])
ADDRESSES = st.sampled_from(["1.1.1.1", "2.2.2.2"])
OPERATIONS = st.sampled_from([op for op in Op if op > Op.ALL])
KINDS = st.sampled_from([TOPIC, GROUP])
ACLS = st.builds(
    acl,
    KINDS,
    NAMES,
    st.sampled_from([LITERAL, PREFIXED]),
    PRINCIPALS | st.just("User:*"),
    OPERATIONS | st.just(Op.ALL),
    st.sampled_from([ALLOW, DENY]),
    ADDRESSES | st.just("*"),
)


@settings(max_examples=500)
@given(
    acls=st.lists(ACLS, max_size=8, unique=True),
    removed=st.data(),
    principal=PRINCIPALS,
    host=ADDRESSES,
    operation=OPERATIONS,
    kind=KINDS,
    name=NAMES,
)
def test_decision_is_that_of_a_scan(
    acls: list[Acl],
    removed: st.DataObject,
    principal: str,
    host: str,
    operation: Op,
    kind: ResourceType,
    name: str,
) -> None:
    gone = removed.draw(st.lists(st.sampled_from(acls), unique=True)) if acls else []
    left = [each for each in acls if each not in gone]
    found = index(acls).updated((), gone)
    expected = scan(left, principal, host, operation, kind, name)
    for without_acl in (DEFAULT_ALLOW, DEFAULT_DENY):
        rule = found.decide(principal, host, operation, kind, name, without_acl=without_acl)
        assert rule.allowed == (without_acl.allowed if expected is None else expected)


@settings(max_examples=500)
@given(
    acls=st.lists(ACLS, max_size=8, unique=True),
    principal=PRINCIPALS,
    host=ADDRESSES,
    operation=OPERATIONS,
    kind=KINDS,
)
def test_any_resource_is_one_that_no_deny_covers(
    acls: list[Acl], principal: str, host: str, operation: Op, kind: ResourceType
) -> None:
    own = [
        each
        for each in acls
        if each.resource_type == kind
        and each.principal in (principal, "User:*")
        and each.host in (host, "*")
        and each.operation in (operation, Op.ALL)
    ]
    patterns = {
        permission: {(p.pattern_type, p.resource_name) for p in own if p.permission == permission}
        for permission in (ALLOW, DENY)
    }
    prefixes = [name for pattern, name in patterns[DENY] if pattern == PREFIXED]
    everything = (LITERAL, "*")
    if everything in patterns[DENY]:
        expected = False
    else:
        expected = everything in patterns[ALLOW] or any(
            not any(name.startswith(prefix) for prefix in prefixes)
            and not (pattern == LITERAL and (pattern, name) in patterns[DENY])
            for pattern, name in patterns[ALLOW]
        )
    assert index(acls).allows_any(principal, host, operation, kind) == expected


@pytest.mark.parametrize(
    ("host", "text"),
    [
        ("127.0.0.1", "127.0.0.1"),
        ("::1", "0:0:0:0:0:0:0:1"),
        ("fe80::a00:27ff:fe8e:1%eth0", "fe80:0:0:0:a00:27ff:fe8e:1%eth0"),
        ("::ffff:10.0.0.7", "10.0.0.7"),
        ("a name", "a name"),
    ],
)
def test_address_has_the_form_of_java(host: str, text: str) -> None:
    assert java_address(host) == text
