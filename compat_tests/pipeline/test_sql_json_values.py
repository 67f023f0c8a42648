"""Values of JSON and of lines by their types: what converts, and which records are skipped.

The outcomes are those of ksqlDB's deserializers. A text of JSON in quotes is taken as what is in
the quotes, so that "1.5" is a number here.
"""

import json
import random
from decimal import Decimal
from typing import Any

import pytest

pytest.importorskip("sqlglot")

from barnabas import streams as ks
from barnabas.pipeline.delivery.driver import spark_internals
from barnabas.pipeline.delivery.driver.spark_library import pyspark
from barnabas.pipeline.sql.catalog.source_values import SourceColumn
from barnabas.pipeline.sql.functions.python_times import for_python
from barnabas.pipeline.sql.planning.sql_serdes import DelimitedColumns, JsonColumns
from barnabas.pipeline.sql.sql_types import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    INTEGER,
    STRING,
    TIME,
    TIMESTAMP,
    SqlType,
    array,
    decimal,
    map_of,
    struct,
)
from barnabas.pipeline.streams.serdes import Serde
from barnabas.pipeline.streams.topic_reading import HEADERS_TYPE, OnError, TopicInput, decoded
from compat_tests import spark as setup
from compat_tests.pipeline.test_sql_queries import driver_of, values

pytestmark = [setup.needed, pytest.mark.timeout(600)]

BAD = object()
NUMERIC = decimal(4, 2)
EXACT = decimal(38, 18)
DIGITS = "12345678901234567890.123456789012345678"
TINY = Decimal(1).scaleb(-18)
LONG_NUMERIC = decimal(30, 3)
LONG = Decimal("1234567890123456789.123")
ITEMS = array(struct([("SKU", STRING), ("N", INTEGER)]))

IN_JSON: list[tuple[SqlType, str, Any]] = [
    (INTEGER, "1", 1),
    (INTEGER, '"1"', 1),
    (INTEGER, "-1.9", -1),
    (INTEGER, "1e2", 100),
    (INTEGER, "4294967297", 1),
    (INTEGER, "true", BAD),
    (INTEGER, '"x"', BAD),
    (INTEGER, '""', BAD),
    (INTEGER, "{}", BAD),
    (BIGINT, "9223372036854775807", 2**63 - 1),
    (BIGINT, "9223372036854775808", -(2**63)),
    (BIGINT, "-18446744073709551617", -1),
    (BIGINT, "100000000000000000000000000000000000", 10**35 % 2**64),
    (BIGINT, "null", None),
    (BOOLEAN, "false", False),
    (BOOLEAN, "1", BAD),
    (BOOLEAN, '"yes"', BAD),
    (DOUBLE, '"1.5"', 1.5),
    (DOUBLE, "[1]", BAD),
    (NUMERIC, "1.50", Decimal("1.50")),
    (NUMERIC, '"1.5"', Decimal("1.50")),
    (NUMERIC, "1.505", BAD),
    (NUMERIC, "100", BAD),
    (EXACT, f"-{DIGITS}", Decimal(f"-{DIGITS}")),
    (EXACT, f'"{DIGITS}"', Decimal(DIGITS)),
    (array(EXACT), f"[{DIGITS}, null, 0.000000000000000001]", [Decimal(DIGITS), None, TINY]),
    (map_of(STRING, EXACT), f'{{"a": {DIGITS}, "a": 1.5}}', {"a": Decimal("1.5")}),
    (struct([("D", EXACT), ("X", STRING)]), f'{{"d": {DIGITS}}}', (Decimal(DIGITS), None)),
    (array(EXACT), "[1.5", BAD),
    (LONG_NUMERIC, "12345678901234567890.123", Decimal("12345678901234567890.123")),
    (LONG_NUMERIC, '1, "w": 1, "v": 2.5', Decimal("2.500")),
    (LONG_NUMERIC, "1e2", Decimal("100.000")),
    (array(LONG_NUMERIC), "[1234567890123456789.123, null]", [LONG, None]),
    (map_of(STRING, LONG_NUMERIC), '{"a": 1234567890123456789.123}', {"a": LONG}),
    (struct([("A", LONG_NUMERIC)]), '{"a": 1234567890123456789.123}', (LONG,)),
    (struct([("A", LONG_NUMERIC)]), '{"a": {}}', BAD),
    (TIME, "86400000", 86_400_000),
    (TIME, "-1", BAD),
    (TIMESTAMP, '"x"', BAD),
    (array(INTEGER), '[1, "2", null, 3.5]', [1, 2, None, 3]),
    (array(INTEGER), '[1, "x"]', BAD),
    (array(INTEGER), "[1, [2]]", BAD),
    (array(INTEGER), "1", BAD),
    (array(INTEGER), "{}", BAD),
    (array(STRING), '["a", 1, null]', ["a", "1", None]),
    (array(array(BIGINT)), "[[1], null, []]", [[1], None, []]),
    (array(array(BIGINT)), '[[1], ["x"]]', BAD),
    (array(array(BIGINT)), "[[1], 2]", BAD),
    (map_of(STRING, BIGINT), '{"a": 1, "b": null}', {"a": 1, "b": None}),
    (map_of(STRING, BIGINT), '{"a": 1, "a": "2"}', {"a": 2}),
    (map_of(STRING, BIGINT), '{"a": {}}', BAD),
    (map_of(STRING, BIGINT), "[]", BAD),
    (ITEMS, '[{"sku": "a", "N": "1"}, null, {}]', [("a", 1), None, (None, None)]),
    (ITEMS, '[{"SKU": 1, "n": 1, "n": 2, "N": 3, "N": 4}]', [("1", 4)]),
    (ITEMS, '[{"SKU": "a", "N": 1}, {"SKU": "b", "N": {}}]', BAD),
    (ITEMS, '[{"SKU": "a", "N": 1}, "b"]', BAD),
    (struct([("A", ITEMS), ("M", map_of(STRING, NUMERIC))]), '{"A": [{"N": []}]}', BAD),
    (struct([("A", ITEMS), ("M", map_of(STRING, NUMERIC))]), '{"M": {"x": 1.111}}', BAD),
    (
        struct([("A", ITEMS), ("M", map_of(STRING, NUMERIC))]),
        '{"a": [{"n": 1}], "M": {"x": 1.1}}',
        ([(None, 1)], {"x": Decimal("1.10")}),
    ),
]  # fmt: skip

