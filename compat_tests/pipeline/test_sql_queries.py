"""Queries of SQL on Spark, in the test driver of streams: what each shape of a query writes."""

import json
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from barnabas import streams as ks
from barnabas.pipeline.delivery.micro_batches import query_version
from barnabas.pipeline.sql.analysis.applied_statements import Definition, applied
from barnabas.pipeline.sql.catalog.catalog_changes import Catalog
from barnabas.pipeline.sql.catalog.source_definitions import Defaults
from barnabas.pipeline.sql.functions.aggregate_properties import AggregateProperties
from barnabas.pipeline.sql.planning.query_writing import written
from barnabas.pipeline.sql.planning.registry_inference import RegistryInference
from barnabas.pipeline.sql.planning.source_reading import RECORDS_MAX
from barnabas.pipeline.sql.scripts import parse_script
from compat_tests import spark as setup
from tests.registry.live_registry import live_registry

pytestmark = [
    setup.needed,
    pytest.mark.timeout(600),
]

SOURCES = """
CREATE STREAM orders (id INT KEY, item STRING, tags ARRAY<STRING>, price DECIMAL(6, 2), ms BIGINT)
    WITH (kafka_topic='orders', value_format='JSON', timestamp='ms');
CREATE TABLE items (item STRING PRIMARY KEY, name STRING)
    WITH (kafka_topic='items', value_format='DELIMITED');
"""


def driver_of(
    engine: Any, query: str, registry: str = "", aggregates: AggregateProperties | None = None
) -> ks.TestDriver:
    """Return a driver that runs the queries of a script."""
    described = partial(describe, query=query, registry=registry, aggregates=aggregates)
    return ks.TestDriver(described, session=engine.session, registry=registry)


def describe(
    app: ks.App, query: str, registry: str = "", aggregates: AggregateProperties | None = None
) -> None:
    """Describe the queries of a script in an app."""
    catalog = Catalog()
    schemas = RegistryInference(registry) if registry else None
    defaults = Defaults(schemas=schemas, aggregates=aggregates or AggregateProperties())
    for statement in parse_script(SOURCES + query):
        assert isinstance(statement, Definition)
        found = applied(statement, catalog, defaults)
        catalog = found.catalog
        if found.started is not None:
            written(app, found.started.query)


def order(key: int, **fields: object) -> ks.TestRecord:
    return ks.TestRecord(key.to_bytes(4, "big", signed=True), json.dumps(fields).encode())


def values(records: Sequence[ks.TestRecord]) -> list[Any]:
    return [None if each.value is None else json.loads(each.value) for each in records]


def test_stateless_query_filters_projects_and_takes_times(engine) -> None:
    query = (
        "CREATE STREAM out AS SELECT id, UCASE(item) AS up, price * 2 FROM orders WHERE price > 1;"
    )
    with driver_of(engine, query) as driver:
        driver.pipe(
            "orders",
            order(1, Item="pen", price=1.25, ms=70),
            order(2, item="ink", price=0.5, ms=71),
            ks.TestRecord(b"\x00\x00\x00\x03", b"no json"),
            order(4, item=None, price="3", ms=72),
            order(5, item="time before 1970", price=2, ms=-1),
        )
        found = driver.read("OUT")
        assert [(each.key, each.timestamp) for each in found] == [
            (b"\x00\x00\x00\x01", 70),
            (b"\x00\x00\x00\x04", 72),
        ]
        assert values(found) == [
            {"UP": "PEN", "KSQL_COL_0": 2.5},
            {"UP": None, "KSQL_COL_0": 6},
        ]


def test_sink_takes_the_time_of_a_column(engine) -> None:
    query = "CREATE STREAM out WITH (timestamp='later') AS SELECT id, ms - 50 AS later FROM orders;"
    with driver_of(engine, query) as driver:
        driver.pipe("orders", order(1, ms=125), order(2, ms=7), ks.TestRecord(bytes(4), b"{}", 3))
        assert [each.timestamp for each in driver.read("OUT")] == [75]


def test_partition_by_and_delimited(engine) -> None:
    query = """
    CREATE STREAM out WITH (value_format='DELIMITED') AS
        SELECT item, id, price FROM orders PARTITION BY item;
    """
    with driver_of(engine, query) as driver:
        driver.pipe("orders", order(7, item="a,b", price=1, ms=1), order(-8, item='"', ms=2))
        found = driver.read("OUT")
        assert [(each.key, each.value) for each in found] == [
            (b"a,b", b"7,1.00"),
            (b'"', b'"-8",'),
        ]


