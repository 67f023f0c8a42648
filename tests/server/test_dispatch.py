"""From frames to handlers and back, without sockets."""

import ast
import inspect
import logging
import struct
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any, get_args

import attrs
import pytest

import barnabas.server.api.handlers as handlers
from barnabas.cluster.controller.controller_requests import ControllerRequest, TokenOperation
from barnabas.cluster.metadata.acls import (
    CLUSTER_NAME,
    Acl,
    AclOperation,
    AclPattern,
    AclPermission,
    AclsImage,
    ResourceType,
)
from barnabas.cluster.metadata.image import MetadataImage
from barnabas.protocol.apis import api_by_name
from barnabas.protocol.errors import ErrorCode, KafkaError, ProtocolError
from barnabas.protocol.fields import Kind
from barnabas.protocol.framing import encode_request
from barnabas.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from barnabas.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from barnabas.protocol.messages.produce import ProduceRequest, ProduceResponse
from barnabas.protocol.messages.vote import VoteRequest
from barnabas.protocol.types import Uuid
from barnabas.security.principals import ANONYMOUS
from barnabas.security.standard_authorizer import StandardAuthorizer
from barnabas.server.api.authorization import OnCluster, Unguarded, guarded
from barnabas.server.api.context import RequestContext
from barnabas.server.api.dispatch import Dispatcher, Route
from barnabas.server.api.error_responses import error_response
from barnabas.server.api.node_quotas import ClientQuotas, QuotaWindows
from barnabas.server.api.registry import REGISTRY, SERVED, ListenerKind, ServedApi, by_listener


def connection() -> Any:
    return SimpleNamespace(client_host="127.0.0.1", principal=ANONYMOUS)


def line_id(line: ServedApi) -> str:
    return f"{line.api.name}-{'-'.join(line.listeners)}"


def dispatcher(kind: ListenerKind = "broker", *, slow_request_s: float = 1.0) -> Dispatcher:
    image = MetadataImage(features={"metadata.version": 30}, offset=12)
    metadata: Any = SimpleNamespace(
        image=lambda: image, kraft_version=lambda: 1, controller_versions=lambda: None
    )
    services = {**{line.family: None for line in SERVED}, "metadata": metadata}
    return Dispatcher(kind, services, slow_request_s=slow_request_s)


def frame(message: Any, version: int, client_id: str | None = "me") -> bytearray:
    return bytearray(b"".join(encode_request(77, client_id, message, version))[4:])


def answer(message: Any, version: int, kind: ListenerKind = "broker") -> tuple[int, bytes]:
    """Return the correlation id and the rest of the response to a request."""
    dispatch = dispatcher(kind)
    context = dispatch.decode(connection(), frame(message, version))
    response = context.route.handler(context, context.request)
    data = b"".join(dispatch.encode(context, response))
    size, correlation_id = struct.unpack_from(">ii", data)
    assert size == len(data) - 4
    return correlation_id, data[8:]


