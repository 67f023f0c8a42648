"""Rows that are produced to a topic, and waited for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from confluent_kafka import Producer

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from barnabas.pipeline.sql.shell.inserted_rows import EncodedRow

_FLUSH_S: Final = 30.0
_UNANSWERED: Final = "the cluster did not answer"


def produced(
    topic: str, rows: Sequence[EncodedRow], properties: Mapping[str, Any]
) -> list[str | None]:
    """Write rows in their order; return for each why it was not written, None when it was."""
    producer: Any = Producer({**properties, "partitioner": "murmur2_random"})
    failures: list[str | None] = [_UNANSWERED] * len(rows)
    for number, row in enumerate(rows):

        def delivered(error: object, _: object, number: int = number) -> None:
            failures[number] = None if error is None else str(error)

        producer.produce(
            topic, row.value, row.key, timestamp=row.time_ms or 0, on_delivery=delivered
        )
    producer.flush(_FLUSH_S)
    return failures
