"""Sessions of brokers: prolonged by heartbeats, ended by time or by evidence."""

from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, rule

from barnabas.cluster.controller.periodic_tasks import DueTask, PeriodicTasks
from barnabas.cluster.controller.sessions import BrokerSessions, SessionKey

TIMEOUT_MS = 9000


def test_sessions_of_two_registrations_of_a_broker_are_separate() -> None:
    """Planted once: sessions by the broker's id alone (mistake 32)."""
    sessions = BrokerSessions(TIMEOUT_MS)
    sessions.touch(SessionKey(1, 20), 0)
    sessions.touch(SessionKey(1, 10), 8000)
    assert not sessions.is_valid(SessionKey(1, 20), 9000)
    assert sessions.take_expired(9000) == SessionKey(1, 20)
    assert sessions.take_expired(9000) is None


def test_sessions_ended_session_is_expired_at_once() -> None:
    sessions = BrokerSessions(TIMEOUT_MS)
    sessions.touch(SessionKey(1, 10), 0)
    assert sessions.end(SessionKey(1, 10))
    assert not sessions.end(SessionKey(2, 10))
    assert not sessions.is_valid(SessionKey(1, 10), 0)
    assert sessions.take_expired(0) == SessionKey(1, 10)


class SessionsAgainstTable(RuleBasedStateMachine):
    """The sessions against a plain table of contact times."""

    keys = Bundle("keys")

    def __init__(self) -> None:
        super().__init__()
        self.sessions = BrokerSessions(TIMEOUT_MS)
        self.contacts: dict[SessionKey, int | None] = {}
        self.now_ms = 0

    @rule(target=keys, broker_id=st.integers(0, 3), epoch=st.integers(0, 2))
    def add_key(self, broker_id: int, epoch: int) -> SessionKey:
        return SessionKey(broker_id, epoch)

    @rule(key=keys)
    def touch(self, key: SessionKey) -> None:
        self.sessions.touch(key, self.now_ms)
        self.contacts[key] = self.now_ms

    @rule(key=keys)
    def end(self, key: SessionKey) -> None:
        assert self.sessions.end(key) is (self.contacts.get(key) is not None)
        if key in self.contacts:
            self.contacts[key] = None

    @rule(key=keys)
    def remove(self, key: SessionKey) -> None:
        self.sessions.remove(key)
        self.contacts.pop(key, None)

    @rule(ms=st.integers(0, 5000))
    def advance(self, ms: int) -> None:
        self.now_ms += ms

    @rule()
    def take_expired(self) -> None:
        expired = {key for key in self.contacts if not self.is_valid(key)}
        taken = self.sessions.take_expired(self.now_ms)
        assert (taken in expired) if expired else taken is None
        if taken is not None:
            del self.contacts[taken]

    def is_valid(self, key: SessionKey) -> bool:
        contact_ms = self.contacts.get(key)
        return contact_ms is not None and self.now_ms - contact_ms < TIMEOUT_MS

    @invariant()
    def agrees(self) -> None:
        for broker_id in range(4):
            for epoch in range(3):
                key = SessionKey(broker_id, epoch)
                assert self.sessions.is_valid(key, self.now_ms) is self.is_valid(key)


TestSessionsAgainstTable: Any = SessionsAgainstTable.TestCase


def test_periodic_tasks_run_at_their_periods() -> None:
    tasks = PeriodicTasks({"often": 10, "seldom": 25, "off": 0})
    assert tasks.wakeup_ms() is None
    tasks.start(100)
    assert tasks.take_due(109) is None
    assert tasks.wakeup_ms() == 110
    assert tasks.take_due(112) == DueTask("often", 2)
    assert tasks.take_due(125) == DueTask("often", 3)
    assert tasks.take_due(125) == DueTask("seldom", 0)
    assert tasks.take_due(125) is None
    tasks.run_at_once("seldom", 126)
    tasks.run_at_once("off", 126)
    assert tasks.take_due(126) == DueTask("seldom", 0)
    assert tasks.wakeup_ms() == 135
    tasks.stop()
    tasks.run_at_once("often", 200)
    assert tasks.take_due(200) is None
