"""Paths: decoding of segments, contexts, routes."""

from typing import Any

import pytest
import trio

from barnabas.registry.core.registry_errors import RegistryError
from barnabas.registry.rest import schema_handlers, settings_handlers, subject_handlers
from barnabas.registry.rest.openapi_document import openapi_document
from barnabas.registry.rest.registry_app import RegistryApp
from barnabas.registry.rest.registry_routes import ROUTES, RouteTable
from barnabas.registry.rest.request_paths import in_context, split_path
from tests.registry.asgi_calls import ask
from tests.registry.memory_backend import MemoryBackend

MODULES = (schema_handlers, settings_handlers, subject_handlers)


def test_segments_are_decoded_after_the_path_is_split() -> None:
    assert split_path("/subjects/a%2Fb%20c/versions") == ["subjects", "a/b c", "versions"]
    assert split_path("/") == []
    assert split_path("/subjects/") == ["subjects"]


@pytest.mark.parametrize("path", ["/a//b", "/a%00", "/a%1f", "/%ff"])
def test_path_that_no_subject_has_is_refused(path: str) -> None:
    with pytest.raises(RegistryError) as refused:
        split_path(path)
    assert refused.value.status == 400


@pytest.mark.parametrize("path", ["/subjects/a%0Ab/versions", "/subjects/a%09b/versions"])
def test_path_with_a_line_break_or_tab_is_answered_with_400(path: str) -> None:
    answer = trio.run(ask, RegistryApp(MemoryBackend()).asgi(), "GET", path)
    assert (answer.status, answer.json["error_code"]) == (400, 400)


@pytest.mark.parametrize(
    ("path", "query", "expected"),
    [
        ("/contexts/c/subjects/s/versions", [], ("subjects/:.c:s/versions", [("subject", ":.c:")])),
        ("/contexts/.c/subjects", [], ("subjects", [("subjectPrefix", ":.c:")])),
        (
            "/contexts/c/subjects",
            [("subjectPrefix", "x")],
            ("subjects", [("subjectPrefix", ":.c:x")]),
        ),
        ("/contexts/c/config", [], ("config/:.c:", [("subject", ":.c:")])),
        ("/contexts/c/mode/s", [], ("mode/:.c:s", [("subject", ":.c:")])),
        ("/contexts/c/schemas/ids/1", [], ("schemas/ids/1", [("subject", ":.c:")])),
        (
            "/contexts/c/compatibility/subjects/s/versions/1",
            [],
            ("compatibility/subjects/:.c:s/versions/1", [("subject", ":.c:")]),
        ),
        ("/contexts/c", [], ("contexts/c", [])),
        ("/contexts", [], ("contexts", [])),
    ],
)
def test_context_of_the_path_qualifies_names(
    path: str, query: list[tuple[str, str]], expected: tuple[str, list[tuple[str, str]]]
) -> None:
    segments, found = in_context(split_path(path), query)
    assert ("/".join(segments), found) == expected


def test_body_that_ends_early_is_answered_with_400() -> None:
    sent: list[Any] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {"type": "http", "method": "POST", "path": "/subjects/s", "headers": []}
    app = RegistryApp(MemoryBackend()).asgi()
    trio.run(app, {**scope, "query_string": b""}, receive, send)
    assert sent[0]["status"] == 400


def test_name_of_another_context_is_refused() -> None:
    with pytest.raises(RegistryError):
        in_context(["contexts", "c", "subjects", ":.d:s", "versions"], [])


def test_every_route_is_found_and_described() -> None:
    table = RouteTable(ROUTES)
    paths = openapi_document(ROUTES)["paths"]
    for route in ROUTES:
        found, places = table.find(route.method, [each.strip("{}") for each in route.segments])
        assert found is not None
        assert set(places) <= {each.strip("{}") for each in found.segments}
        assert paths[route.path][route.method.lower()]["summary"]


def test_operation_ids_are_unique() -> None:
    operations = [
        operation["operationId"]
        for methods in openapi_document(ROUTES)["paths"].values()
        for operation in methods.values()
    ]
    assert len(set(operations)) == len(operations)


def test_place_that_is_named_like_a_place_is_a_value() -> None:
    found, places = RouteTable(ROUTES).find("GET", ["subjects", "{subject}", "versions"])
    assert found is not None
    assert places == {"subject": "{subject}"}
