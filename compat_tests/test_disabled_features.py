"""Apis of features that are not enabled: what a broker without SASL, quotas or tokens answers.

Version guessers, exporters and misconfigured clients send these requests to every broker.
"""

import pytest

from barnabas.protocol.messages.alter_client_quotas import AlterClientQuotasRequest
from barnabas.protocol.messages.api_versions import ApiVersionsRequest
from barnabas.protocol.messages.create_acls import CreateAclsRequest
from barnabas.protocol.messages.create_delegation_token import CreateDelegationTokenRequest
from barnabas.protocol.messages.delete_acls import DeleteAclsRequest
from barnabas.protocol.messages.describe_acls import DescribeAclsRequest
from barnabas.protocol.messages.describe_client_quotas import DescribeClientQuotasRequest
from barnabas.protocol.messages.describe_delegation_token import DescribeDelegationTokenRequest
from barnabas.protocol.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
)
from barnabas.protocol.messages.expire_delegation_token import ExpireDelegationTokenRequest
from barnabas.protocol.messages.find_coordinator import FindCoordinatorRequest
from barnabas.protocol.messages.heartbeat import HeartbeatRequest
from barnabas.protocol.messages.offset_commit import OffsetCommitRequest
from barnabas.protocol.messages.renew_delegation_token import RenewDelegationTokenRequest
from barnabas.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from barnabas.protocol.messages.sasl_handshake import SaslHandshakeRequest
from barnabas.protocol.messages.share_group_describe import ShareGroupDescribeRequest
from barnabas.protocol.messages.streams_group_describe import StreamsGroupDescribeRequest
from barnabas.protocol.messages.unregister_broker import UnregisterBrokerRequest
from compat_tests import wire

ILLEGAL_SASL_STATE, TOKEN_REQUEST_NOT_ALLOWED = 34, 64
INVALID_REQUEST, UNSUPPORTED_VERSION = 42, 35
BROKER_ID_NOT_REGISTERED = 102
RESOURCE_NOT_FOUND, DUPLICATE_RESOURCE = 91, 92
INVALID_GROUP_ID, GROUP_ID_NOT_FOUND = 24, 69
NO_GROUP_YET = {14, 15, 16}
ALWAYS_LISTED = {17, 36, 38, 39, 40, 41, 48, 49, 50, 51, 64, 77, 89}


def listed(bootstrap: str) -> set[int]:
    answer = wire.call(bootstrap, ApiVersionsRequest(), 0)
    return {key.api_key for key in answer.api_keys}


def test_api_versions_lists_the_apis_of_disabled_features(bootstrap) -> None:
    assert listed(bootstrap) >= ALWAYS_LISTED


@pytest.mark.parametrize("version", [0, 1])
def test_sasl_handshake_on_plaintext_is_refused_and_the_connection_stays(
    bootstrap, version
) -> None:
    with wire.Connection(bootstrap) as connection:
        answer = connection.call(SaslHandshakeRequest(mechanism="PLAIN"), version)
        assert (answer.error_code, answer.mechanisms) == (ILLEGAL_SASL_STATE, [])
        assert connection.call(ApiVersionsRequest(), 0).error_code == 0


@pytest.mark.parametrize("version", [0, 1, 2])
def test_sasl_authenticate_on_plaintext_is_refused_and_the_connection_stays(
    bootstrap, version
) -> None:
    with wire.Connection(bootstrap) as connection:
        answer = connection.call(SaslAuthenticateRequest(auth_bytes=b"\0user\0pass"), version)
        assert (answer.error_code, answer.error_message) == (
            ILLEGAL_SASL_STATE,
            "SaslAuthenticate request received after successful authentication",
        )
        assert connection.call(ApiVersionsRequest(), 0).error_code == 0


