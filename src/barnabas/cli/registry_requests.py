"""Requests of commands to a schema registry: options, answers, and errors in one line."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

from barnabas.cli.command_errors import CliError
from barnabas.cli.service_requests import ServiceClient, ServiceRefusalError, service_options

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import httpx

    from barnabas.registry.payloads.payload_codecs import PayloadCodec

DEFAULT_URL = "http://127.0.0.1:8081"
CONTENT_TYPE = "application/vnd.schemaregistry.v1+json"

# Names of formats on the command line, by schema type.
TYPES = {"avro": "AVRO", "json-schema": "JSON", "protobuf": "PROTOBUF"}


class RegistryRefusalError(ServiceRefusalError):
    """The registry refused a request."""

    def __init__(self, status: int, code: int, message: str, details: list[Any]) -> None:
        super().__init__(status, f"registry: {message} (error {code})")
        self.code = code
        self.details = details


class UnusableSchemaError(CliError):
    """A schema of the registry does not serve to encode or decode values."""


class RegistryClient(ServiceClient):
    """Requests to one registry."""

    service = "registry"
    remedy = "start one with barnabas registry, or name another with --registry"
    content_type = CONTENT_TYPE

    def __init__(self, url: str, credentials: str | None, ca: str | None, timeout: float) -> None:
        super().__init__(url, credentials, ca, timeout)
        parts = urlsplit(self.url)
        if parts.username is not None:
            self.url = self.url.replace(parts.netloc, parts.netloc.rpartition("@")[2], 1)
            if not credentials:
                self.authenticate(f"{parts.username}:{parts.password or ''}")

    def refusal(self, answer: httpx.Response) -> RegistryRefusalError:
        """Return the error that the registry's answer describes."""
        status, text = answer.status_code, answer.content.decode(errors="replace")
        try:
            found = json.loads(text)
            code, message = int(found["error_code"]), str(found["message"])
        except (ValueError, KeyError, TypeError):
            return RegistryRefusalError(status, status, text[:200] or answer.reason_phrase, [])
        return RegistryRefusalError(status, code, message, found.get("details", []))

    def codec(self, schema: dict[str, Any], message: str | None = None) -> PayloadCodec:
        """Return the codec of a schema as the registry answers it."""
        from barnabas.registry.payloads.payload_codecs import (
            PayloadError,
            PayloadLibraryError,
            PayloadSchema,
            codec_of,
        )

        schema_type = schema.get("schemaType", "AVRO")
        is_serialized = schema_type == "PROTOBUF"
        references = tuple(self.reference_texts(schema, serialized=is_serialized).items())
        try:
            return codec_of(PayloadSchema(schema_type, schema["schema"], references), message)
        except PayloadLibraryError as error:
            raise CliError(str(error)) from None
        except PayloadError as error:
            raise UnusableSchemaError(str(error)) from None

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
    return service_options(
        command,
        "registry",
        lambda url, user, ca: RegistryClient(url, user, ca, 30.0),
        option="registry",
        default_url=DEFAULT_URL,
        url_help="The schema registry.",
        server="registry",
    )
