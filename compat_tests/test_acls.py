"""ACL apis without an authorizer: responses on the wire and in Kafka's tool."""

import pytest

from barnabas.protocol.messages.create_acls import CreateAclsRequest
from barnabas.protocol.messages.delete_acls import DeleteAclsRequest
from barnabas.protocol.messages.describe_acls import DescribeAclsRequest
from compat_tests.wire import call

REFUSED = (54, "No Authorizer is configured.")
ANY, TOPIC, LITERAL, READ, ALLOW = 1, 2, 3, 3, 3


@pytest.mark.parametrize("version", [1, 2, 3])
def test_describe_acls_without_an_authorizer_is_refused(bootstrap, version) -> None:
    asked = DescribeAclsRequest(
        resource_type_filter=ANY, pattern_type_filter=ANY, operation=ANY, permission_type=ANY
    )
    answer = call(bootstrap, asked, version)
    told = (answer.error_code, answer.error_message, answer.resources)
    assert told == (54, "No Authorizer is configured on the broker", [])


@pytest.mark.parametrize("version", [1, 2, 3])
def test_create_acls_without_an_authorizer_refuses_each_acl(bootstrap, version) -> None:
    rule = CreateAclsRequest.AclCreation(
        resource_type=TOPIC,
        resource_name="t",
        resource_pattern_type=LITERAL,
        principal="User:somebody",
        host="*",
        operation=READ,
        permission_type=ALLOW,
    )
    answer = call(bootstrap, CreateAclsRequest(creations=[rule, rule]), version)
    assert [(each.error_code, each.error_message) for each in answer.results] == [REFUSED] * 2
    which = DeleteAclsRequest.DeleteAclsFilter(
        resource_type_filter=TOPIC, operation=ANY, permission_type=ANY
    )
    answer = call(bootstrap, DeleteAclsRequest(filters=[which, which]), version)
    assert [
        (each.error_code, each.error_message, each.matching_acls) for each in answer.filter_results
    ] == [(*REFUSED, [])] * 2
