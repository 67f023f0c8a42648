"""Rows of a Spark source as records: dead letters, damaged lines, the largest rate."""

from typing import Any

import pytest

pa = pytest.importorskip("pyarrow")

from barnabas.pipeline.delivery.lake import source_rows  # noqa: E402
from barnabas.pipeline.delivery.lake.source_rows import CORRUPT, RecordMaker, RowsPlan  # noqa: E402
from barnabas.pipeline.delivery.plan.task_failures import TaskFailureError  # noqa: E402
from barnabas.pipeline.delivery.plan.worker_plan import TaskPlan  # noqa: E402
from barnabas.pipeline.delivery.rows.collected_rows import FAILED  # noqa: E402

STRING = "org.apache.kafka.connect.storage.StringConverter"
JSON = "org.apache.kafka.connect.json.JsonConverter"
COLUMNS = {
    "type": "struct",
    "fields": [{"name": "id", "type": "long"}, {"name": "city", "type": "string"}],
}
TOLERANT = {"errors.tolerance": "all"}
LETTERS = {**TOLERANT, "errors.deadletterqueue.topic.name": "letters"}
# A transformation that refuses a city without a number.
CAST = {
    "transforms": "cast",
    "transforms.cast.type": "org.apache.kafka.connect.transforms.Cast$Value",
    "transforms.cast.spec": "city:int32",
}


def plan(rate: float = 0.0, **properties: str) -> RowsPlan:
    own = {
        "key.converter": STRING,
        "value.converter": JSON,
        "value.converter.schemas.enable": "false",
        **properties,
    }
    task = TaskPlan(
        job="job",
        generation=1,
        kind="spark-source",
        group_id="job",
        transactional_id="job",
        producer={},
        consumer={},
        properties=own,
        records_per_second_max=rate,
    )
    return RowsPlan(task, COLUMNS, "t", None)


def batch(*cities: str | None, corrupt: list[str | None] | None = None) -> Any:
    columns = {
        "id": pa.array(range(len(cities)), pa.int64()),
        "city": pa.array(cities, pa.string()),
    }
    if corrupt is not None:
        columns[CORRUPT] = pa.array(corrupt, pa.string())
    return pa.RecordBatch.from_pydict(columns)


def outcome(made: Any) -> list[tuple[str | None, bytes | None, bool]]:
    rows = made.as_batch().to_pylist()
    return [(row["topic"], row["value"], row[FAILED]) for row in rows]


def test_row_that_fails_is_a_marked_dead_letter() -> None:
    made = RecordMaker(plan(**LETTERS, **CAST)).records(batch("1", "x", "3"))
    assert outcome(made) == [
        ("t", b'{"id":0,"city":1}', False),
        ("letters", b'{"id":1,"city":"x"}', True),
        ("t", b'{"id":2,"city":3}', False),
    ]


def test_row_that_fails_without_a_topic_for_it_is_counted_and_dropped() -> None:
    made = RecordMaker(plan(**TOLERANT, **CAST)).records(batch("x", "2"))
    assert outcome(made) == [(None, None, True), ("t", b'{"id":1,"city":2}', False)]


def test_damaged_line_is_a_dead_letter_with_its_text() -> None:
    rows = batch(None, "a", corrupt=['{"id": "x"}', None])
    headers = {"errors.deadletterqueue.context.headers.enable": "true"}
    made = RecordMaker(plan(**LETTERS, **headers)).records(rows)
    assert outcome(made) == [
        ("letters", b'{"id": "x"}', True),
        ("t", b'{"id":1,"city":"a"}', False),
    ]
    found = {each["key"]: each["value"] for each in made.as_batch().to_pylist()[0]["headers"]}
    assert found["__connect.errors.stage"] == b"TASK_POLL"
    assert b'does not fit the schema: {"id": "x"}' in found["__connect.errors.exception.message"]


def test_damaged_line_ends_the_job_without_tolerance() -> None:
    with pytest.raises(TaskFailureError, match="does not fit the schema: nonsense") as failed:
        RecordMaker(plan()).records(batch(None, corrupt=["nonsense"]))
    assert failed.value.failure.is_permanent
    assert failed.value.failure.stage == "TASK_POLL"


def test_rows_with_a_largest_rate_take_their_time(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [50.0]

    class Clock:
        monotonic = staticmethod(lambda: now[0])

        @staticmethod
        def sleep(seconds: float) -> None:
            now[0] += seconds

    monkeypatch.setattr(source_rows, "time", Clock)
    seen = []
    for _ in source_rows.run(plan(rate=10.0), iter([batch(*"abcde"), batch("f"), batch(*"gh")])):
        seen.append(now[0] - 50.0)
        now[0] += 0.2  # the time that Spark takes is not added to the pauses
    assert seen == pytest.approx([0.0, 0.5, 0.7])
    assert now[0] - 50.0 == pytest.approx(0.9)