def handlers_in_source() -> set[str]:
    """Return the public functions that take a request context, without importing their modules.

    One that its own module calls is a part of a handler.
    """
    found: set[str] = set()
    for module in Path(str(handlers.__file__)).parent.glob("*/*_handler*.py"):
        tree = ast.parse(module.read_text())
        called = {ast.unparse(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
        for node in tree.body:
            if (
                isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
                and not node.name.startswith("_")
                and node.name not in called
                and len(node.args.args) == 2
                and "Context" in ast.unparse(node.args.args[0])
            ):
                found.add(f"{module.parent.name}.{module.stem}.{node.name}")
    return found


def test_registry_lines_name_every_handler_in_the_source() -> None:
    assert {line.handler_path for line in SERVED} == handlers_in_source()


@pytest.mark.parametrize("line", SERVED, ids=line_id)
def test_registry_line_names_a_handler_of_its_request(line: ServedApi) -> None:
    _, request = inspect.signature(line.handler()).parameters.values()
    kinds = get_args(request.annotation) or (request.annotation,)
    assert line.api.request_type in kinds


def test_registry_controller_listener_serves_every_controller_operation() -> None:
    lines = REGISTRY["controller"].values()
    operations = {
        line.api.request_type
        for line in lines
        if line.handler_path
        in (
            "controller.operation_handler.answer_operation",
            "controller.acl_operation_handler.change_acls",
        )
    }
    assert operations == set(get_args(ControllerRequest)) - {TokenOperation}
    paths = {line.api.name: line.handler_path for line in lines}
    for change in ("create", "renew", "expire"):
        path = f"controller.token_operation_handler.{change}_delegation_token"
        assert paths[f"{change.title()}DelegationToken"] == path


def test_registry_with_two_lines_for_an_api_raises() -> None:
    line = REGISTRY["broker"][1]
    with pytest.raises(ValueError, match="Fetch cannot be registered for a broker listener"):
        by_listener([line, line])


def test_registry_with_an_api_on_a_listener_unknown_to_kafka_raises() -> None:
    line = attrs.evolve(REGISTRY["broker"][12], listeners=("controller",))
    with pytest.raises(ValueError, match="Heartbeat cannot be registered for a controller"):
        by_listener([line])


def authorizer(*allowed: AclOperation) -> StandardAuthorizer:
    """Return an authorizer whose ACLs allow these operations on the cluster."""
    authorizer = StandardAuthorizer(())
    acls = [
        Acl(ResourceType.CLUSTER, CLUSTER_NAME, AclPattern.LITERAL, "User:*", "*", each,
            AclPermission.ALLOW)
        for each in allowed
    ]  # fmt: skip
    ids = [Uuid(bytes([number]) * 16) for number in range(1, len(acls) + 1)]
    authorizer.load(AclsImage(dict(zip(ids, acls, strict=True))))
    return authorizer


NO_QUOTAS = ClientQuotas(QuotaWindows(11, 1000), QuotaWindows(11, 1000), lambda: 0)


def routed(line: ServedApi, listener: ListenerKind, rights: StandardAuthorizer | None) -> Route:
    return Route(line, listener, line.api.advertised[1], None, rights, NO_QUOTAS)


IMPLYING = {
    AclOperation.DESCRIBE_CONFIGS: (AclOperation.ALTER_CONFIGS,),
    AclOperation.DESCRIBE: (
        AclOperation.READ, AclOperation.WRITE, AclOperation.DELETE, AclOperation.ALTER,
    ),
}  # fmt: skip
WHOLE_API_CHECKS = [line for line in SERVED if isinstance(line.authorization, OnCluster)]


@pytest.mark.parametrize("line", WHOLE_API_CHECKS, ids=line_id)
def test_whole_api_check_lets_only_its_operation_pass(line: ServedApi) -> None:
    authorization = line.authorization
    assert isinstance(authorization, OnCluster)
    handler = guarded(lambda context, request: "handled", authorization)
    passing = {authorization.operation, *IMPLYING.get(authorization.operation, ())}
    for operation in (each for each in AclOperation if each > AclOperation.ALL):
        route = routed(line, line.listeners[0], authorizer(operation))
        context: Any = RequestContext(connection(), route, 1, "me", None)
        if operation in passing:
            assert handler(context, None) == "handled"
            continue
        with pytest.raises(KafkaError) as caught:
            handler(context, None)
        assert caught.value.code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED


@pytest.mark.parametrize("line", SERVED, ids=line_id)
def test_route_of_a_node_with_an_authorizer_is_guarded(line: ServedApi) -> None:
    """A guard exists for each line that names one; without an authorizer none is called."""
    for listener in line.listeners:
        is_guarded = routed(line, listener, authorizer()).handler is not line.handler()
        assert is_guarded == (not isinstance(line.authorization, Unguarded))
        assert routed(line, listener, None).handler is line.handler()


def test_dispatcher_checks_a_whole_api_before_its_handler() -> None:
    services: dict[str, Any] = {line.family: None for line in SERVED}
    dispatch = Dispatcher(
        "controller", services, slow_request_s=1.0, authorizer=authorizer(AclOperation.ALTER)
    )
    context = dispatch.decode(connection(), frame(VoteRequest(), 2))
    with pytest.raises(KafkaError) as caught:
        context.route.handler(context, context.request)
    assert caught.value.code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED


def test_throttle_time_of_the_context_is_in_the_response() -> None:
    dispatch = dispatcher()
    context = dispatch.decode(connection(), frame(HeartbeatRequest(), 4))
    context.throttle_ms = 250
    data = b"".join(dispatch.encode(context, HeartbeatResponse()))
    assert HeartbeatResponse.decode(data[9:], 4).throttle_time_ms == 250


@pytest.mark.parametrize("version", range(5))
def test_api_versions_on_a_broker_listener_lists_the_registry(version: int) -> None:
    request = ApiVersionsRequest()
    if version >= 3:
        request = ApiVersionsRequest(client_software_name="me", client_software_version="1.0")
    correlation_id, body = answer(request, version)
    response = ApiVersionsResponse.decode(body, version)
    assert correlation_id == 77
    assert response.error_code == 0
    told = {key.api_key: (key.min_version, key.max_version) for key in response.api_keys}
    assert told == {key: line.api.advertised for key, line in REGISTRY["broker"].items()}
    assert told[0] == (0, 13)
    assert told[22] == (0, 5)
    assert 52 not in told
    if version >= 3:
        supported = {f.name: (f.min_version, f.max_version) for f in response.supported_features}
        assert supported.get("kraft.version") == ((0, 1) if version >= 4 else None)
        finalized = {f.name: f.max_version_level for f in response.finalized_features}
        assert finalized == {"metadata.version": 30, "kraft.version": 1}
        assert response.finalized_features_epoch == 12


def test_api_versions_on_a_controller_listener_lists_no_broker_api() -> None:
    _, body = answer(ApiVersionsRequest(), 0, "controller")
    told = {key.api_key for key in ApiVersionsResponse.decode(body, 0).api_keys}
    assert 18 in told
    assert told.isdisjoint({0, 3, 11})


@pytest.mark.parametrize("client_id", [None, "", "é" * 100])
def test_dispatcher_reads_the_request_header(client_id: str | None) -> None:
    context = dispatcher().decode(connection(), frame(HeartbeatRequest(), 4, client_id))
    assert (context.api_key, context.version, context.correlation_id) == (12, 4, 77)
    assert context.client_id == client_id


def test_dispatcher_broker_api_on_a_controller_listener_raises() -> None:
    with pytest.raises(ProtocolError, match="not served on this listener"):
        dispatcher("controller").decode(connection(), frame(HeartbeatRequest(), 4))


def test_dispatcher_unstable_version_raises() -> None:
    request = api_by_name("InitProducerId").request_type()
    with pytest.raises(ProtocolError, match="InitProducerId v6"):
        dispatcher().decode(connection(), frame(request, 6))


def test_dispatcher_kafka_error_becomes_the_error_response_of_the_api() -> None:
    dispatch = dispatcher()
    context = dispatch.decode(connection(), frame(HeartbeatRequest(), 4))
    error = KafkaError(ErrorCode.REBALANCE_IN_PROGRESS, "wait")
    data = b"".join(dispatch.encode(context, error))
    assert HeartbeatResponse.decode(data[9:], 4).error_code == ErrorCode.REBALANCE_IN_PROGRESS
    assert context.route.errors == context.route.requests == 1


def test_dispatcher_bug_is_logged_with_a_traceback_and_answered(
    caplog: pytest.LogCaptureFixture,
) -> None:
    dispatch = dispatcher()
    context = dispatch.decode(connection(), frame(HeartbeatRequest(), 4))
    with caplog.at_level(logging.ERROR, "barnabas"):
        data = b"".join(dispatch.encode(context, ZeroDivisionError("a bug")))
    assert HeartbeatResponse.decode(data[9:], 4).error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert "handler failed api=Heartbeat" in caplog.text
    assert "ZeroDivisionError: a bug" in caplog.text


def test_dispatcher_response_that_does_not_fit_its_version_is_a_bug() -> None:
    dispatch = dispatcher()
    context = dispatch.decode(connection(), frame(HeartbeatRequest(), 4))
    data = b"".join(dispatch.encode(context, HeartbeatResponse(error_code=1 << 20)))
    assert HeartbeatResponse.decode(data[9:], 4).error_code == ErrorCode.UNKNOWN_SERVER_ERROR


def test_dispatcher_slow_request_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    dispatch = dispatcher(slow_request_s=0.5)
    with caplog.at_level(logging.WARNING, "barnabas"):
        for age_s in (0.0, 2.0):
            context = dispatch.decode(connection(), frame(HeartbeatRequest(), 4))
            context.started_at = time.monotonic() - age_s
            dispatch.encode(context, HeartbeatResponse())
    assert [record.getMessage().split(" ms=")[0] for record in caplog.records] == [
        "slow request api=Heartbeat version=4 client_id=me host=127.0.0.1"
    ]


def filled(message: Any) -> Any:
    """Return the message with one item in each of its arrays of structs."""
    for name, field in message.FIELDS.items():
        if field.kind is Kind.ARRAY and field.struct:
            setattr(message, name, [filled(message.STRUCTS[field.struct]())])
        elif field.kind is Kind.ARRAY and name in {
            "coordinator_keys",
            "group_ids",
            "groups",
            "groups_names",
            "topic_names",
            "transactional_ids",
        }:
            setattr(message, name, ["an item"])
        elif name in {"partition_indexes", "partitions"} and field.kind is Kind.ARRAY:
            setattr(message, name, [5])
    return message


def codes_in(message: Any) -> list[int]:
    found: list[int] = []
    for name in message.FIELDS:
        value = getattr(message, name)
        if name in {"error_code", "partition_error_code"}:
            found.append(value)
        elif isinstance(value, list):
            found += [code for item in value if hasattr(item, "FIELDS") for code in codes_in(item)]
    return found


@pytest.mark.parametrize("line", SERVED, ids=line_id)
def test_error_response_of_every_version_carries_the_code(line: ServedApi) -> None:
    api, code = line.api, ErrorCode.KAFKA_STORAGE_ERROR
    # DescribeLogDirs has no top-level code before version 3; Kafka omits it as well.
    first = 3 if api.name == "DescribeLogDirs" else api.min_version
    for version in range(first, api.advertised[1] + 1):
        request = filled(api.request_type())
        response = error_response(api, line.errors, request, version, code, "why")
        decoded = api.response_type.decode(response.encode(version), version)
        assert code in codes_in(decoded), f"{api.name} v{version}"


def test_error_response_of_produce_is_never_unknown_server_error() -> None:
    line = REGISTRY["broker"][0]
    code = ErrorCode.UNKNOWN_SERVER_ERROR
    response = error_response(line.api, line.errors, filled(ProduceRequest()), 9, code, None)
    assert isinstance(response, ProduceResponse)
    assert codes_in(response) == [ErrorCode.KAFKA_STORAGE_ERROR]


def test_dispatcher_route_is_made_once_per_version() -> None:
    dispatch = dispatcher()
    first = dispatch.decode(connection(), frame(HeartbeatRequest(), 4)).route
    assert isinstance(first, Route)
    assert dispatch.decode(connection(), frame(HeartbeatRequest(), 4)).route is first
    assert dispatch.decode(connection(), frame(HeartbeatRequest(), 3)).route is not first


def test_api_versions_of_a_broker_intersects_forwarded_apis_with_the_controllers() -> None:
    controller = {19: (3, 5), 20: (9, 12), 0: (0, 0)}
    image = MetadataImage(features={"metadata.version": 30})
    metadata: Any = SimpleNamespace(
        image=lambda: image, kraft_version=lambda: 1, controller_versions=lambda: controller
    )
    told: dict[ListenerKind, dict[int, tuple[int, int]]] = {}
    kinds: tuple[ListenerKind, ...] = ("broker", "controller")
    for kind in kinds:
        services = {**{line.family: None for line in SERVED}, "metadata": metadata}
        dispatch = Dispatcher(kind, services, slow_request_s=1.0)
        request = ApiVersionsRequest(client_software_name="a", client_software_version="1")
        context = dispatch.decode(connection(), frame(request, 4))
        response = context.route.handler(context, context.request)
        told[kind] = {k.api_key: (k.min_version, k.max_version) for k in response.api_keys}
    assert told["broker"][19] == (3, 5)
    assert told["broker"][0] == (0, 13)  # Produce is not forwarded
    assert not told["broker"].keys() & {20, 33}  # no common version; not served
    assert told["controller"][19] == (2, 7)
