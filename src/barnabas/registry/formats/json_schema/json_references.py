"""Resolve ``$ref``: within the text, and to the references that the registry passes.

A reference is known by its name in the registry, by that name relative to the ``$id`` of the
referring schema, and by its own ``$id``. Nothing is ever fetched; the meta-schemas of the drafts
are known.
"""

from collections.abc import Sequence
from importlib import import_module
from typing import Any
from urllib.parse import urljoin

from referencing import Registry, Resource, Specification
from referencing.exceptions import Unresolvable
from referencing.jsonschema import DRAFT4, DRAFT6, DRAFT7, DRAFT201909, DRAFT202012

from barnabas.registry.formats.json_schema.json_shapes import Draft, draft_of
from barnabas.registry.formats.json_text import is_object, read_json
from barnabas.registry.formats.schema_format import ResolvedReference, SchemaError

_META_SCHEMAS = ("http://json-schema.org/draft", "https://json-schema.org/draft")

# Draft 4, with true and false as schemas.
_DRAFT4 = Specification[Any](
    name="draft-04",
    id_of=lambda contents: DRAFT4.id_of(contents) if is_object(contents) else None,
    subresources_of=lambda contents: (
        DRAFT4.subresources_of(contents) if is_object(contents) else ()
    ),
    anchors_in=lambda _, contents: DRAFT4.anchors_in(contents) if is_object(contents) else (),
    maybe_in_subresource=DRAFT4.maybe_in_subresource,
)

_SPECIFICATIONS: dict[Draft, Specification[Any]] = {
    Draft.D4: _DRAFT4,
    Draft.D6: DRAFT6,
    Draft.D7: DRAFT7,
    Draft.D2019: DRAFT201909,
    Draft.D2020: DRAFT202012,
}


class Scope:
    """A place from which references are resolved: a base URI among known schemas."""

    def __init__(self, resolver: Any, specification: Specification[Any]) -> None:
        self._resolver = resolver
        self._specification = specification

    @classmethod
    def of_root(cls, schema: Any, references: Sequence[ResolvedReference]) -> "Scope":
        """Return the scope of a schema's root."""
        specification = _SPECIFICATIONS[draft_of(schema)]
        root = Resource[Any](contents=schema, specification=specification)
        base = root.id() or ""
        known = [(base, root)]
        for reference in references:
            contents = read_json(reference.text, exact=True)
            resource = Resource[Any](contents, _SPECIFICATIONS[draft_of(contents)])
            uris = {reference.name, urljoin(base, reference.name), resource.id() or reference.name}
            known += [(uri, resource) for uri in sorted(uris)]
        try:
            registry = Registry[Any]().with_resources(known).crawl()  # pyright: ignore[reportUnknownVariableType]
        except (Unresolvable, ValueError, AttributeError, TypeError, LookupError) as error:
            raise SchemaError(f"cannot resolve references: {error}") from error
        return cls(registry.resolver(base_uri=base), specification)

    def below(self, schema: Any) -> "Scope":
        """Return the scope inside of a subschema, another one if that has an ``$id``."""
        if not is_object(schema) or not ("$id" in schema or "id" in schema):
            return self
        resource = Resource[Any](schema, self._specification)
        try:
            return Scope(self._resolver.in_subresource(resource), self._specification)
        except ValueError as error:
            raise SchemaError(f"not a URI: {error}") from error

    def target(self, reference: str, path: str) -> "tuple[Any, Scope]":
        """Return the schema that a ``$ref`` names, and its scope.

        Raises SchemaError when there is none.
        """
        try:
            if reference.startswith(_META_SCHEMAS):
                # The meta-schemas come with a library, which is imported for them only.
                library: Any = import_module("jsonschema_specifications")
                found = library.REGISTRY.resolver().lookup(reference)
            else:
                found = self._resolver.lookup(reference)
        except (Unresolvable, ValueError, TypeError, LookupError) as error:
            raise SchemaError(f"cannot resolve the reference {reference[:200]!r}", path) from error
        contents = found.contents
        specification = _SPECIFICATIONS[draft_of(contents)] if _names_draft(contents) else None
        return contents, Scope(found.resolver, specification or self._specification)

    @property
    def draft(self) -> Draft:
        """Return the draft that schemas here are written in."""
        return next(d for d, s in _SPECIFICATIONS.items() if s is self._specification)


def _names_draft(contents: Any) -> bool:
    return is_object(contents) and "$schema" in contents
