"""Evidence that the process of a broker has ended: refused twice after its connection closed."""

from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from barnabas.cluster.controller.failure_evidence import BrokerAddress, FailureEvidence
from barnabas.cluster.controller.sessions import SessionKey

KEY = SessionKey(2, 40)
ADDRESS = BrokerAddress("127.0.0.1", 9092)


def watching(now_ms: int = 0) -> FailureEvidence:
    """Evidence with an open connection to broker 2."""
    evidence = FailureEvidence()
    evidence.follow({KEY: ADDRESS}, now_ms)
    assert evidence.take_due(now_ms) == [(KEY, ADDRESS)]
    evidence.on_connected(KEY, now_ms)
    assert evidence.wakeup_ms() is None
    return evidence


def refuse(evidence: FailureEvidence, now_ms: int) -> int:
    """Refuse the attempt that is due; return when the next one is."""
    assert evidence.take_due(now_ms) == [(KEY, ADDRESS)]
    evidence.on_refused(KEY, now_ms)
    wakeup_ms = evidence.wakeup_ms()
    assert wakeup_ms is not None
    return wakeup_ms


def kill(evidence: FailureEvidence, now_ms: int) -> None:
    """The process ends: its connection closes, and two attempts are refused."""
    evidence.on_closed(KEY, now_ms)
    again_ms = refuse(evidence, now_ms)
    assert again_ms - now_ms < 100
    assert not evidence.gone
    refuse(evidence, again_ms)


def test_evidence_closed_and_refused_twice_is_an_ended_process() -> None:
    evidence = watching()
    kill(evidence, 5000)
    assert evidence.gone == {KEY}


def test_evidence_reset_of_the_connection_alone_does_not_count() -> None:
    """Planted once: a single reset as evidence (mistake 42)."""
    evidence = watching()
    for now_ms in range(1000, 60_000, 100):
        evidence.on_closed(KEY, now_ms)
        if evidence.take_due(now_ms):
            evidence.on_connected(KEY, now_ms)
        assert not evidence.gone


def test_evidence_accepting_and_closing_proxy_is_tried_less_and_less_often() -> None:
    evidence, attempts = watching(), 0
    evidence.on_closed(KEY, 1000)
    for now_ms in range(1000, 61_000, 10):
        if evidence.take_due(now_ms):
            attempts += 1
            evidence.on_connected(KEY, now_ms)
            evidence.on_closed(KEY, now_ms + 1)
    assert attempts < 12


def test_evidence_address_that_was_never_reached_does_not_count() -> None:
    evidence = FailureEvidence()
    evidence.follow({KEY: ADDRESS}, 0)
    now_ms: int | None = 0
    for _ in range(50):
        assert now_ms is not None
        now_ms = refuse(evidence, now_ms)
    assert not evidence.gone


def test_evidence_address_of_a_new_registration_is_tried_often_at_first() -> None:
    evidence, attempts = FailureEvidence(), 0
    evidence.follow({KEY: ADDRESS}, 0)
    for now_ms in range(0, 120_000, 5):
        if evidence.take_due(now_ms):
            attempts += 1
            evidence.on_refused(KEY, now_ms)
        if now_ms == 500:
            assert attempts > 40
    assert attempts < 320


def test_evidence_silence_between_refusals_starts_again() -> None:
    evidence = watching()
    evidence.on_closed(KEY, 1000)
    again_ms = refuse(evidence, 1000)
    evidence.take_due(again_ms)
    evidence.on_failed(KEY, again_ms)  # a timeout
    now_ms = evidence.wakeup_ms()
    for _ in range(10):
        assert now_ms is not None
        now_ms = refuse(evidence, now_ms)
    assert not evidence.gone


@pytest.mark.parametrize(("before_ms", "between_ms"), [(2000, 0), (0, 2000), (60_000, 60_000)])
def test_evidence_counts_after_a_pause_of_this_process(before_ms: int, between_ms: int) -> None:
    """Planted once: refusals more than 100 ms apart, or 1 s after the close, did not count."""
    evidence = watching()
    evidence.on_closed(KEY, 1000)
    again_ms = refuse(evidence, 1000 + before_ms)
    refuse(evidence, again_ms + between_ms)
    assert evidence.gone == {KEY}


