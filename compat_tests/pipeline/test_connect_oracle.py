"""Our transformations, predicates and converters against Apache Kafka's own, on generated records.

One JVM serves the whole module. `BARNABAS_CONNECT_CASES` sets the number of records for each class;
`make connect-oracle` runs 100,000 in all.
"""

import json
import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from barnabas.pipeline.connect.builtin_plugins import BUILTIN_PLUGINS
from barnabas.pipeline.connect.plugin_registry import PluginKind, PluginRegistry
from barnabas.pipeline.data.connect_errors import java_class_of
from barnabas.pipeline.data.date_format import DateFormat
from barnabas.pipeline.data.java_values import narrowed
from barnabas.pipeline.data.value_parsing import parse_string
from barnabas.pipeline.definitions.config_types import ConfigValueError
from compat_tests.pipeline import connect_cases as cases
from compat_tests.pipeline.connect_peer import (
    ConnectPeer,
    bytes_json,
    is_error,
    json_bytes,
    normal,
    record_json,
    schema_json,
    value_json,
)

RECORDS_PER_CLASS = int(os.environ.get("BARNABAS_CONNECT_CASES", "150"))
RECORDS_PER_CALL = 5
REGISTRY = PluginRegistry(BUILTIN_PLUGINS)
CONFIG_EXCEPTION = "org.apache.kafka.common.config.ConfigException"

