"""Sequences against a model of the broker: nothing is appended twice, nothing acked is lost."""

from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.client.core.producer_sequences import (
    BatchIdentity,
    PartitionSequence,
    Verdict,
    decide,
    may_append,
)
from barnabas.protocol.errors import ErrorCode


@dataclass
class Broker:
    """Kafka's rules for one partition: the last epoch and sequence, duplicates recognized."""

    log: list[int] = field(default_factory=list)
    epoch: int = -1
    last: tuple[int, int] = (-1, -1)
    """First and last sequence of the last batch."""

    def append(self, identity: BatchIdentity, values: list[int]) -> ErrorCode:
        if identity.epoch < self.epoch:
            return ErrorCode.INVALID_PRODUCER_EPOCH
        first = identity.base_sequence
        if identity.epoch == self.epoch:
            if (first, first + len(values) - 1) == self.last:
                return ErrorCode.NONE
            if first != self.last[1] + 1:
                return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        elif first != 0:
            return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        self.epoch, self.last = identity.epoch, (first, first + len(values) - 1)
        self.log += values
        return ErrorCode.NONE


FATES = st.sampled_from(["answered", "answer lost", "request lost", "not enough replicas", "late"])


@given(st.lists(st.tuples(st.integers(1, 3), st.lists(FATES, max_size=4)), max_size=12))
def test_sequence_with_lost_requests_and_answers_appends_each_record_once(
    batches: list[tuple[int, list[str]]],
) -> None:
    broker, sequence = Broker(), PartitionSequence(7, 0)
    acked: list[int] = []
    failed: list[int] = []
    value = 0
    for count, fates in batches:
        values = list(range(value, value + count))
        value += count
        settled = deliver(broker, sequence, values, fates)
        (acked if settled else failed).extend(values)
    assert len(set(broker.log)) == len(broker.log)
    assert [each for each in broker.log if each not in failed] == acked


def deliver(
    broker: Broker, sequence: PartitionSequence, values: list[int], fates: list[str]
) -> bool:
    """Send one batch as the producer does, each attempt with its fate; False when given up."""
    in_doubt = False
    for fate in fates:
        if fate == "request lost":
            in_doubt = True
            continue
        if fate == "not enough replicas":
            code = ErrorCode.NOT_ENOUGH_REPLICAS
        else:
            code = broker.append(sequence.identity(), values)
        if fate == "late":
            code = ErrorCode.REQUEST_TIMED_OUT
        if fate == "answer lost":
            in_doubt = True
            continue
        verdict = decide(code, maybe_appended=in_doubt)
        if verdict is Verdict.ACKED:
            sequence.acked(len(values))
            return True
        assert verdict is Verdict.RETRY
        in_doubt = in_doubt or may_append(code)
    if in_doubt:
        sequence.start_epoch()
    return False


def test_sequence_wraps_behind_the_largest_int() -> None:
    sequence = PartitionSequence(1, 0)
    sequence.acked((1 << 31) - 1)
    assert sequence.identity().base_sequence == (1 << 31) - 1
    sequence.acked(2)
    assert sequence.identity().base_sequence == 1


def test_sequence_at_last_epoch_needs_a_new_id() -> None:
    sequence = PartitionSequence(1, 0x7FFE)
    sequence.start_epoch()
    assert (sequence.epoch, sequence.needs_new_id) == (0x7FFF, False)
    sequence.start_epoch()
    assert sequence.needs_new_id
    sequence.use_new_id(9, 0)
    assert sequence.identity() == BatchIdentity(9, 0, 0)


@pytest.mark.parametrize(
    ("code", "maybe_appended", "verdict"),
    [
        (ErrorCode.NONE, True, Verdict.ACKED),
        (ErrorCode.DUPLICATE_SEQUENCE_NUMBER, True, Verdict.ACKED),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, True, Verdict.RETRY),
        (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, False, Verdict.RETRY_NEW_EPOCH),
        (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, True, Verdict.UNKNOWN),
        (ErrorCode.INVALID_PRODUCER_EPOCH, False, Verdict.RETRY_NEW_ID),
        (ErrorCode.INVALID_PRODUCER_EPOCH, True, Verdict.UNKNOWN),
        (ErrorCode.MESSAGE_TOO_LARGE, False, Verdict.REFUSED),
        (ErrorCode.MESSAGE_TOO_LARGE, True, Verdict.UNKNOWN),
        (ErrorCode.UNKNOWN_SERVER_ERROR, False, Verdict.UNKNOWN),
    ],
)
def test_decide_answer_gives_verdict(
    code: ErrorCode, maybe_appended: bool, verdict: Verdict
) -> None:
    assert decide(code, maybe_appended=maybe_appended) is verdict


def test_decide_every_code_never_retries_in_another_identity_what_may_be_appended() -> None:
    verdicts = {decide(code, maybe_appended=True) for code in ErrorCode}
    assert verdicts == {Verdict.ACKED, Verdict.RETRY, Verdict.UNKNOWN}