def test_partition_by_of_a_record_without_value_has_what_its_key_gives(engine) -> None:
    query = """
    CREATE STREAM unknown WITH (key_format='JSON') AS
        SELECT * FROM orders PARTITION BY item IS NULL;
    CREATE STREAM doubled WITH (key_format='JSON') AS
        SELECT id * 2, rowtime, item FROM orders PARTITION BY id * 2, rowtime;
    """
    with driver_of(engine, query) as driver:
        driver.pipe("orders", ks.TestRecord(bytes([0, 0, 0, 3]), None, 5), order(4, item="a", ms=6))
        assert [each.key for each in driver.read("UNKNOWN")] == [None, b"false"]
        assert [json.loads(each.key or b"") for each in driver.read("DOUBLED")] == [
            {"KSQL_COL_0": 6, "ROWTIME": None},
            {"KSQL_COL_0": 8, "ROWTIME": 6},
        ]


def test_table_functions_make_a_row_for_each_element(engine) -> None:
    query = "CREATE STREAM out AS SELECT id, EXPLODE(tags) AS tag, item FROM orders;"
    with driver_of(engine, query) as driver:
        driver.pipe(
            "orders",
            order(1, tags=["x", "y"], item="i", ms=1),
            order(2, tags=[], ms=2),
            order(3, ms=3),
        )
        assert values(driver.read("OUT")) == [
            {"TAG": "x", "ITEM": "i"},
            {"TAG": "y", "ITEM": "i"},
        ]


def test_aggregates_with_having_are_a_table(engine) -> None:
    query = """
    CREATE TABLE out AS SELECT item, COUNT(*) AS n, SUM(price) AS total FROM orders
        GROUP BY item HAVING COUNT(*) > 1;
    CREATE TABLE texts WITH (value_format='PROTOBUF_NOSR') AS
        SELECT item, HISTOGRAM(item) AS n FROM orders GROUP BY item;
    """
    with driver_of(engine, query) as driver:
        driver.pipe(
            "orders",
            order(1, item="pen", price=1, ms=1),
            order(2, item="ink", price=5, ms=2),
            order(3, item="pen", price=2, ms=3),
            order(4, item=None, price=2, ms=4),
        )
        found = driver.table("OUT")
        assert {key: json.loads(value) for key, value in found.items()} == {
            b"pen": {"N": 2, "TOTAL": 3}
        }
        # A function in Python writes the result of lambdas.
        texts = driver.table("TEXTS")
        assert texts[b"pen"] == b"\x0a\x07\x0a\x03pen\x10\x02"


def test_groups_that_have_not_met_having_get_no_tombstones(engine) -> None:
    query = """
    CREATE TABLE often AS SELECT item, COUNT(*) AS n FROM orders
        GROUP BY item HAVING COUNT(*) > 1;
    CREATE TABLE twice AS SELECT item, COUNT(*) AS n FROM orders
        WINDOW TUMBLING (SIZE 10 MILLISECONDS, GRACE PERIOD 0 MILLISECONDS)
        GROUP BY item HAVING COUNT(*) = 2 EMIT FINAL;
    CREATE TABLE once AS SELECT item, COUNT(*) AS n FROM orders
        GROUP BY item HAVING COUNT(*) = 1;
    CREATE TABLE pairs AS SELECT name, COUNT(*) AS n FROM items
        GROUP BY name HAVING COUNT(*) = 2;
    """
    with driver_of(engine, query) as driver:
        driver.pipe("items", *[ks.TestRecord(key, b"x", 1) for key in (b"1", b"2", b"3", b"4")])
        for ms, item in enumerate(["pen", "ink", "pen"]):
            driver.pipe("orders", order(1, item=item, price=1, ms=ms))
            driver.process()
        driver.pipe("orders", order(2, item="end", price=1, ms=30))
        driver.process()
        driver.pipe("orders", order(2, item="end", price=1, ms=31))
        assert values(driver.read("OFTEN")) == [{"N": 2}, {"N": 2}]
        assert values(driver.read("TWICE")) == [{"N": 2}]
        assert [(each.key, each.value) for each in driver.read("ONCE")] == [
            (b"pen", b'{"N":1}'),
            (b"ink", b'{"N":1}'),
            (b"pen", None),
            (b"end", b'{"N":1}'),
            (b"end", None),
        ]
        assert [each.value for each in driver.read("PAIRS")] == [b"2", None]


