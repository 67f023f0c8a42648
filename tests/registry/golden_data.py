"""The reference's answers and records, and formats that answer as it did."""

import gzip
import json
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import attrs

from barnabas.registry.formats import (
    CompatibilityPolicy,
    Incompatibility,
    ParsedSchema,
    ResolvedReference,
    SchemaError,
    SchemaTags,
)

DATA = Path(__file__).parent.parent / "data" / "registry"


def golden_lines(name: str) -> list[dict[str, Any]]:
    """Return the objects of a compressed file of lines of JSON."""
    with gzip.open(DATA / f"{name}.jsonl.gz", "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file]


@cache
def allowed_differences() -> dict[int, int]:
    """Return the requests that we answer otherwise, with our status."""
    allowed: dict[int, int] = {}
    for line in (DATA / "allowed_differences.txt").read_text().splitlines():
        if not line.startswith("#"):
            numbers, status, _ = line.split(" | ")
            allowed |= {int(number): int(status) for number in numbers.split()}
    return allowed


@attrs.frozen
class RecordedSchema(ParsedSchema):
    """A schema whose stored text was recorded: stands in for a format that is not there yet."""

    schema_type: str
    text: str
    references: tuple[ResolvedReference, ...]
    is_normal: bool = False

    @property
    def canonical_text(self) -> str:
        key = (self.schema_type, self.text, bool(self.references), self.is_normal)
        return _recorded_texts().get(key, self.text)

    def normalized(self) -> ParsedSchema:
        return attrs.evolve(self, is_normal=True)

    def formatted(self, text_format: str) -> str:
        return self.canonical_text

    @property
    def name(self) -> str | None:
        return None

    @property
    def used_references(self) -> frozenset[str]:
        return frozenset(reference.name for reference in self.references)

    @property
    def top_level_fields(self) -> frozenset[str]:
        return frozenset()

    def tags(self) -> tuple[SchemaTags, ...]:
        return ()

    def with_tags(self, add: Iterable[SchemaTags], remove: Iterable[SchemaTags]) -> ParsedSchema:
        raise NotImplementedError

    def check_reads(
        self, writer: ParsedSchema, policy: CompatibilityPolicy = CompatibilityPolicy.STRICT
    ) -> list[Incompatibility]:
        return []


@attrs.frozen
class RecordedFormat:
    """A format that accepts what the reference accepted."""

    schema_type: str

    def parse(
        self, text: str, references: Sequence[ResolvedReference] = (), *, is_new: bool = False
    ) -> ParsedSchema:
        key = (self.schema_type, text, bool(references), False)
        if key in _refused_texts() and key not in _recorded_texts():
            raise SchemaError("refused")
        return RecordedSchema(self.schema_type, text, tuple(references))


_TextKey = tuple[str, str, bool, bool]


def _registrations() -> Iterable[tuple[_TextKey, dict[str, Any]]]:
    for request in golden_lines("requests"):
        path, _, query = request["path"].partition("?")
        if request["method"] != "POST" or not path.endswith("/versions"):
            continue
        try:
            body = json.loads(request["body"])
            schema_type = body.get("schemaType", "AVRO")
            is_normal = "normalize=true" in query
            key = (schema_type, str(body["schema"]), bool(body.get("references")), is_normal)
        except (ValueError, AttributeError, KeyError):
            continue
        yield key, request


@cache
def _recorded_texts() -> dict[_TextKey, str]:
    return {
        key: request["answer"]["schema"]
        for key, request in _registrations()
        if request["status"] == 200 and "schema" in request["answer"]
    }


@cache
def _refused_texts() -> set[_TextKey]:
    return {
        key for key, request in _registrations() if request["answer"].get("error_code") == 42201
    }
