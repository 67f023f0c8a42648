"""Our transformations, predicates and converters against Apache Kafka's own, on generated records.

One JVM serves the whole module. `BARNABAS_CONNECT_CASES` sets the number of records for each class;
`make connect-oracle` runs 100,000 in all.
"""

import os
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from barnabas.pipeline.connect.builtin_plugins import BUILTIN_PLUGINS
from barnabas.pipeline.connect.config_types import ConfigValueError
from barnabas.pipeline.connect.plugin_registry import PluginKind, PluginRegistry
from barnabas.pipeline.data.connect_errors import java_class_of
from barnabas.pipeline.data.value_parsing import parse_string
from compat_tests.pipeline import connect_cases as cases
from compat_tests.pipeline.connect_peer import (
    ConnectPeer,
    bytes_json,
    is_error,
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
# Texts that depend on the JVM, or that show a value by its address.
UNSTABLE = (
    "InsertionSpec@",
    "Invalid regex",
    "record: ",
    "[B@",
    "found: java.util.",
    "class java.util.",
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


__all__ = ["bytes_json"]
