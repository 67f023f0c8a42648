"""ACL operations of the controller: duplicates, filters and limits."""

import itertools
from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.cluster.controller.acl_changes import create_acls, delete_acls
from barnabas.cluster.metadata.acls import (
    Acl,
    AclFilter,
    AclOperation,
    AclPattern,
    AclPermission,
    ResourceType,
)
from barnabas.cluster.metadata.delta import MetadataDelta
from barnabas.cluster.metadata.image import MetadataImage
from barnabas.cluster.metadata.image_difference import difference
from barnabas.cluster.metadata.image_records import image_records
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.messages.create_acls import CreateAclsRequest
from barnabas.protocol.messages.delete_acls import DeleteAclsRequest
from barnabas.protocol.types import Uuid

_numbers = itertools.count(1)


def context(image: MetadataImage) -> Any:
    return SimpleNamespace(image=image, new_id=lambda: Uuid(next(_numbers).to_bytes(16, "big")))


def replayed(image: MetadataImage, records: Iterable[Any]) -> MetadataImage:
    delta = MetadataDelta(image)
    for record in records:
        delta.replay(record)
    return delta.apply(image.offset + 1, 1)


def creation(name: str = "t", **fields: Any) -> CreateAclsRequest.AclCreation:
    values: dict[str, Any] = {
        "resource_type": 2,
        "resource_name": name,
        "principal": "User:a",
        "host": "*",
        "operation": 3,
        "permission_type": 3,
    }
    return CreateAclsRequest.AclCreation(**{**values, **fields})


def deletion(**fields: Any) -> DeleteAclsRequest:
    values: dict[str, Any] = {
        "resource_type_filter": 1,
        "resource_name_filter": None,
        "pattern_type_filter": 1,
        "principal_filter": None,
        "host_filter": None,
        "operation": 1,
        "permission_type": 1,
    }
    each = DeleteAclsRequest.DeleteAclsFilter(**{**values, **fields})
    return DeleteAclsRequest(filters=[each])


def test_acl_that_exists_or_is_repeated_succeeds_without_a_record() -> None:
    image = MetadataImage()
    twice = CreateAclsRequest(creations=[creation(), creation()])
    result = create_acls(context(image), twice)
    assert [each.error_code for each in result.response.results] == [0, 0]
    assert len(result.records) == 1
    image = replayed(image, result.records)
    assert create_acls(context(image), twice).records == []


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"principal": "a"}, "Could not parse principal from `a`"),
        ({"resource_type": 1}, "Invalid resourceType ANY"),
        ({"resource_type": 4}, "The only valid name for the CLUSTER resource is kafka-cluster"),
        ({"resource_name": ""}, "Invalid empty resource name"),
        ({"resource_pattern_type": 2}, "Invalid patternType MATCH"),
        ({"operation": 1}, "Invalid operation ANY"),
        ({"permission_type": 1}, "Invalid permissionType ANY"),
        ({"operation": 99}, "Invalid operation UNKNOWN"),
    ],
)
def test_invalid_acl_is_refused_and_the_others_are_added(
    fields: dict[str, Any], message: str
) -> None:
    request = CreateAclsRequest(creations=[creation(**fields), creation("u")])
    result = create_acls(context(MetadataImage()), request)
    refused, added = result.response.results
    assert (refused.error_code, added.error_code) == (ErrorCode.INVALID_REQUEST, 0)
    assert (refused.error_message or "").startswith(message)
    assert len(result.records) == 1


@pytest.mark.parametrize(
    ("field", "message"),
    [
        ("resource_type_filter", "Unknown patternFilter."),
        ("pattern_type_filter", "Unknown patternFilter."),
        ("operation", "Unknown entryFilter."),
        ("permission_type", "Unknown entryFilter."),
    ],
)
def test_filter_with_a_code_of_a_later_version_is_refused_and_the_others_remove(
    field: str, message: str
) -> None:
    image = MetadataImage()
    image = replayed(
        image, create_acls(context(image), CreateAclsRequest(creations=[creation()])).records
    )
    request = DeleteAclsRequest(filters=deletion(**{field: 99}).filters + deletion().filters)
    result = delete_acls(context(image), request)
    refused, removed = result.response.filter_results
    assert (refused.error_code, refused.error_message) == (ErrorCode.INVALID_REQUEST, message)
    assert refused.matching_acls == []
    assert (removed.error_code, len(removed.matching_acls)) == (0, 1)


def test_match_filter_removes_literal_wildcard_and_prefixed_acls_of_a_name() -> None:
    creations = [
        creation("orders"),
        creation("*"),
        creation("ord", resource_pattern_type=4),
        creation("ordered", resource_pattern_type=4),
        creation("other"),
    ]
    image = MetadataImage()
    request = CreateAclsRequest(creations=creations)
    image = replayed(image, create_acls(context(image), request).records)
    result = delete_acls(
        context(image), deletion(resource_name_filter="orders", pattern_type_filter=2)
    )
    (answer,) = result.response.filter_results
    names = {each.resource_name for each in answer.matching_acls}
    assert names == {"orders", "*", "ord"}
    image = replayed(image, result.records)
    assert {acl.resource_name for acl in image.acls.values()} == {"ordered", "other"}


def test_more_than_ten_thousand_acls_are_not_removed_at_once() -> None:
    image = MetadataImage()
    for start in (0, 6000):
        request = CreateAclsRequest(
            creations=[creation(f"t{number}") for number in range(start, start + 6000)]
        )
        image = replayed(image, create_acls(context(image), request).records)
    with pytest.raises(KafkaError, match="more than 10000 acls") as caught:
        delete_acls(context(image), deletion())
    assert caught.value.code is ErrorCode.INVALID_REQUEST


def test_snapshot_has_the_acls() -> None:
    image = MetadataImage(features={"metadata.version": 20})
    request = CreateAclsRequest(creations=[creation("a"), creation("b")])
    image = replayed(image, create_acls(context(image), request).records)
    loaded = replayed(MetadataImage(), image_records(image))
    assert loaded.acls == image.acls
    assert difference(MetadataImage(), loaded).acls == dict(image.acls)


NAMES = st.sampled_from(["a", "ab", "b", "*"])


@given(
    acl_name=NAMES,
    acl_pattern=st.sampled_from([AclPattern.LITERAL, AclPattern.PREFIXED]),
    name=NAMES | st.none(),
    pattern=st.sampled_from(
        [AclPattern.ANY, AclPattern.MATCH, AclPattern.LITERAL, AclPattern.PREFIXED]
    ),
)
def test_filter_selects_patterns_as_kafka_does(
    acl_name: str, acl_pattern: AclPattern, name: str | None, pattern: AclPattern
) -> None:
    acl = Acl(
        ResourceType.TOPIC, acl_name, acl_pattern, "User:a", "*", AclOperation.READ,
        AclPermission.ALLOW,
    )  # fmt: skip
    covers = acl_name in (name, "*") if acl_pattern is AclPattern.LITERAL else (
        (name or "").startswith(acl_name)
    )  # fmt: skip
    expected = {
        AclPattern.ANY: name in (None, acl_name),
        AclPattern.MATCH: name is None or covers,
    }.get(pattern, pattern is acl_pattern and name in (None, acl_name))
    assert AclFilter(resource_name=name, pattern_type=pattern).matches(acl) == expected
