"""The record chain: ways, stages of failures, tolerance, retries, dead letters."""

from collections.abc import Mapping
from typing import Any

import pytest

from barnabas.pipeline.connect.builtin_plugins import BUILTIN_PLUGINS
from barnabas.pipeline.connect.error_handling import (
    ErrorPolicy,
    NotADeadLetterError,
    RecordFailureError,
    RetryPolicy,
    Stage,
    ToleranceExceededError,
    decode_dead_letter,
)
from barnabas.pipeline.connect.plugin_registry import Plugin, PluginKind, PluginRegistry
from barnabas.pipeline.connect.record_chain import (
    RecordChain,
    TransformationStage,
    build_record_chain,
)
from barnabas.pipeline.data.connect_errors import DataError, RetriableError
from barnabas.pipeline.data.converters.header_literals import SimpleHeaderConverter
from barnabas.pipeline.data.converters.primitive_converters import StringConverter
from barnabas.pipeline.data.records import (
    CREATE_TIME,
    ConnectRecord,
    OutputRecord,
    RawRecord,
    source_record,
)
from barnabas.pipeline.definitions.config_def import ConfigDef
from barnabas.pipeline.definitions.config_types import ConfigValueError
from barnabas.pipeline.delivery.writing.topic_writers import is_bytes_copy

STRINGS = {
    "key.converter": "StringConverter",
    "value.converter": "org.apache.kafka.connect.storage.StringConverter",
}
JSON = {
    "key.converter": "StringConverter",
    "value.converter": "JsonConverter",
    "value.converter.schemas.enable": "false",
}


def raw(value: bytes | None, headers: tuple[tuple[str, bytes | None], ...] = ()) -> RawRecord:
    return RawRecord("in", 3, 42, 1000, CREATE_TIME, b"k", value, headers)


def letter_of(output: OutputRecord | None) -> RawRecord:
    assert output is not None
    when, key, value = output.timestamp_ms, output.key, output.value
    return RawRecord(output.topic, 0, 0, when, CREATE_TIME, key, value, output.headers)


def test_chain_copies_a_record_with_headers():
    output = build_record_chain(JSON).copied(raw(b'{"a": 1}', (("h", b"5"),)), "out")
    assert output == OutputRecord("out", None, 1000, b"k", b'{"a":1}', (("h", b"5"),))


INSERTED = {
    "transforms": "i,d",
    "transforms.i.type": "org.apache.kafka.connect.transforms.InsertHeader",
    "transforms.i.header": "new",
    "transforms.i.value.literal": "007",
    "transforms.d.type": "org.apache.kafka.connect.transforms.DropHeaders",
    "transforms.d.headers": "gone",
}


def test_chain_copies_the_bytes_of_headers_that_no_transformation_changes():
    headers = (("h", b"007"), ("gone", b"1"), ("b", b"\x00\xff"), ("h", b" x "), ("n", None))
    output = build_record_chain(JSON | INSERTED).copied(raw(b"{}", headers), "out")
    assert output is not None
    assert output.headers == (
        ("h", b"007"),
        ("b", b"\x00\xff"),
        ("h", b" x "),
        ("n", None),
        ("new", b"7"),
    )


def test_chain_writes_a_header_whose_value_was_changed_in_place():
    class Raise:
        def apply(self, record: ConnectRecord) -> ConnectRecord:
            for header in record.headers:
                header.value = "changed"
            return record

    strings = StringConverter()
    chain = RecordChain(
        strings,
        strings,
        SimpleHeaderConverter(),
        (TransformationStage(Raise()),),  # pyright: ignore[reportArgumentType]
    )
    output = chain.copied(raw(b"v", (("h", b"1"),)))
    assert output is not None
    assert output.headers == (("h", b"changed"),)


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ({}, True),
        ({"header.converter": "org.apache.kafka.connect.storage.SimpleHeaderConverter"}, True),
        ({"header.converter": "org.apache.kafka.connect.json.JsonConverter"}, False),
        ({"transforms": "x"}, False),
        ({"value.converter": "org.apache.kafka.connect.storage.StringConverter"}, False),
    ],
)
def test_copy_of_bytes_needs_no_header_converter_of_bytes(more: dict[str, str], expected: bool):
    """The runner names SimpleHeaderConverter for every job that names none."""
    bytes_only = dict.fromkeys(("key.converter", "value.converter"), "ByteArrayConverter")
    assert is_bytes_copy(bytes_only | more) is expected


def test_chain_source_record_becomes_bytes():
    record = source_record("t", "line", source_partition={}, source_offset={}, timestamp_ms=7)
    output = build_record_chain(STRINGS).output(record)
    assert output == OutputRecord("t", None, 7, None, b"line", ())


def test_chain_undecodable_value_names_stage_and_class():
    with pytest.raises(RecordFailureError) as caught:
        build_record_chain(JSON).sink_record(raw(b"{"))
    assert caught.value.stage is Stage.VALUE_CONVERTER
    assert caught.value.class_name == "org.apache.kafka.connect.json.JsonConverter"
    assert isinstance(caught.value.__cause__, DataError)


def test_chain_unknown_converter_is_refused():
    with pytest.raises(ConfigValueError, match="os:system could not be found"):
        build_record_chain({**JSON, "value.converter": "os:system"})


class Flaky:
    """Fails a number of times with a retriable error."""

    def __init__(self, failures: int) -> None:
        self.failures = failures

    def apply(self, record: ConnectRecord) -> ConnectRecord | None:
        if self.failures:
            self.failures -= 1
            raise RetriableError("not yet")
        return record


