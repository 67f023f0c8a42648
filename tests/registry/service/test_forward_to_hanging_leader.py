"""A forwarded write whose leader hangs: it ends when the group has another leader."""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import pytest
import trio

from barnabas.registry.core.registry_core import RegistryCore
from barnabas.registry.rest.registry_app import RegistryApp
from barnabas.registry.service.election_protocol import InstanceAddress
from barnabas.registry.service.registry_service import RegistryService
from barnabas.registry.service.schemas_topic import SchemasTopic
from tests.registry.asgi_calls import HttpAnswer, ask

BODY = b'{"id":7,"version":1}'
HEAD = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % len(BODY)
ANSWER = HEAD + BODY


class Group:
    """The view of a group whose leader the test changes."""

    own = InstanceAddress("http", "127.0.0.1", 1)

    def __init__(self, leader: InstanceAddress) -> None:
        self.leader: InstanceAddress | None = leader
        self._changed = trio.Event()

    @property
    def is_leader(self) -> bool:
        return self.leader == self.own

    async def known(self) -> InstanceAddress:
        while self.leader is None:
            await self._changed.wait()
        return self.leader

    async def changed(self) -> None:
        await self._changed.wait()

    def lead(self, leader: InstanceAddress | None) -> None:
        self.leader = leader
        self._changed.set()
        self._changed = trio.Event()


class Leaders:
    """One instance that takes requests and never answers, and one that answers.

    A connection that is closed before a request is a connect that took too long on a busy machine:
    the forwarding instance connects again, and the request was never sent.
    """

    def __init__(self) -> None:
        self.taken = trio.Event()
        self.requests: list[bytes] = []

    async def hang(self, stream: trio.SocketStream) -> None:
        if await self._has_request(stream):
            self.taken.set()
            await trio.sleep_forever()

    async def answer(self, stream: trio.SocketStream) -> None:
        if await self._has_request(stream):
            await stream.send_all(ANSWER)

    async def _has_request(self, stream: trio.SocketStream) -> bool:
        request = bytes(await stream.receive_some(65536))
        if request:
            self.requests.append(request)
        return bool(request)


async def _address(
    nursery: trio.Nursery, serve: Callable[[trio.SocketStream], Awaitable[None]]
) -> InstanceAddress:
    (listener,) = await nursery.start(partial(trio.serve_tcp, serve, 0, host="127.0.0.1"))
    return InstanceAddress("http", "127.0.0.1", listener.socket.getsockname()[1])


async def _forwarded(request: tuple[Any, ...], pause_without_leader_s: float) -> Any:
    leaders = Leaders()
    answers: list[HttpAnswer] = []
    async with trio.open_nursery() as nursery:
        hanging = await _address(nursery, leaders.hang)
        group = Group(hanging)
        answering = await _address(nursery, leaders.answer)
        core = RegistryCore()
        topic = SchemasTopic(None, "_schemas", core)  # type: ignore[arg-type]
        service = RegistryService(None, topic, core, group)  # type: ignore[arg-type]
        service.ready({})

        async def client() -> None:
            answers.append(await ask(RegistryApp(service).asgi(), *request))
            nursery.cancel_scope.cancel()

        nursery.start_soon(client)
        await leaders.taken.wait()
        if pause_without_leader_s:
            group.lead(None)
            await trio.sleep(pause_without_leader_s)
            group.lead(hanging)
            await trio.sleep(pause_without_leader_s)
            assert not answers, "the leader is the same one"
        with trio.move_on_after(10):
            group.lead(answering)
            await trio.sleep_forever()
        nursery.cancel_scope.cancel()
    assert answers, "no answer within 10 s of the change"
    return answers[0], leaders.requests


@pytest.mark.parametrize("pause_s", [0.0, 0.1])
@pytest.mark.parametrize(
    "request_parts",
    [
        ("POST", "/subjects/s/versions", {"schema": '"int"'}),
        ("PUT", "/config", {"compatibility": "NONE"}),
        ("PUT", "/mode/s", {"mode": "READONLY"}),
    ],
)
def test_write_that_can_be_repeated_goes_to_the_next_leader(
    request_parts: Any, pause_s: float
) -> None:
    answer, requests = trio.run(_forwarded, request_parts, pause_s)
    assert (answer.status, answer.body) == (200, BODY)
    first, second = (request.split(b"\r\n\r\n") for request in requests)
    assert first[0].split(b"\r\n")[0] == second[0].split(b"\r\n")[0]
    assert first[1] == second[1]


@pytest.mark.parametrize(
    "request_parts",
    [
        ("DELETE", "/subjects/s"),
        ("DELETE", "/subjects/s/versions/1?permanent=true"),
        ("POST", "/subjects/s/versions/1/tags", {}),
    ],
)
def test_write_that_cannot_be_repeated_is_answered_as_unknown(request_parts: Any) -> None:
    """The former leader may have done it: a repetition would be refused, or done twice."""
    answer, requests = trio.run(_forwarded, request_parts, 0.0)
    assert (answer.status, answer.json["error_code"]) == (500, 50003)
    assert len(requests) == 1
