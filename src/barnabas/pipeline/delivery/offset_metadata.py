"""The metadata string that a job commits with an offset: the topic's id and a sink's note.

The topic id shows after a restart that the topic is still the one that was read: a topic that was
deleted and created again has the same name, and the committed offset means nothing in it.
"""

import json
from typing import Any, Final

import attrs

_TOPIC_ID: Final = "topic_id"
_NOTE: Final = "note"


@attrs.frozen
class OffsetMetadata:
    """The values that a job stores with an offset."""

    topic_id: str | None = None
    note: str = ""

    def encode(self) -> str:
        """Return the metadata string."""
        fields = {_TOPIC_ID: self.topic_id, _NOTE: self.note}
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
    return OffsetMetadata(_text(found.get(_TOPIC_ID)) or None, _text(found.get(_NOTE)))


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
