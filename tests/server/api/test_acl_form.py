"""The code UNKNOWN ends the connection, in each field of an ACL; those of later versions do not."""

from typing import Any

import pytest

from barnabas.protocol.errors import ProtocolError
from barnabas.protocol.messages.create_acls import CreateAclsRequest
from barnabas.protocol.messages.delete_acls import DeleteAclsRequest
from barnabas.server.api.handlers.security.acl_handlers import check_form

FILTER = {"resource_type_filter": 2, "pattern_type_filter": 3, "operation": 3, "permission_type": 3}
ACL = {"resource_type": 2, "resource_pattern_type": 3, "operation": 3, "permission_type": 3}


def deletion(**codes: int) -> DeleteAclsRequest:
    found: Any = {**FILTER, **codes}
    each = DeleteAclsRequest.DeleteAclsFilter(
        resource_name_filter="t", principal_filter=None, host_filter=None, **found
    )
    return DeleteAclsRequest(filters=[each])


def creation(**codes: int) -> CreateAclsRequest:
    found: Any = {**ACL, **codes}
    each = CreateAclsRequest.AclCreation(resource_name="t", principal="User:a", host="*", **found)
    return CreateAclsRequest(creations=[each])


def test_known_codes_pass() -> None:
    check_form(deletion())
    check_form(creation())


@pytest.mark.parametrize("field", FILTER)
def test_unknown_code_of_a_filter_is_refused(field: str) -> None:
    check_form(deletion(**{field: 99}))
    with pytest.raises(ProtocolError, match="DeleteAcls request contains UNKNOWN elements"):
        check_form(deletion(**{field: 0}))


@pytest.mark.parametrize("field", ACL)
def test_unknown_code_of_a_new_acl_is_refused(field: str) -> None:
    check_form(creation(**{field: 99}))
    with pytest.raises(ProtocolError, match="CreateAcls request contains UNKNOWN elements"):
        check_form(creation(**{field: 0}))
