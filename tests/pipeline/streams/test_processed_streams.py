"""Processors of users as kernels: keys and values in Python's forms, stores, points of time."""

import json
from collections.abc import Iterable
from typing import Any

import attrs
import pytest

from barnabas.pipeline.delivery.plan.task_failures import TaskFailureError
from barnabas.pipeline.streams.kernels.bucket_state import BucketState
from barnabas.pipeline.streams.kernels.kernel_rows import Row, Side
from barnabas.pipeline.streams.kernels.user_kernels import Process
from barnabas.pipeline.streams.processed_streams import (
    ProcessContext,
    Processor,
    Record,
    RecordProcessor,
)
from barnabas.pipeline.views.view_codecs import CODECS
from tests.pipeline.streams.kernels.kernel_runs import run


class Visits:
    """Numbers the records of a key, and sends the newest number each 10 ms."""

    def process(self, record: Record, context: ProcessContext) -> Iterable[Record]:
        visits = context.store("visits")
        visits[record.key] = visits.get(record.key, 0) + 1
        yield attrs.evolve(record, value={"was": record.value, "visits": visits[record.key]})

    def punctuate(self, context: ProcessContext) -> Iterable[Record]:
        visits = context.store("visits")
        for key in sorted(visits):
            yield Record(key, {"was": None, "visits": visits[key]})


def kernel(processor: Processor, *, every_ms: int | None = None, **forms: bool) -> Process:
    takes_bytes = forms.get("takes_bytes", False)
    returns_bytes = forms.get("returns_bytes", False)
    text = CODECS["string"]
    adapter = RecordProcessor(processor, text, text, takes_bytes, returns_bytes)
    return Process(adapter, "visits", every_ms=every_ms)


def row(key: bytes | None, value: Any, time_ms: int) -> Row:
    data = None if value is None else json.dumps({"v": value}).encode()
    return Row(key, data, time_ms, headers=(("h", b"1"),))


def shown(found: list[Row]) -> list[tuple[Any, ...]]:
    return [
        (each.key, None if each.value is None else json.loads(each.value)["v"], each.timestamp_ms)
        for each in found
    ]


def test_processor_gets_values_and_its_results_keep_time_and_headers() -> None:
    found = run(kernel(Visits()), [row(b"a", {"n": 1}, 5), row(b"a", None, 3)])
    assert shown(found) == [
        (b"a", {"was": {"n": 1}, "visits": 1}, 5),
        (b"a", {"was": None, "visits": 2}, 3),
    ]
    assert [each.headers for each in found] == [(("h", b"1"),)] * 2


def test_processor_is_called_at_points_of_stream_time_also_without_a_record_of_its_keys() -> None:
    state = BucketState()
    process = kernel(Visits(), every_ms=10)
    run(process, [row(b"a", 1, 5)], state)
    time = Row(None, None, 20, Side.TIME, stream_time_ms=20)
    (found,) = run(process, [time], state)
    assert (found.key, found.timestamp_ms, found.side, found.headers) == (b"a", 20, Side.LEFT, ())
    assert run(process, [time], state) == []


def test_processor_is_called_with_the_time_of_the_wall_clock() -> None:
    class Late(Visits):
        def punctuate_wall_clock(self, time_ms: int, context: ProcessContext) -> list[Record]:
            visits = context.store("visits")
            return [
                Record("a", {"at": time_ms, "visits": visits["a"]}),
                Record("b", None, context.stream_time),
            ]

    state, process = BucketState(), kernel(Late())
    run(process, [row(b"a", 1, 5)], state)
    found = run(process, [Row(None, None, 60_000, Side.CLOCK)], state)
    assert shown(found) == [(b"a", {"at": 60_000, "visits": 1}, 60_000), (b"b", None, 5)]
    assert {each.side for each in found} == {Side.LEFT}


def test_processor_of_bytes_gets_and_returns_bytes() -> None:
    class Reverse:
        def process(self, record: Record, context: ProcessContext) -> list[Record]:
            return [Record(record.key, record.value[::-1])]

    process = kernel(Reverse(), takes_bytes=True, returns_bytes=True)
    (found,) = run(process, [Row(b"a", b"\x00\xff", 1)])
    assert (found.value, found.timestamp_ms) == (b"\xff\x00", 1)


def test_processor_that_returns_nothing_has_no_results() -> None:
    class Silent:
        def process(self, record: Record, context: ProcessContext) -> None:
            context.store("seen")[record.key] = True

    assert run(kernel(Silent()), [row(b"a", 1, 1)]) == []


@pytest.mark.parametrize(
    ("result", "reason"),
    [
        (("a", 1), r"\('a', 1\), which is not a Record"),
        (Record(7, 1), "7 is not a text"),
        (Record("a", object()), "not JSON serializable"),
    ],
)
def test_processor_with_a_wrong_result_fails_for_good_and_names_the_key(
    result: Any, reason: str
) -> None:
    class Wrong:
        def process(self, record: Record, context: ProcessContext) -> list[Any]:
            return [result]

    with pytest.raises(TaskFailureError, match=reason) as raised:
        run(kernel(Wrong()), [row(b"a", 1, 1)])
    assert raised.value.failure.is_permanent
    assert "Wrong.process raised" in raised.value.failure.message
    assert "for key b'a'" in raised.value.failure.message


def test_processor_of_bytes_that_returns_text_fails_and_says_so() -> None:
    class Text:
        def process(self, record: Record, context: ProcessContext) -> list[Record]:
            return [Record(record.key, "text")]

    with pytest.raises(TaskFailureError, match="value 'text', which is not bytes"):
        run(kernel(Text(), returns_bytes=True), [row(b"a", 1, 1)])
