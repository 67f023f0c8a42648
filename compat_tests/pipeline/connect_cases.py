"""Generated schemas, values, records and configurations for the comparison with Java's Connect."""

import json
from decimal import Decimal
from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from barnabas.pipeline.data import connect_schema as s
from barnabas.pipeline.data.connect_errors import ConnectError
from barnabas.pipeline.data.connect_schema import Schema, Struct, Type
from barnabas.pipeline.data.converters.json_converter import JsonConverter
from barnabas.pipeline.data.converters.json_schemas import schema_text
from barnabas.pipeline.data.converters.json_writers import JsonStyle
from barnabas.pipeline.data.java_values import EpochMillis, Float32, Int8, Int16, Int32
from barnabas.pipeline.data.records import (
    CREATE_TIME,
    ConnectRecord,
    Header,
    SinkRecord,
    SourceRecord,
)

NAMES = ("a", "b", "c", "d.e", "a.b")
TEXTS = st.one_of(
    st.sampled_from(
        ["", "5", "-129", "1.5", "true", "TRUE", "2024-02-29", "2024-01-01T10:00:00.000Z", "1e5"]
    ),
    st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]), max_size=5),
    st.integers(-(2**70), 2**70).map(str),
)
DAYS = st.integers(-40_000, 40_000).map(lambda day: EpochMillis(day * 86_400_000))
TIMES = st.integers(0, 86_400_000).map(EpochMillis)
MOMENTS = st.one_of(
    st.integers(-(2**43), 2**43), st.integers(0, 2**41), st.just(0), st.just(86_400_000)
).map(EpochMillis)
DOUBLES = st.one_of(
    st.floats(allow_nan=False), st.integers(-300, 300).map(float), st.sampled_from([1e20, -1.5])
)
SINGLES = st.one_of(st.floats(width=32, allow_nan=False), st.integers(-300, 300).map(float)).map(
    Float32
)


def integers(bits: int) -> SearchStrategy[int]:
    half = 1 << (bits - 1)
    return st.one_of(st.integers(-half, half - 1), st.integers(-3, 3))


def decimals(scale: int) -> SearchStrategy[Decimal]:
    return st.integers(-(10**20), 10**20).map(
        lambda number: Decimal((int(number < 0), Decimal(abs(number)).as_tuple().digits, -scale))
    )


PRIMITIVES: dict[Type, SearchStrategy[Any]] = {
    Type.INT8: integers(8),
    Type.INT16: integers(16),
    Type.INT32: integers(32),
    Type.INT64: integers(64),
    Type.FLOAT32: SINGLES,
    Type.FLOAT64: DOUBLES,
    Type.BOOLEAN: st.booleans(),
    Type.STRING: TEXTS,
    Type.BYTES: st.binary(max_size=5),
}


def values_of(schema: Schema, *, nulls: bool = True) -> SearchStrategy[Any]:
    """Return values of a schema."""
    found = _values(schema)
    return st.one_of(st.none(), found) if schema.optional and nulls else found


def _values(schema: Schema) -> SearchStrategy[Any]:
    if schema.name == s.DECIMAL_NAME:
        return decimals(int((schema.parameters or {})["scale"]))
    moments = {s.DATE_NAME: DAYS, s.TIME_NAME: TIMES, s.TIMESTAMP_NAME: MOMENTS}
    if schema.name in moments:
        return moments[schema.name]
    if schema.type is Type.ARRAY:
        assert schema.value_schema is not None
        return st.lists(values_of(schema.value_schema), max_size=2)
    if schema.type is Type.MAP:
        assert schema.key_schema is not None
        assert schema.value_schema is not None
        keys = values_of(schema.key_schema, nulls=False)
        return st.dictionaries(keys, values_of(schema.value_schema), max_size=2)
    if schema.type is Type.STRUCT:
        parts = st.tuples(*(values_of(field.schema) for field in schema.fields))
        return parts.map(lambda found: Struct(schema, list(found)))
    return PRIMITIVES[schema.type]


