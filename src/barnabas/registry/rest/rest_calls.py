"""A request as handlers see it, and the forms of an answer."""

import re
from collections.abc import Mapping, Sequence
from typing import TypeVar

import attrs

from barnabas.registry.core.json_fields import JsonFields, MalformedJsonError, read_json
from barnabas.registry.core.registry_core import RegistryCore
from barnabas.registry.core.registry_errors import refuse_body
from barnabas.registry.core.schema_queries import SchemaQueries
from barnabas.registry.core.subject_names import normalize_subject
from barnabas.registry.rest.route_rights import EVERY_RIGHT, READ, Rights, check, sees

T = TypeVar("T")

_INTEGER = re.compile(r"-?[0-9]{1,11}")


def integer_of(text: str) -> int | None:
    """Return the number that a part of a path or query is; None for any other text."""
    return int(text) if _INTEGER.fullmatch(text) else None


@attrs.frozen
class RawText:
    """An answer that is sent as it is: the text of a schema."""

    text: str


@attrs.frozen
class RestCall:
    """One request: the values of the path's places, the query, and the body."""

    core: RegistryCore
    places: Mapping[str, str]
    query: Sequence[tuple[str, str]]
    body: bytes
    clusters: Mapping[str, str] = attrs.Factory(dict[str, str])
    """Ids of the Kafka cluster and of the group of registries, by their kind."""

    rights: Rights = EVERY_RIGHT
    """The rights of the caller."""

    @property
    def queries(self) -> SchemaQueries:
        """Return the queries over what the caller may see."""
        queries = self.core.queries
        return queries if self.rights is EVERY_RIGHT else queries.seen_by(self.sees)

    def sees(self, subject: str) -> bool:
        """True when the caller may see a subject."""
        return sees(self.rights, subject)

    def check_readable(self, subject: str) -> None:
        """Raise RegistryError (40301) when the caller may not read a subject."""
        check(self.rights, READ, subject)

    @property
    def subject(self) -> str:
        """Return the subject of the path, as it is stored."""
        return normalize_subject(self.places["subject"])

    @property
    def optional_subject(self) -> str | None:
        """Return the subject of the path; none means the registry's own settings."""
        subject = self.places.get("subject")
        return None if subject is None else normalize_subject(subject) or None

    def text(self, name: str, default: str = "") -> str:
        """Return the first value of a query parameter."""
        return next((value for key, value in self.query if key == name), default)

    def texts(self, name: str) -> tuple[str, ...]:
        """Return all values of a query parameter."""
        return tuple(value for key, value in self.query if key == name)

    def flag(self, name: str) -> bool:
        """Return a query parameter that is true or false; anything else is false."""
        return self.text(name).lower() == "true"

    def number(self, name: str, default: int) -> int:
        """Return a query parameter that is a number; anything else is the default."""
        found = integer_of(self.text(name))
        return default if found is None else found

    def fields(self) -> JsonFields:
        """Return the JSON object of the body.

        Raises RegistryError (400) when the body is something else.
        """
        try:
            return JsonFields(read_json(self.body))
        except MalformedJsonError as error:
            refuse_body(str(error))

    def page(self, items: list[T], limit_default: int | None = None) -> list[T]:
        """Return the part of a list that offset and limit ask for."""
        offset = max(self.number("offset", 0), 0)
        limit = self.number("limit", -1)
        if limit <= 0 or (limit_default is not None and limit > limit_default):
            limit = len(items) if limit_default is None else limit_default
        return items[offset : offset + limit]
