"""The metadata string of a committed offset: the topic's id, a sink's note, the time, the position.

The topic id shows after a restart that the topic is still the one that was read: a topic that was
deleted and created again has the same name, and the committed offset means nothing in it.

Jobs commit the offset after the last record, as Connect does. Control records may follow it, which
are not read: retention may delete them without a loss, so the position after them is stored, too.
"""

import json
from typing import Any, Final

import attrs

_TOPIC_ID: Final = "topic_id"
_NOTE: Final = "note"
_COMMITTED_MS: Final = "ms"
_POSITION: Final = "position"
_URL_SAFE: Final = str.maketrans("+/", "-_")


@attrs.frozen
class OffsetMetadata:
    """The values that a job stores with an offset."""

    topic_id: str | None = None
    note: str = ""
    committed_ms: int = 0
    """When the offset was committed, in ms since 1970; 0 when that is unknown."""
    position: int = 0
    """Where the job continues, when that is after the committed offset; 0 otherwise."""

    def encode(self) -> str:
        """Return the metadata string."""
        fields = {
            _TOPIC_ID: self.topic_id,
            _NOTE: self.note,
            _COMMITTED_MS: self.committed_ms,
            _POSITION: self.position,
        }
        return json.dumps({name: value for name, value in fields.items() if value})


def decode(text: str | None) -> OffsetMetadata:
    """Return what a metadata string holds; nothing when another program wrote it."""
    try:
        fields: Any = json.loads(text or "{}")
    except ValueError:
        return OffsetMetadata()
    if not isinstance(fields, dict):
        return OffsetMetadata()
    found: dict[str, Any] = {**fields}
    topic_id = url_safe(_text(found.get(_TOPIC_ID)))
    return OffsetMetadata(
        topic_id or None,
        _text(found.get(_NOTE)),
        _number(found.get(_COMMITTED_MS)),
        _number(found.get(_POSITION)),
    )


def url_safe(topic_id: str) -> str:
    """Return a topic id as Kafka's tools write it: librdkafka uses the other base64 alphabet."""
    return topic_id.translate(_URL_SAFE)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _number(value: Any) -> int:
    return value if isinstance(value, int) else 0
