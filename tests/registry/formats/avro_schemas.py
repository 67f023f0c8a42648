"""Random Avro schemas, and random changes of them, for property tests."""

import copy
import itertools
from typing import Any

from hypothesis import strategies as st

PRIMITIVES = ["null", "boolean", "int", "long", "float", "double", "bytes", "string"]
DEFAULTS: dict[str, Any] = {
    "null": None,
    "boolean": True,
    "int": 1,
    "long": 2,
    "float": 1.5,
    "double": 2.5,
    "bytes": "b",
    "string": "s",
}
SYMBOLS = st.lists(st.sampled_from("ABCDEF"), min_size=1, max_size=4, unique=True)


@st.composite
def avro_schemas(draw: st.DrawFn) -> Any:
    """Draw a valid schema whose names are unique and sometimes referred to again."""
    return _Drawing(draw).type(3)


class _Drawing:
    def __init__(self, draw: st.DrawFn) -> None:
        self.draw = draw
        self.numbers = itertools.count(1)
        self.names: list[str] = []

    def type(self, depth: int, *, union: bool = True) -> Any:
        kinds = ["primitive", "primitive", "enum", "fixed"]
        kinds += ["reference"] if self.names else []
        kinds += ["record", "array", "map"] if depth else []
        kinds += ["union"] if union and depth else []
        return getattr(self, f"_{self.draw(st.sampled_from(kinds))}")(depth)

    def _primitive(self, _depth: int) -> Any:
        name = self.draw(st.sampled_from(PRIMITIVES))
        if name == "long" and self.draw(st.booleans()):
            return {"type": "long", "logicalType": "timestamp-millis"}
        return name

    def _name(self, letter: str) -> dict[str, Any]:
        name = f"{letter}{next(self.numbers)}"
        return {"name": name} | self.draw(st.sampled_from([{}, {}, {"doc": "d"}, {"prop": [1]}]))

    def _reference(self, _depth: int) -> Any:
        return self.draw(st.sampled_from(self.names))

    def _enum(self, _depth: int) -> Any:
        symbols = self.draw(SYMBOLS)
        enum = {"type": "enum", **self._name("E"), "symbols": symbols}
        if self.draw(st.booleans()):
            enum["default"] = symbols[0]
        self.names.append(enum["name"])
        return enum

    def _fixed(self, _depth: int) -> Any:
        fixed = {"type": "fixed", **self._name("F"), "size": self.draw(st.integers(1, 3))}
        self.names.append(fixed["name"])
        return fixed

    def _array(self, depth: int) -> Any:
        return {"type": "array", "items": self.type(depth - 1)}

    def _map(self, depth: int) -> Any:
        return {"type": "map", "values": self.type(depth - 1)}

    def _union(self, depth: int) -> Any:
        branches: dict[str, Any] = {}
        for _ in range(self.draw(st.integers(1, 3))):
            known = len(self.names)
            branch = self.type(depth - 1, union=False)
            if branches.setdefault(_branch_name(branch), branch) is not branch:
                del self.names[known:]
        return list(branches.values())

    def _record(self, depth: int) -> Any:
        record: dict[str, Any] = {"type": "record", **self._name("R"), "fields": []}
        for index in range(self.draw(st.integers(0, 4))):
            field = {"name": f"f{index}", "type": self.type(depth - 1)}
            if isinstance(field["type"], str) and field["type"] in DEFAULTS:
                field |= self.draw(st.sampled_from([{}, {"default": DEFAULTS[field["type"]]}]))
            record["fields"].append(field)
        self.names.append(record["name"])
        return record


def _branch_name(branch: Any) -> str:
    return branch.get("name", branch["type"]) if isinstance(branch, dict) else branch


@st.composite
def avro_pairs(draw: st.DrawFn) -> tuple[Any, Any]:
    """Draw a schema and a changed copy of it."""
    old = draw(avro_schemas())
    new = copy.deepcopy(old)
    for _ in range(draw(st.integers(0, 3))):
        new = _changed(draw, new)
    return old, new


def _nodes(schema: Any, holder: Any = None, key: Any = None) -> Any:
    yield schema, holder, key
    if isinstance(schema, list):
        for index, branch in enumerate(schema):
            yield from _nodes(branch, schema, index)
    elif isinstance(schema, dict):
        for key in ("items", "values"):
            if key in schema:
                yield from _nodes(schema[key], schema, key)
        for field in schema.get("fields", ()):
            yield from _nodes(field["type"], field, "type")


def _changed(draw: st.DrawFn, schema: Any) -> Any:
    node, holder, key = draw(st.sampled_from(list(_nodes(schema))))
    kind = node.get("type") if isinstance(node, dict) else type(node).__name__
    if kind == "record" and draw(st.booleans()):
        _change_record(draw, node)
    elif kind == "enum":
        node["symbols"] = draw(SYMBOLS)
        node.pop("default", None)
        if draw(st.booleans()):
            node["default"] = node["symbols"][0]
    elif kind == "fixed":
        node["size"] += draw(st.integers(0, 1))
    elif kind == "list" and len(node) > 1:
        index = draw(st.integers(0, len(node) - 1))
        if isinstance(node[index], str):
            node.pop(index)
    elif kind == "str" and isinstance(holder, dict) and node in DEFAULTS:
        holder[key] = draw(
            st.sampled_from([*PRIMITIVES, [node, "null"] if node != "null" else "int"])
        )
        holder.pop("default", None)
    elif kind == "str" and holder is None:
        return draw(st.sampled_from(PRIMITIVES))
    return schema


def _change_record(draw: st.DrawFn, record: dict[str, Any]) -> None:
    fields = record["fields"]
    choice = draw(st.sampled_from(["add", "add default", "remove", "rename", "alias", "shuffle"]))
    if choice.startswith("add"):
        new = {"name": f"n{draw(st.integers(0, 99))}", "type": "int"}
        if all(f["name"] != new["name"] for f in fields):
            fields.append(new | ({"default": 0} if "default" in choice else {}))
    elif choice == "rename":
        record["aliases"] = [record["name"]] if draw(st.booleans()) else []
        record["name"] += "x"
    elif fields and choice == "remove":
        field = fields[draw(st.integers(0, len(fields) - 1))]
        if not isinstance(field["type"], dict | list):
            fields.remove(field)
    elif fields and choice == "alias":
        field = fields[0]
        if all(f["name"] != field["name"] + "a" for f in fields):
            field["aliases"] = [field["name"]]
            field["name"] += "a"
    elif choice == "shuffle" and not any(isinstance(f["type"], dict | list) for f in fields):
        record["fields"] = draw(st.permutations(fields))
