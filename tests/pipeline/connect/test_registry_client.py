"""The client of a schema registry that converters and serdes use, against answers over HTTP."""

import base64
import json
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import trustme

from barnabas.pipeline.connect import registry_client
from barnabas.pipeline.connect.registry_client import RegistryClient, open_registry
from barnabas.pipeline.data.connect_errors import DataError, RetriableError
from barnabas.pipeline.data.registered_schemas import RegisteredSchema
from tests.pipeline.http_answers import serving

NOWHERE = "http://127.0.0.1:9"


SCHEMA = json.dumps({"schema": '"string"'}).encode()
NO_ROUTE = b'{"error_code": 404, "message": "HTTP 404 Not Found"}'
REFUSAL = json.dumps({"error_code": 40403, "message": "Schema 5 not found"}).encode()


def test_schema_is_fetched_once_with_the_credentials_of_the_address() -> None:
    with serving({"/schemas/ids/5": (200, {}, SCHEMA)}) as (url, seen):
        client = RegistryClient(url.replace("://", "://ann:a%3Ab@"))
        assert client.schema_of(5) == client.schema_of(5) == RegisteredSchema("AVRO", '"string"')
    (((method, _, headers, _)),) = seen
    assert method == "GET"
    encoded = base64.b64encode(b"ann:a:b").decode()
    assert headers["authorization"] == f"Basic {encoded}"
    assert headers["accept"] == "application/vnd.schemaregistry.v1+json"


def test_schema_is_registered_as_json_of_the_registrys_type() -> None:
    answers = {"/subjects/a%2Fb/versions?normalize=true": (200, {}, b'{"id": 7}')}
    with serving(answers) as (url, seen):
        client = RegistryClient(url, normalizes=True)
        assert client.id_of("a/b", RegisteredSchema("AVRO", '"int"'), registers=True) == 7
    ((method, _, headers, body),) = seen
    assert (method, headers["content-type"]) == (
        "POST",
        "application/vnd.schemaregistry.v1+json",
    )
    assert json.loads(body) == {"schema": '"int"', "schemaType": "AVRO"}


def test_schemas_of_a_subject_come_newest_first() -> None:
    path = "/subjects/a%2Fb/versions"
    answers = {
        path: (200, {}, b"[1, 3]"),
        f"{path}/1": (200, {}, b'{"id": 7}'),
        f"{path}/3": (200, {}, b'{"id": 9}'),
    }
    with serving(answers) as (url, _):
        assert list(RegistryClient(url).ids_of_versions("a/b")) == [9, 7]


def test_next_address_is_called_when_one_does_not_answer() -> None:
    with (
        serving({"/schemas/ids/5": (503, {}, b"busy")}) as (busy, _),
        serving({"/schemas/ids/5": (200, {}, SCHEMA)}) as (url, _),
    ):
        assert RegistryClient(f"{NOWHERE},{busy},{url}").schema_of(5).text == '"string"'


def test_redirect_is_followed() -> None:
    with (
        serving({"/schemas/ids/5": (200, {}, SCHEMA)}) as (url, _),
        serving({"/schemas/ids/5": (302, {"Location": f"{url}/schemas/ids/5"}, b"")}) as (old, _),
    ):
        assert RegistryClient(old).schema_of(5).text == '"string"'


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ((404, {}, REFUSAL), "Schema 5 not found; error code: 40403"),
        ((404, {}, NO_ROUTE), "http://.*/schemas/ids/5 is not that of a schema registry: HTTP 404"),
        ((401, {}, b"no"), "the schema registry answered 401"),
    ],
)
def test_refusal_is_an_error_of_the_data(answer: Any, message: str) -> None:
    with (
        serving({"/schemas/ids/5": answer}) as (url, _),
        pytest.raises(DataError, match=message),
    ):
        RegistryClient(url).schema_of(5)


def test_registry_that_does_not_answer_is_named_with_the_remedy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(registry_client, "_TIMEOUT_S", 0.2)
    remedy = "check schema.registry.url"
    with pytest.raises(RetriableError, match=f"{NOWHERE}: Connection refused; {remedy}"):
        RegistryClient(NOWHERE).schema_of(5)
    with (
        serving({"/schemas/ids/5": (503, {}, b"busy")}) as (url, _),
        pytest.raises(RetriableError, match=f"{url}: it answered 503 .*; {remedy}"),
    ):
        RegistryClient(url).schema_of(5)
    with (
        serving({"/schemas/ids/5": (200, {}, b"<html>")}) as (url, _),
        pytest.raises(RetriableError, match=url),
    ):
        RegistryClient(url).schema_of(5)
    with _silent() as url, pytest.raises(RetriableError, match=f"{url}: .*timed out"):
        RegistryClient(url).schema_of(5)


@contextmanager
def _silent() -> Iterator[str]:
    """Serve an address that takes connections and answers nothing."""
    import socket

    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"


def test_certificate_of_an_unknown_authority_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    authority = trustme.CA()
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(tls)
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    with serving({"/schemas/ids/5": (200, {}, SCHEMA)}, tls) as (url, _):
        with pytest.raises(RetriableError, match="certificate verify failed"):
            RegistryClient(url).schema_of(5)
        trusted = ssl.create_default_context(cafile=tmp_path / "ca.pem")
        monkeypatch.setattr(registry_client, "_trust", lambda: trusted)
        assert RegistryClient(url).schema_of(5).text == '"string"'


def test_address_without_http_is_refused() -> None:
    with pytest.raises(DataError, match="must be an http address: ftp://host"):
        open_registry({"schema.registry.url": "ftp://ann:secret@host"})