def test_evidence_is_reported_again_while_the_broker_is_not_fenced() -> None:
    kill(evidence := watching(), 1000)
    now_ms = evidence.wakeup_ms()
    for _ in range(5):
        assert now_ms is not None
        assert evidence.take_due(now_ms)
        assert evidence.on_refused(KEY, now_ms)
        now_ms = evidence.wakeup_ms()
    evidence.follow({}, 60_000)
    assert not evidence.on_refused(KEY, 60_000)


def test_evidence_broker_that_listens_late_is_connected_to_when_it_is_unfenced() -> None:
    """Planted once: the retries after a slow start were up to 30 s apart."""
    evidence = FailureEvidence()
    evidence.follow({KEY: ADDRESS}, 0)
    now_ms: int | None = 0
    for _ in range(305):
        assert now_ms is not None
        now_ms = refuse(evidence, now_ms)
    assert now_ms is not None
    ready_ms = now_ms - 3000
    assert not evidence.take_due(ready_ms)
    evidence.on_ready(KEY, ready_ms)
    assert refuse(evidence, ready_ms) == ready_ms + 10
    assert evidence.take_due(ready_ms + 10)
    evidence.on_ready(KEY, ready_ms + 15)  # the attempt has not ended
    assert evidence.wakeup_ms() is None
    evidence.on_connected(KEY, ready_ms + 20)
    evidence.on_ready(KEY, ready_ms + 20)
    assert evidence.wakeup_ms() is None


def test_evidence_broker_that_accepts_again_is_alive() -> None:
    evidence = watching()
    kill(evidence, 1000)
    now_ms = evidence.wakeup_ms()
    assert now_ms is not None
    assert evidence.take_due(now_ms)
    evidence.on_connected(KEY, now_ms)
    assert not evidence.gone


def test_unreachable_broker_is_one_that_has_ended_or_just_closed_its_connection() -> None:
    evidence = watching()
    assert evidence.unreachable(1000) == set()
    evidence.on_closed(KEY, 1000)
    assert evidence.unreachable(1100) == {KEY}
    assert evidence.unreachable(1101) == set()  # neither accepted nor refused: it may be slow
    kill(watched := watching(), 1000)
    assert watched.unreachable(4_000) == {KEY}
    evidence.take_due(1000)
    evidence.on_connected(KEY, 1010)
    assert evidence.unreachable(1020) == set()


def test_evidence_settles_when_the_broker_connects_again_or_after_half_a_second() -> None:
    evidence = watching()
    assert not evidence.is_settling(1000)
    evidence.on_closed(KEY, 1000)
    assert evidence.is_settling(1500)
    assert not evidence.is_settling(1501)
    evidence.take_due(1000)
    evidence.on_connected(KEY, 1010)
    assert not evidence.is_settling(1010)


def test_evidence_settles_when_the_ended_broker_is_fenced() -> None:
    kill(evidence := watching(), 2000)
    assert evidence.is_settling(2100)
    evidence.follow({}, 2100)
    assert not evidence.is_settling(2100)


def test_evidence_broker_stays_just_ended_for_three_seconds_after_its_end() -> None:
    evidence = watching()
    assert evidence.just_ended(1000) == frozenset()
    kill(evidence, 1000)
    evidence.follow({}, 1100)
    assert evidence.just_ended(4000) == {KEY}
    assert evidence.just_ended(4001) == frozenset()
    evidence.follow({SessionKey(2, 50): ADDRESS}, 4001)
    assert evidence.just_ended(1000) == frozenset()


def test_evidence_of_the_next_incarnation_waits_for_the_hold_off() -> None:
    evidence = watching()
    kill(evidence, 1000)
    successor = SessionKey(2, 50)
    assert evidence.follow({successor: ADDRESS}, 1500) == {KEY}
    assert not evidence.gone
    evidence.take_due(1500)
    evidence.on_connected(successor, 1500)
    evidence.on_closed(successor, 2000)
    now_ms = 2000
    while not evidence.gone:
        assert now_ms < 5000
        assert evidence.take_due(now_ms)
        evidence.on_refused(successor, now_ms)
        wakeup_ms = evidence.wakeup_ms()
        assert wakeup_ms is not None
        now_ms = wakeup_ms if not evidence.gone else now_ms
    assert 1030 + 3000 <= now_ms <= 4200


