"""Schemas as a registry has them, and the calls of a registry that a converter makes.

`connect.registry_client` has the client that makes them.
"""

from typing import Protocol

import attrs


@attrs.frozen
class RegisteredSchema:
    """A schema as the registry has it; references are (name, text), dependencies first."""

    schema_type: str
    text: str
    references: tuple[tuple[str, str], ...] = ()


class SchemaLookup(Protocol):
    """The calls of a registry that a converter makes."""

    def schema_of(self, schema_id: int) -> RegisteredSchema:
        """Return the schema of an id. Raises DataError, RetriableError."""
        ...

    def id_of(self, subject: str, schema: RegisteredSchema, *, registers: bool) -> int:
        """Return the id of a schema in a subject; register it if needed and allowed."""
        ...
