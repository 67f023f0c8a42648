"""From frames to handlers and back, without sockets."""

import ast
import logging
import struct
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import barnabas.server.api.handlers as handlers
from barnabas.cluster.metadata.image import MetadataImage
from barnabas.protocol.apis import API, ApiKey, api_by_name
from barnabas.protocol.errors import ErrorCode, KafkaError, ProtocolError
from barnabas.protocol.fields import Kind
from barnabas.protocol.framing import encode_request
from barnabas.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from barnabas.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from barnabas.protocol.messages.produce import ProduceRequest, ProduceResponse
from barnabas.server.api.dispatch import HANDLERS, Dispatcher, Route, handler_of, served_apis
from barnabas.server.api.error_responses import error_response

SERVED = [api for api in API.values() if api.name in handlers.HANDLER_MODULES]


def connection(*, controller: bool = False) -> Any:
    return SimpleNamespace(
        client_host="127.0.0.1", principal="User:ANONYMOUS", is_controller_listener=controller
    )


def dispatcher(*, controller: bool = False, slow_request_s: float = 1.0) -> Dispatcher:
    image = MetadataImage(features={"metadata.version": 30}, offset=12)
    quorum = SimpleNamespace(core=SimpleNamespace(kraft_version=1))
    node: Any = SimpleNamespace(image=image, quorum=quorum)
    return Dispatcher(node, controller=controller, slow_request_s=slow_request_s)


def frame(message: Any, version: int, client_id: str | None = "me") -> bytearray:
    return bytearray(b"".join(encode_request(77, client_id, message, version))[4:])


def answer(message: Any, version: int, *, controller: bool = False) -> tuple[int, bytes]:
    """The correlation id and the rest of the response to a request."""
    dispatch = dispatcher(controller=controller)
    context = dispatch.decode(connection(controller=controller), frame(message, version))
    response = context.route.handler(context, context.request)
    data = b"".join(dispatch.encode(context, response))
    size, correlation_id = struct.unpack_from(">ii", data)
    assert size == len(data) - 4
    return correlation_id, data[8:]


