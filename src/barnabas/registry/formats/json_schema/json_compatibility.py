"""Check whether a JSON schema takes every value that another one takes.

The comparison is of schemas, not of values: each pair of nodes is compared keyword by keyword, and
a difference is listed unless it can only widen what is accepted. The rules, their order and
their paths are those of the Java registry. A path is a JSON pointer with ``#`` into both schemas.

Comparisons are lazy: one for a verdict only stops at the first difference.
"""

from collections.abc import Callable, Iterator
from typing import Any

from barnabas.registry.formats.json_schema.json_array_compatibility import compare_arrays
from barnabas.registry.formats.json_schema.json_combined_compatibility import (
    compare_combined,
    compare_one_sided,
)
from barnabas.registry.formats.json_schema.json_comparison import Comparison, Path, changed_bounds
from barnabas.registry.formats.json_schema.json_object_compatibility import compare_objects
from barnabas.registry.formats.json_schema.json_types import (
    AnyNode,
    ArrayNode,
    BooleanNode,
    CombinedNode,
    ConditionalNode,
    EnumNode,
    Node,
    NothingNode,
    NotNode,
    NullNode,
    NumberNode,
    ObjectNode,
    StringNode,
)
from barnabas.registry.formats.schema_format import CompatibilityPolicy, Incompatibility


def check_json(reader: Node, writer: Node, policy: CompatibilityPolicy) -> list[Incompatibility]:
    """Return why the reader refuses values that the writer accepts, empty when it does not.

    Raises SchemaTooComplexError when the comparison takes too many steps.
    """
    comparison = Comparison(policy, compare_nodes)
    return list(comparison.differences(writer, reader, None))


def compare_nodes(c: Comparison, old: Node, new: Node, path: Path) -> Iterator[Incompatibility]:
    """Yield the differences of two schemas, references already followed."""
    if isinstance(old, NothingNode) or isinstance(new, AnyNode):
        return
    if (old.connect_type == "bytes") != (new.connect_type == "bytes"):
        yield c.difference("TYPE_CHANGED", path, old.connect_type, new.connect_type)
        return
    if isinstance(old, CombinedNode) and isinstance(new, CombinedNode):
        yield from compare_combined(c, old, new, path)
    elif isinstance(old, CombinedNode) or isinstance(new, CombinedNode):
        yield from compare_one_sided(c, old, new, path)
    elif type(old) is not type(new) or _is_const(old) != _is_const(new):
        yield c.difference("TYPE_CHANGED", path, kind_of(old), kind_of(new))
    else:
        compare = _COMPARE.get(type(old))
        if compare is not None:
            yield from compare(c, old, new, path)


def _is_const(node: Node) -> bool:
    """True for ``const``, which is never compared with ``enum``, not even of the same values."""
    return isinstance(node, EnumNode) and node.keyword == "const"


def kind_of(node: Node) -> str:
    """Return the name of what a schema describes, for messages."""
    if isinstance(node, NumberNode):
        return "integer" if node.is_integer else "number"
    if isinstance(node, EnumNode):
        return node.keyword
    if isinstance(node, CombinedNode):
        return node.criterion
    return _KINDS[type(node)]


_KINDS: dict[type[Node], str] = {
    AnyNode: "true",
    NothingNode: "false",
    BooleanNode: "boolean",
    NullNode: "null",
    StringNode: "string",
    NotNode: "not",
    ConditionalNode: "if",
    ObjectNode: "object",
    ArrayNode: "array",
}


def _strings(c: Comparison, old: StringNode, new: StringNode, path: Path) -> Iterator[Any]:
    yield from changed_bounds(c, old.bounds, new.bounds, path)
    if old.pattern != new.pattern and new.pattern is not None:
        rule = "PATTERN_ADDED" if old.pattern is None else "PATTERN_CHANGED"
        yield c.difference(rule, (path, "pattern"), old.pattern, new.pattern)


def _numbers(c: Comparison, old: NumberNode, new: NumberNode, path: Path) -> Iterator[Any]:
    yield from changed_bounds(c, old.bounds, new.bounds, path)
    before, after = old.multiple_of, new.multiple_of
    if after is not None and before != after:
        if before is None:
            rule = "MULTIPLE_OF_ADDED"
        elif (before / after).denominator == 1:
            rule = None
        elif (after / before).denominator == 1:
            rule = "MULTIPLE_OF_EXPANDED"
        else:
            rule = "MULTIPLE_OF_CHANGED"
        if rule is not None:
            yield c.difference(rule, (path, "multipleOf"), before, after)
    if new.is_integer and not old.is_integer:
        yield c.difference("TYPE_NARROWED", path, "number", "integer")


def _enums(c: Comparison, old: EnumNode, new: EnumNode, path: Path) -> Iterator[Any]:
    c.count_steps(len(old.values) // 16)
    if old.values <= new.values:
        return
    rule = "ENUM_ARRAY_NARROWED" if new.values < old.values else "ENUM_ARRAY_CHANGED"
    yield c.difference(rule, (path, new.keyword), None, None)


def _nots(c: Comparison, old: NotNode, new: NotNode, path: Path) -> Iterator[Any]:
    if not c.is_compatible(new.negated, old.negated):
        yield c.difference("NOT_TYPE_EXTENDED", (path, "not"), None, None)


def _conditionals(
    c: Comparison, old: ConditionalNode, new: ConditionalNode, path: Path
) -> Iterator[Any]:
    yield from c.optional(old.condition, new.condition, (path, "if"))
    yield from c.optional(old.then, new.then, (path, "then"))
    yield from c.optional(old.otherwise, new.otherwise, (path, "else"))


_COMPARE: dict[type[Node], Callable[[Comparison, Any, Any, Path], Iterator[Incompatibility]]] = {
    StringNode: _strings,
    NumberNode: _numbers,
    EnumNode: _enums,
    NotNode: _nots,
    ConditionalNode: _conditionals,
    ObjectNode: compare_objects,
    ArrayNode: compare_arrays,
}
