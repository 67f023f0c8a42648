"""ASSERT: conditions on topics and on schemas, which may become true in time.

A condition is checked again every 100 ms, as ksqlDB does. The messages are ksqlDB's.
"""

from __future__ import annotations

import json
import time
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol

from confluent_kafka import KafkaException

from barnabas.pipeline.connect.registry_client import RegistryClient
from barnabas.pipeline.data.connect_errors import ConnectError
from barnabas.pipeline.sql import statement_values as st
from barnabas.pipeline.sql.shell.answer_values import AssertedSchema, AssertedTopic
from barnabas.pipeline.sql.sql_failures import AssertionFailedError, UnresolvedError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from barnabas.pipeline.delivery.driver.cluster_state import Topic

_RETRY_S: Final = 0.1
TIMEOUTS: Final[Mapping[type[st.Assertion], str]] = {
    st.AssertSchema: "ksql.assert.schema.default.timeout.ms",
    st.AssertTopic: "ksql.assert.topic.default.timeout.ms",
}
"""The properties of the time that a statement without TIMEOUT waits."""
TIMEOUT_MS: Final = "1000"


class _Topics(Protocol):
    def topics(self, names: Sequence[str]) -> Mapping[str, Topic | None]: ...


def asserted(
    statement: st.Assertion,
    properties: Mapping[str, str],
    topics: Callable[[], _Topics],
    registry: str,
    wait: Callable[[float], object],
) -> AssertedTopic | AssertedSchema:
    """Return the answer to an ASSERT once its condition is true; `wait` takes seconds.

    Raises AssertionFailedError when the time is over before, UnresolvedError.
    """
    timeout_ms = _timeout_ms(statement, properties)
    if isinstance(statement, st.AssertTopic):
        problem = partial(_topic_problem, statement, topics())
        answer = AssertedTopic(statement.topic, statement.exists)
    else:
        problem = partial(_schema_problem, statement, registry)
        answer = AssertedSchema(statement.subject, statement.id, statement.exists)
    until = time.monotonic() + timeout_ms / 1000
    while (found := problem()) is not None:
        left = until - time.monotonic()
        if left <= 0:
            raise AssertionFailedError(found, *statement.at)
        wait(min(left, _RETRY_S))
    return answer


def check_timeout(name: str, text: str) -> None:
    """Raise UnresolvedError for the value of a property of ASSERT that is wrong."""
    if name in TIMEOUTS.values() and not (text.isascii() and text.isdigit() and len(text) < 10):
        raise UnresolvedError(
            f"{name} is a number of milliseconds below 1000000000, and not '{text}'"
        )


def _timeout_ms(statement: st.Assertion, properties: Mapping[str, str]) -> int:
    if statement.timeout is not None:
        return statement.timeout.ms
    name = TIMEOUTS[type(statement)]
    text = properties.get(name, TIMEOUT_MS)
    check_timeout(name, text)
    return int(text)


def _topic_problem(statement: st.AssertTopic, topics: _Topics) -> str | None:
    """Return what is wrong with a topic, None for nothing."""
    name = statement.topic
    try:
        topic = topics.topics([name])[name]
    except KafkaException as error:
        return f"Cannot check topic existence: {error.args[0].str()}"
    if not statement.exists:
        return None if topic is None else f"Topic {name} exists"
    if topic is None:
        return f"Topic {name} does not exist"
    return "; ".join(_differences(statement, topic)) or None


def _differences(statement: st.AssertTopic, topic: Topic) -> list[str]:
    actual = {"PARTITIONS": topic.partitions, "REPLICAS": topic.replicas}
    found: list[str] = []
    for name, value in statement.properties.items():
        if name not in actual:
            found.append(
                f"Cannot assert unknown topic property: {name}, only {' and '.join(actual)}"
            )
        elif type(value) is not int or value != actual[name]:
            found.append(
                f"Mismatched configuration for topic {topic.name}: For config {name.lower()}, "
                f"expected {json.dumps(value)} got {actual[name]}"
            )
    return found


def _schema_problem(statement: st.AssertSchema, registry: str) -> str | None:
    """Return what is wrong with a schema, None for nothing. Raises AssertionFailedError."""
    if not registry:
        raise AssertionFailedError(
            "Cannot check schema existence: there is no schema registry: name it with --registry, "
            "or to a runner with ksql.schema.registry.url",
            *statement.at,
        )
    subject, number = statement.subject, statement.id
    try:
        exists = RegistryClient(registry).has(subject, number)
    except ConnectError as error:
        return f"Cannot check schema existence: {error}"
    if exists is statement.exists:
        return None
    named = "" if subject is None else f" subject name {subject}"
    numbered = "" if number is None else f" id {number}"
    return f"Schema with{named}{numbered} {'exists' if exists else 'does not exist'}"