IN_LINES: list[tuple[SqlType, str, Any]] = [
    (INTEGER, "1", 1),
    (INTEGER, "1.5", BAD),
    (INTEGER, "4294967297", BAD),
    (BIGINT, "9223372036854775808", BAD),
    (BOOLEAN, "TRUE", True),
    (BOOLEAN, "1", False),
    (NUMERIC, "1.505", BAD),
    (NUMERIC, "1.5", Decimal("1.50")),
    (TIME, "86400001", BAD),
    (DOUBLE, "x", BAD),
]


def outcome(serde: Serde) -> Any:
    """Return the column of what a serde makes of bytes: the value, and its error."""
    f = pyspark("sql.functions")
    raw = f.col("raw")
    parsed = serde.parse(raw)
    return f.struct(serde.value(parsed).alias("value"), serde.error(raw, parsed).alias("error"))


def test_values_convert_or_the_record_is_skipped(engine) -> None:
    """A value that does not fit its type is an error also inside of other values."""
    made: list[tuple[Serde, bytes]] = [
        (JsonColumns((SourceColumn("V", kind),), is_wrapped=True), f'{{"v": {text}}}'.encode())
        for kind, text, _ in IN_JSON
    ]
    made += [
        (DelimitedColumns((SourceColumn("V", kind),), ","), text.encode())
        for kind, text, _ in IN_LINES
    ]
    serdes = list(dict.fromkeys(serde for serde, _ in made))
    rows = engine.session.createDataFrame([(bytearray(data),) for _, data in made], "raw binary")
    outcomes = [outcome(each).alias(f"c{n}") for n, each in enumerate(serdes)]
    read = zip(rows.coalesce(1).select(*outcomes).collect(), made, strict=True)
    results = [row[serdes.index(serde)] for row, (serde, _) in read]
    found = [BAD if each.error is not None else each.value.V for each in results]
    expected = [each for _, _, each in (*IN_JSON, *IN_LINES)]
    inputs = [text for _, text, _ in (*IN_JSON, *IN_LINES)]
    assert list(zip(inputs, found, strict=True)) == list(zip(inputs, expected, strict=True))


def test_json_of_a_record_is_read_once(engine) -> None:
    """Spark would read it for each use of a column, and for the filter of bad records."""
    columns = (SourceColumn("A", INTEGER), SourceColumn("B", STRING))
    topic = TopicInput(
        topic="orders",
        key=ks.String(),
        value=JsonColumns(columns, is_wrapped=True),
        time=None,
        on_error=OnError.SKIP,
        dead_letters="",
        start="earliest",
        records_max=1,
    )
    records = engine.session.range(1).selectExpr(
        *("CAST('a' AS BINARY) AS key", "CAST(id || '{}' AS BINARY) AS value", "'orders' AS topic"),
        *("0 AS partition", "id AS offset", "now() AS timestamp", f"NULL::{HEADERS_TYPE} headers"),
    )
    used = decoded(records, topic).filter("_kept AND value.B = 'x'").select("value.A", "value.B")
    plan = spark_internals.explained(used)
    executed = plan[plan.index("== Physical Plan ==") :]
    assert executed.count("from_json") == 1


SPELLED = {
    "ID": ("ID", "id", "Id", r"\u0049d"),
    "b": ("b", "B", "x"),
    "Ab": ("Ab", "AB", "ab", "aB"),
}


