"""Values of the registry: references, metadata, rules, schemas and their versions.

All are frozen and compare by content. Maps and sets are kept sorted, as they are stored, hashed
and answered in that order.
"""

import hashlib
import uuid
from typing import Any

import attrs

from barnabas.registry.core.json_fields import JsonFields, without_empty

AVRO = "AVRO"

# The property that pins a version number into the content (see registration).
VERSION_PROPERTY = "confluent:version"

RULE_KINDS = ("TRANSFORM", "CONDITION")
MIGRATION_MODES = ("UPGRADE", "DOWNGRADE", "UPDOWN")
DATA_MODES = ("WRITE", "READ", "WRITEREAD")


@attrs.frozen
class SchemaReference:
    """A name that a schema uses, and the subject and version that define it."""

    name: str
    subject: str
    version: int

    def to_json(self) -> dict[str, Any]:
        """Return the JSON form."""
        return {"name": self.name, "subject": self.subject, "version": self.version}

    @classmethod
    def from_json(cls, fields: JsonFields) -> "SchemaReference":
        """Return the reference of a JSON object; an absent version is the latest (-1)."""
        version = fields.integer("version")
        return cls(
            fields.text("name") or "",
            fields.text("subject") or "",
            -1 if version is None else version,
        )


def _sorted_texts(values: dict[str, str]) -> tuple[tuple[str, str], ...]:
    return tuple(sorted(values.items()))


@attrs.frozen
class Metadata:
    """The metadata of a schema: tags by path, properties, and which of these are secret."""

    tags: tuple[tuple[str, tuple[str, ...]], ...] = ()
    properties: tuple[tuple[str, str], ...] = ()
    sensitive: tuple[str, ...] = ()

    def get(self, name: str) -> str | None:
        """Return a property."""
        return dict(self.properties).get(name)

    def with_property(self, name: str, value: str | None) -> "Metadata":
        """Return the metadata with a property set; None removes it."""
        properties = dict(self.properties)
        properties.pop(name, None)
        if value is not None:
            properties[name] = value
        return attrs.evolve(self, properties=_sorted_texts(properties))

    @property
    def is_empty(self) -> bool:
        """True when nothing is said."""
        return not (self.tags or self.properties or self.sensitive)

    def to_json(self) -> dict[str, Any]:
        """Return the JSON form."""
        return without_empty(
            {
                "tags": {path: list(tags) for path, tags in self.tags},
                "properties": dict(self.properties),
                "sensitive": list(self.sensitive),
            }
        )

    def hashed(self) -> bytes:
        """Return the bytes that the GUID is made of."""
        parts = [part for path, tags in self.tags for part in (path, *tags)]
        parts += [part for pair in self.properties for part in pair]
        return "".join((*parts, *self.sensitive)).encode()

    @classmethod
    def from_json(cls, fields: JsonFields) -> "Metadata":
        """Return the metadata of a JSON object."""
        tags = fields.texts_map("tags")
        return cls(
            tuple((path, tuple(sorted(set(tags[path])))) for path in sorted(tags)),
            _sorted_texts(fields.text_map("properties")),
            tuple(sorted(set(fields.texts("sensitive")))),
        )


def merged_metadata(*layers: Metadata | None) -> Metadata | None:
    """Return the union of metadata; a later layer replaces what an earlier one says."""
    given = [layer for layer in layers if layer is not None]
    if not given:
        return None
    tags: dict[str, tuple[str, ...]] = {}
    properties: dict[str, str] = {}
    sensitive: set[str] = set()
    for layer in given:
        tags.update(layer.tags)
        properties.update(layer.properties)
        sensitive.update(layer.sensitive)
    return Metadata(
        tuple(sorted(tags.items())), _sorted_texts(properties), tuple(sorted(sensitive))
    )


@attrs.frozen
class Rule:
    """One rule of a data contract."""

    name: str | None
    doc: str | None
    kind: str | None
    mode: str | None
    type: str | None
    tags: tuple[str, ...]
    params: tuple[tuple[str, str], ...]
    expr: str | None
    on_success: str | None
    on_failure: str | None
    disabled: bool

    def to_json(self) -> dict[str, Any]:
        """Return the JSON form."""
        return without_empty(
            {
                "name": self.name,
                "doc": self.doc,
                "kind": self.kind,
                "mode": self.mode,
                "type": self.type,
                "tags": list(self.tags),
                "params": dict(self.params),
                "expr": self.expr,
                "onSuccess": self.on_success,
                "onFailure": self.on_failure,
                "disabled": self.disabled,
            }
        )

    def hashed(self) -> bytes:
        """Return the bytes that the GUID is made of."""
        named = (self.name, self.doc, self.kind, self.mode, self.type, *self.tags)
        params = (part for pair in self.params for part in pair)
        parts = (*named, *params, self.expr, self.on_success, self.on_failure)
        return "".join(part or "" for part in parts).encode() + b"\x01" * self.disabled

    @classmethod
    def from_json(cls, fields: JsonFields) -> "Rule":
        """Return the rule of a JSON object."""
        return cls(
            name=fields.text("name"),
            doc=fields.text("doc"),
            kind=fields.choice("kind", RULE_KINDS),
            mode=fields.choice("mode", MIGRATION_MODES + DATA_MODES),
            type=fields.text("type"),
            tags=tuple(sorted(set(fields.texts("tags")))),
            params=_sorted_texts(fields.text_map("params")),
            expr=fields.text("expr"),
            on_success=fields.text("onSuccess"),
            on_failure=fields.text("onFailure"),
            disabled=fields.flag("disabled") or False,
        )


