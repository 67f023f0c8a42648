"""Clients that connect and do not authenticate: how long and how many the host keeps of them."""

import base64
import logging
import re
import ssl
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import Any

import bcrypt
import httpx
import pytest
import trio
import trustme

from barnabas.config import ConfigError
from barnabas.http import HttpOptions, HttpTls
from barnabas.http.unauthenticated_connections import ConnectionLimits
from tests.http.hosting import with_host

TIMEOUT_S = 1.0
GET = b"GET / HTTP/1.1\r\nHost: a\r\n"
TOKEN = base64.b64encode(b"alice:secret").decode()
AUTHORIZED = GET + f"Authorization: Basic {TOKEN}\r\n\r\n".encode()
TIME = "barnabas.authentication.timeout.ms"
COUNT = "barnabas.unauthenticated.connections.max"


@pytest.fixture
def users(tmp_path: Path) -> Path:
    path = tmp_path / "users"
    path.write_text(f"alice:{bcrypt.hashpw(b'secret', bcrypt.gensalt(4)).decode()}\n")
    return path


def limited(timeout_s: float = TIMEOUT_S, connections_max: int = 100, **more: Any) -> Any:
    return {"limits": ConnectionLimits(timeout_s, connections_max), **more}


async def connect(client: httpx.AsyncClient) -> trio.SocketStream:
    return await trio.open_tcp_stream(client.base_url.host, client.base_url.port or 80)


async def ended(stream: trio.abc.Stream) -> bytes:
    """Return what comes until the host closes the connection, within 30 s."""
    received = b""
    with trio.fail_after(100), suppress(trio.BrokenResourceError):
        while data := await stream.receive_some():
            received += data
    return received


async def answer(stream: trio.abc.Stream, request: bytes) -> bytes:
    """Return the whole answer to a request."""
    await stream.send_all(request)
    received = b""
    while True:
        head = re.search(rb"(?i)content-length: (\d+)\r\n(?s:.*?)\r\n\r\n", received)
        if head is not None and len(received) >= head.end() + int(head[1]):
            return received
        data = await stream.receive_some()
        if not data:
            return received
        received += data


async def closings(client: httpx.AsyncClient, limit: str) -> float:
    name = f'barnabas_http_unauthenticated_connections_closed_total{{limit="{limit}"}} '
    text = (await client.get("/metrics")).text
    found = [line for line in text.splitlines() if line.startswith(name)]
    return float(found[0].removeprefix(name)) if found else 0.0


def test_head_that_does_not_come_ends_the_connection_in_time() -> None:
    async def slow(client: httpx.AsyncClient, ends: list[float]) -> None:
        stream = await connect(client)
        started = trio.current_time()

        async def drip() -> None:
            with suppress(trio.BrokenResourceError):
                for byte in GET + b"X: " + b"x" * 10_000:
                    await stream.send_all(bytes([byte]))
                    await trio.sleep(TIMEOUT_S / 20)

        async with stream, trio.open_nursery() as nursery:
            nursery.start_soon(drip)
            assert await ended(stream) == b""
            ends.append(trio.current_time() - started)
            nursery.cancel_scope.cancel()

    async def test(client: httpx.AsyncClient) -> None:
        ends: list[float] = []
        async with trio.open_nursery() as nursery:
            for _ in range(20):
                nursery.start_soon(slow, client, ends)
            for _ in range(5):  # others are served meanwhile
                assert (await client.get("/")).status_code == 200
        assert all(TIMEOUT_S * 0.9 < each < 30 for each in ends)
        assert await closings(client, TIME) == 20

    with_host(test, settings=limited())


def test_silent_client_is_closed_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "barnabas.http")

    async def test(client: httpx.AsyncClient) -> None:
        async with await connect(client) as stream:
            assert await ended(stream) == b""
        closing = f"closing unauthenticated http connection host=127.0.0.1 reason={TIME}"
        assert closing in caplog.text

    with_host(test, settings=limited())


