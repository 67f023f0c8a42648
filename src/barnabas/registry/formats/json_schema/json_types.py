"""The typed tree of a JSON schema.

A schema object becomes one node per kind of value that it constrains. Keywords of several kinds
beside each other, or a type beside ``enum``, become an ``allOf``; a list of types becomes an
``anyOf``. References are nodes whose target is set when the whole text has been read, so the tree
is a graph with cycles wherever a schema is recursive. Nodes are compared by identity.
"""

from fractions import Fraction
from typing import Any

import attrs


@attrs.define(eq=False)
class Node:
    """Any schema, with what its schema object says about the default and the type in Connect."""

    has_default: bool = attrs.field(default=False, kw_only=True)
    connect_type: str | None = attrs.field(default=None, kw_only=True)


@attrs.define(eq=False)
class AnyNode(Node):
    """``true`` or ``{}``: takes every value."""


@attrs.define(eq=False)
class NothingNode(Node):
    """``false``: takes no value."""


@attrs.define(eq=False)
class BooleanNode(Node):
    """A boolean."""


@attrs.define(eq=False)
class NullNode(Node):
    """The null value."""


@attrs.define(eq=False)
class StringNode(Node):
    """A string with its bounds."""

    bounds: dict[str, Fraction] = attrs.field(factory=dict[str, Fraction])
    pattern: str | None = None


@attrs.define(eq=False)
class NumberNode(Node):
    """A number with its bounds."""

    is_integer: bool = False
    bounds: dict[str, Fraction] = attrs.field(factory=dict[str, Fraction])
    multiple_of: Fraction | None = None


@attrs.define(eq=False)
class EnumNode(Node):
    """One of some values: ``enum``, or ``const`` with a single one. Values are hashable keys."""

    keyword: str
    values: frozenset[Any]


@attrs.define(eq=False)
class NotNode(Node):
    """Every value that another schema does not take."""

    negated: Node


@attrs.define(eq=False)
class ConditionalNode(Node):
    """``if`` with ``then`` and ``else``; None where absent."""

    condition: Node
    then: Node | None
    otherwise: Node | None


@attrs.define(eq=False)
class CombinedNode(Node):
    """A combination of schemas; ``criterion`` is ``allOf``, ``anyOf`` or ``oneOf``."""

    criterion: str
    branches: list[Node]


@attrs.define(eq=False)
class ReferenceNode(Node):
    """A reference. Its target, once reading is complete, is not a reference itself."""

    target: Node = attrs.field(factory=AnyNode)


@attrs.define(eq=False)
class Rest:
    """The schema for what is not listed: additional or unevaluated properties or items.

    There is no ``schema`` where the keyword is absent, true or false; ``is_allowed`` is false
    for false.
    """

    is_allowed: bool = True
    schema: Node | None = None


@attrs.define(eq=False)
class ObjectNode(Node):
    """An object: its properties, which of them are required, and the rest."""

    properties: dict[str, Node] = attrs.field(factory=dict[str, Node])
    required: frozenset[str] = frozenset()
    patterns: dict[str, Node] = attrs.field(factory=dict[str, Node])
    additional: Rest = attrs.field(factory=Rest)
    unevaluated: Rest = attrs.field(factory=Rest)
    names: Node | None = None
    required_with: dict[str, frozenset[str]] = attrs.field(factory=dict[str, frozenset[str]])
    schema_with: dict[str, Node] = attrs.field(factory=dict[str, Node])
    bounds: dict[str, Fraction] = attrs.field(factory=dict[str, Fraction])


@attrs.define(eq=False)
class ArrayNode(Node):
    """An array: one schema for all items, or one for each of the first, and the rest."""

    items: Node | None = None
    first: list[Node] = attrs.field(factory=list[Node])
    additional: Rest = attrs.field(factory=Rest)
    unevaluated: Rest = attrs.field(factory=Rest)
    contains: Node | None = None
    is_unique: bool = False
    bounds: dict[str, Fraction] = attrs.field(factory=dict[str, Fraction])