def test_follow_moved_broker_closes_the_connection_to_its_earlier_address() -> None:
    evidence = watching()
    moved = BrokerAddress("127.0.0.1", 9999)
    assert evidence.follow({KEY: moved}, 10) == {KEY}
    assert evidence.take_due(10) == [(KEY, moved)]
    assert evidence.follow({}, 20) == {KEY}
    evidence.on_refused(KEY, 20)
    assert evidence.wakeup_ms() is None


class EvidenceOfALiveBroker(RuleBasedStateMachine):
    """A live broker never refuses two attempts in sequence, so there is never evidence."""

    def __init__(self) -> None:
        super().__init__()
        self.now_ms = 0
        self.evidence = FailureEvidence()
        self.evidence.follow({KEY: ADDRESS}, 0)
        self.attempting = self.connected = self.refused = False

    @rule(ms=st.integers(0, 2000))
    def advance(self, ms: int) -> None:
        self.now_ms += ms
        self.attempting = self.attempting or bool(self.evidence.take_due(self.now_ms))

    @precondition(lambda self: self.attempting)
    @rule()
    def connect(self) -> None:
        self.attempting, self.connected, self.refused = False, True, False
        self.evidence.on_connected(KEY, self.now_ms)

    @precondition(lambda self: self.attempting)
    @rule()
    def fail(self) -> None:
        self.attempting = False
        self.evidence.on_failed(KEY, self.now_ms)

    @precondition(lambda self: self.attempting and not self.refused)
    @rule()
    def refuse_once(self) -> None:
        self.attempting, self.refused = False, True
        self.evidence.on_refused(KEY, self.now_ms)

    @precondition(lambda self: self.connected)
    @rule()
    def close(self) -> None:
        self.connected = False
        self.evidence.on_closed(KEY, self.now_ms)

    @invariant()
    def is_never_gone(self) -> None:
        assert not self.evidence.gone


TestEvidenceOfALiveBroker: Any = EvidenceOfALiveBroker.TestCase


def test_evidence_that_the_controller_does_not_confirm_expires_for_clients() -> None:
    """Broker 2 refuses this node alone: it leads on, and its clients must learn of it here."""
    evidence = watching()
    kill(evidence, 5000)
    assert evidence.unreachable(5500) == {KEY}
    assert not evidence.disputed(5500)
    for now_ms in range(6000, 60_000, 100):
        if evidence.take_due(now_ms):
            evidence.on_refused(KEY, now_ms)
    assert evidence.unreachable(8500) == set()
    assert evidence.disputed(8500) == {KEY}
    assert evidence.gone == {KEY}, "a new active controller counts it"
    evidence.on_connected(KEY, 60_000)
    assert not evidence.disputed(60_000)


def test_connection_that_was_not_admitted_hides_no_broker() -> None:
    """A limit of the listener may have closed it; refusals after it count as ever."""
    evidence = watching()
    evidence.on_connected(KEY, 500, is_admitted=False)
    evidence.on_closed(KEY, 1000)
    assert not evidence.unreachable(1001)
    assert not evidence.is_settling(1001)
    assert not evidence.just_ended(1001)
    refuse(evidence, refuse(evidence, 1000))
    assert evidence.gone == {KEY}


def test_connection_that_is_admitted_later_hides_its_broker() -> None:
    evidence = watching()
    evidence.on_connected(KEY, 500, is_admitted=False)
    evidence.on_admitted(KEY)
    evidence.on_closed(KEY, 1000)
    assert evidence.unreachable(1001) == {KEY}
    assert evidence.is_settling(1001)


def test_connection_that_this_side_left_is_replaced_at_once_and_hides_no_broker() -> None:
    evidence = watching()
    evidence.on_connected(KEY, 500)
    evidence.on_left(KEY, 1000)
    assert not evidence.unreachable(1000)
    assert not evidence.is_settling(1000)
    assert [key for key, _ in evidence.take_due(1000)] == [KEY]
    evidence.on_connected(KEY, 1001)
    evidence.on_closed(KEY, 2000)
    assert evidence.unreachable(2000) == {KEY}


def test_process_that_ends_while_its_connection_is_replaced_is_noticed() -> None:
    evidence = watching()
    evidence.on_left(KEY, 1000)
    refuse(evidence, refuse(evidence, 1000))
    assert evidence.gone == {KEY}
