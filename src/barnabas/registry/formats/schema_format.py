"""The interface between the registry and the schema languages.

The direction of a check is always said as *reader* and *writer*: data written with the writer's
schema is read with the reader's. BACKWARD asks whether the new schema reads old data (reader =
new), FORWARD whether the old schema reads new data (reader = old).
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from enum import Enum
from typing import Any, Protocol

import attrs

# A value of JSON as Python's json module reads it.
JsonValue = Any


class SchemaError(ValueError):
    """A schema is refused. The message says why and, where known, at which place.

    ``path`` is the format's own way to name a place: a JSON pointer for Avro and JSON Schema,
    ``line:column`` for Protobuf, or empty.
    """

    def __init__(self, message: str, path: str = "") -> None:
        super().__init__(f"{message} (at {path})" if path else message)
        self.path = path


class SchemaTooComplexError(SchemaError):
    """A schema is too deep, too large, or a comparison takes too many steps."""


class CompatibilityPolicy(Enum):
    """The strictness of a compatibility check. Only JSON Schema has different ones."""

    STRICT = "STRICT"
    LENIENT = "LENIENT"


@attrs.frozen
class ResolvedReference:
    """A schema that another schema refers to by name.

    The registry passes all references of a schema, direct and transitive, dependencies first.
    """

    name: str
    subject: str
    version: int
    text: str


@attrs.frozen
class SchemaEntity:
    """A record or a field of a schema, named by its path from the root (``a.b.Record.field``)."""

    path: str
    kind: str  # "sr_record" or "sr_field", as the REST API says


@attrs.frozen
class SchemaTags:
    """The tags that a schema carries on one of its entities."""

    entity: SchemaEntity
    tags: tuple[str, ...]


@attrs.frozen
class Incompatibility:
    """One reason why a reader cannot read what a writer wrote.

    ``rule`` is the type of the error as clients know it (``READER_FIELD_MISSING_DEFAULT_VALUE``),
    ``path`` the place in the form of the schema's language, ``reader`` and ``writer`` what each
    side says there (a value of JSON, None when absent), ``hint`` what can be done about it.
    """

    rule: str
    path: str
    reader: JsonValue
    writer: JsonValue
    hint: str

    def message(self, *, reader_is_new: bool = True) -> str:
        """Return the line for the ``messages`` of a compatibility check."""
        old, new = self._old_and_new(reader_is_new)
        return (
            f"{{errorType:'{self.rule}', description:'{self.hint} (path '{self.path}')', "
            f"additionalInfo:'old: {_shown(old)}, new: {_shown(new)}'}}"
        )

    def details(self, *, reader_is_new: bool = True) -> dict[str, JsonValue]:
        """Return the machine-readable form: rule, path, old, new, hint."""
        old, new = self._old_and_new(reader_is_new)
        return {"rule": self.rule, "path": self.path, "old": old, "new": new, "hint": self.hint}

    def _old_and_new(self, reader_is_new: bool) -> tuple[JsonValue, JsonValue]:
        if reader_is_new:
            return self.writer, self.reader
        return self.reader, self.writer


def _shown(value: JsonValue) -> str:
    return "absent" if value is None else str(value)


class ParsedSchema(ABC):
    """A valid schema. Immutable; equal when text and references are equal."""

    schema_type: str
    references: tuple[ResolvedReference, ...]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ParsedSchema):
            return NotImplemented
        return self._identity() == other._identity()

    def __hash__(self) -> int:
        return hash(self._identity())

    def _identity(self) -> tuple[str, str, tuple[ResolvedReference, ...]]:
        return (self.schema_type, self.canonical_text, self.references)

    @property
    @abstractmethod
    def canonical_text(self) -> str:
        """Return the text that the registry stores, hashes and answers."""

    @abstractmethod
    def normalized(self) -> "ParsedSchema":
        """Return the schema in its normal form: equal for schemas that differ in order only."""

    @abstractmethod
    def formatted(self, text_format: str) -> str:
        """Return the text in a requested format; an unknown one is ignored.

        Avro knows ``resolved``, Protobuf ``serialized`` and ``ignore_extensions``.
        """

    @property
    @abstractmethod
    def name(self) -> str | None:
        """Return the full name of the record or message, or the title of a JSON schema."""

    @property
    @abstractmethod
    def used_references(self) -> frozenset[str]:
        """Return the names of those references that the text makes use of."""

    @property
    @abstractmethod
    def top_level_fields(self) -> frozenset[str]:
        """Return the names of the fields of the root (none when it is not a record)."""

    @abstractmethod
    def tags(self) -> tuple[SchemaTags, ...]:
        """Return the tags written in the schema (``confluent:tags``), in order of the text."""

    @abstractmethod
    def with_tags(self, add: Iterable[SchemaTags], remove: Iterable[SchemaTags]) -> "ParsedSchema":
        """Return the schema with tags added and removed.

        Raises SchemaError when an entity does not exist.
        """

    @abstractmethod
    def check_reads(
        self, writer: "ParsedSchema", policy: CompatibilityPolicy = CompatibilityPolicy.STRICT
    ) -> list[Incompatibility]:
        """Return why this schema cannot read data of ``writer``: empty when it can.

        Raises SchemaTooComplexError when the comparison takes too many steps. Both schemas are of
        the same format: the registry compares the types before.
        """


class SchemaFormat(Protocol):
    """One schema language."""

    schema_type: str

    def parse(
        self, text: str, references: Sequence[ResolvedReference] = (), *, is_new: bool = False
    ) -> ParsedSchema:
        """Return the schema of a text.

        A schema that ``is_new`` obeys rules that stored ones may break (names, defaults).
        Raises SchemaError when it is not valid, and never anything else.
        """
        ...
