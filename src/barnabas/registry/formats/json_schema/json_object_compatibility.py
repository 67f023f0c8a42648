"""Compare objects: required properties, properties, dependencies, and the rest.

The content model decides about properties that only one side lists. It is open when every other
property is taken, closed when none is, and partially open when others are taken by a schema
(``patternProperties``, ``additionalProperties``, ``unevaluatedProperties``).
"""

from collections.abc import Iterator
from typing import Any

from barnabas.registry.formats.java_hash_order import hash_order
from barnabas.registry.formats.json_schema.json_comparison import Comparison, Path, changed_bounds
from barnabas.registry.formats.json_schema.json_shapes import compiled_pattern
from barnabas.registry.formats.json_schema.json_types import (
    AnyNode,
    Node,
    NothingNode,
    ObjectNode,
    Rest,
)
from barnabas.registry.formats.schema_format import Incompatibility


def compare_objects(
    c: Comparison, old: ObjectNode, new: ObjectNode, path: Path
) -> Iterator[Incompatibility]:
    """Yield the differences of two objects."""
    yield from _required(c, old, new, path)
    yield from _properties(c, old, new, path)
    yield from _dependencies(c, old, new, path)
    yield from compare_rest(c, old.additional, new.additional, path, "additionalProperties")
    yield from compare_rest(c, old.unevaluated, new.unevaluated, path, "unevaluatedProperties")
    yield from changed_bounds(c, old.bounds, new.bounds, path)
    yield from c.optional(old.names, new.names, (path, "propertyNames"))


def _required(
    c: Comparison, old: ObjectNode, new: ObjectNode, path: Path
) -> Iterator[Incompatibility]:
    for name in hash_order(old.properties, ()):
        if name in old.required or name not in new.required:
            continue
        if name in new.properties and new.properties[name].has_default:
            continue
        yield c.difference("REQUIRED_ATTRIBUTE_ADDED", ((path, "required"), name), None, name)


def _properties(
    c: Comparison, old: ObjectNode, new: ObjectNode, path: Path
) -> Iterator[Incompatibility]:
    c.count_steps(len(old.properties) + len(new.properties))
    for name in hash_order(old.properties, new.properties):
        before, after = old.properties.get(name), new.properties.get(name)
        place = ((path, "properties"), name)
        if before is not None and after is not None:
            yield from c.differences(before, after, place)
        elif before is not None:
            yield from _removed(c, name, before, new, place)
        elif after is not None:
            yield from _added(c, name, after, old, new, place)


def _removed(
    c: Comparison, name: str, before: Node, new: ObjectNode, place: Path
) -> Iterator[Incompatibility]:
    if _is_open(new):
        return
    cover = _cover(c, new, name)
    if cover is None:
        if not isinstance(before, NothingNode):
            yield c.difference("PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL", place, name, None)
        return
    rule = "PROPERTY_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL"
    yield from _covered(c, before, cover, rule, place)


def _added(
    c: Comparison, name: str, after: Node, old: ObjectNode, new: ObjectNode, place: Path
) -> Iterator[Incompatibility]:
    is_required = name in new.required
    if _is_open(old):
        if isinstance(after, AnyNode):
            return
        kind = "OPTIONAL"
        if is_required:
            kind = "REQUIRED_PROPERTY_WITH_DEFAULT" if after.has_default else "REQUIRED"
        rule = f"{kind}_PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL"
        yield c.difference(rule.replace("DEFAULT_PROPERTY", "DEFAULT"), place, None, name)
        return
    cover = _cover(c, old, name)
    if cover is not None:
        rule = "PROPERTY_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL"
        yield from _covered(c, cover, after, rule, place)
    if is_required and not after.has_default:
        yield c.difference("REQUIRED_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL", place, None, name)


def _covered(
    c: Comparison, old: Node, new: Node, rule: str, place: Path
) -> Iterator[Incompatibility]:
    is_covered = True
    for difference in c.differences(old, new, place):
        is_covered = False
        yield difference
    if not is_covered:
        yield c.difference(rule, place, None, None)


def _is_open(node: ObjectNode) -> bool:
    return (
        not node.patterns
        and node.additional.is_allowed
        and node.additional.schema is None
        and node.unevaluated.is_allowed
        and node.unevaluated.schema is None
    )


def _cover(c: Comparison, node: ObjectNode, name: str) -> Node | None:
    """Return the schema for a property that an object does not list, None when it has none."""
    for pattern, schema in node.patterns.items():
        c.count_steps(1)
        compiled = compiled_pattern(pattern)
        if compiled is not None and compiled.search(name):
            return schema
    return node.additional.schema or node.unevaluated.schema


def _dependencies(
    c: Comparison, old: ObjectNode, new: ObjectNode, path: Path
) -> Iterator[Incompatibility]:
    place = (path, "dependencies")
    for name in hash_order(old.required_with, new.required_with):
        if name not in new.required_with:
            continue
        needed = new.required_with[name]
        before = old.required_with.get(name)
        if before is None:
            yield c.difference("DEPENDENCY_ARRAY_ADDED", (place, name), None, sorted(needed))
        elif not needed <= before:
            rule = "DEPENDENCY_ARRAY_EXTENDED" if before < needed else "DEPENDENCY_ARRAY_CHANGED"
            yield c.difference(rule, (place, name), sorted(before), sorted(needed))
    for name in hash_order(old.schema_with, new.schema_with):
        if name not in new.schema_with:
            continue
        schema = new.schema_with[name]
        if name in old.schema_with:
            yield from c.differences(old.schema_with[name], schema, (place, name))
        else:
            yield c.difference("DEPENDENCY_SCHEMA_ADDED", (place, name), None, None)


def compare_rest(
    c: Comparison, old: Rest, new: Rest, path: Path, keyword: str
) -> Iterator[Incompatibility]:
    """Yield the differences of what is accepted beside the listed properties or items."""
    place = (path, keyword)
    name = "".join(f"_{char}" if char.isupper() else char for char in keyword).upper()
    if old.schema is not None and new.schema is not None:
        yield from c.differences(old.schema, new.schema, place)
    elif not old.is_allowed:
        return
    elif not new.is_allowed:
        yield c.difference(f"{name}_REMOVED", place, _said(old), False)
    elif new.schema is not None:
        yield c.difference(f"{name}_NARROWED", place, _said(old), _said(new))


def _said(rest: Rest) -> Any:
    return rest.is_allowed if rest.schema is None else "schema"