@pytest.mark.parametrize("version", [1, 2, 3])
def test_delegation_tokens_on_plaintext_are_not_allowed(bootstrap, version) -> None:
    described = wire.call(bootstrap, DescribeDelegationTokenRequest(), version)
    assert (described.error_code, described.tokens) == (TOKEN_REQUEST_NOT_ALLOWED, [])
    created = wire.call(bootstrap, CreateDelegationTokenRequest(max_lifetime_ms=-1), version)
    assert (created.error_code, created.principal_type, created.principal_name) == (
        TOKEN_REQUEST_NOT_ALLOWED,
        "User",
        "ANONYMOUS",
    )
    assert (created.issue_timestamp_ms, created.max_timestamp_ms) == (-1, -1)
    if version >= 3:
        assert created.token_requester_principal_name == "ANONYMOUS"
        return
    for request in (
        RenewDelegationTokenRequest(hmac=b"x", renew_period_ms=1),
        ExpireDelegationTokenRequest(hmac=b"x", expiry_time_period_ms=1),
    ):
        answer = wire.call(bootstrap, request, version)
        assert (answer.error_code, answer.expiry_timestamp_ms) == (TOKEN_REQUEST_NOT_ALLOWED, -1)


def test_unregister_broker_of_an_unknown_broker_is_refused(bootstrap) -> None:
    answer = wire.call(bootstrap, UnregisterBrokerRequest(broker_id=77), 0)
    assert (answer.error_code, answer.error_message) == (
        BROKER_ID_NOT_REGISTERED,
        "Broker ID 77 is not currently registered",
    )


IP_ALONE = (
    "Invalid entity filter component combination. IP filter component should not be used with user "
    "or clientId filter component."
)
FILTERS = [
    ([("user", 0, "u"), ("client-id", 1, None)], 0, ""),
    ([("ip", 2, None)], 0, ""),
    ([("user", 3, None)], INVALID_REQUEST, "Unknown match type 3"),
    (
        [("user", 0, None)],
        INVALID_REQUEST,
        "Request specified MATCH_TYPE_EXACT, but set match string to null.",
    ),
    (
        [("user", 1, "u")],
        INVALID_REQUEST,
        "Request specified MATCH_TYPE_DEFAULT, but also specified a match string.",
    ),
    (
        [("user", 2, "u")],
        INVALID_REQUEST,
        "Request specified MATCH_TYPE_SPECIFIED, but also specified a match string.",
    ),
    (
        [("user", 0, "u"), ("user", 0, "v")],
        INVALID_REQUEST,
        "Entity type user cannot appear more than once in the filter.",
    ),
    ([("", 2, None)], INVALID_REQUEST, "Invalid empty entity type."),
    ([("User", 0, "u")], UNSUPPORTED_VERSION, "Unsupported entity type User"),
    ([("user", 0, "u"), ("ip", 0, "1.2.3.4")], INVALID_REQUEST, IP_ALONE),
]


@pytest.mark.parametrize("version", [0, 1])
@pytest.mark.parametrize(("components", "code", "message"), FILTERS)
def test_describe_client_quotas_validates_its_filter(
    bootstrap, components, code, message, version
) -> None:
    part = DescribeClientQuotasRequest.ComponentData
    request = DescribeClientQuotasRequest(
        components=[part(entity_type=t, match_type=m, match=x) for t, m, x in components]
    )
    answer = wire.call(bootstrap, request, version)
    entries = None if code else []
    assert (answer.error_code, answer.error_message, answer.entries) == (code, message, entries)


@pytest.mark.parametrize("version", [0, 1])
def test_alter_client_quotas_without_entries_succeeds(bootstrap, version) -> None:
    assert wire.call(bootstrap, AlterClientQuotasRequest(entries=[]), version).entries == []


def test_describe_user_scram_credentials_finds_no_user(bootstrap) -> None:
    name = DescribeUserScramCredentialsRequest.UserName
    for everybody in (None, []):
        request = DescribeUserScramCredentialsRequest(users=everybody)
        answer = wire.call(bootstrap, request, 0)
        assert (answer.error_code, answer.error_message, answer.results) == (0, "", [])
    request = DescribeUserScramCredentialsRequest(users=[name(name=n) for n in "bab"])
    results = wire.call(bootstrap, request, 0).results
    assert [(each.user, each.error_code, each.error_message) for each in results] == [
        ("a", RESOURCE_NOT_FOUND, "Attempt to describe a user credential that does not exist: a"),
        (
            "b",
            DUPLICATE_RESOURCE,
            "Cannot describe SCRAM credentials for the same user twice in a single request: b",
        ),
    ]


