"""The authorizer: super users, loading, changes of ACLs, and the audit log."""

import logging

import attrs
import pytest

from barnabas.cluster.metadata.acls import AclOperation, ResourceType
from barnabas.cluster.metadata.delta import MetadataDelta
from barnabas.cluster.metadata.image import MetadataImage
from barnabas.protocol.errors import KafkaError
from barnabas.protocol.records.metadata_records import (
    AccessControlEntryRecord,
    RemoveAccessControlEntryRecord,
)
from barnabas.protocol.types import Uuid
from barnabas.security.principals import Principal
from barnabas.security.standard_authorizer import StandardAuthorizer, super_users_of

READ, WRITE = AclOperation.READ, AclOperation.WRITE
TOPIC = ResourceType.TOPIC
ALLOW, DENY = 3, 2


@attrs.frozen
class Sender:
    principal: Principal
    client_host: str = "127.0.0.1"


BOB = Sender(Principal("User", "bob"))


def record(number: int, name: str, permission: int, operation: int = READ) -> object:
    return AccessControlEntryRecord(
        id=Uuid(bytes([number]) * 16),
        resource_type=TOPIC,
        resource_name=name,
        pattern_type=3,
        principal="User:bob",
        host="*",
        operation=operation,
        permission_type=permission,
    )


def removal(number: int) -> object:
    return RemoveAccessControlEntryRecord(id=Uuid(bytes([number]) * 16))


class Cluster:
    """Metadata whose changes an authorizer follows."""

    def __init__(self, authorizer: StandardAuthorizer) -> None:
        self.authorizer = authorizer
        self.image = MetadataImage()

    def replay(self, *records: object) -> None:
        delta = MetadataDelta(self.image)
        for each in records:
            delta.replay(each)  # type: ignore[arg-type]
        self.image = delta.apply(self.image.offset + 1, 1)
        self.authorizer.apply(self.image, delta)


def reads(authorizer: StandardAuthorizer, name: str = "t", **options: bool) -> bool:
    return authorizer.authorize(BOB, READ, TOPIC, name, request="Fetch", **options)


def test_decision_follows_each_change_of_acls() -> None:
    authorizer = StandardAuthorizer(())
    cluster = Cluster(authorizer)
    cluster.replay()
    assert not reads(authorizer)
    cluster.replay(record(1, "t", ALLOW))
    assert reads(authorizer)
    cluster.replay(record(2, "t", DENY), record(3, "u", ALLOW))
    assert not reads(authorizer)
    assert reads(authorizer, "u")
    cluster.replay(removal(2))
    assert reads(authorizer)
    cluster.replay(removal(1))
    assert not reads(authorizer)


def test_deny_stays_when_the_last_allow_of_the_resource_is_removed() -> None:
    authorizer = StandardAuthorizer((), allow_without_acl=True)
    cluster = Cluster(authorizer)
    cluster.replay(record(1, "t", ALLOW, WRITE), record(2, "t", DENY))
    cluster.replay(removal(1))
    assert not reads(authorizer)
    cluster.replay(removal(2))
    assert reads(authorizer)


def test_only_super_users_pass_before_the_acls_are_loaded() -> None:
    authorizer = StandardAuthorizer(["User:root"], allow_without_acl=True)
    root = Sender(Principal("User", "root"))
    assert authorizer.authorize(root, WRITE, TOPIC, "t", request="Produce")
    with pytest.raises(KafkaError, match="not loaded"):
        reads(authorizer)


@pytest.mark.parametrize(
    ("offset", "high_watermark", "is_loaded"),
    [(-1, 0, False), (-1, 5, False), (4, 4, False), (3, 4, True)],
)
def test_acls_are_known_with_the_first_committed_records(
    offset: int, high_watermark: int, is_loaded: bool
) -> None:
    authorizer = StandardAuthorizer((), allow_without_acl=True)
    cluster = Cluster(authorizer)
    image = attrs.evolve(cluster.image, offset=offset)
    authorizer.load_committed(image, high_watermark)
    assert authorizer.is_loaded is is_loaded


def test_image_that_replaces_the_metadata_replaces_the_acls() -> None:
    authorizer = StandardAuthorizer(())
    cluster = Cluster(authorizer)
    cluster.replay(record(1, "t", ALLOW))
    other = Cluster(StandardAuthorizer(()))
    other.replay(record(2, "u", ALLOW))
    authorizer.apply(other.image, MetadataDelta(other.image))
    assert [reads(authorizer, name) for name in "tu"] == [False, True]


def test_write_on_any_topic_is_found_behind_a_denied_one() -> None:
    authorizer = StandardAuthorizer(())
    cluster = Cluster(authorizer)
    cluster.replay(record(1, "t", ALLOW, WRITE), record(2, "t", DENY, WRITE))
    assert not authorizer.authorize_by_type(BOB, WRITE, TOPIC, request="InitProducerId")
    cluster.replay(record(3, "u", ALLOW, WRITE))
    assert authorizer.authorize_by_type(BOB, WRITE, TOPIC, request="InitProducerId")


@pytest.mark.parametrize(
    ("text", "users"),
    [
        (" ", set()),
        ("User:bob;User:alice ", {"User:bob", "User:alice"}),
        (";  User:bob  ;  User:alice ", {"User:bob", "User:alice"}),
        ("User:CN=a;User:b:c", {"User:CN=a", "User:b:c"}),
    ],
)
def test_super_users_are_separated_by_semicolons(text: str, users: set[str]) -> None:
    assert super_users_of(text) == users


def test_super_user_without_a_type_is_refused() -> None:
    with pytest.raises(ValueError, match="principalType:principalName but got bob"):
        super_users_of("bob;:alice")


@pytest.mark.parametrize(
    ("allowed", "logged", "level"),
    [
        (False, True, logging.INFO),
        (False, False, 5),
        (True, True, logging.DEBUG),
        (True, False, 5),
    ],
)
def test_audit_line_has_kafkas_text_and_level(
    caplog: pytest.LogCaptureFixture, allowed: bool, logged: bool, level: int
) -> None:
    authorizer = StandardAuthorizer(())
    Cluster(authorizer).replay(record(1, "t", ALLOW if allowed else DENY))
    with caplog.at_level(1, "barnabas.kafka.authorizer.logger"):
        reads(authorizer, log_allowed=logged, log_denied=logged)
    (line,) = caplog.records
    verb, permission = ("Allowed", "ALLOW") if allowed else ("Denied", "DENY")
    assert (line.levelno, line.getMessage()) == (
        level,
        f"Principal = User:bob is {verb} operation = READ from host = 127.0.0.1 on resource = "
        "Topic:LITERAL:t for request = Fetch with resourceRefCount = 1 based on rule "
        "MatchingAcl(acl=StandardAcl[resourceType=TOPIC, resourceName=t, patternType=LITERAL, "
        f"principal=User:bob, host=*, operation=READ, permissionType={permission}])",
    )


def test_audit_line_stays_one_line(caplog: pytest.LogCaptureFixture) -> None:
    authorizer = StandardAuthorizer(())
    Cluster(authorizer).replay()
    with caplog.at_level(logging.INFO, "barnabas.kafka.authorizer.logger"):
        reads(authorizer, "t\nPrincipal = User:root is Allowed")
    assert "\\nPrincipal = User:root" in caplog.text
    assert caplog.text.count("\n") == 1
