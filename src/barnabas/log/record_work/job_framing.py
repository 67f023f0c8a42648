"""Jobs and their outcomes as bytes: what the node and its helper process say to each other.

A frame is the sizes of its two parts, some JSON, and a batch (or nothing).
"""

import json
from collections.abc import Mapping
from struct import Struct
from typing import Any, Final

import attrs

from barnabas.log.record_work.record_jobs import CompleteBatch, FindTime, Job, Outcome
from barnabas.log.record_work.record_refusal import RecordsRefusedError
from barnabas.protocol.batches.compression import Buffer
from barnabas.protocol.errors import ErrorCode, KafkaError

SIZES: Final = Struct(">II")
"""The bytes of JSON, and those of the batch."""

BATCH_BYTES_MAX: Final = 128 << 20
"""A larger batch is not sent: it could not be looked at in bounded memory."""

_KINDS: Final[Mapping[str, type[CompleteBatch] | type[FindTime]]] = {
    "complete": CompleteBatch,
    "find": FindTime,
}


def encode_job(job: Job, batch: Buffer) -> bytes:
    """What is sent before the batch."""
    kind = "complete" if isinstance(job, CompleteBatch) else "find"
    return _encode({"kind": kind, **attrs.asdict(job)}, len(batch))


def decode_job(text: bytes) -> Job:
    """The job that `encode_job` was given."""
    fields: dict[str, Any] = json.loads(text)
    return _KINDS[fields.pop("kind")](**fields)


def encode_outcome(outcome: Outcome | KafkaError) -> tuple[bytes, Buffer]:
    """A frame's beginning, and the batch behind it."""
    if isinstance(outcome, bytearray):
        return _encode({"batch": True}, len(outcome)), outcome
    if not isinstance(outcome, KafkaError):
        return _encode({"found": outcome}, 0), b""
    fields: dict[str, Any] = {"code": outcome.code, "message": outcome.message}
    if isinstance(outcome, RecordsRefusedError):
        fields["records"] = outcome.record_errors
    return _encode(fields, 0), b""


def decode_outcome(text: Buffer, batch: bytearray) -> Outcome:
    """What was found out, or the KafkaError that was, raised."""
    fields: dict[str, Any] = json.loads(bytes(text))
    if "code" in fields:
        code, message = ErrorCode(fields["code"]), fields["message"]
        if "records" in fields:
            errors = [(index, why) for index, why in fields["records"]]
            raise RecordsRefusedError(code, message, errors)
        raise KafkaError(code, message)
    if "batch" in fields:
        return batch
    found = fields["found"]
    return None if found is None else (found[0], found[1])


def _encode(fields: dict[str, Any], batch_bytes: int) -> bytes:
    text = json.dumps(fields).encode()
    return SIZES.pack(len(text), batch_bytes) + text