@pytest.fixture
def classic_group(bootstrap, topics, unique) -> str:
    topic, group = topics.create("commit"), unique("g")
    request = FindCoordinatorRequest(key_type=0, coordinator_keys=[group])
    wire.retry(bootstrap, request, 4, lambda answer: answer.coordinators[0].error_code == 0)
    wire.retry(
        bootstrap,
        HeartbeatRequest(group_id=group, generation_id=-1, member_id=""),
        3,
        lambda answer: answer.error_code not in NO_GROUP_YET,
    )
    partition = OffsetCommitRequest.OffsetCommitRequestPartition(
        partition_index=0, committed_offset=1
    )
    wanted = OffsetCommitRequest.OffsetCommitRequestTopic(name=topic, partitions=[partition])
    wire.call(bootstrap, OffsetCommitRequest(group_id=group, topics=[wanted]), 8)
    return group


@pytest.mark.parametrize(
    ("request_type", "version", "kind"),
    [(ShareGroupDescribeRequest, 1, "share"), (StreamsGroupDescribeRequest, 0, "streams")],
)
def test_describe_of_share_and_streams_groups_finds_none(
    bootstrap, unique, classic_group, request_type, version, kind
) -> None:
    missing = unique("missing")
    request = request_type(group_ids=[missing, "", classic_group])
    groups = wire.call(bootstrap, request, version).groups
    assert (groups[0].group_id, groups[0].error_code) == ("", INVALID_GROUP_ID)
    assert {(g.group_id, g.error_code, g.error_message) for g in groups[1:]} == {
        (missing, GROUP_ID_NOT_FOUND, f"Group {missing} not found."),
        (classic_group, GROUP_ID_NOT_FOUND, f"Group {classic_group} is not a {kind} group."),
    }


ANY_ACL = {
    "resource_type_filter": 1,
    "pattern_type_filter": 1,
    "operation": 1,
    "permission_type": 1,
}
ONE_ACL = {
    "resource_type": 2,
    "resource_name": "t",
    "resource_pattern_type": 3,
    "principal": "User:u",
    "host": "*",
    "operation": 3,
    "permission_type": 3,
}


@pytest.mark.parametrize("version", [1, 3])
@pytest.mark.parametrize("element", ANY_ACL)
def test_acl_filters_with_an_unknown_element_close_the_connection(
    bootstrap, element, version
) -> None:
    asked = {**ANY_ACL, element: 0}
    for request in (
        DescribeAclsRequest(**asked),
        DeleteAclsRequest(filters=[DeleteAclsRequest.DeleteAclsFilter(**asked)]),
    ):
        with wire.Connection(bootstrap) as connection:
            connection.send(request, version)
            assert connection.closes_silently()


@pytest.mark.parametrize("version", [1, 3])
@pytest.mark.parametrize(
    "element", ["resource_type", "resource_pattern_type", "operation", "permission_type"]
)
def test_create_acls_with_an_unknown_element_closes_the_connection(
    bootstrap, element, version
) -> None:
    creation = CreateAclsRequest.AclCreation(**{**ONE_ACL, element: 0})
    with wire.Connection(bootstrap) as connection:
        connection.send(CreateAclsRequest(creations=[creation]), version)
        assert connection.closes_silently()


def test_api_versions_before_v4_omits_features_whose_minimum_is_0(bootstrap) -> None:
    request = ApiVersionsRequest(client_software_name="x", client_software_version="1")
    found = {
        version: {
            feature.name: feature.min_version
            for feature in wire.call(bootstrap, request, version).supported_features
        }
        for version in (3, 4)
    }
    assert found[3] == {"metadata.version": 7}
    assert found[3].items() <= found[4].items()
    assert found[4]["kraft.version"] == found[4]["group.version"] == 0


@pytest.mark.parametrize(
    ("rest", "is_answered"),
    [(b"", False), (b"\x00", False), (b"\x00\x09a", False), (b"\xff\xff", False),
     (b"\xff\xff\x05", False), (b"\xff\xff\x00", True), (b"\x00\x01a\x00", True)],
)  # fmt: skip
def test_api_versions_too_new_is_answered_unless_its_header_is_truncated(
    bootstrap, rest, is_answered
) -> None:
    with wire.Connection(bootstrap) as connection:
        connection.send_frame(b"\x00\x12\x00\x09\x00\x00\x00\x07" + rest)
        if is_answered:
            assert connection.receive_frame()[:6] == b"\x00\x00\x00\x07\x00\x23"
        else:
            assert connection.closes_silently()