def test_fields_are_found_in_any_case(engine) -> None:
    """The name itself is first, then the last that is the same in upper case."""
    chance = random.Random(7)
    names = [name for group in SPELLED.values() for name in group]
    rows: list[list[tuple[str, str | None]]] = [
        [(each, chance.choice(("1", "2", None))) for each in chance.choices(names, k=count % 6)]
        for count in range(600)
    ]
    columns = tuple(SourceColumn(name, STRING) for name in SPELLED)
    serde = JsonColumns(columns, is_wrapped=True)
    fields = (", ".join(f'"{name}": {json.dumps(text)}' for name, text in row) for row in rows)
    texts = [f"{{{each}}}" for each in fields]
    frame = engine.session.createDataFrame([(bytearray(t.encode()),) for t in texts], "raw binary")
    for step in serde.steps():
        frame = frame.select(step(pyspark("sql.functions").col("raw")).alias("raw"))
    found = [tuple(row.raw) for row in frame.coalesce(1).collect()]

    def expected(row: list[tuple[str, str | None]], name: str) -> str | None:
        fields = [(json.loads(f'"{each}"'), value) for each, value in row]
        upper = [(each.upper(), value) for each, value in fields]
        return dict(fields).get(name, dict(upper).get(name.upper()))

    wanted = [tuple(expected(row, name) for name in SPELLED) for row in rows]
    assert list(zip(texts, found, strict=True)) == list(zip(texts, wanted, strict=True))


FAR_MS = 300_000_000_000_000
EARLY_MS = -99_999_999_999_999
FAR_DAYS = 100_000_000


def test_times_that_python_does_not_have_end_no_query(engine) -> None:
    """They are NULL in a format that is written in Python, and pass elsewhere."""
    query = """
    CREATE STREAM far (id BIGINT, at TIMESTAMP, r STRUCT<day DATE>)
        WITH (kafka_topic='far', value_format='JSON');
    CREATE STREAM written WITH (value_format='PROTOBUF_NOSR') AS SELECT * FROM far;
    CREATE TABLE kept AS SELECT id, COLLECT_SET(at) AS s, LATEST_BY_OFFSET(r->day) AS d FROM far
        GROUP BY id;
    """
    with driver_of(engine, query) as driver:
        for at, day in ((FAR_MS, FAR_DAYS), (EARLY_MS, 0), (5, -FAR_DAYS)):
            text = json.dumps({"id": 1, "at": at, "r": {"day": day}})
            driver.pipe("far", ks.TestRecord(None, text.encode(), 5))
        *_, row = values(driver.read("KEPT"))
        assert row == {"S": [FAR_MS, EARLY_MS, 5], "D": -FAR_DAYS}
        found = [each.value for each in driver.read("WRITTEN")]
        identity, no_day = b"\x08\x01", b"\x1a\x00"
        assert found == [
            identity + no_day,
            identity + b"\x1a\x09\x0a\x07\x08\xb2\x0f\x10\x01\x18\x01",  # 1970-01-01
            identity + b"\x12\x05\x10\xc0\x96\xb1\x02" + no_day,
        ]


def test_times_inside_other_types_are_null_for_python(engine) -> None:
    f = pyspark("sql.functions")
    day = f.date_from_unix_date(f.col("id").cast("int") - FAR_DAYS)
    at = f.timestamp_millis(f.lit(FAR_MS) + f.col("id"))
    columns = [
        for_python(f.array(day, f.current_date()), array(DATE)).alias("a"),
        for_python(f.create_map(at, day), map_of(TIMESTAMP, DATE)).alias("m"),
        for_python(f.create_map(f.lit("k"), at), map_of(STRING, TIMESTAMP)).alias("n"),
        for_python(f.struct(at.alias("t")), struct([("t", TIMESTAMP)])).alias("r"),
    ]
    row = engine.session.range(1).select(*columns).first()
    assert row is not None
    assert (row.a[0], row.a[1] is None, row.m, row.n, row.r.t) == (
        None,
        False,
        {},
        {"k": None},
        None,
    )


def test_query_skips_records_with_a_misfit_inside_and_takes_the_last_of_a_field(engine) -> None:
    query = (
        "CREATE STREAM deep (id BIGINT, xs ARRAY<INT>, r STRUCT<a BIGINT>)"
        " WITH (kafka_topic='deep', value_format='JSON');"
        "CREATE STREAM out AS SELECT id, xs, r->a AS a FROM deep;"
    )
    with driver_of(engine, query) as driver:
        for text in (
            '{"id": 1, "xs": [1, "x"], "r": {"a": 1}}',
            '{"id": 2, "xs": [1], "r": {"a": {}}}',
            '{"id": 3, "xs": [1, "2"], "r": {"a": "3"}, "ID": 4, "ID": 5}',
            '{"id": 6, "id": 7}',
        ):
            driver.pipe("deep", ks.TestRecord(None, text.encode(), 5))
        found = [json.dumps(each) for each in values(driver.read("OUT"))]
        assert found == [
            '{"ID": 5, "XS": [1, 2], "A": 3}',
            '{"ID": 7, "XS": null, "A": null}',
        ]
