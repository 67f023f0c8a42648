"""The evidence that a leader's process has ended."""

import errno
import itertools

import pytest
import trio
import trio.testing

from barnabas.registry.service import leader_watch
from barnabas.registry.service.election_protocol import InstanceAddress
from barnabas.registry.service.leader_watch import LeaderWatch

LEADER = InstanceAddress("http", "127.0.0.1", 1)


class Host:
    """The leader's host: it accepts connections, refuses them, or is silent."""

    def __init__(self) -> None:
        self.state = "up"
        self.attempts = 0
        self._peers: list[trio.testing.MemorySendStream | trio.abc.Stream] = []

    async def connect(self, address: InstanceAddress, tls: object) -> trio.abc.Stream:
        self.attempts += 1
        if self.state == "refuses":
            refusal = ConnectionRefusedError(errno.ECONNREFUSED, "refused")
            raise OSError("all attempts failed") from ExceptionGroup("", [refusal])
        if self.state == "silent":
            await trio.sleep_forever()
        ours, theirs = trio.testing.memory_stream_pair()
        self._peers.append(theirs)
        return ours

    async def end(self, state: str) -> None:
        """Close all connections; the next ones find another state."""
        self.state = state
        for peer in self._peers:
            await trio.aclose_forcefully(peer)
        self._peers.clear()


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch) -> Host:
    found = Host()
    monkeypatch.setattr(leader_watch, "connected_stream", found.connect)
    return found


def seconds_until_gone(host: Host, state: str, *, times: int = 1, most: float = 100) -> list[float]:
    """Return when the leader is reported as gone after its connections end."""
    reported: list[float] = []

    async def main() -> None:
        watch = LeaderWatch(None)
        ended = trio.current_time()
        async with trio.open_nursery() as nursery:

            async def wait() -> None:
                for _ in range(times):
                    await watch.wait_gone(LEADER)
                    reported.append(trio.current_time() - ended)
                nursery.cancel_scope.cancel()

            nursery.start_soon(wait)
            await trio.sleep(10)
            ended = trio.current_time()
            await host.end(state)
            await trio.sleep(most)
            nursery.cancel_scope.cancel()

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))
    return reported


def test_watch_leader_that_refuses_connections_is_gone_within_a_second(host: Host) -> None:
    [seconds] = seconds_until_gone(host, "refuses")
    assert seconds < 1
    assert host.attempts == 3


def test_watch_leader_that_is_restarted_is_not_gone(host: Host) -> None:
    assert seconds_until_gone(host, "up") == []
    assert host.attempts == 2


def test_watch_silent_leader_is_left_to_the_session_timeout(host: Host) -> None:
    assert seconds_until_gone(host, "silent") == []


def test_watch_leader_never_reached_is_reported_rarely(host: Host) -> None:
    host.state = "refuses"
    # Within 110 seconds, with 30 seconds in between.
    assert len(seconds_until_gone(host, "refuses", times=100)) == 4


def test_watch_leader_reached_once_is_reported_each_second(host: Host) -> None:
    seconds = seconds_until_gone(host, "refuses", times=10)
    assert len(seconds) == 10
    assert all(1 <= b - a < 2 for a, b in itertools.pairwise(seconds))


def test_watch_leader_reached_in_between_is_reported_at_once(host: Host) -> None:
    async def main() -> None:
        watch = LeaderWatch(None)
        for _ in range(3):
            host.state = "up"
            with trio.move_on_after(5):
                await watch.wait_gone(LEADER)
            await host.end("refuses")
            with trio.fail_after(1):
                await watch.wait_gone(LEADER)

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))