def handlers_in_source() -> dict[str, set[str]]:
    """The request classes that each module binds, read without importing it."""
    bound: dict[str, set[str]] = {}
    for module in Path(str(handlers.__file__)).parent.glob("*/*.py"):
        for node in ast.walk(ast.parse(module.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                for decorator in node.decorator_list:
                    if isinstance(decorator, ast.Call) and ast.unparse(decorator.func) == "handles":
                        names = {ast.unparse(argument) for argument in decorator.args}
                        bound.setdefault(f"{module.parent.name}.{module.stem}", set()).update(names)
    return bound


def test_the_table_of_handlers_says_what_the_modules_bind() -> None:
    table: dict[str, set[str]] = {}
    for api_name, module in handlers.HANDLER_MODULES.items():
        table.setdefault(module, set()).add(f"{api_name}Request")
    assert handlers_in_source() == table


@pytest.mark.parametrize("api", SERVED, ids=lambda api: api.name)
def test_the_handler_of_a_served_api_can_be_had(api: ApiKey) -> None:
    assert handler_of(api) is HANDLERS[api.key]


@pytest.mark.parametrize("version", range(5))
def test_api_versions_tells_what_a_broker_listener_serves(version: int) -> None:
    request = ApiVersionsRequest()
    if version >= 3:
        request = ApiVersionsRequest(client_software_name="me", client_software_version="1.0")
    correlation_id, body = answer(request, version)
    response = ApiVersionsResponse.decode(body, version)
    assert correlation_id == 77
    assert response.error_code == 0
    told = {key.api_key: (key.min_version, key.max_version) for key in response.api_keys}
    assert told == {api.key: api.advertised for api in served_apis(controller=False)}
    assert told[0] == (0, 13)
    assert told[22] == (0, 5)
    assert 52 not in told
    if version >= 3:
        supported = {f.name: (f.min_version, f.max_version) for f in response.supported_features}
        assert supported["kraft.version"] == (0 if version >= 4 else 1, 1)
        finalized = {f.name: f.max_version_level for f in response.finalized_features}
        assert finalized == {"metadata.version": 30, "kraft.version": 1}
        assert response.finalized_features_epoch == 12


def test_a_controller_listener_tells_only_what_it_serves() -> None:
    _, body = answer(ApiVersionsRequest(), 0, controller=True)
    told = {key.api_key for key in ApiVersionsResponse.decode(body, 0).api_keys}
    assert 18 in told
    assert told.isdisjoint({0, 3, 11})


@pytest.mark.parametrize("client_id", [None, "", "é" * 100])
def test_the_header_is_read(client_id: str | None) -> None:
    context = dispatcher().decode(connection(), frame(HeartbeatRequest(), 4, client_id))
    assert (context.api_key, context.version, context.correlation_id) == (12, 4, 77)
    assert context.client_id == client_id


def test_a_brokers_api_is_not_served_on_a_controller_listener() -> None:
    with pytest.raises(ProtocolError, match="not served on this listener"):
        dispatcher(controller=True).decode(connection(), frame(HeartbeatRequest(), 4))


def test_an_unstable_version_is_not_served() -> None:
    request = api_by_name("InitProducerId").request_type()
    with pytest.raises(ProtocolError, match="InitProducerId v6"):
        dispatcher().decode(connection(), frame(request, 6))


def test_a_kafka_error_becomes_the_apis_error_response() -> None:
    dispatch = dispatcher()
    context = dispatch.decode(connection(), frame(HeartbeatRequest(), 4))
    error = KafkaError(ErrorCode.REBALANCE_IN_PROGRESS, "wait")
    data = b"".join(dispatch.encode(context, error))
    assert HeartbeatResponse.decode(data[9:], 4).error_code == ErrorCode.REBALANCE_IN_PROGRESS
    assert context.route.errors == context.route.requests == 1


def test_a_bug_is_logged_with_its_traceback_and_answered(caplog: pytest.LogCaptureFixture) -> None:
    dispatch = dispatcher()
    context = dispatch.decode(connection(), frame(HeartbeatRequest(), 4))
    with caplog.at_level(logging.ERROR, "barnabas"):
        data = b"".join(dispatch.encode(context, ZeroDivisionError("a bug")))
    assert HeartbeatResponse.decode(data[9:], 4).error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert "handler failed api=Heartbeat" in caplog.text
    assert "ZeroDivisionError: a bug" in caplog.text


def test_a_response_that_does_not_fit_its_version_is_a_bug() -> None:
    dispatch = dispatcher()
    context = dispatch.decode(connection(), frame(HeartbeatRequest(), 4))
    data = b"".join(dispatch.encode(context, HeartbeatResponse(error_code=1 << 20)))
    assert HeartbeatResponse.decode(data[9:], 4).error_code == ErrorCode.UNKNOWN_SERVER_ERROR


def test_a_slow_request_is_logged(caplog: pytest.LogCaptureFixture) -> None:
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
    """The message with one item in each of its arrays of structs."""
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


@pytest.mark.parametrize("api", SERVED, ids=lambda api: api.name)
def test_every_version_of_every_api_can_say_that_it_failed(api: ApiKey) -> None:
    code = ErrorCode.KAFKA_STORAGE_ERROR
    # DescribeLogDirs has no code for the whole before version 3; Kafka leaves it out as well.
    first = 3 if api.name == "DescribeLogDirs" else api.min_version
    for version in range(first, api.advertised[1] + 1):
        request = filled(api.request_type())
        response = error_response(api, request, version, code, "why")
        decoded = api.response_type.decode(response.encode(version), version)
        assert code in codes_in(decoded), f"{api.name} v{version}"


def test_produce_never_answers_unknown_server_error() -> None:
    api = api_by_name("Produce")
    request = filled(ProduceRequest())
    response = error_response(api, request, 9, ErrorCode.UNKNOWN_SERVER_ERROR, None)
    assert isinstance(response, ProduceResponse)
    assert codes_in(response) == [ErrorCode.KAFKA_STORAGE_ERROR]


def test_a_route_is_made_once() -> None:
    dispatch = dispatcher()
    first = dispatch.decode(connection(), frame(HeartbeatRequest(), 4)).route
    assert isinstance(first, Route)
    assert dispatch.decode(connection(), frame(HeartbeatRequest(), 4)).route is first
    assert dispatch.decode(connection(), frame(HeartbeatRequest(), 3)).route is not first