def flaky_chain(failures: int, retries: RetryPolicy, pauses: list[float]) -> RecordChain:
    strings, headers = StringConverter(), SimpleHeaderConverter()
    flaky: Any = Flaky(failures)
    return RecordChain(
        strings,
        strings,
        headers,
        (TransformationStage(flaky),),
        retries,
        clock=lambda: sum(pauses),
        sleep=pauses.append,
    )


def test_chain_retriable_error_is_retried_with_doubled_pauses():
    pauses: list[float] = []
    chain = flaky_chain(3, RetryPolicy(timeout_ms=10_000, delay_max_ms=1_000), pauses)
    assert chain.sink_record(raw(b"v")) is not None
    assert pauses == [0.3, 0.6, 1.0]


def test_chain_retries_end_with_their_time():
    pauses: list[float] = []
    with pytest.raises(RecordFailureError):
        flaky_chain(99, RetryPolicy(timeout_ms=1_000), pauses).sink_record(raw(b"v"))
    assert sum(pauses) == pytest.approx(1.0)


def failure() -> RecordFailureError:
    return RecordFailureError(Stage.TRANSFORMATION, "a.B$Value", DataError("bad"))


def test_error_policy_without_tolerance_ends_the_task():
    with pytest.raises(ToleranceExceededError, match="in-3@42"):
        ErrorPolicy({}, "job").handle(failure(), raw(b"v"))


def test_error_policy_dead_letter_has_javas_headers_and_original_bytes():
    policy = ErrorPolicy(
        {
            "errors.tolerance": "all",
            "errors.deadletterqueue.topic.name": "dead",
            "errors.deadletterqueue.context.headers.enable": "true",
        },
        "job",
        2,
    )
    output = policy.handle(failure(), raw(b"v", (("own", None),)))
    assert output is not None
    assert (output.topic, output.key, output.value) == ("dead", b"k", b"v")
    headers = dict(output.headers)
    trace = headers.pop("__connect.errors.exception.stacktrace") or b""
    assert b"DataError: bad" in trace
    assert headers == {
        "own": None,
        "__connect.errors.topic": b"in",
        "__connect.errors.partition": b"3",
        "__connect.errors.offset": b"42",
        "__connect.errors.connector.name": b"job",
        "__connect.errors.task.id": b"2",
        "__connect.errors.stage": b"TRANSFORMATION",
        "__connect.errors.class.name": b"a.B$Value",
        "__connect.errors.exception.class.name": b"org.apache.kafka.connect.errors.DataException",
        "__connect.errors.exception.message": b"bad",
    }
    decoded = decode_dead_letter(letter_of(output))
    assert decoded.original == OutputRecord("in", 3, 1000, b"k", b"v", (("own", None),))
    assert (decoded.offset, decoded.stage, decoded.message) == (42, "TRANSFORMATION", "bad")


def test_dead_letter_without_context_cannot_be_redriven():
    policy = ErrorPolicy(
        {"errors.tolerance": "all", "errors.deadletterqueue.topic.name": "dead"}, "job"
    )
    with pytest.raises(NotADeadLetterError, match=r"context\.headers\.enable"):
        decode_dead_letter(letter_of(policy.handle(failure(), raw(b"v"))))


@pytest.mark.parametrize(
    ("value", "text"),
    [("x", b"x"), ({"a": [1, None, "x"]}, b'{"a":[1,null,"x"]}'), ({"a": {1}}, b"{a={1}}")],
)
def test_dead_letter_of_a_source_has_its_value_as_text(value: Any, text: bytes):
    settings = {"errors.tolerance": "all", "errors.deadletterqueue.topic.name": "dead"}
    record = source_record("t", value, source_partition={}, source_offset={})
    letter = ErrorPolicy(settings, "job").handle_source(failure(), record)
    assert letter is not None
    assert (letter.topic, letter.value) == ("dead", text)


def test_error_policy_without_topic_skips_the_record():
    assert ErrorPolicy({"errors.tolerance": "all"}, "job").handle(failure(), raw(b"v")) is None


class Upper:
    """A transformation of a package: only the methods of the interface, no base class."""

    def config(self) -> ConfigDef:
        return ConfigDef()

    def configure(self, props: Mapping[str, Any]) -> None:
        self.suffix = props.get("suffix", "")

    def apply(self, record: ConnectRecord) -> ConnectRecord | None:
        if record.value == "bad":
            raise ValueError("bad value")
        return record.with_value(record.value_schema, record.value.upper() + self.suffix)


def plugin_chain() -> RecordChain:
    target = f"{Upper.__module__}:Upper"
    plugin = Plugin(PluginKind.TRANSFORMATION, "acme.Upper", target, "1")
    registry = PluginRegistry([*BUILTIN_PLUGINS, plugin])
    props = {"transforms": "u", "transforms.u.type": "acme.Upper", "transforms.u.suffix": "!"}
    return build_record_chain({**STRINGS, **props}, registry)


def test_chain_python_plugin_transforms_records():
    output = plugin_chain().copied(raw(b"v"))
    assert output is not None
    assert output.value == b"V!"


def test_chain_python_plugin_failure_is_a_record_failure():
    with pytest.raises(RecordFailureError) as caught:
        plugin_chain().copied(raw(b"bad"))
    assert caught.value.stage is Stage.TRANSFORMATION
    assert caught.value.class_name.endswith("Upper")
