"""Frames between the node and its helper processes: one form for jobs and for answers.

A frame is two sizes, JSON fields, and a payload (a batch, or nothing). The field `job` of a job
names its kind. An answer with the field `more` is followed by another answer to the same job.
"""

import json
from struct import Struct
from typing import Any, Final, NamedTuple

from barnabas.protocol.batches.compression import Buffer

SIZES: Final = Struct(">II")
"""The sizes of the JSON fields and of the payload, in bytes."""

PAYLOAD_BYTES_MAX: Final = 128 << 20
"""A larger payload is not sent: its records could not be examined in bounded memory."""

RECORDS_JOB: Final = "records"
CLEAN_JOB: Final = "clean"
SCRUB_JOB: Final = "scrub"

Fields = dict[str, Any]
"""The JSON part of a frame."""


class Answer(NamedTuple):
    """An answer to a job; `is_last` is False when another one follows."""

    fields: Fields
    payload: Buffer = b""
    is_last: bool = True


def encode_head(fields: Fields, payload_bytes: int) -> bytes:
    """Return a frame without its payload."""
    text = json.dumps(fields).encode()
    return SIZES.pack(len(text), payload_bytes) + text


def decode_fields(text: Buffer) -> Fields:
    """Return the fields from the JSON part of a frame."""
    return json.loads(bytes(text))
