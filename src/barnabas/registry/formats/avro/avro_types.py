"""The typed tree of an Avro schema.

Types are compared by identity, as the compatibility check remembers pairs of nodes. A named type
occurs once in the tree and is shared by every place that refers to it, so the tree is a graph
with cycles wherever a schema is recursive.
"""

from typing import Any

import attrs

PRIMITIVES = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string"})

# Names that are written in full even inside their own namespace: a short one would read as a type.
TYPE_NAMES = PRIMITIVES | {"record", "enum", "array", "map", "union", "fixed"}


@attrs.frozen
class Name:
    """The name of a record, enum or fixed, with its namespace (None for the null namespace)."""

    simple: str
    namespace: str | None

    @property
    def full(self) -> str:
        """Return the name with its namespace."""
        return f"{self.namespace}.{self.simple}" if self.namespace else self.simple

    def within(self, namespace: str | None) -> str:
        """Return the shortest form that means this name inside of a namespace."""
        if self.namespace is not None and self.namespace == namespace:
            return self.full if self.simple in TYPE_NAMES else self.simple
        return self.full


@attrs.define(eq=False)
class AvroType:
    """Any type. ``props`` are the attributes that Avro does not define, in order."""

    props: dict[str, Any] = attrs.field(factory=dict[str, Any], kw_only=True)

    @property
    def kind(self) -> str:
        """Return the name of the type as schemas write it (``record``, ``long``)."""
        raise NotImplementedError

    @property
    def branch_name(self) -> str:
        """Return the key of this type in a union: the full name, or the kind."""
        return self.kind


@attrs.define(eq=False)
class Primitive(AvroType):
    """One of the eight primitive types."""

    primitive: str

    @property
    def kind(self) -> str:
        """Return the primitive's name."""
        return self.primitive


@attrs.define(eq=False)
class ArrayType(AvroType):
    """An array of items of one type."""

    items: AvroType

    @property
    def kind(self) -> str:
        """Return ``array``."""
        return "array"


@attrs.define(eq=False)
class MapType(AvroType):
    """A map from strings to values of one type."""

    values: AvroType

    @property
    def kind(self) -> str:
        """Return ``map``."""
        return "map"


@attrs.define(eq=False)
class UnionType(AvroType):
    """A choice of types, none of them a union."""

    branches: list[AvroType]

    @property
    def kind(self) -> str:
        """Return ``union``."""
        return "union"


@attrs.define(eq=False)
class NamedType(AvroType):
    """A type that can be referred to by its name."""

    name: Name
    doc: str | None
    aliases: tuple[Name, ...]

    @property
    def branch_name(self) -> str:
        """Return the full name."""
        return self.name.full

    @property
    def alias_names(self) -> frozenset[str]:
        """Return the aliases as they are matched against the full name of a writer's type.

        An alias in the null namespace of a type in another one is written with a leading dot, and
        so matches nothing: Java's behaviour.
        """
        return frozenset(
            f".{alias.simple}" if alias.namespace is None and self.name.namespace else alias.full
            for alias in self.aliases
        )


@attrs.define(eq=False)
class Field:
    """A field of a record. ``has_default`` separates a default of null from none."""

    name: str
    type: AvroType
    doc: str | None
    has_default: bool
    default: Any
    order: str
    aliases: tuple[str, ...]
    props: dict[str, Any]


@attrs.define(eq=False)
class RecordType(NamedType):
    """A record, or an error of a protocol."""

    is_error: bool = False
    fields: list[Field] = attrs.field(factory=list[Field])
    by_name: dict[str, Field] = attrs.field(factory=dict[str, Field])

    @property
    def kind(self) -> str:
        """Return ``record``, for an error as well."""
        return "record"


@attrs.define(eq=False)
class EnumType(NamedType):
    """An enumeration of symbols, perhaps with one for unknown symbols."""

    symbols: tuple[str, ...] = ()
    default: str | None = None

    @property
    def kind(self) -> str:
        """Return ``enum``."""
        return "enum"


@attrs.define(eq=False)
class FixedType(NamedType):
    """A fixed number of bytes."""

    size: int = 0

    @property
    def kind(self) -> str:
        """Return ``fixed``."""
        return "fixed"


@attrs.define(eq=False)
class Unresolved(AvroType):
    """A reference to a type that has not been defined yet. None is left after reading."""

    full_name: str = ""

    @property
    def kind(self) -> str:
        """Return ``unresolved``."""
        return "unresolved"

    @property
    def branch_name(self) -> str:
        """Return the name that is referred to."""
        return self.full_name
