"""Request bodies that do not come: 408 within the time of a head, and the connection ends."""

from contextlib import suppress
from typing import Any

import httpx
import pytest
import trio

from barnabas.http import body_limit
from tests.http.hosting import with_host

DEADLINE_S = 0.4


@pytest.fixture(autouse=True)
def short_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(body_limit, "BODY_TIMEOUT_S", DEADLINE_S)


async def _sent(client: httpx.AsyncClient, *parts: bytes, pause_s: float = 0.0) -> bytes:
    """Send parts of a request on a new connection; return what comes until the server closes it."""
    url = client.base_url
    stream = await trio.open_tcp_stream(url.host, url.port or 80)
    received = b""

    async def send() -> None:
        with suppress(trio.BrokenResourceError):
            for part in parts:
                await stream.send_all(part)
                await trio.sleep(pause_s)

    async with stream, trio.open_nursery() as nursery:
        nursery.start_soon(send)
        with trio.fail_after(10), suppress(trio.BrokenResourceError):
            while data := await stream.receive_some():
                received += data
        nursery.cancel_scope.cancel()
    return received


def _head(*headers: bytes) -> bytes:
    return b"\r\n".join((b"POST /echo HTTP/1.1", b"Host: a", *headers, b"", b""))


@pytest.mark.parametrize("headers", [b"Content-Length: 100", b"Transfer-Encoding: chunked"])
def test_host_body_of_which_one_byte_comes_is_408(headers: bytes) -> None:
    async def test(client: httpx.AsyncClient) -> None:
        started = trio.current_time()
        part = b"x" if b"Length" in headers else b"1\r\nx\r\n"
        answer = await _sent(client, _head(headers) + part)
        assert answer.startswith(b"HTTP/1.1 408 ")
        assert b'"error_code": 408' in answer
        assert b"connection: close" in answer.lower()
        assert DEADLINE_S * 0.9 < trio.current_time() - started < 10
        assert (await client.get("/")).status_code == 200

    with_host(test)


def test_host_body_that_comes_byte_by_byte_has_the_same_bound() -> None:
    async def test(client: httpx.AsyncClient) -> None:
        started = trio.current_time()
        parts = [_head(b"Content-Length: 1000"), *(b"x" for _ in range(40))]
        answer = await _sent(client, *parts, pause_s=DEADLINE_S / 5)
        assert answer.startswith(b"HTTP/1.1 408 ")
        assert trio.current_time() - started < 10

    with_host(test)


def test_host_large_body_gets_the_time_that_its_bytes_need(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each part allows 20 s more, also on a busy machine; without that, the body takes too long."""
    monkeypatch.setattr(body_limit, "BYTES_OF_A_SECOND", 10)

    async def chunks() -> Any:
        for _ in range(8):
            yield b"x" * 200
            await trio.sleep(DEADLINE_S / 4)

    async def test(client: httpx.AsyncClient) -> None:
        assert (await client.post("/echo", content=chunks())).content == b"x" * 1600

    with_host(test)


def test_host_application_that_answers_late_is_not_cut() -> None:
    """The bound ends with the body: an application may wait for the client to leave."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        assert (await receive())["type"] in ("http.request", "lifespan.startup")
        left: list[str] = []

        async def watch() -> None:
            while (message := await receive())["type"] == "http.request":
                pass
            left.append(message["type"])

        async with trio.open_nursery() as nursery:
            nursery.start_soon(watch)
            await trio.sleep(DEADLINE_S * 2)
            nursery.cancel_scope.cancel()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"late"})

    async def test(client: httpx.AsyncClient) -> None:
        assert (await client.post("/", content=b"x")).text == "late"
        assert (await client.get("/")).text == "late"

    with_host(test, app=app)
