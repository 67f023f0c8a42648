"""Compare arrays: bounds, one schema for all items, or schemas of the first items and the rest.

Paths are those of draft 7 for every draft: the schema of the second item is ``items/1``, that of
the rest ``additionalItems``.
"""

from collections.abc import Iterator

from barnabas.registry.formats.json_schema.json_comparison import Comparison, Path, changed_bounds
from barnabas.registry.formats.json_schema.json_object_compatibility import compare_rest
from barnabas.registry.formats.json_schema.json_types import (
    AnyNode,
    ArrayNode,
    Node,
    NothingNode,
)
from barnabas.registry.formats.schema_format import Incompatibility


def compare_arrays(
    c: Comparison, old: ArrayNode, new: ArrayNode, path: Path
) -> Iterator[Incompatibility]:
    """Yield the differences of two arrays."""
    yield from c.optional(old.items, new.items, (path, "items"))
    yield from _first(c, old, new, path)
    yield from compare_rest(c, old.additional, new.additional, path, "additionalItems")
    yield from compare_rest(c, old.unevaluated, new.unevaluated, path, "unevaluatedItems")
    yield from c.optional(old.contains, new.contains, (path, "contains"))
    yield from changed_bounds(c, old.bounds, new.bounds, path)
    if new.is_unique and not old.is_unique:
        yield c.difference("UNIQUE_ITEMS_ADDED", (path, "uniqueItems"), None, True)


def _first(c: Comparison, old: ArrayNode, new: ArrayNode, path: Path) -> Iterator[Incompatibility]:
    before, after = old.first, new.first
    for index in range(max(len(before), len(after))):
        place = ((path, "items"), str(index))
        if index < len(before) and index < len(after):
            yield from c.differences(before[index], after[index], place)
        elif index < len(before):
            yield from _removed(c, before[index], new, place)
        else:
            yield from _added(c, after[index], old, place)


def _removed(c: Comparison, before: Node, new: ArrayNode, place: Path) -> Iterator[Incompatibility]:
    if _is_open(new):
        return
    cover = new.additional.schema or new.unevaluated.schema
    if cover is None:
        if not isinstance(before, NothingNode):
            yield c.difference("ITEM_REMOVED_FROM_CLOSED_CONTENT_MODEL", place, None, None)
        return
    rule = "ITEM_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL"
    yield from _covered(c, before, cover, rule, place)


def _added(c: Comparison, after: Node, old: ArrayNode, place: Path) -> Iterator[Incompatibility]:
    if _is_open(old):
        if not isinstance(after, AnyNode):
            yield c.difference("ITEM_ADDED_TO_OPEN_CONTENT_MODEL", place, None, None)
        return
    cover = old.additional.schema or old.unevaluated.schema
    if cover is not None:
        rule = "ITEM_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL"
        yield from _covered(c, cover, after, rule, place)


def _covered(
    c: Comparison, old: Node, new: Node, rule: str, place: Path
) -> Iterator[Incompatibility]:
    is_covered = True
    for difference in c.differences(old, new, place):
        is_covered = False
        yield difference
    if not is_covered:
        yield c.difference(rule, place, None, None)


def _is_open(node: ArrayNode) -> bool:
    return (
        node.additional.is_allowed
        and node.additional.schema is None
        and node.unevaluated.is_allowed
        and node.unevaluated.schema is None
    )