@pytest.mark.parametrize("hello", [b"", b"\x16\x03\x01\x02\x00\x01"])
def test_tls_handshake_that_does_not_end_is_closed_in_time(hello: bytes, tmp_path: Path) -> None:
    authority = trustme.CA()
    pem = tmp_path / "node.pem"
    authority.issue_cert("127.0.0.1").private_key_and_cert_chain_pem.write_to_path(str(pem))
    context = ssl.create_default_context()
    authority.configure_trust(context)

    async def test(client: httpx.AsyncClient) -> None:
        started = trio.current_time()
        async with await connect(client) as stream:
            if hello:
                await stream.send_all(hello)
            assert await ended(stream) == b""
        assert TIMEOUT_S * 0.9 < trio.current_time() - started < 30
        secure = trio.SSLStream(await connect(client), context, server_hostname="127.0.0.1")
        async with secure:
            await secure.do_handshake()
            assert await ended(secure) == b""
        assert (await client.get("/")).status_code == 200
        assert await closings(client, TIME) == 2

    with_host(test, verify=context, settings=limited(tls=HttpTls(pem, pem)))


def test_of_too_many_connections_the_oldest_without_a_user_is_closed(users: Path) -> None:
    async def test(client: httpx.AsyncClient) -> None:
        async with AsyncExitStack() as stack:

            async def opened() -> trio.SocketStream:
                return await stack.enter_async_context(await connect(client))

            user, refused = await opened(), await opened()
            assert b" 200 " in await answer(user, AUTHORIZED)
            assert b" 401 " in await answer(refused, GET + b"\r\n")
            silent = [await opened() for _ in range(3)]
            assert await ended(refused) == b""
            assert await ended(silent[0]) == b""
            assert b" 200 " in await answer(user, AUTHORIZED)
            assert b" 200 " in await answer(silent[2], AUTHORIZED)
            assert await closings(client, COUNT) >= 2

    with_host(test, settings=limited(60.0, 2, password_file=users))


@pytest.mark.parametrize(("path", "status"), [(b"/", b" 401 "), (b"/healthz", b" 200 ")])
def test_user_keeps_a_connection_and_a_client_without_one_does_not(
    users: Path, path: bytes, status: bytes
) -> None:
    request = b"GET %b HTTP/1.1\r\nHost: a\r\n\r\n" % path

    async def test(client: httpx.AsyncClient) -> None:
        async with await connect(client) as user, await connect(client) as stranger:
            assert b" 200 " in await answer(user, AUTHORIZED)
            until = trio.current_time() + TIMEOUT_S
            closes = False
            while not closes:
                is_last = trio.current_time() >= until
                answered = await answer(stranger, request)
                assert status in answered
                closes = b"connection: close" in answered.lower()
                assert closes or not is_last
                await trio.sleep(TIMEOUT_S / 4)
            assert await ended(stranger) == b""
            assert b" 200 " in await answer(user, AUTHORIZED)

    with_host(test, settings=limited(password_file=users))


def test_client_that_reads_no_answers_is_closed(users: Path) -> None:
    """Its answers fill the buffers of the sockets; closing ends the write that waits."""

    async def test(client: httpx.AsyncClient) -> None:
        async with await connect(client) as greedy, trio.open_nursery() as nursery:

            async def send() -> None:
                with suppress(trio.BrokenResourceError):
                    while True:
                        await greedy.send_all(b"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n" * 100)

            nursery.start_soon(send)
            await trio.sleep(4.0)
            with trio.fail_after(60):
                while await closings(client, TIME) < 1:
                    pass
            nursery.cancel_scope.cancel()

    # Long enough for the requests of this test on a busy machine.
    with_host(test, settings=limited(4.0, password_file=users))


def test_websocket_is_refused_without_a_call_of_the_application(users: Path) -> None:
    calls: list[str] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        calls.append(scope["type"])

    async def test(client: httpx.AsyncClient) -> None:
        upgrade = (
            b"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
            b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
        )
        async with await connect(client) as stream:
            assert (await answer(stream, GET + upgrade)).startswith(b"HTTP/1.1 403 ")

    with_host(test, app=app, settings={"password_file": users})
    assert calls == []


@pytest.mark.parametrize("name", [TIME, COUNT])
@pytest.mark.parametrize("text", ["0", "-1", "x", ""])
def test_wrong_limits_are_refused(name: str, text: str) -> None:
    with pytest.raises(ConfigError, match=f"{name}: it must be from 1"):
        HttpOptions().with_properties({name: text})


def test_limits_are_properties() -> None:
    given = {TIME: "2500", COUNT: " 7 "}
    assert HttpOptions().with_properties(given).limits == ConnectionLimits(2.5, 7)
    assert HttpOptions().with_properties({}).limits == ConnectionLimits(30.0, 500)