def test_session_without_cache_has_a_row_for_each_record(engine) -> None:
    """Events are made distinct by the rows whose count is 1, as in ksqlDB's tutorial."""
    query = """
    CREATE TABLE counts WITH (key_format='JSON') AS SELECT item, COUNT(*) AS n, MAX(ms) AS newest
        FROM orders WINDOW TUMBLING (SIZE 10 MILLISECONDS) GROUP BY item;
    """
    no_cache = AggregateProperties(has_each_update=True)
    with driver_of(engine, query, aggregates=no_cache) as driver:
        items = [("pen", 1), ("ink", 2), ("pen", 3), ("pen", 9), ("pen", 14), ("ink", 5)]
        driver.pipe("orders", *[order(1, item=item, ms=ms) for item, ms in items])
        records = driver.read("COUNTS")
    found = {
        key: values([each for each in records if (each.key or b"").startswith(key)])
        for key in (b'"pen"', b'"ink"')
    }
    assert [tuple(each.values()) for each in found[b'"pen"']] == [(1, 1), (2, 3), (3, 9), (1, 14)]
    assert [tuple(each.values()) for each in found[b'"ink"']] == [(1, 2), (2, 5)]


def test_windows_are_in_the_keys(engine) -> None:
    query = """
    CREATE TABLE out AS SELECT item, WINDOWSTART AS begun, COUNT(*) AS n FROM orders
        WINDOW TUMBLING (SIZE 10 MILLISECONDS) GROUP BY item;
    """
    with driver_of(engine, query) as driver:
        driver.pipe(
            "orders",
            order(1, item="pen", ms=3),
            order(1, item="pen", ms=12),
            order(1, item="pen", ms=13),
        )
        found = driver.table("OUT", key=ks.String(), windows=ks.tumbling("10 milliseconds"))
        assert {key: json.loads(value) for key, value in found.items()} == {
            ("pen", 0, 10): {"BEGUN": 0, "N": 1},
            ("pen", 10, 20): {"BEGUN": 10, "N": 2},
        }


def test_sessions_are_windows_of_activity(engine) -> None:
    query = """
    CREATE TABLE out AS SELECT item, COUNT(*) AS n, SUM(id) AS total,
        COLLECT_SET(MAP(item := tags)) AS maps FROM orders
        WINDOW SESSION (10 MILLISECONDS) GROUP BY item;
    """
    with driver_of(engine, query) as driver:
        driver.pipe(
            "orders",
            order(1, item="pen", ms=3, tags=["b"]),
            order(2, item="pen", ms=12, tags=["a"]),
            order(3, item="pen", ms=40),
        )
        found = driver.table("OUT", key=ks.String(), windows=ks.session("10 milliseconds"))
        assert {key: json.loads(value) for key, value in found.items()} == {
            ("pen", 3, 12): {"N": 2, "TOTAL": 3, "MAPS": [{"pen": ["b"]}, {"pen": ["a"]}]},
            ("pen", 40, 40): {"N": 1, "TOTAL": 3, "MAPS": [{"pen": None}]},
        }


def test_collections_keep_the_first_values_up_to_a_limit(engine) -> None:
    """Both by a fold and by Spark's aggregation, which COUNT_DISTINCT needs."""
    query = """
    CREATE TABLE folds AS SELECT item, COLLECT_LIST(id) AS l, COLLECT_SET(id) AS s FROM orders
        GROUP BY item;
    CREATE TABLE sparks AS SELECT item, COLLECT_LIST(id) AS l, COUNT_DISTINCT(id) AS n FROM orders
        GROUP BY item;
    """
    limits = AggregateProperties({"COLLECT_LIST": 2, "COLLECT_SET": 1})
    with driver_of(engine, query, aggregates=limits) as driver:
        driver.pipe("orders", *(order(each, item="pen", ms=each) for each in (9, 9, 7)))
        for topic, expected in (
            ("FOLDS", {"L": [9, 9], "S": [9]}),
            ("SPARKS", {"L": [9, 9], "N": 2}),
        ):
            (found,) = driver.table(topic).values()
            assert json.loads(found) == expected


