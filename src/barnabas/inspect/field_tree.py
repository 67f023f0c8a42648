"""The inspector's result: a tree of named values, each with the position of its bytes."""

from __future__ import annotations

from typing import Any, NamedTuple

from barnabas.inspect.masking import hides, is_secret
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.fields import Kind
from barnabas.protocol.reference import TAGGED, Located
from barnabas.protocol.types import Uuid


class Node(NamedTuple):
    """A field: `start` and `end` are positions within the frame.

    Without `children`, `value` is None, a bool, a number, text or bytes. `note` explains a number
    in words. A hidden value is replaced by a description.
    """

    name: str
    type: str
    start: int
    end: int
    value: Any = None
    children: tuple[Node, ...] | None = None
    note: str = ""
    hidden: bool = False


Around = tuple[dict[str, Any], ...]
"""The plain values of a field's siblings, after those of each enclosing struct."""


class Hook:
    """Decodes bytes fields that contain another format; this base class decodes nothing."""

    def decode(self, field: Located, around: Around) -> Node | None:
        """Return the node of a field, or None for the default one."""
        del field, around
        return None


def struct_nodes(fields: dict[str, Any], hook: Hook, around: Around = ()) -> tuple[Node, ...]:
    """Return the nodes of a struct from `reference.locate`, tagged fields last."""
    section: dict[str | int, Located] = fields.get(TAGGED, {})
    located = [value for value in fields.values() if isinstance(value, Located)]
    around = (*around, {field.name: _plain(field.value) for field in located})
    nodes = [_node(field, hook, around) for field in located]
    nodes += [_tagged(tag, field, hook, around) for tag, field in section.items()]
    return tuple(nodes)


def _plain(value: Any) -> Any:
    return value if isinstance(value, str | int | bytes) else None


def _tagged(tag: str | int, field: Located, hook: Hook, around: Around) -> Node:
    if field.wire is None:
        return Node(f"tag {tag}", "unknown tagged field", field.start, field.end, field.value)
    node = _node(field, hook, around)
    return node._replace(type=f"{node.type}, tag {field.wire.field.tag}")


def _node(field: Located, hook: Hook, around: Around) -> Node:
    wire = field.wire
    if wire is None:
        raise TypeError(f"{field.name} is not declared")
    kind, start, end = _type(field), field.start, field.end
    if field.value is None:
        return Node(field.name, kind, start, end, None)
    if is_secret(wire.field) or hides(field.name, around[-1]):
        return Node(field.name, kind, start, end, _size(field.value), hidden=True)
    found = hook.decode(field, around)
    if found is not None:
        return found
    if wire.kind is Kind.ARRAY:
        children = tuple(
            _element(element, index, hook, around) for index, element in enumerate(field.value)
        )
        return Node(field.name, kind, start, end, None, children)
    if wire.kind is Kind.STRUCT:
        return Node(field.name, kind, start, end, None, struct_nodes(field.value, hook, around))
    value = str(field.value) if isinstance(field.value, Uuid) else field.value
    return Node(field.name, kind, start, end, value, note=_note(field.name, value))


def _element(element: Located, index: int, hook: Hook, around: Around) -> Node:
    wire, value = element.wire, element.value
    if wire is not None and wire.struct is not None:
        children = struct_nodes(value, hook, around)
        return Node(f"[{index}]", wire.field.struct, element.start, element.end, None, children)
    kind = "" if wire is None or wire.field.element is None else wire.field.element.value
    value = str(value) if isinstance(value, Uuid) else value
    return Node(f"[{index}]", kind, element.start, element.end, value)


def _type(field: Located) -> str:
    wire = field.wire
    if wire is None:
        return ""
    words = ["nullable"] if wire.nullable else []
    if wire.compact and wire.kind in (Kind.STRING, Kind.BYTES, Kind.RECORDS, Kind.ARRAY):
        words.append("compact")
    if wire.kind is Kind.ARRAY:
        element = wire.field.struct or (wire.field.element.value if wire.field.element else "")
        words.append(f"array of {element}")
    else:
        words.append(wire.field.struct or wire.kind.value)
    return " ".join(words)


def _size(value: Any) -> str:
    return f"{len(value)} {'characters' if isinstance(value, str) else 'bytes'}, hidden"


def _note(name: str, value: Any) -> str:
    if name.endswith("error_code") and isinstance(value, int):
        try:
            return ErrorCode(value).name
        except ValueError:
            return "no error code of Kafka 4.3"
    return ""
