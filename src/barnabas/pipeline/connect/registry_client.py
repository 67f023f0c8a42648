"""A small client of a schema registry, for converters: schemas by id, and ids of schemas.

It blocks, since converters run in Spark's workers, and it keeps every answer: ids and their schemas
never change. Failures that may pass raise RetriableError, refusals DataError.
"""

import base64
import functools
import ssl
import urllib.parse
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from barnabas.http_failures import reason_of
from barnabas.pipeline.data.connect_errors import (
    DataError,
    NotRegisteredError,
    RetriableError,
)
from barnabas.pipeline.data.registered_schemas import RegisteredSchema, SchemaLookup

if TYPE_CHECKING:
    import httpx

_TIMEOUT_S: Final = 10.0
_CONTENT_TYPE: Final = "application/vnd.schemaregistry.v1+json"
_NOT_FOUND: Final = 404
_NO_SUBJECT: Final = 40401
_NO_SCHEMA: Final = 40403
_PASSING: Final = frozenset({408, 429, 500, 502, 503, 504})


class RegistryClient:
    """Calls the first of several addresses that answers."""

    def __init__(self, urls: str, user_info: str = "", *, normalizes: bool = False) -> None:
        found = [_split(url.strip().rstrip("/")) for url in urls.split(",") if url.strip()]
        self._urls = [url for url, _ in found]
        self._query = "?normalize=true" if normalizes else ""
        self._headers = {"Content-Type": _CONTENT_TYPE, "Accept": _CONTENT_TYPE}
        credentials = user_info or next((own for _, own in found if own), "")
        if credentials:
            encoded = base64.b64encode(credentials.encode()).decode()
            self._headers["Authorization"] = f"Basic {encoded}"
        self._schemas: dict[int, RegisteredSchema] = {}
        self._ids: dict[tuple[str, RegisteredSchema], int] = {}

    def schema_of(self, schema_id: int) -> RegisteredSchema:
        """Return the schema of an id. Raises DataError, RetriableError."""
        found = self._schemas.get(schema_id)
        if found is None:
            answer = self._call("GET", f"/schemas/ids/{schema_id}")
            references: dict[str, str] = {}
            self._collect(answer, references)
            schema_type = str(answer.get("schemaType", "AVRO"))
            found = RegisteredSchema(schema_type, answer["schema"], tuple(references.items()))
            self._schemas[schema_id] = found
        return found

    def latest(self, subject: str) -> tuple[int, RegisteredSchema]:
        """Return the newest schema of a subject with its id. Raises DataError, RetriableError."""
        path = f"/subjects/{urllib.parse.quote(subject, safe='')}/versions/latest"
        schema_id = int(self._call("GET", path)["id"])
        return schema_id, self.schema_of(schema_id)

    def has(self, subject: str | None, schema_id: int | None) -> bool:
        """True when a subject or an id exists; with both, when the subject has the id.

        Raises DataError, RetriableError.
        """
        path = f"/schemas/ids/{schema_id}"
        if schema_id is None:
            path = f"/subjects/{urllib.parse.quote(subject or '', safe='')}/versions/latest"
        elif subject is not None:
            path += "/subjects"
        try:
            answer = self._call("GET", path)
        except NotRegisteredError:
            return False
        return subject is None or schema_id is None or subject in answer

    def ids_of_versions(self, subject: str) -> Iterator[int]:
        """Yield the ids of a subject's schemas, the newest first.

        Raises DataError, RetriableError.
        """
        path = f"/subjects/{urllib.parse.quote(subject, safe='')}/versions"
        for version in sorted(self._call("GET", path), reverse=True):
            yield int(self._call("GET", f"{path}/{int(version)}")["id"])

    def id_of(self, subject: str, schema: RegisteredSchema, *, registers: bool) -> int:
        """Return the id of a schema in a subject; register it if needed and allowed."""
        found = self._ids.get((subject, schema))
        if found is None:
            path = f"/subjects/{urllib.parse.quote(subject, safe='')}"
            body: dict[str, Any] = {"schema": schema.text, "schemaType": schema.schema_type}
            path = f"{path}/versions" if registers else path
            found = int(self._call("POST", path + self._query, body)["id"])
            self._ids[subject, schema] = found
        return found

    def _collect(self, answer: Mapping[str, Any], found: dict[str, str]) -> None:
        """Add the texts of all references, dependencies first."""
        for reference in answer.get("references") or ():
            name = str(reference["name"])
            if name in found:
                continue
            subject = urllib.parse.quote(str(reference["subject"]), safe="")
            path = f"/subjects/{subject}/versions/{int(reference['version'])}?deleted=true"
            referred = self._call("GET", path)
            self._collect(referred, found)
            found[name] = str(referred["schema"])

    def _call(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        import httpx

        failure = ""
        for url in self._urls:
            try:
                with httpx.Client(
                    headers=self._headers,
                    timeout=_TIMEOUT_S,
                    follow_redirects=True,
                    verify=_trust(),
                ) as client:
                    response = client.request(method, url + path, json=body)
                if response.is_success:
                    return response.json()
                if response.status_code not in _PASSING:
                    raise _refusal(response)
                failure = f"{url}: it answered {response.status_code} {response.reason_phrase}"
            except (httpx.HTTPError, httpx.InvalidURL, OSError, ValueError) as error:
                failure = f"{url}: {reason_of(error)}"
        raise RetriableError(
            f"the schema registry does not answer at {failure}; check schema.registry.url, and "
            "that the registry runs"
        )


@functools.cache
def _trust() -> ssl.SSLContext:
    """Return the certificates of authorities that the system trusts."""
    return ssl.create_default_context()


def _split(url: str) -> tuple[str, str]:
    """Return an address without the user and the password that it may have, and these."""
    scheme, separator, rest = url.partition("://")
    credentials, at, host = rest.rpartition("@")
    return scheme + separator + host, urllib.parse.unquote(credentials) if at else ""


def _refusal(response: "httpx.Response") -> DataError:
    try:
        answer: Any = response.json()
        code, text = (
            answer["error_code"],
            f"{answer['message']}; error code: {answer['error_code']}",
        )
    except (ValueError, KeyError, TypeError):
        return DataError(f"the schema registry answered {response.status_code}")
    if code == _NOT_FOUND:
        return DataError(f"{response.url} is not that of a schema registry: {answer['message']}")
    return NotRegisteredError(text) if code in (_NO_SUBJECT, _NO_SCHEMA) else DataError(text)


def open_registry(props: Mapping[str, str]) -> SchemaLookup:
    """Return the client of a converter's properties. Raises DataError for an unsafe address."""
    urls = props.get("schema.registry.url", "")
    for url in urls.split(","):
        if not url.strip().startswith(("http://", "https://")):
            raise DataError(f"schema.registry.url must be an http address: {_split(url)[0]}")
    user_info = props.get("basic.auth.user.info") or ""
    return RegistryClient(urls, user_info, normalizes=bool(props.get("normalize.schemas")))