# Differences are collected, not minimized: one run shows all that it finds.
oracle = settings(
    max_examples=max(1, RECORDS_PER_CLASS // RECORDS_PER_CALL),
    deadline=None,
    database=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)


@pytest.fixture(scope="module")
def peer() -> Iterator[ConnectPeer]:
    peer = ConnectPeer()
    yield peer
    peer.close()


def outcome(action: Any) -> Any:
    """Return a result in the peer's form, or its error."""
    try:
        return action()
    except ConfigValueError as error:
        return {"error": CONFIG_EXCEPTION, "message": str(error)}
    except Exception as error:
        return {"error": java_class_of(error), "message": str(error)}


class Differences:
    """The differences that one test found, the shortest of each kind."""

    def __init__(self) -> None:
        self.found: dict[str, str] = {}

    def compare(self, ours: Any, theirs: Any, context: Any) -> None:
        if is_error(ours) and is_error(theirs):
            if same_error(ours, theirs):
                return
            kind = f"{ours['error']} for {theirs['error']}: {ours['message']}"
        elif normal(ours) == normal(theirs):
            return
        else:
            kind = f"{shape(ours)} for {shape(theirs)}"
        text = f"ours: {ours}\ntheirs: {theirs}\nof: {context}"
        known = self.found.get(kind)
        if known is None or len(text) < len(known):
            self.found[kind] = text

    def check(self) -> None:
        assert not self.found, "\n\n".join(self.found.values())


def shape(answer: Any) -> str:
    return f"{answer['error']}: {answer['message']}" if is_error(answer) else "a result"


def same_error(ours: Any, theirs: Any) -> bool:
    if theirs["error"] in UNNAMED:
        return True
    if ours["error"] != theirs["error"]:
        return False
    return ours["message"] == theirs["message"] or any(
        mark in (theirs["message"] or "") for mark in UNSTABLE
    )


# Unforeseen errors in Java, where ours says what is wrong.
UNNAMED = {
    "java.lang.NullPointerException",
    "java.lang.ClassCastException",
    "java.lang.ArrayIndexOutOfBoundsException",
}
# Texts that depend on the JVM or show a value by its address, and texts about the first of several
# wrong fields, which is the first of a hash table in Java.
UNSTABLE = (
    *(
        "InsertionSpec@",
        "Invalid regex",
        "record: ",
        "[B@",
        "found: java.util.",
        "class java.util.",
    ),
    *("not support casting from", "passed a value of type", "Cannot mask value of type"),
)


@pytest.mark.parametrize("class_name", cases.CLASSES)
def test_transformation_does_what_javas_does(peer: ConnectPeer, class_name: str) -> None:
    differences = Differences()

    @seed(13)
    @oracle
    @given(
        cases.configurations(class_name),
        st.lists(cases.records(), min_size=RECORDS_PER_CALL, max_size=RECORDS_PER_CALL),
    )
    def compare(config: dict[str, str], records: list[Any]) -> None:
        theirs = peer.call(
            "transform",
            [record_json(record) for record in records],
            **{"class": class_name, "config": config},
        )
        ours = our_transform(class_name, config, records)
        assert len(ours) == len(theirs), (ours, theirs, config)
        for mine, other, record in zip(ours, theirs, records, strict=False):
            differences.compare(mine, other, (config, record))

    compare()
    differences.check()


def our_transform(class_name: str, config: dict[str, str], records: list[Any]) -> list[Any]:
    transformation = REGISTRY.find(class_name, PluginKind.TRANSFORMATION).load()()
    configured = outcome(lambda: transformation.configure(config))
    if configured is not None:
        return [configured]
    return [
        outcome(lambda record=record: record_json(transformation.apply(record)))
        for record in records
    ]


def test_literal_is_read_as_java_reads_it(peer: ConnectPeer) -> None:
    differences = Differences()

    @seed(13)
    @oracle
    @given(st.lists(cases.LITERALS, min_size=20, max_size=20))
    def compare(texts: list[str]) -> None:
        for text, theirs in zip(texts, peer.call("parse", texts), strict=True):
            ours = outcome(lambda text=text: pair_json(*parse_string(text)))
            differences.compare(ours, theirs, text)

    compare()
    differences.check()


def pair_json(schema: Any, value: Any) -> Any:
    return {"schema": schema_json(schema), "value": value_json(value, schema)}


def compared(strategy: SearchStrategy[Any], compare: Callable[[Any, Differences], None]) -> None:
    """Compare generated cases; report all differences."""
    differences = Differences()

    @seed(13)
    @oracle
    @given(strategy)
    def run(case: Any) -> None:
        compare(case, differences)

    run()
    differences.check()


def converter_of(class_name: str, config: dict[str, str]) -> Any:
    converter = REGISTRY.find(class_name, PluginKind.CONVERTER).load()()
    converter.configure(config, is_key=False)
    return converter


JSON_CONVERTER = "org.apache.kafka.connect.json.JsonConverter"
JSON_CONFIGS = [
    {"schemas.enable": enabled, "decimal.format": form, "replace.null.with.default": replaces}
    for enabled in ("true", "false")
    for form, replaces in (("BASE64", "true"), ("numeric", "false"))
]


@pytest.mark.parametrize("config", JSON_CONFIGS, ids=lambda config: "-".join(config.values()))
def test_json_is_written_as_java_writes_it(peer: ConnectPeer, config: dict[str, str]) -> None:
    converter = converter_of(JSON_CONVERTER, config)

    def compare(batch: list[Any], differences: Differences) -> None:
        written = [
            {"schema": schema_json(schema), "value": value_json(value, schema)}
            for schema, value in batch
        ]
        answers = peer.call("write", written, **{"class": JSON_CONVERTER, "config": config})
        for (schema, value), theirs in zip(batch, answers, strict=True):
            ours = outcome(lambda s=schema, v=value: read_back(converter.from_connect("t", s, v)))
            other = theirs if is_error(theirs) else read_back(json_bytes(theirs))
            differences.compare(ours, other, (schema, value))

    compared(st.lists(cases.data(), min_size=10, max_size=10), compare)


def read_back(data: bytes | None) -> Any:
    """Return JSON in one form. Java writes singles with more digits, so numbers are singles."""
    return "no data" if data is None else repr(sorted_json(json.loads(data)))


def sorted_json(node: Any) -> Any:
    if isinstance(node, dict):
        return {key: sorted_json(node[key]) for key in sorted(node)}
    if isinstance(node, float):
        return narrowed(node)
    return [sorted_json(each) for each in node] if isinstance(node, list) else node


def number_or_text(data: str | None) -> Any:
    """Return a text, as a single if it is a number with a point."""
    text = "" if data is None else (json_bytes(data) or b"").decode("utf-8", "replace")
    if "." not in text:
        return data
    try:
        return narrowed(float(text))
    except ValueError:
        return data


@pytest.mark.parametrize("config", JSON_CONFIGS, ids=lambda config: "-".join(config.values()))
def test_json_is_read_as_java_reads_it(peer: ConnectPeer, config: dict[str, str]) -> None:
    converter = converter_of(JSON_CONVERTER, config)

    def compare(batch: list[bytes], differences: Differences) -> None:
        answers = peer.call(
            "read", map(bytes_json, batch), **{"class": JSON_CONVERTER, "config": config}
        )
        for data, theirs in zip(batch, answers, strict=True):
            ours = outcome(lambda data=data: pair_json(*converter.to_connect("t", data)))
            differences.compare(ours, theirs, data)

    compared(st.lists(cases.json_texts(), min_size=10, max_size=10), compare)


@pytest.mark.parametrize("name", ["Boolean", "Short", "Integer", "Long", "Float", "Double"])
def test_primitive_converter_does_what_javas_does(peer: ConnectPeer, name: str) -> None:
    class_name = f"org.apache.kafka.connect.converters.{name}Converter"
    converter = converter_of(class_name, {})

    def compare(case: tuple[bytes | None, tuple[Any, Any]], differences: Differences) -> None:
        data, (schema, value) = case
        call = {"class": class_name, "config": {"converter.type": "value"}}
        (theirs,) = peer.call("read", [bytes_json(data)], **call)
        ours = outcome(lambda: pair_json(*converter.to_connect("t", data)))
        differences.compare(ours, theirs, data)
        given_value = {"schema": schema_json(schema), "value": value_json(value, schema)}
        (theirs,) = peer.call("write", [given_value], **call)
        ours = outcome(lambda: bytes_json(converter.from_connect("t", schema, value)))
        differences.compare(ours, theirs, (schema, value))

    data = st.one_of(
        st.none(),
        st.binary(max_size=1),
        *(st.binary(min_size=size, max_size=size) for size in (2, 4, 8)),
    )
    compared(st.tuples(data, cases.primitive_data()), compare)


@pytest.mark.parametrize(
    "class_name",
    [
        "org.apache.kafka.connect.storage.SimpleHeaderConverter",
        "org.apache.kafka.connect.storage.StringConverter",
    ],
)
def test_texts_are_written_as_java_writes_them(peer: ConnectPeer, class_name: str) -> None:
    converter = REGISTRY.find(class_name, PluginKind.HEADER_CONVERTER).load()()
    converter.configure_headers({})

    def compare(batch: list[Any], differences: Differences) -> None:
        written = [
            {"schema": schema_json(schema), "value": value_json(value, schema)}
            for schema, value in batch
        ]
        answers = peer.call("write header", written, **{"class": class_name})
        for (schema, value), theirs in zip(batch, answers, strict=True):
            ours = outcome(
                lambda s=schema, v=value: number_or_text(
                    bytes_json(converter.from_connect_header("t", "h", s, v))
                )
            )
            other = theirs if is_error(theirs) else number_or_text(theirs)
            differences.compare(ours, other, (schema, value))

    # Java shows bytes and maps in an order and by addresses that change from run to run.
    compared(st.lists(cases.primitive_data(), min_size=10, max_size=10), compare)


@pytest.mark.parametrize("class_name", cases.PREDICATE_CLASSES)
def test_predicate_does_what_javas_does(peer: ConnectPeer, class_name: str) -> None:
    def compare(case: tuple[dict[str, str], list[Any]], differences: Differences) -> None:
        config, records = case
        theirs = peer.call(
            "predicate", map(record_json, records), **{"class": class_name, "config": config}
        )
        predicate = REGISTRY.find(class_name, PluginKind.PREDICATE).load()()
        failed = outcome(lambda: predicate.configure(config))
        ours = [predicate.test(record) for record in records] if failed is None else [failed]
        for mine, other in zip(ours, theirs, strict=True):
            differences.compare(mine, other, config)

    configs = cases.PREDICATES[class_name.rpartition(".")[2]]
    compared(st.tuples(configs, st.lists(cases.records(), min_size=3, max_size=3)), compare)


# Ours reads weeks and weekdays and does not use them.
WEEKS = frozenset("wWFuYE")


def test_dates_are_written_and_read_as_java_does(peer: ConnectPeer) -> None:
    def compare(case: tuple[str, list[int], list[str]], differences: Differences) -> None:
        pattern, moments, texts = case
        date_format = outcome(lambda: DateFormat(pattern))
        if is_error(date_format):
            return
        written = peer.call("format date", moments, pattern=pattern)
        for moment, theirs in zip(moments, written, strict=True):
            differences.compare(date_format.format(moment), theirs, (pattern, moment))
        if WEEKS.intersection(pattern):
            return
        texts = [*texts, *written]
        for text, theirs in zip(
            texts, peer.call("parse date", texts, pattern=pattern), strict=True
        ):
            differences.compare(date_format.parse(text), theirs, (pattern, text))

    compared(st.tuples(cases.DATE_PATTERNS, cases.MOMENT_LISTS, cases.DATE_TEXTS), compare)