@st.composite
def described(draw: DrawFn, schema: Schema, *, defaults: bool = True) -> Schema:
    """Return a schema, perhaps optional, named, with a default."""
    from attrs import evolve

    schema = evolve(schema, optional=draw(st.booleans()))
    if schema.name is None and draw(st.integers(0, 3)) == 0:
        schema = evolve(
            schema,
            name=draw(st.sampled_from([None, "n.N"])),
            version=draw(st.sampled_from([None, 3])),
            doc=draw(st.sampled_from([None, "text"])),
            parameters=draw(st.sampled_from([None, {"p": "q"}])),
        )
    if defaults and schema.type is not Type.STRUCT and draw(st.integers(0, 3)) == 0:
        schema = evolve(schema, default=draw(_values(schema)))
    return schema


LEAVES = st.sampled_from(
    [
        *(Schema(kind) for kind in PRIMITIVES),
        s.DATE,
        s.TIME,
        s.TIMESTAMP,
        s.decimal_schema(2),
    ]
).flatmap(described)


@st.composite
def schemas(draw: DrawFn, depth: int = 2) -> Schema:
    choice = draw(st.integers(0, 5 if depth else 2))
    if choice <= 2:
        return draw(LEAVES)
    if choice == 3:
        return draw(described(s.array_schema(draw(schemas(depth - 1)))))
    if choice == 4:
        return draw(described(s.map_schema(s.STRING, draw(schemas(depth - 1)))))
    return draw(struct_schemas(depth - 1))


@st.composite
def struct_schemas(draw: DrawFn, depth: int = 1) -> Schema:
    names = draw(st.lists(st.sampled_from(NAMES), unique=True, max_size=4))
    fields = [(name, draw(schemas(depth))) for name in names]
    return draw(described(s.struct_schema(fields)))


SCHEMALESS: SearchStrategy[Any] = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        integers(64),
        integers(8).map(Int8),
        integers(16).map(Int16),
        integers(32).map(Int32),
        DOUBLES,
        SINGLES,
        TEXTS,
        st.binary(max_size=4),
        MOMENTS,
        decimals(1),
    ),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=4)
    ),
    max_leaves=8,
)
SCHEMALESS_MAPS = st.dictionaries(st.sampled_from(NAMES), SCHEMALESS, max_size=4)


@st.composite
def data(draw: DrawFn) -> tuple[Schema | None, Any]:
    """Return a schema, mostly of a struct, and a value; or a value without a schema."""
    choice = draw(st.integers(0, 9))
    if choice == 0:
        return None, draw(SCHEMALESS)
    if choice <= 4:
        return None, draw(SCHEMALESS_MAPS)
    schema = draw(schemas()) if choice == 5 else draw(struct_schemas(2))
    return schema, draw(values_of(schema))


@st.composite
def headers(draw: DrawFn) -> tuple[Header, ...]:
    found: list[Header] = []
    for name in draw(st.lists(st.sampled_from(NAMES[:3]), max_size=2)):
        schema = draw(LEAVES)
        value = draw(values_of(schema))
        found.append(Header(name, schema, value))
    return tuple(found)


@st.composite
def records(draw: DrawFn) -> ConnectRecord:
    topic = draw(st.sampled_from(["t", "orders-eu", "a.b_c"]))
    timestamp = draw(st.one_of(st.none(), st.integers(0, 2**41)))
    key_schema, key = draw(data())
    value_schema, value = draw(data())
    own_headers = draw(headers())
    if draw(st.integers(0, 3)) == 0:
        partition = draw(st.sampled_from([None, 2]))
        return SourceRecord(
            topic, partition, timestamp, key_schema, key, value_schema, value, own_headers, {}, {}
        )
    return SinkRecord(
        topic, 2, timestamp, key_schema, key, value_schema, value, own_headers, 77, CREATE_TIME,
        (topic, 2, 77),
    )  # fmt: skip


FIELD = st.sampled_from((*NAMES, "missing"))
FIELDS = st.lists(FIELD, min_size=1, max_size=3).map(",".join)
BOOLEAN = st.sampled_from(["true", "false"])
CAST_TYPE = st.sampled_from(
    ["int8", "int16", "int32", "int64", "float32", "float64", "boolean", "string", "STRING"]
)
PATTERNS = st.sampled_from(
    [
        "yyyy-MM-dd",
        "yyyy-MM-dd'T'HH:mm:ss.SSS'Z'",
        "yyyyMMddHHmmss",
        "EEE, d MMM yyyy h:mm a",
        "yy/M/d",
        "HH:mm:ss.SSS",
        "yyyy-MM-dd HH:mm:ss Z",
        "yyyy-MM-dd'T'HH:mm:ssXXX",
        "D yyyy G",
        "bad b",
    ]
)