def test_sets_beside_other_types_are_in_order_also_when_windows_close(engine) -> None:
    query = """
    CREATE TABLE sets AS SELECT item, COLLECT_SET(ms) AS s, SUM(price) AS total,
        TOPK(price, tags, 2) AS top, COUNT(tags) AS n FROM orders GROUP BY item;
    CREATE TABLE closed AS SELECT item, COLLECT_SET(ms % 10) AS s, MAX(price) AS most FROM orders
        WINDOW HOPPING (SIZE 20 MILLISECONDS, ADVANCE BY 10 MILLISECONDS,
            GRACE PERIOD 0 MILLISECONDS)
        GROUP BY item EMIT FINAL;
    """
    with driver_of(engine, query) as driver:
        driver.pipe(
            "orders",
            order(1, item="pen", ms=9, price=1.25, tags=["b"]),
            order(1, item="pen", ms=3, price=2, tags=["a"]),
            order(1, item="pen", ms=13, price=0.5),
            order(1, item="ink", ms=99, price=1),
        )
        driver.process()
        driver.pipe("orders", order(1, item="end", ms=200, price=1))
        found = json.loads(driver.table("SETS")[b"pen"])
        assert found == {
            "S": [9, 3, 13],
            "TOTAL": 3.75,
            "TOP": [{"sort_col": 2.0, "col0": ["a"]}, {"sort_col": 1.25, "col0": ["b"]}],
            "N": 2,
        }
        windows = ks.hopping("20 milliseconds", "10 milliseconds")
        closed = driver.table("CLOSED", key=ks.String(), windows=windows)
        assert {key[:2]: json.loads(each) for key, each in closed.items() if key[0] == "pen"} == {
            ("pen", 0): {"S": [9, 3], "MOST": 2},
            ("pen", 10): {"S": [3], "MOST": 0.5},
        }


def test_groups_of_other_types_that_leave_having_get_one_tombstone(engine) -> None:
    """A group gets none before its first result: the folds know the result before."""
    query = """
    CREATE TABLE out AS SELECT item, SUM(price) AS total, LATEST_BY_OFFSET(tags) AS newest,
        LATEST_BY_OFFSET(TO_BYTES(item, 'utf8')) AS raw FROM orders
        GROUP BY item HAVING SUM(price) > 1;
    """
    with driver_of(engine, query) as driver:
        for ms, (price, tag) in enumerate([(0.5, "y"), (0.75, "x"), (-1, "y")]):
            driver.pipe("orders", order(1, item="pen", price=price, tags=[tag], ms=ms))
            driver.process()
        found = values(driver.read("OUT"))
        assert found == [{"TOTAL": 1.25, "NEWEST": ["x"], "RAW": "cGVu"}, None]


def test_rows_of_a_table_move_between_groups(engine) -> None:
    query = """
    CREATE TABLE out WITH (format='JSON') AS
        SELECT name, COUNT(*) AS n FROM items GROUP BY name;
    """
    with driver_of(engine, query) as driver:
        driver.pipe("items", (b"a", b"red", 1), (b"b", b"red", 2), (b"c", b"blue", 3))
        driver.pipe("items", (b"a", b"blue", 4), (b"c", None, 5))
        found = driver.table("OUT")
        assert {key: json.loads(value) for key, value in found.items()} == {
            b'"red"': {"N": 1},
            b'"blue"': {"N": 1},
        }


def test_stream_is_joined_with_a_table(engine) -> None:
    """Keys are compared by their columns, which formats have in different bytes."""
    query = """
    CREATE TABLE names (item STRING PRIMARY KEY, name STRING)
        WITH (kafka_topic='names', key_format='PROTOBUF_NOSR', value_format='DELIMITED');
    CREATE STREAM out WITH (key_format='KAFKA') AS
        SELECT o.item, id, name FROM orders o LEFT JOIN names i ON o.item = i.item;
    """
    with driver_of(engine, query) as driver:
        driver.pipe("names", ks.TestRecord(b"\x0a\x03pen", b"Blue pen", 0))
        driver.pipe("orders", order(1, item="pen", ms=5), order(2, item="ink", ms=6))
        found = driver.read("OUT")
        assert sorted((each.key, json.loads(each.value or b"")["NAME"]) for each in found) == [
            (b"ink", None),
            (b"pen", "Blue pen"),
        ]


@pytest.mark.parametrize(
    ("query", "is_whole"),
    [
        ("CREATE STREAM out AS SELECT * FROM orders o JOIN items i ON o.item = i.item;", True),
        ("CREATE TABLE out AS SELECT * FROM items i JOIN names n ON i.item = n.item;", False),
    ],
)
def test_table_of_a_join_with_a_stream_is_read_in_one_micro_batch(
    engine, query: str, is_whole: bool
) -> None:
    """A table of 1,000,000 rows, joined while it was read: 9 of 10 records found no row."""
    names = """
    CREATE TABLE names (item STRING PRIMARY KEY, name STRING)
        WITH (kafka_topic='names', value_format='DELIMITED');
    """
    limits: dict[str, int] = {}

    def described(app: Any) -> None:
        describe(app, names + query)
        limits.update((topic, each.records_max) for topic, each in app.inputs.items())

    with ks.TestDriver(described, session=engine.session):
        pass
    orders = {"orders": RECORDS_MAX} if is_whole else {"names": RECORDS_MAX}
    assert limits == {"items": 1_000_000_000 if is_whole else RECORDS_MAX, **orders}


