"""WebSockets of the host: the path that is for them, credentials before the upgrade, the end."""

import logging
from pathlib import Path
from typing import Any

import bcrypt
import httpx
import pytest
import trio
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from barnabas.http import principal_of
from tests.http.hosting import with_host

PATH = "/live"
UPGRADE = {
    "Connection": "Upgrade",
    "Upgrade": "websocket",
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
}
ALICE = {"Authorization": "Basic YWxpY2U6c2VjcmV0"}


@pytest.fixture
def users(tmp_path: Path) -> Path:
    path = tmp_path / "users"
    path.write_text(f"alice:{bcrypt.hashpw(b'secret', bcrypt.gensalt(4)).decode()}\n")
    return path


async def greet(scope: Any, receive: Any, send: Any) -> None:
    """Name the caller and echo one message, or fail."""
    assert (await receive())["type"] == "websocket.connect"
    await send({"type": "websocket.accept"})
    await send({"type": "websocket.send", "text": f"hello {principal_of(scope)}"})
    if (await receive()).get("text") == "fail":
        raise RuntimeError("a secret of the application")
    await send({"type": "websocket.close", "code": 1000, "reason": "done"})


def greeted(client: httpx.AsyncClient, text: str) -> tuple[str, int, str]:
    """Return the first frame, and the code and reason of the close frame behind a message."""
    url = f"ws://{client.base_url.host}:{client.base_url.port}{PATH}"
    with connect(url, additional_headers=ALICE, open_timeout=120, proxy=None) as found:
        first = found.recv(120)
        found.send(text)
        with pytest.raises(ConnectionClosed) as raised:
            found.recv(120)
        end = raised.value.rcvd
        assert end is not None
        return str(first), end.code, end.reason


def test_credentials_are_checked_before_the_upgrade(users: Path) -> None:
    async def test(client: httpx.AsyncClient) -> None:
        answer = await client.get(PATH, headers=UPGRADE)
        assert (answer.status_code, answer.headers["www-authenticate"][:5]) == (401, "Basic")
        assert answer.json()["message"] == "credentials are required"
        wrong = {"Authorization": "Basic YWxpY2U6eA=="}
        assert (await client.get(PATH, headers=UPGRADE | wrong)).status_code == 401
        assert (await client.get("/other", headers=UPGRADE | ALICE)).status_code == 403
        found = await trio.to_thread.run_sync(greeted, client, "well")
        assert found == ("hello alice", 1000, "done")

    with_host(test, app=greet, settings={"password_file": users}, socket_paths=(PATH,))


def test_failure_of_the_application_ends_the_websocket(
    users: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)

    async def test(client: httpx.AsyncClient) -> None:
        found = await trio.to_thread.run_sync(greeted, client, "fail")
        assert found == ("hello alice", 1011, "")
        text = (await client.get("/metrics")).text
        assert 'status="101"' in text

    with_host(test, app=greet, settings={"password_file": users}, socket_paths=(PATH,))
    assert "request failed method=GET path=/live" in caplog.text
    assert "status=101 bytes=11 " in caplog.text


def test_message_of_a_client_has_a_limit(users: Path) -> None:
    async def test(client: httpx.AsyncClient) -> None:
        found = await trio.to_thread.run_sync(greeted, client, "x" * 70_000)
        assert found == ("hello alice", 1009, "")

    with_host(test, app=greet, settings={"password_file": users}, socket_paths=(PATH,))
