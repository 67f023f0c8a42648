"""The registration of a controller: retries, log lines, one task."""

from typing import Any

import pytest
import trio
import trio.testing

from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.messages.controller_registration import (
    ControllerRegistrationRequest,
    ControllerRegistrationResponse,
)
from barnabas.server.quorum.rare_log import PeerFailures, RareLog
from barnabas.server.quorum.registration_retries import ControllerRegistration


class Channel:
    """Refuses requests until it may accept them."""

    def __init__(self) -> None:
        self.sent = 0
        self.accepts = False

    async def send(self, request: Any, response_type: Any, **_: Any) -> Any:
        await trio.lowlevel.checkpoint()
        self.sent += 1
        if not self.accepts:
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION)
        return ControllerRegistrationResponse()


def test_refused_registration_is_retried_by_one_task_and_logged_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    channel = Channel()

    async def main() -> None:
        registration = ControllerRegistration(ControllerRegistrationRequest(), channel)
        with trio.fail_after(60):
            async with trio.open_nursery() as nursery:
                for _ in range(3):  # metadata.version changes
                    nursery.start_soon(registration.run)
                    await trio.sleep(0.1)
                sent = channel.sent
                await trio.sleep(5)
                assert channel.sent - sent == 5
                channel.accepts = True

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))
    assert channel.sent == 9
    assert caplog.text.count("cannot register the controller error=UNSUPPORTED_VERSION") == 1


def test_rare_log_is_due_again_after_a_minute() -> None:
    log = RareLog()
    assert [log.is_due("a", now_s) for now_s in (0.0, 30.0, 59.9, 60.0, 61.0)] == [
        True,
        False,
        False,
        True,
        False,
    ]
    assert log.is_due("b", 61.0)


def test_peer_failures_are_logged_after_three_seconds_and_then_once_a_minute() -> None:
    failures = PeerFailures()
    assert [now for now in range(130) if failures.is_due("peer", now)] == [3, 63, 123]
    failures.succeeded("peer")
    assert [now for now in range(200, 205) if failures.is_due("peer", now)] == [203]
    assert not failures.is_due("other", 300)