def test_streams_with_windows_are_joined_in_equal_windows(engine) -> None:
    """Without GRACE PERIOD a row comes alone first. WITHIN has a length for each direction."""
    properties = "value_format='JSON', window_type='TUMBLING', window_size='10 MILLISECONDS'"
    query = f"""
    CREATE STREAM w (id STRING KEY, v INT) WITH (kafka_topic='w', {properties});
    CREATE STREAM x (id STRING KEY, v INT) WITH (kafka_topic='x', {properties});
    CREATE STREAM out AS SELECT w.id, w.v AS a, x.v AS b FROM w
        LEFT JOIN x WITHIN (0 MILLISECONDS, 5 MILLISECONDS) ON w.id = x.id;
    """

    def at(start: int, value: int, time_ms: int) -> ks.TestRecord:
        return ks.TestRecord(b"k" + start.to_bytes(8, "big"), b'{"v":%d}' % value, time_ms)

    with driver_of(engine, query) as driver:
        driver.pipe("w", at(0, 1, 1))
        driver.process()
        driver.pipe("x", at(0, 2, 3), at(0, 3, 0), at(10, 4, 4))
        found = driver.read("OUT")
    assert {each.key for each in found} == {b"k" + bytes(8)}
    assert values(found) == [{"A": 1, "B": None}, {"A": 1, "B": 2}]


@pytest.fixture(scope="module")
def registry(bootstrap: str) -> Iterator[str]:
    with live_registry(bootstrap, "_schemas_of_sql_queries") as url:
        yield url


READ_COLUMNS = {
    "AVRO": "",
    "PROTOBUF": "",
    # Fields are columns by their names, in any order.
    "JSON_SR": "(item STRING KEY, nested STRUCT<at TIMESTAMP, n BIGINT>, price DECIMAL(6, 2), "
    "tags ARRAY<STRING>, id INT)",
    "PROTOBUF_NOSR": "(item STRING KEY, id INT, tags ARRAY<STRING>, price DECIMAL(6, 2), "
    "nested STRUCT<n BIGINT, at TIMESTAMP>)",
}


@pytest.mark.parametrize("form", READ_COLUMNS)
def test_formats_with_a_schema_are_written_and_read(engine, registry: str, form: str) -> None:
    topic = f"formats-{form}"
    write = f"""
    CREATE STREAM made WITH (kafka_topic='{topic}', format='{form}') AS
        SELECT item, id, tags, price, STRUCT(n := ms, at := FROM_UNIXTIME(ms)) AS nested
        FROM orders PARTITION BY item;
    """
    with driver_of(engine, write, registry) as driver:
        driver.pipe(
            "orders", order(7, item="pen", tags=["x"], price=1.5, ms=9), order(8, item="i", ms=1)
        )
        records = driver.read(topic)
    read = f"""
    CREATE STREAM made {READ_COLUMNS[form]} WITH (kafka_topic='{topic}', format='{form}');
    CREATE STREAM out WITH (format='JSON') AS SELECT * FROM made;
    """
    with driver_of(engine, read, registry) as driver:
        driver.pipe(topic, *records)
        found = driver.read("OUT")
    assert [each.key for each in found] == [b'"pen"', b'"i"']
    nested = {"N": 9, "AT": 9}
    assert values(found)[0] == {"ID": 7, "TAGS": ["x"], "PRICE": 1.5, "NESTED": nested}


def test_version_of_a_query_is_the_same_when_it_starts_again(engine, tmp_path: Path) -> None:
    """Spark numbers the parameters of lambdas, which read JSON, and DataFrames with figures."""
    query = """
    CREATE TABLE out AS SELECT item, COUNT(*) AS n FROM orders WINDOW TUMBLING (SIZE 1 HOUR)
        GROUP BY item;
    CREATE STREAM joined AS SELECT o.item AS item, i.name AS name FROM orders o JOIN items i
        ON o.item = i.item;
    """

    def versions(state: str) -> list[query_version.QueryVersion]:
        app = ks.App.attach(engine.session, "versions", state=tmp_path / state)
        describe(app, query)
        outputs = app._queries.outputs.values()
        return [
            query_version.of_frame(app._queries.rows(each), each.output_mode or "")
            for each in outputs
        ]

    first = versions("first")
    assert len(first) > 1
    assert versions("again") == first
