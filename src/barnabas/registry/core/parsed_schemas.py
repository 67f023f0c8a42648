"""Parsing of schemas together with what they refer to, with a bounded memory of results."""

from collections import OrderedDict

import attrs

from barnabas.registry.core.registry_errors import RegistryError, invalid_schema
from barnabas.registry.core.registry_state import RegistryState, reference_key
from barnabas.registry.core.schema_entities import SchemaContent, SchemaReference
from barnabas.registry.formats import (
    SCHEMA_TYPES,
    ParsedSchema,
    ResolvedReference,
    SchemaError,
    format_of,
)

_PARSED_MAX = 512
_TEXT_BYTES_MAX = 8 * 1024 * 1024
_REFERENCES_MAX = 1000
_DEPTH_MAX = 128


@attrs.frozen
class _Key:
    schema_type: str
    text: str
    references: tuple[ResolvedReference, ...]
    is_new: bool


class ParsedSchemas:
    """Parses schemas of a state; remembers the schemas that were used last."""

    def __init__(self, state: RegistryState) -> None:
        self._state = state
        self._parsed: OrderedDict[_Key, ParsedSchema] = OrderedDict()
        self._text_bytes = 0

    def parse(self, subject: str, content: SchemaContent, *, is_new: bool = False) -> ParsedSchema:
        """Return the schema of a subject's content.

        Raises RegistryError (42201) when the schema or one of its references is not valid.
        """
        references = self._resolve(subject, content.references, stored=not is_new)
        key = _Key(content.schema_type, content.text, references, is_new)
        found = self._parsed.get(key)
        if found is not None:
            self._parsed.move_to_end(key)
            return found
        parsed = _parse(key)
        self._remember(key, parsed)
        return parsed

    def _remember(self, key: _Key, parsed: ParsedSchema) -> None:
        self._parsed[key] = parsed
        self._text_bytes += len(key.text)
        while len(self._parsed) > _PARSED_MAX or self._text_bytes > _TEXT_BYTES_MAX:
            oldest, _ = self._parsed.popitem(last=False)
            self._text_bytes -= len(oldest.text)

    def pinned(
        self, subject: str, references: tuple[SchemaReference, ...]
    ) -> tuple[SchemaReference, ...]:
        """Return references with the latest version where none is named.

        Raises RegistryError when a subject does not exist.
        """
        return tuple(self._pin(subject, reference) for reference in references)

    def _pin(self, subject: str, reference: SchemaReference) -> SchemaReference:
        if reference.version != -1:
            return reference
        referred, _ = reference_key(subject, reference)
        latest = self._state.latest(referred)
        if latest is None:
            raise _missing(reference)
        return attrs.evolve(reference, version=latest.version)

    def _resolve(
        self, subject: str, references: tuple[SchemaReference, ...], *, stored: bool
    ) -> tuple[ResolvedReference, ...]:
        """Return direct and transitive references, dependencies first."""
        resolved: dict[str, ResolvedReference] = {}
        self._collect(subject, references, resolved, (), stored=stored)
        return tuple(resolved.values())

    def _collect(
        self,
        subject: str,
        references: tuple[SchemaReference, ...],
        resolved: dict[str, ResolvedReference],
        path: tuple[tuple[str, int], ...],
        *,
        stored: bool,
    ) -> None:
        for reference in references:
            key = reference_key(subject, reference)
            if reference.name in resolved:
                continue
            if key in path or len(path) >= _DEPTH_MAX or len(resolved) >= _REFERENCES_MAX:
                raise invalid_schema(f"Too many or cyclic references at {reference.name}")
            found = self._state.version(*key, deleted=stored)
            if found is None:
                raise _missing(reference)
            inner = found.content.references
            self._collect(found.subject, inner, resolved, (*path, key), stored=True)
            resolved[reference.name] = ResolvedReference(
                reference.name, reference.subject, reference.version, found.content.text
            )


def _missing(reference: SchemaReference) -> RegistryError:
    return invalid_schema(
        f"No schema reference found for subject '{reference.subject}' and version "
        f"{reference.version} (name '{reference.name}')"
    )


def _parse(key: _Key) -> ParsedSchema:
    if key.schema_type not in SCHEMA_TYPES:
        raise invalid_schema(f"Invalid schema type {key.schema_type}")
    try:
        schema_format = format_of(key.schema_type)
    except KeyError:
        raise invalid_schema(f"Schema type {key.schema_type} is not supported yet") from None
    try:
        return schema_format.parse(key.text, key.references, is_new=key.is_new)
    except SchemaError as error:
        raise invalid_schema(f"Invalid schema of type {key.schema_type}: {error}") from None