def optional(**choices: SearchStrategy[str]) -> SearchStrategy[dict[str, str]]:
    """Return configurations in which each property may be missing."""
    return st.fixed_dictionaries(
        {}, optional={name.replace("_", "."): value for name, value in choices.items()}
    )


def required(**choices: SearchStrategy[str]) -> SearchStrategy[dict[str, str]]:
    """Return configurations in which a property is seldom missing."""
    full = st.fixed_dictionaries({name.replace("_", "."): v for name, v in choices.items()})
    return st.one_of(*[full] * 15, optional(**choices))


def both(
    first: SearchStrategy[dict[str, str]], second: SearchStrategy[dict[str, str]]
) -> SearchStrategy[dict[str, str]]:
    return st.tuples(first, second).map(lambda pair: pair[0] | pair[1])


NULLS = optional(replace_null_with_default=BOOLEAN)
INSERTED = st.sampled_from(["x", "y!", "z?", "a", "b!"])
SPEC = st.one_of(
    CAST_TYPE,
    st.lists(
        st.tuples(FIELD, CAST_TYPE).map(":".join), min_size=1, max_size=3, unique_by=lambda x: x[:3]
    ).map(",".join),
    st.sampled_from(["", "array", "a:bytes", "a:b:c", "int8,a:int8", "a"]),
)
RENAMES = st.lists(
    st.tuples(FIELD, st.sampled_from(["x", "y", "a"])).map(":".join), max_size=2
).map(",".join)
PATHS = st.sampled_from([*NAMES, "a.a", "a.b.c", "`d.e`", "`d.e`.a", "`a", "", "a.", "b.`d.e`"])
LITERALS = st.one_of(
    TEXTS,
    st.sampled_from(
        ["null", "[1,2]", '["a"]', '{"a":1}', "[]", "{}", "[1,null]", "1.5", "10:11:12.345Z", "{a}"]
    ),
)
REGEXES = st.sampled_from(
    [
        "(.*)",
        "([a-z]+)-(eu|us)",
        "t",
        "(?<n>o).*",
        "a\\.b_(c)",
        "(",
        "\\p{Alpha}+",
        "\\Qa.b\\E.c",
        "o",
    ]
)
REPLACEMENTS = st.sampled_from(["$1", "x-$2", "${n}y", "\\$1", "$", "$9", "plain", "${n", "$11"])

TRANSFORMS: dict[str, SearchStrategy[dict[str, str]]] = {
    "Cast$": both(required(spec=SPEC), NULLS),
    "DropHeaders": required(headers=FIELDS),
    "ExtractField$": both(
        required(field=PATHS),
        optional(
            replace_null_with_default=BOOLEAN,
            field_syntax_version=st.sampled_from(["V1", "v2", "V3"]),
        ),
    ),
    "Filter": optional(),
    "Flatten$": optional(delimiter=st.sampled_from([".", "_", ""])),
    "HeaderFrom$": both(
        required(
            fields=FIELDS, headers=FIELDS, operation=st.sampled_from(["copy", "move", "take"])
        ),
        NULLS,
    ),
    "HoistField$": required(field=FIELD),
    "InsertField$": optional(
        topic_field=INSERTED,
        partition_field=INSERTED,
        offset_field=INSERTED,
        timestamp_field=INSERTED,
        static_field=INSERTED,
        static_value=TEXTS,
        replace_null_with_default=BOOLEAN,
    ),
    "InsertHeader": required(header=FIELD, value_literal=LITERALS),
    "MaskField$": both(
        required(fields=FIELDS),
        optional(replacement=st.one_of(TEXTS, st.just("42")), replace_null_with_default=BOOLEAN),
    ),
    "RegexRouter": required(regex=REGEXES, replacement=REPLACEMENTS),
    "ReplaceField$": both(optional(exclude=FIELDS, include=FIELDS, renames=RENAMES), NULLS),
    "SetSchemaMetadata$": both(
        optional(schema_name=st.just("new.Name"), schema_version=st.sampled_from(["7", "x"])), NULLS
    ),
    "TimestampConverter$": both(
        required(
            target_type=st.sampled_from(["string", "unix", "Date", "Time", "Timestamp", "other"])
        ),
        optional(
            field=FIELD,
            format=PATTERNS,
            unix_precision=st.sampled_from(
                ["seconds", "milliseconds", "microseconds", "nanoseconds"]
            ),
            replace_null_with_default=BOOLEAN,
        ),
    ),
    "TimestampRouter": optional(
        topic_format=st.sampled_from(["${topic}-${timestamp}", "x", "${timestamp}_${topic}"]),
        timestamp_format=PATTERNS,
    ),
    "ValueToKey": both(required(fields=FIELDS), NULLS),
}
CLASSES = [
    f"org.apache.kafka.connect.transforms.{name}{side}"
    for name in TRANSFORMS
    for side in (("Key", "Value") if name.endswith("$") else ("",))
]


