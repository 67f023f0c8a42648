"""Text to values and back, as Kafka's ConfigDef does it."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.config import BROKER_PROPERTIES, TOPIC_PROPERTIES, ConfigError
from barnabas.config.schema import to_text

PARSED = [
    ("log.preallocate", " TRUE ", True),
    ("num.io.threads", "+8", 8),
    ("log.segment.bytes", " 2147483647 ", 2147483647),
    ("log.retention.bytes", "-1", -1),
    ("log.cleaner.min.cleanable.ratio", "0.25", 0.25),
    ("log.cleaner.min.cleanable.ratio", "5e-1", 0.5),
    ("log.cleaner.min.cleanable.ratio", "0.5f", 0.5),
    ("log.cleaner.min.cleanable.ratio", "0x1p-1", 0.5),
    ("log.cleanup.policy", "delete , compact", ("delete", "compact")),
    ("log.cleanup.policy", "delete,delete", ("delete",)),
    ("log.cleanup.policy", "", ()),
    ("broker.rack", " r1 ", "r1"),
    ("group.consumer.migration.policy", "Upgrade", "Upgrade"),
    ("compression.gzip.level", "-1", -1),
    ("max.connections.per.ip.overrides", "10.0.0.1:7, ::1:8", "10.0.0.1:7, ::1:8"),
    ("controller.quorum.voters", "1@localhost:9093,2@[::1]:9093", None),
]

REFUSED = [
    ("max.connections.per.ip.overrides", "unlimited", "is not an address:count pair"),
    ("max.connections.per.ip.overrides", "127.0.0.1:-1", "is not an address:count pair"),
    ("max.connections.per.ip.overrides", ":3", "is not an address:count pair"),
    ("log.preallocate", "yes", "true or false"),
    ("num.io.threads", "0", "at least 1"),
    ("num.io.threads", "8_0", "an integer from"),
    ("num.io.threads", "", "an integer from"),
    ("num.io.threads", "2147483648", "an integer from"),
    ("num.io.threads", "9" * 10_000, "an integer from"),
    ("offsets.topic.replication.factor", "32768", "an integer from"),
    ("log.cleaner.min.cleanable.ratio", "1.5", "no more than 1"),
    ("log.cleaner.min.cleanable.ratio", "half", "a number"),
    ("log.cleaner.min.cleanable.ratio", "inf", "a number"),
    ("log.cleanup.policy", "keep", "compact, delete"),
    ("log.cleanup.policy", "delete,", "not be empty"),
    ("process.roles", "", "not be empty"),
    ("compression.type", "brotli", "one of"),
    ("compression.gzip.level", "0", "between 1 and 9"),
    ("group.consumer.migration.policy", "sideways", "one of"),
    ("controller.quorum.voters", "1@localhost", "id@host:port"),
    ("controller.quorum.bootstrap.servers", "localhost:70000", "host:port"),
    ("remote.log.storage.manager.class.name", "", "not be empty"),
]


@pytest.mark.parametrize(("name", "text", "value"), PARSED)
def test_text_is_parsed_as_kafka_does(name: str, text: str, value: object) -> None:
    parsed = BROKER_PROPERTIES[name].parse(text)
    assert parsed == (text.split(",") and tuple(text.split(",")) if value is None else value)


@pytest.mark.parametrize(("name", "text", "allowed"), REFUSED)
def test_bad_value_is_refused_with_name_value_and_rule(name: str, text: str, allowed: str) -> None:
    with pytest.raises(ConfigError) as refused:
        BROKER_PROPERTIES[name].parse(text)
    assert name in refused.value.message
    assert f"value {text} for" in refused.value.message
    assert allowed in refused.value.message


def test_secret_is_hidden_in_an_error() -> None:
    error = BROKER_PROPERTIES["ssl.key.password"].error("hunter2", "it must be longer")
    assert "hunter2" not in error.message


@pytest.mark.parametrize(
    ("text", "allowed"),
    [("*", True), ("", True), ("0:1, 1:2", True), ("a:b", False), ("0", False), ("*,0:1", False)],
)
def test_throttled_replicas_must_be_a_star_or_pairs(text: str, allowed: bool) -> None:
    row = TOPIC_PROPERTIES["leader.replication.throttled.replicas"]
    if allowed:
        row.parse(text)
    else:
        with pytest.raises(ConfigError, match="partition:broker"):
            row.parse(text)


# What Java 17's Double.toString gives.
@pytest.mark.parametrize(
    ("value", "java"),
    [
        (0.5, "0.5"),
        (0.05, "0.05"),
        (1.0, "1.0"),
        (-2.5, "-2.5"),
        (1234567.5, "1234567.5"),
        (1e7, "1.0E7"),
        (123456789.0, "1.23456789E8"),
        (1e-4, "1.0E-4"),
        (-1.5e-7, "-1.5E-7"),
        (1.7976931348623157e308, "1.7976931348623157E308"),
        (float("inf"), "Infinity"),
        (0.0, "0.0"),
    ],
)
def test_double_is_written_as_java_does(value: float, java: str) -> None:
    assert to_text(value) == java


@given(st.floats(min_value=0, max_value=1))
def test_double_is_unchanged_by_a_round_trip(value: float) -> None:
    row = BROKER_PROPERTIES["log.cleaner.min.cleanable.ratio"]
    assert row.parse(to_text(value) or "") == value


@given(st.text(max_size=30))
def test_any_text_gives_a_value_or_a_config_error(text: str) -> None:
    for name in ("num.io.threads", "log.cleaner.min.cleanable.ratio", "log.cleanup.policy"):
        with contextlib.suppress(ConfigError):
            BROKER_PROPERTIES[name].parse(text)
