"""Schemas with values that fit them, for properties of converters."""

from decimal import Decimal
from typing import Any
from zlib import crc32

import attrs
from hypothesis import strategies as st

from barnabas.pipeline.data import connect_schema as s
from barnabas.pipeline.data.connect_schema import Schema, Struct, Type
from barnabas.pipeline.data.java_values import EpochMillis, Float32

NAMES = st.from_regex(r"[a-z][a-z0-9_]{0,5}", fullmatch=True).filter(lambda name: "__" not in name)
DAY_MS = 86_400_000

SCALARS = (
    s.INT8, s.INT16, s.INT32, s.INT64, s.FLOAT32, s.FLOAT64, s.BOOLEAN, s.STRING, s.BYTES,
    s.DATE, s.TIME, s.TIMESTAMP, s.decimal_schema(2),
)  # fmt: skip


def _integer(bits: int) -> st.SearchStrategy[int]:
    return st.integers(-(1 << (bits - 1)), (1 << (bits - 1)) - 1)


def _plain(schema: Schema) -> st.SearchStrategy[Any]:
    if schema.name == s.DATE_NAME:
        return st.integers(-700_000, 2_000_000).map(lambda day: EpochMillis(day * DAY_MS))
    if schema.name == s.TIME_NAME:
        return st.integers(0, DAY_MS - 1).map(EpochMillis)
    if schema.name == s.TIMESTAMP_NAME:
        return st.integers(-62_135_596_800_000, 253_402_300_799_999).map(EpochMillis)
    if schema.name == s.DECIMAL_NAME:
        return st.integers(-(10**20), 10**20).map(lambda number: Decimal(f"{number}E-2"))
    match schema.type:
        case Type.FLOAT32:
            return st.floats(width=32, allow_nan=False, allow_infinity=False).map(Float32)
        case Type.FLOAT64:
            return st.floats(allow_nan=False, allow_infinity=False)
        case Type.BOOLEAN:
            return st.booleans()
        case Type.STRING:
            return st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
        case Type.BYTES:
            return st.binary(max_size=5)
        case _:
            return _integer({"INT8": 8, "INT16": 16, "INT32": 32}.get(schema.type, 64))


def values(schema: Schema) -> st.SearchStrategy[Any]:
    """Return values of a schema."""
    if schema.type is Type.ARRAY:
        found: st.SearchStrategy[Any] = st.lists(values(part(schema.value_schema)), max_size=3)
    elif schema.type is Type.MAP:
        keys, each = values(part(schema.key_schema)), values(part(schema.value_schema))
        found = st.dictionaries(keys, each, max_size=3)
    elif schema.type is Type.STRUCT:
        parts = [values(field.schema) for field in schema.fields]
        found = st.tuples(*parts).map(lambda each: Struct(schema, list(each)))
    else:
        found = _plain(schema)
    return st.none() | found if schema.optional else found


def part(schema: Schema | None) -> Schema:
    assert schema is not None
    return schema


@st.composite
def schemas(draw: st.DrawFn, *, nulls_in_arrays: bool = True, depth: int = 2) -> Schema:
    """Return a schema of any kind."""
    kind = draw(
        st.sampled_from(("scalar", "scalar", "array", "map", "struct") if depth else ("scalar",))
    )
    is_optional = draw(st.booleans())
    if kind == "scalar":
        return attrs.evolve(draw(st.sampled_from(SCALARS)), optional=is_optional)
    if kind == "struct":
        found = draw(structs(nulls_in_arrays=nulls_in_arrays, depth=depth - 1))
        return attrs.evolve(found, optional=is_optional)
    inner = draw(
        schemas(nulls_in_arrays=nulls_in_arrays, depth=0 if not nulls_in_arrays else depth - 1)
    )
    if not nulls_in_arrays:
        inner = attrs.evolve(inner, optional=False)
    if kind == "array":
        return s.array_schema(inner, optional=is_optional)
    keys = draw(st.sampled_from((s.STRING, s.INT32, s.INT64)))
    return s.map_schema(keys, inner, optional=is_optional)


@st.composite
def structs(draw: st.DrawFn, *, nulls_in_arrays: bool = True, depth: int = 2) -> Schema:
    """Return the schema of a struct, whose name follows from its fields."""
    names = draw(st.lists(NAMES, unique_by=lambda name: name.replace("_", ""), max_size=5))
    fields = [(name, draw(schemas(nulls_in_arrays=nulls_in_arrays, depth=depth))) for name in names]
    number = crc32(repr(fields).encode())
    return s.struct_schema(fields, name=f"a.b.Row{number}")


@st.composite
def rows(draw: st.DrawFn, *, nulls_in_arrays: bool = True) -> tuple[Schema, Struct]:
    """Return a struct's schema and a value of it."""
    schema = draw(structs(nulls_in_arrays=nulls_in_arrays))
    return schema, draw(values(schema))