def configurations(class_name: str) -> SearchStrategy[dict[str, str]]:
    name = class_name.rpartition(".")[2]
    head, dollar, _ = name.partition("$")
    return TRANSFORMS[head + dollar]


def primitive_data() -> SearchStrategy[tuple[Schema | None, Any]]:
    """Return primitive values with and without a schema, without bytes."""
    with_schema = LEAVES.filter(lambda schema: schema.type is not Type.BYTES).flatmap(
        lambda schema: values_of(schema).map(lambda value: (schema, value))
    )
    alone = st.one_of(
        st.none(), st.booleans(), integers(64), integers(16).map(Int16), DOUBLES, SINGLES, TEXTS
    )
    return st.one_of(with_schema, alone.map(lambda value: (None, value)))


PAYLOADS: SearchStrategy[Any] = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-(2**63), 2**63 - 1),
        st.integers(-300, 300),
        st.floats(-1e9, 1e9).map(lambda number: round(number, 3)),
        TEXTS,
        st.sampled_from(["", "AQ==", "AQI=", "!", "2020-01-01"]),
    ),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=4)
    ),
    max_leaves=8,
)


@st.composite
def json_texts(draw: DrawFn) -> bytes:
    """Return JSON with and without schemas, most of it valid."""
    choice = draw(st.integers(0, 9))
    if choice == 0:
        return draw(
            st.sampled_from([b"", b" ", b"{", b"007", b"1 2", b'{"a":-01.5}', b"nul", b"[1,]"])
        )
    payload = draw(PAYLOADS)
    if choice <= 2:
        return json.dumps(payload).encode()
    schema = draw(schemas())
    if choice <= 7:
        value = draw(values_of(schema))
        writer = JsonConverter()
        writer.configure({"schemas.enable": "true"}, is_key=False)
        try:
            return writer.from_connect("t", schema, value) or b"null"
        except ConnectError:
            return b"null"
    style = JsonStyle()
    return f'{{"schema":{schema_text(schema, style)},"payload":{json.dumps(payload)}}}'.encode()


PREDICATES: dict[str, SearchStrategy[dict[str, str]]] = {
    "HasHeaderKey": required(name=st.sampled_from(["a", "b", "", "zz"])),
    "RecordIsTombstone": optional(),
    "TopicNameMatches": required(pattern=REGEXES),
}
PREDICATE_CLASSES = [f"org.apache.kafka.connect.transforms.predicates.{n}" for n in PREDICATES]

_LETTERS = st.tuples(st.sampled_from("GyMdkHmsSEDFwWahKzZXu"), st.integers(1, 5)).map(
    lambda pair: pair[0] * (min(pair[1], 3) if pair[0] == "X" else pair[1])
)
_LITERAL_PARTS = st.sampled_from([" ", "-", "/", "'T'", "''", ":"])
DATE_PATTERNS = st.one_of(
    PATTERNS,
    st.lists(
        st.one_of(_LETTERS, st.sampled_from([" ", "-", "/", "'T'", "''", ":"])), max_size=4
    ).map("".join),
)
MOMENT_LISTS = st.lists(
    st.one_of(st.integers(-(10**14), 10**14), st.integers(0, 2**41)), min_size=5, max_size=5
)
DATE_TEXTS = st.lists(
    st.one_of(
        st.sampled_from(["2024-02-30", "24/3/1", "99/1/1", "Mon, 1 Jan 2024 12:00 AM", "-5", ""]),
        st.text("0123456789-:/ TZ", max_size=12),
    ),
    max_size=5,
)