@attrs.frozen
class RuleSet:
    """The rules of a schema, by what they apply to."""

    migration_rules: tuple[Rule, ...] = ()
    domain_rules: tuple[Rule, ...] = ()
    encoding_rules: tuple[Rule, ...] = ()
    enable_at: str | None = None

    @property
    def rules(self) -> tuple[Rule, ...]:
        """Return all rules."""
        return self.migration_rules + self.domain_rules + self.encoding_rules

    @property
    def is_empty(self) -> bool:
        """True when there is no rule."""
        return not self.rules and self.enable_at is None

    def to_json(self) -> dict[str, Any]:
        """Return the JSON form."""
        return without_empty(
            {
                "migrationRules": [rule.to_json() for rule in self.migration_rules],
                "domainRules": [rule.to_json() for rule in self.domain_rules],
                "encodingRules": [rule.to_json() for rule in self.encoding_rules],
                "enableAt": self.enable_at,
            }
        )

    def hashed(self) -> bytes:
        """Return the bytes that the GUID is made of."""
        return b"".join(rule.hashed() for rule in self.rules) + (self.enable_at or "").encode()

    @classmethod
    def from_json(cls, fields: JsonFields) -> "RuleSet":
        """Return the rule set of a JSON object."""
        return cls(
            fields.items("migrationRules", Rule.from_json),
            fields.items("domainRules", Rule.from_json),
            fields.items("encodingRules", Rule.from_json),
            fields.text("enableAt"),
        )

    def fault(self) -> str | None:
        """Return what is wrong with the rules, or None."""
        for rules, modes in (
            (self.migration_rules, MIGRATION_MODES),
            (self.domain_rules, DATA_MODES),
            (self.encoding_rules, DATA_MODES),
        ):
            names: set[str] = set()
            for rule in rules:
                if not rule.name or not rule.type:
                    return "a rule must have a name and a type"
                if rule.name in names:
                    return f"rule name '{rule.name}' is used twice"
                if rule.mode not in modes:
                    return f"mode of rule '{rule.name}' must be one of {', '.join(modes)}"
                names.add(rule.name)
        return None


def _merged_rules(layers: list[tuple[Rule, ...]]) -> tuple[Rule, ...]:
    rules: dict[str | None, Rule] = {}
    for layer in layers:
        for rule in layer:
            rules.pop(rule.name, None)
            rules[rule.name] = rule
    return tuple(rules.values())


def merged_rule_set(*layers: RuleSet | None) -> RuleSet | None:
    """Return the union of rule sets; a later rule replaces an earlier one of its name."""
    given = [layer for layer in layers if layer is not None]
    if not given:
        return None
    return RuleSet(
        _merged_rules([layer.migration_rules for layer in given]),
        _merged_rules([layer.domain_rules for layer in given]),
        _merged_rules([layer.encoding_rules for layer in given]),
        next((layer.enable_at for layer in reversed(given) if layer.enable_at), None),
    )


@attrs.frozen(slots=True)
class SchemaContent:
    """A schema without its place: what shares an id within a context, and has a GUID."""

    schema_type: str
    text: str
    references: tuple[SchemaReference, ...] = ()
    metadata: Metadata | None = None
    rule_set: RuleSet | None = None

    def guid(self) -> str:
        """Return the GUID: the same for the same content in every registry."""
        digest = hashlib.md5(self.text.encode(), usedforsecurity=False)
        for reference in self.references:
            digest.update(reference.name.encode() + reference.subject.encode())
            digest.update((reference.version & 0xFFFFFFFF).to_bytes(4, "big"))
        if self.metadata is not None:
            digest.update(b"\x01" + self.metadata.hashed())
        if self.rule_set is not None:
            digest.update(b"\x01" + self.rule_set.hashed())
        return str(uuid.UUID(bytes=digest.digest()))

    def unpinned(self) -> "SchemaContent":
        """Return the content without the property that pins its version."""
        if self.metadata is None or self.metadata.get(VERSION_PROPERTY) is None:
            return self
        metadata = self.metadata.with_property(VERSION_PROPERTY, None)
        return attrs.evolve(self, metadata=None if metadata.is_empty else metadata)

    def to_json(self) -> dict[str, Any]:
        """Return the fields of the JSON form, in the order of records and answers."""
        return without_empty(
            {
                "schemaType": self.schema_type,
                "references": [reference.to_json() for reference in self.references],
                "metadata": None if self.metadata is None else self.metadata.to_json(),
                "ruleSet": None if self.rule_set is None else self.rule_set.to_json(),
            }
        ) | {"schema": self.text}


@attrs.frozen(slots=True)
class SchemaVersion:
    """One version of a subject, as replayed from its record."""

    subject: str
    version: int
    schema_id: int
    guid: str
    content: SchemaContent
    deleted: bool
    timestamp_ms: int

    @property
    def key(self) -> tuple[str, int]:
        """Return subject and version."""
        return self.subject, self.version
