"""Properties of the authorizer, observed by clients of a node that authorizes."""

from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.create_topics import CreateTopicsRequest
from barnabas.testing import Node
from tests.config.effects.observed import observes
from tests.config.effects.wire import Wire

AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"


def outcome_of_creation(**config: str) -> int:
    """Return the error code of a topic that an anonymous client creates."""
    with Node(config=config) as node:
        topic = CreateTopicsRequest.CreatableTopic(name="t", num_partitions=1, replication_factor=1)
        wire = Wire(int(node.bootstrap.rpartition(":")[2]))
        return wire.ask(CreateTopicsRequest(topics=[topic]), 7).topics[0].error_code


@observes("authorizer.class.name")
def test_authorizer_refuses_clients_without_an_acl() -> None:
    config = {"authorizer.class.name": AUTHORIZER, "super.users": "User:admin"}
    assert outcome_of_creation(**config) == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert outcome_of_creation() == ErrorCode.NONE


@observes("super.users")
def test_super_user_needs_no_acl() -> None:
    config = {"authorizer.class.name": AUTHORIZER, "super.users": "User:admin;User:ANONYMOUS"}
    assert outcome_of_creation(**config) == ErrorCode.NONE


@observes("allow.everyone.if.no.acl.found")
def test_resource_without_acls_is_open_to_everyone_where_that_is_set() -> None:
    config = {"authorizer.class.name": AUTHORIZER, "allow.everyone.if.no.acl.found": "true"}
    assert outcome_of_creation(**config) == ErrorCode.NONE
