"""Columns of the format `barnabas`."""

import datetime
from typing import Any

import pytest

pa: Any = pytest.importorskip("pyarrow")

from barnabas.pipeline.delivery.plan.task_failures import TaskFailureError  # noqa: E402
from barnabas.pipeline.sink import sink_columns  # noqa: E402
from barnabas.pipeline.sink.sink_errors import SinkColumnError  # noqa: E402

HEADERS = "array<struct<key:string,value:binary>>"


@pytest.mark.parametrize(
    ("types", "topic", "message"),
    [
        ({"key": "string"}, "t", "column `value` is missing, the rows have key"),
        ({"value": "bigint"}, "t", "column `value` has the type bigint: cast it to string"),
        ({"value": "string", "partition": "bigint"}, "t", "`partition` has the type bigint"),
        ({"value": "string", "headers": "string"}, "t", f"cast it to {HEADERS}"),
        ({"value": "string"}, None, "set the option `topic`"),
    ],
)
def test_columns_that_do_not_fit_a_record_are_refused(
    types: dict[str, str], topic: str | None, message: str
) -> None:
    with pytest.raises(SinkColumnError) as raised:
        sink_columns.check(types, topic)
    assert message in str(raised.value)


def test_columns_of_spark_kafka_rows_are_accepted() -> None:
    types = {"key": "binary", "value": "binary", "topic": "string", "partition": "int"}
    types |= {"offset": "bigint", "timestamp": "timestamp", "timestampType": "int"}
    sink_columns.check({**types, "headers": HEADERS}, None)


def batch(**columns: Any) -> Any:
    return pa.RecordBatch.from_pydict(columns)


def test_option_topic_precedes_the_column() -> None:
    rows = batch(value=["a"], topic=["t"])
    assert list(sink_columns.rows_of(rows, "u")) == [("u", "a", None, None, None, None)]
    assert next(sink_columns.rows_of(rows, None))[0] == "t"


def test_row_without_topic_is_refused() -> None:
    rows = batch(value=["a", "b"], topic=["t", None])
    with pytest.raises(SinkColumnError, match="null in 1 of 2 rows"):
        list(sink_columns.rows_of(rows, None))


@pytest.mark.parametrize("least", [-1, -2])
def test_negative_partition_is_refused_as_in_java(least: int) -> None:
    partitions = pa.array([None, 3, least], pa.int32())
    with pytest.raises(SinkColumnError, match=f"`partition` is {least} in a row: use null"):
        list(sink_columns.rows_of(batch(value=["a"] * 3, partition=partitions), "t"))


def test_timestamps_are_whole_milliseconds_also_before_1970() -> None:
    zone = datetime.UTC
    times = [
        datetime.datetime(2024, 1, 1, 0, 0, 0, 1_999, tzinfo=zone),
        None,
        datetime.datetime(1969, 12, 31, 23, 59, 59, 999_500, tzinfo=zone),
    ]
    column = pa.array(times, pa.timestamp("us", "UTC"))
    found = [row[4] for row in sink_columns.rows_of(batch(value=["a"] * 3, timestamp=column), "t")]
    assert found == [1_704_067_200_001, None, -1]


def test_headers_are_pairs() -> None:
    kind = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    column = pa.array([[{"key": "a", "value": b"1"}], None, []], kind)
    found = [row[5] for row in sink_columns.rows_of(batch(value=["v"] * 3, headers=column), "t")]
    assert found == [[("a", b"1")], [], []]


@pytest.mark.parametrize("header", [{"key": None, "value": b"1"}, None])
def test_header_without_a_key_is_refused_as_in_java(header: dict[str, Any] | None) -> None:
    kind = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    column = pa.array([[{"key": "a", "value": b"1"}], [header]], kind)
    with pytest.raises(TaskFailureError, match="a header whose key is null"):
        list(sink_columns.rows_of(batch(value=["v"] * 2, headers=column), "t"))
