"""The options of a writer: the sink's names, and client properties behind the prefix `kafka.`."""

import difflib
import re
from collections.abc import Mapping
from typing import Any, Final

import attrs

from barnabas.config import ConfigError
from barnabas.pipeline.delivery.plan import kafka_properties
from barnabas.pipeline.sink.sink_errors import SinkOptionError

_PREFIX: Final = "kafka."
_BOOTSTRAP: Final = "bootstrap.servers"
_TIMEOUT: Final = "transaction.timeout.ms"
_OWN: Final = ("topic", "name")
# Spark gives its own options to the sink as well.
_OF_SPARK: Final = frozenset({"checkpointlocation", "path", "queryname", "outputmode"})
_FIXED: Final = {
    "transactional.id": "the sink derives its transactional ids from the option `name`",
    "enable.idempotence": "the sink always writes with idempotence",
    "acks": "the sink always writes with acks=all",
    "key.serializer": "keys are written as bytes: convert the column `key`",
    "value.serializer": "values are written as bytes: convert the column `value`",
}
_NAME: Final = re.compile(r"[a-zA-Z0-9._-]{1,200}")
_TRANSACTION_TIMEOUT_MS: Final = 900_000
"""The largest value that brokers accept unless `transaction.max.timeout.ms` is set there."""


@attrs.frozen
class SinkOptions:
    """The settings of a writer."""

    bootstrap: str
    topic: str | None
    """The topic of all rows; None when the column `topic` names that of each row."""
    name: str | None
    """The query's name in Kafka; a batch write without one gets a random name."""
    properties: Mapping[str, str] = attrs.field(repr=False)
    """Client properties, without their prefix."""
    transaction_timeout_ms: int = _TRANSACTION_TIMEOUT_MS

    @property
    def client(self) -> dict[str, str]:
        """Return the client properties with the bootstrap servers."""
        return {**self.properties, _BOOTSTRAP: self.bootstrap}

    def producer(self) -> dict[str, Any]:
        """Return the properties of a task's producer, for librdkafka."""
        own = {name: text for name, text in self.client.items() if name != _TIMEOUT}
        return {
            # Java's clients choose the partition of a key by this function.
            "partitioner": "murmur2_random",
            "delivery.report.only.error": True,
            "linger.ms": 5,
            "queue.buffering.max.kbytes": 65_536,
            **kafka_properties.for_librdkafka(own),
            "enable.idempotence": True,
            "acks": "all",
            _TIMEOUT: self.transaction_timeout_ms,
        }

    def consumer(self) -> dict[str, Any]:
        """Return the properties of the driver's clients, for librdkafka.

        They are those of security and connections; others concern producers only.
        """
        kept = ("security.", "sasl.", "ssl.", "enable.ssl.", "client.", "socket.", _BOOTSTRAP)
        own = {name: text for name, text in self.client.items() if name.startswith(kept)}
        return kafka_properties.for_librdkafka(own)


def parse(options: Mapping[str, str], *, is_stream: bool) -> SinkOptions:
    """Return the settings that a writer's options describe. Raises SinkOptionError."""
    given = {name.lower(): text for name, text in options.items()}
    properties = {
        name.removeprefix(_PREFIX): text for name, text in given.items() if name.startswith(_PREFIX)
    }
    _check_known(given)
    for name in properties:
        if name in _FIXED:
            raise SinkOptionError(f"option `kafka.{name}` is not supported: {_FIXED[name]}")
    bootstrap = properties.pop(_BOOTSTRAP, "").strip()
    if not bootstrap:
        raise SinkOptionError(
            "option `kafka.bootstrap.servers` is missing: set it to the addresses of brokers, "
            'such as "localhost:9092"'
        )
    try:
        timeout_ms = _TRANSACTION_TIMEOUT_MS
        if _TIMEOUT in properties:
            timeout_ms = kafka_properties.transaction_timeout_ms(properties)
        found = SinkOptions(
            bootstrap,
            given.get("topic", "").strip() or None,
            _name(given, is_stream=is_stream),
            properties,
            timeout_ms,
        )
        found.producer()
    except ConfigError as error:
        raise SinkOptionError(f"a `kafka.` option is wrong: {error}") from error
    return found


def _check_known(given: Mapping[str, str]) -> None:
    for name in given:
        if name in _OWN or name in _OF_SPARK or name.startswith(_PREFIX):
            continue
        known = [*_OWN, f"{_PREFIX}{_BOOTSTRAP}"]
        near = difflib.get_close_matches(f"{_PREFIX}{name}", known, 1, 0.8)
        near = near or difflib.get_close_matches(name, known, 1)
        hint = f"; did you mean `{near[0]}`?" if near else ""
        raise SinkOptionError(
            f"option `{name}` is unknown: the format `barnabas` has `topic`, `name` and client "
            f"properties with the prefix `kafka.`{hint}"
        )


def _name(given: Mapping[str, str], *, is_stream: bool) -> str | None:
    name = given.get("name", "").strip()
    if not name and not is_stream:
        return None
    if not name:
        raise SinkOptionError(
            "option `name` is missing: a streaming query needs a name that no other query has and "
            "that stays the same for its checkpoint, because its transactional ids and the topic "
            "NAME-commits carry the name"
        )
    if _NAME.fullmatch(name) is None or name in (".", ".."):
        raise SinkOptionError(
            f"option `name` is '{name}': use 1 to 200 letters, digits, dots, underscores and "
            "hyphens, as in names of topics"
        )
    return name
