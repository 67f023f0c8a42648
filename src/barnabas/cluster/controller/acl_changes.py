"""Add and remove ACLs, as Kafka's `AclControlManager` does.

`AclApis` checks the names of new ACLs first; both sets of checks and their messages are here.
"""

from collections.abc import Sequence
from typing import Final

from barnabas.cluster.controller.operation_result import (
    RECORDS_PER_REQUEST_MAX,
    Context,
    ControllerResult,
)
from barnabas.cluster.metadata.acls import (
    CLUSTER_NAME,
    Acl,
    AclFilter,
    AclOperation,
    AclPattern,
    AclPermission,
    ResourceType,
)
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.messages.create_acls import CreateAclsRequest, CreateAclsResponse
from barnabas.protocol.messages.delete_acls import DeleteAclsRequest, DeleteAclsResponse
from barnabas.protocol.messages.describe_acls import DescribeAclsRequest
from barnabas.protocol.messages_base import Message
from barnabas.protocol.records.metadata_records import RemoveAccessControlEntryRecord
from barnabas.protocol.types import Uuid

_PATTERNS: Final = (AclPattern.LITERAL, AclPattern.PREFIXED)
_PERMISSIONS: Final = (AclPermission.DENY, AclPermission.ALLOW)


def create_acls(
    context: Context, request: CreateAclsRequest
) -> ControllerResult[CreateAclsResponse]:
    """Add the ACLs that do not exist; each ACL has its own result."""
    records: list[Message] = []
    response = CreateAclsResponse()
    added = set[Acl]()
    for creation in request.creations:
        acl = acl_of(creation)
        result = CreateAclsResponse.AclCreationResult()
        refusal = _refusal(acl)
        if refusal is not None:
            result.error_code, result.error_message = ErrorCode.INVALID_REQUEST, refusal
        elif acl not in added and not context.image.acls.has(acl):
            added.add(acl)
            records.append(acl.record(context.new_id()))
        response.results.append(result)
    return ControllerResult(records, response)


def acl_of(creation: CreateAclsRequest.AclCreation) -> Acl:
    """Return the ACL of a request."""
    return Acl.of_codes(
        (creation.resource_type, creation.resource_name, creation.resource_pattern_type),
        (creation.principal, creation.host, creation.operation, creation.permission_type),
    )


def _refusal(acl: Acl) -> str | None:
    """Return why the ACL cannot be added, in Kafka's words; None when it can."""
    if acl.resource_type is ResourceType.CLUSTER and acl.resource_name != CLUSTER_NAME:
        return f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}"
    if not acl.resource_name:
        return "Invalid empty resource name"
    if acl.resource_type <= ResourceType.ANY:
        return f"Invalid resourceType {acl.resource_type}"
    if acl.pattern_type not in _PATTERNS:
        return f"Invalid patternType {acl.pattern_type}"
    if acl.operation <= AclOperation.ANY:
        return f"Invalid operation {acl.operation}"
    if acl.permission not in _PERMISSIONS:
        return f"Invalid permissionType {acl.permission}"
    if ":" not in acl.principal:
        return (
            f"Could not parse principal from `{acl.principal}` (no colon is present separating "
            "the principal type from the principal name)"
        )
    return None


def delete_acls(
    context: Context, request: DeleteAclsRequest
) -> ControllerResult[DeleteAclsResponse]:
    """Remove the ACLs that each filter selects.

    An ACL that two filters select is in both results; a filter with an unknown code selects none.

    Raises KafkaError INVALID_REQUEST for too many ACLs.
    """
    removed: dict[Uuid, Acl] = {}
    response = DeleteAclsResponse()
    for each in request.filters:
        selection = filter_of(each)
        if (refusal := _refusal_of_filter(selection)) is not None:
            response.filter_results.append(refusal)
            continue
        selected = dict(context.image.acls.selected(selection))
        removed.update(selected)
        if len(removed) > RECORDS_PER_REQUEST_MAX:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                f"Cannot remove more than {RECORDS_PER_REQUEST_MAX} acls in a single delete "
                "operation.",
            )
        response.filter_results.append(_filter_result(list(selected.values())))
    records: list[Message] = [RemoveAccessControlEntryRecord(id=acl_id) for acl_id in removed]
    return ControllerResult(records, response)


def _refusal_of_filter(selection: AclFilter) -> DeleteAclsResponse.DeleteAclsFilterResult | None:
    """Return the result of a filter with a code of a later version; None for any other."""
    if 0 in (selection.resource_type, selection.pattern_type):
        unknown = "patternFilter"
    elif 0 in (selection.operation, selection.permission):
        unknown = "entryFilter"
    else:
        return None
    return DeleteAclsResponse.DeleteAclsFilterResult(
        error_code=ErrorCode.INVALID_REQUEST, error_message=f"Unknown {unknown}."
    )


def filter_of(request: DescribeAclsRequest | DeleteAclsRequest.DeleteAclsFilter) -> AclFilter:
    """Return the filter of a request."""
    return AclFilter(
        ResourceType.of(request.resource_type_filter),
        request.resource_name_filter,
        AclPattern.of(request.pattern_type_filter),
        request.principal_filter,
        request.host_filter,
        AclOperation.of(request.operation),
        AclPermission.of(request.permission_type),
    )


def _filter_result(acls: Sequence[Acl]) -> DeleteAclsResponse.DeleteAclsFilterResult:
    matching = [
        DeleteAclsResponse.DeleteAclsMatchingAcl(
            error_message=None,
            resource_type=acl.resource_type,
            resource_name=acl.resource_name,
            pattern_type=acl.pattern_type,
            principal=acl.principal,
            host=acl.host,
            operation=acl.operation,
            permission_type=acl.permission,
        )
        for acl in acls
    ]
    return DeleteAclsResponse.DeleteAclsFilterResult(error_message=None, matching_acls=matching)
