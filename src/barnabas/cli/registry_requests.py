"""Requests of commands to a schema registry: options, answers, and errors in one line."""

from __future__ import annotations

import base64
import functools
import json
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode, urlsplit

import click

from barnabas.cli.client_options import UNREACHABLE
from barnabas.cli.command_errors import CliError

if TYPE_CHECKING:
    import urllib.error
    from collections.abc import Callable
    from pathlib import Path

    from barnabas.registry.payloads.payload_codecs import PayloadCodec

DEFAULT_URL = "http://127.0.0.1:8081"
CONTENT_TYPE = "application/vnd.schemaregistry.v1+json"
_NOT_FOUND = 404

# Names of formats on the command line, by schema type.
TYPES = {"avro": "AVRO", "json-schema": "JSON", "protobuf": "PROTOBUF"}


class RegistryRefusalError(CliError):
    """The registry refused a request."""

    def __init__(self, status: int, code: int, message: str, details: list[Any]) -> None:
        super().__init__(f"registry: {message} (error {code})")
        self.status = status
        self.code = code
        self.details = details


class RegistryClient:
    """Requests to one registry."""

    def __init__(self, url: str, credentials: str | None, ca: str | None, timeout: float) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise CliError(f"Invalid value {url} for --registry: it must be http://HOST:PORT")
        if parts.username is not None:
            credentials = credentials or f"{parts.username}:{parts.password or ''}"
            url = url.replace(f"{parts.netloc}", parts.netloc.rpartition("@")[2], 1)
        self.url = url.rstrip("/")
        self._timeout = timeout
        self._headers = {"Accept": CONTENT_TYPE, "Content-Type": CONTENT_TYPE}
        if credentials:
            encoded = base64.b64encode(credentials.encode()).decode()
            self._headers["Authorization"] = f"Basic {encoded}"
        self._tls: Any = None
        if parts.scheme == "https":
            import ssl

            self._tls = ssl.create_default_context(cafile=ca)

    def ask(self, method: str, path: str, body: Any = None, **query: object) -> Any:
        """Return the answer as JSON. Raises RegistryRefusalError or CliError."""
        text = self.ask_text(method, path, body, **query)
        return json.loads(text) if text else None

    def ask_text(self, method: str, path: str, body: Any = None, **query: object) -> str:
        """Return the answer as text. Raises RegistryRefusalError or CliError."""
        # Loaded here: other commands have these options too, and start faster without.
        import urllib.error
        import urllib.request

        given = {name: _query_text(value) for name, value in query.items() if value is not None}
        target = f"{self.url}{path}" + (f"?{urlencode(given)}" if given else "")
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(target, data, self._headers, method=method)
        try:
            with urllib.request.urlopen(
                request, timeout=self._timeout, context=self._tls
            ) as answer:
                return answer.read().decode()
        except urllib.error.HTTPError as error:
            raise _refusal(error) from None
        except (OSError, ValueError) as error:
            reason = getattr(error, "reason", error)
            text = getattr(reason, "strerror", None) or reason
            raise CliError(
                f"registry {self.url}: {text}; start one with barnabas registry, or name another "
                "with --registry",
                UNREACHABLE,
            ) from None

    def find(self, method: str, path: str, **query: object) -> Any:
        """Return the answer as JSON, None where there is none (404)."""
        try:
            return self.ask(method, path, **query)
        except RegistryRefusalError as refusal:
            if refusal.status != _NOT_FOUND:
                raise
            return None

    def codec(self, schema: dict[str, Any], message: str | None = None) -> PayloadCodec:
        """Return the codec of a schema as the registry answers it."""
        from barnabas.registry.payloads.payload_codecs import (
            PayloadError,
            PayloadSchema,
            codec_of,
        )

        schema_type = schema.get("schemaType", "AVRO")
        is_serialized = schema_type == "PROTOBUF"
        references = tuple(self.reference_texts(schema, serialized=is_serialized).items())
        try:
            return codec_of(PayloadSchema(schema_type, schema["schema"], references), message)
        except PayloadError as error:
            raise CliError(str(error)) from None

    def reference_texts(self, schema: dict[str, Any], *, serialized: bool) -> dict[str, str]:
        """Return the texts of direct and transitive references by name, dependencies first."""
        found: dict[str, str] = {}
        self._collect_references(schema, "serialized" if serialized else None, found)
        return found

    def _collect_references(
        self, schema: dict[str, Any], text_format: str | None, found: dict[str, str]
    ) -> None:
        for reference in schema.get("references", ()):
            if reference["name"] in found:
                continue
            path = version_path(reference["subject"], reference["version"])
            inner = self.ask("GET", path, format=text_format, deleted=True)
            self._collect_references(inner, text_format, found)
            found[reference["name"]] = inner["schema"]


def _query_text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _refusal(error: urllib.error.HTTPError) -> CliError:
    text = error.read().decode(errors="replace")
    try:
        found = json.loads(text)
        code, message = int(found["error_code"]), str(found["message"])
    except (ValueError, KeyError, TypeError):
        return RegistryRefusalError(error.code, error.code, text[:200] or error.reason, [])
    return RegistryRefusalError(error.code, code, message, found.get("details", []))


def subject_path(subject: str) -> str:
    """Return the path of a subject."""
    return f"/subjects/{quote(subject, safe='')}"


def version_path(subject: str, version: object) -> str:
    """Return the path of a version."""
    return f"{subject_path(subject)}/versions/{version}"


def schema_body(file: Path, kind: str | None, references: tuple[str, ...] = ()) -> dict[str, Any]:
    """Return the body that registers or checks the schema of a file."""
    suffixes = {".avsc": "avro", ".proto": "protobuf", ".json": "json-schema"}
    kind = kind or suffixes.get(file.suffix)
    if kind is None:
        raise CliError(f"file {file}: --type is needed ({', '.join(TYPES)})")
    body: dict[str, Any] = {"schema": file.read_text(), "schemaType": TYPES[kind]}
    if references:
        body["references"] = [_reference(text) for text in references]
    return body


def _reference(text: str) -> dict[str, Any]:
    name, equals, place = text.partition("=")
    subject, _, version = place.rpartition(":")
    if not (equals and subject and version.lstrip("-").isdecimal()):
        raise CliError(f"Invalid value {text} for --reference: it must be NAME=SUBJECT:VERSION")
    return {"name": name, "subject": subject, "version": int(version)}


def registry_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add a registry as the argument `registry`, and the options that describe it."""

    @click.option(
        "--registry",
        "registry_url",
        metavar="URL",
        envvar="BARNABAS_REGISTRY",
        default=DEFAULT_URL,
        show_default=True,
        help="The schema registry.",
    )
    @click.option(
        "--registry-user",
        metavar="NAME:PASSWORD",
        envvar="BARNABAS_REGISTRY_USER",
        help="User and password for basic authentication.",
    )
    @click.option(
        "--registry-ca",
        metavar="FILE",
        help="The authority that signed the registry's https certificate (PEM).",
    )
    @functools.wraps(command)
    def with_registry(
        *arguments: Any,
        registry_url: str,
        registry_user: str | None,
        registry_ca: str | None,
        **options: Any,
    ) -> Any:
        found = RegistryClient(registry_url, registry_user, registry_ca, 30.0)
        return command(*arguments, registry=found, **options)

    return with_registry
