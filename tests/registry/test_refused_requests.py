"""Requests that no route, reader or setting takes: statuses, `Allow`, and texts."""

from typing import Any

import pytest
import trio

from barnabas.registry.rest.registry_app import RegistryApp
from tests.registry import asgi_calls
from tests.registry.asgi_calls import HttpAnswer
from tests.registry.memory_backend import MemoryBackend

DIGITS = "9" * 5000


@pytest.fixture
def app() -> Any:
    return RegistryApp(MemoryBackend()).asgi()


def ask(app: Any, method: str, target: str, body: Any = None) -> HttpAnswer:
    return trio.run(asgi_calls.ask, app, method, target, body)


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("PATCH", "/subjects", "GET, HEAD, OPTIONS"),
        ("PUT", "/subjects/s", "DELETE, OPTIONS, POST"),
        ("POST", "/config/s", "DELETE, GET, HEAD, OPTIONS, PUT"),
        ("DELETE", "/subjects/s/versions", "GET, HEAD, OPTIONS, POST"),
        ("DELETE", "/contexts/.x/subjects", "GET, HEAD, OPTIONS"),
        ("POST", "/openapi.json", "GET, HEAD, OPTIONS"),
        ("BREW", "/", "GET, HEAD, OPTIONS, POST"),
    ],
)
def test_method_that_a_path_does_not_take_is_405_with_allow(
    app: Any, method: str, path: str, allowed: str
) -> None:
    answer = ask(app, method, path)
    assert (answer.status, answer.json["error_code"]) == (405, 405)
    assert answer.headers["allow"] == allowed
    options = ask(app, "OPTIONS", path)
    assert (options.status, options.headers["allow"], options.body) == (200, allowed, b"")


def test_path_without_route_is_404_for_every_method(app: Any) -> None:
    for method in ("GET", "POST", "OPTIONS", "PATCH"):
        answer = ask(app, method, "/nowhere/at/all")
        assert (answer.status, answer.json["error_code"]) == (404, 404)
        assert "allow" not in answer.headers


@pytest.mark.parametrize(
    ("method", "target", "body"),
    [
        ("POST", "/subjects/s/versions", f'{{"schema":"\\"int\\"","id":{DIGITS}}}'),
        ("POST", "/subjects/s", f'{{"schema":"\\"int\\"","other":{DIGITS}}}'),
        ("PUT", "/config", f'{{"compatibility":{DIGITS}}}'),
        ("PUT", "/mode", f'{{"mode":{DIGITS}}}'),
        ("POST", "/subjects/s/versions/1/tags", f'{{"newVersion":{DIGITS}}}'),
        ("POST", "/", f'{{"a":{DIGITS}}}'),
    ],
)
def test_body_with_a_number_of_many_digits_is_refused_in_own_words(
    app: Any, method: str, target: str, body: str
) -> None:
    if "tags" in target:
        ask(app, "POST", "/subjects/s/versions", {"schema": '"int"'})
    answer = ask(app, method, target, body)
    assert (answer.status, answer.json["error_code"]) == (400, 400)
    assert answer.json["message"] == "Invalid JSON: a number has more than 4300 digits"


@pytest.mark.parametrize(
    ("schema_type", "text"),
    [
        ("AVRO", f'{{"type":"fixed","name":"f","size":{DIGITS}}}'),
        ("JSON", f'{{"maximum":{DIGITS}}}'),
    ],
)
def test_schema_with_a_number_of_many_digits_is_refused_in_own_words(
    app: Any, schema_type: str, text: str
) -> None:
    body = {"schema": text, "schemaType": schema_type}
    for target in ("/subjects/s/versions", "/compatibility/subjects/s/versions"):
        answer = ask(app, "POST", target, body)
        assert (answer.status, answer.json["error_code"]) == (422, 42201)
        assert answer.json["message"].endswith("not valid JSON: a number has more than 4300 digits")


def test_body_that_is_not_utf_8_is_refused_in_own_words(app: Any) -> None:
    answer = ask(app, "POST", "/subjects/s/versions", b'{"schema":"\xff"}')
    assert (answer.status, answer.json["message"]) == (400, "Invalid JSON: the text is not UTF-8")


@pytest.mark.parametrize("target", ["/config", "/config/s", "/contexts/.x/config"])
def test_level_under_the_name_of_answers_is_refused(app: Any, target: str) -> None:
    """The reference ignores it silently, so that the level stays what it was."""
    answer = ask(app, "PUT", target, {"compatibilityLevel": "NONE"})
    assert (answer.status, answer.json["error_code"]) == (422, 42203)
    assert "compatibility" in answer.json["message"]
    both = {"compatibility": "FULL", "compatibilityLevel": "NONE"}
    assert ask(app, "PUT", target, both).json == {"compatibility": "FULL"}
    cleared = {"compatibilityLevel": None, "normalize": True}
    assert ask(app, "PUT", target, cleared).status == 200
