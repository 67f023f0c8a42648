"""Record jobs and their outcomes as fields and payloads of helper frames."""

from collections.abc import Iterator, Mapping
from typing import Final

import attrs

from barnabas.log.helper_framing import RECORDS_JOB, Answer, Fields
from barnabas.log.record_work.record_jobs import CompleteBatch, FindTime, Job, Outcome
from barnabas.log.record_work.record_refusal import RecordsRefusedError
from barnabas.protocol.batches.compression import Buffer
from barnabas.protocol.errors import ErrorCode, KafkaError

_KINDS: Final[Mapping[str, type[CompleteBatch] | type[FindTime]]] = {
    "complete": CompleteBatch,
    "find": FindTime,
}


def encode_job(job: Job) -> Fields:
    """Return the fields of a job; its batch is the payload."""
    kind = "complete" if isinstance(job, CompleteBatch) else "find"
    return {"job": RECORDS_JOB, "kind": kind, **attrs.asdict(job)}


def run_record_job(fields: Fields, batch: Buffer) -> Iterator[Answer]:
    """Run a job in the helper process and yield its one answer."""
    job = _KINDS[fields.pop("kind")](**fields)
    outcome: Outcome | KafkaError
    try:
        outcome = job.run(batch)
    except KafkaError as error:
        outcome = error
    except MemoryError:
        message = "the records of the batch need more memory than a helper process may use"
        outcome = KafkaError(ErrorCode.INVALID_RECORD, message)
    yield encode_outcome(outcome)


def encode_outcome(outcome: Outcome | KafkaError) -> Answer:
    """Return the answer with a job's outcome or error."""
    if isinstance(outcome, bytearray):
        return Answer({"batch": True}, outcome)
    if not isinstance(outcome, KafkaError):
        return Answer({"found": outcome})
    fields: Fields = {"code": outcome.code, "message": outcome.message}
    if isinstance(outcome, RecordsRefusedError):
        fields["records"] = outcome.record_errors
    return Answer(fields)


def decode_outcome(fields: Fields, batch: bytearray) -> Outcome:
    """Return a job's outcome from its answer. Raises the KafkaError that the job raised."""
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
