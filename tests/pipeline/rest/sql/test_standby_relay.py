"""A request that is passed on: headers, rows in both directions, and its end."""

import socket
import threading
from typing import Any

import pytest
import trio

from barnabas.pipeline.rest.sql.request_bodies import ClientGoneError
from barnabas.pipeline.rest.sql.sql_errors import SqlRestError
from barnabas.pipeline.rest.sql.standby_relay import StandbyRelay

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: a/b\r\nserver: s\r\ntransfer-encoding: chunked\r\n\r\n"
SCOPE = {
    "type": "http",
    "method": "POST",
    "path": "/inserts-stream",
    "query_string": b"",
    "headers": [(b"authorization", b"Basic x"), (b"cookie", b"no")],
}


class Active:
    """The active runner, which reads until it has seen a text and then sends bytes, by turns."""

    def __init__(self, *turns: tuple[bytes, bytes]) -> None:
        self.seen = b""
        self._turns = turns
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        with self._listener, self._listener.accept()[0] as client:
            for awaited, answer in self._turns:
                while awaited not in self.seen:
                    data = client.recv(65536)
                    if not data:
                        return
                    self.seen += data
                client.sendall(answer)
            while data := client.recv(65536) if self._turns[-1][1] == HEAD else b"":
                self.seen += data

    def join(self) -> None:
        self._thread.join(120)
        assert not self._thread.is_alive()


def relayed(active: Active, messages: list[Any]) -> list[Any]:
    """Return what the client gets; a number among its messages awaits as many answers first."""
    sent: list[Any] = []
    arrived = trio.Event()

    async def main() -> None:
        async def receive() -> Any:
            nonlocal arrived
            while messages and isinstance(messages[0], int):
                while len(sent) < messages[0]:
                    arrived = trio.Event()
                    await arrived.wait()
                messages.pop(0)
            if not messages:
                await trio.sleep_forever()
            return messages.pop(0)

        async def send(message: Any) -> None:
            sent.append(message)
            arrived.set()

        with trio.fail_after(120):
            await StandbyRelay().relay(active.url, dict(SCOPE), receive, send)

    trio.run(main)
    active.join()
    return sent


def part(body: bytes, *, more: bool) -> dict[str, Any]:
    return {"type": "http.request", "body": body, "more_body": more}


def test_rows_and_their_acknowledgements_pass_at_the_same_time() -> None:
    active = Active((b"one\n", HEAD + b"3\r\nok1\r\n"), (b"two\n", b"3\r\nok2\r\n0\r\n\r\n"))
    # The second row is sent when the first one was acknowledged.
    found = relayed(active, [part(b"one\n", more=True), 2, part(b"two\n", more=False)])
    assert found[0]["headers"] == [(b"content-type", b"a/b")]
    assert [each["body"] for each in found[1:]] == [b"ok1", b"ok2", b""]
    assert active.seen.startswith(b"POST /inserts-stream?forward=true HTTP/1.1\r\n")
    assert b"authorization: Basic x\r\n" in active.seen.lower().replace(b"basic x", b"Basic x")
    assert b"cookie" not in active.seen


def test_connection_of_a_client_that_goes_is_closed() -> None:
    active = Active((b"0\r\n\r\n", HEAD))
    with pytest.raises(ClientGoneError):
        relayed(active, [part(b"", more=False), 1, {"type": "http.disconnect"}])
    active.join()


def test_response_that_does_not_begin_is_an_error_and_one_that_does_not_end_an_abort() -> None:
    with pytest.raises(SqlRestError, match="ended the connection") as raised:
        relayed(Active((b"0\r\n\r\n", b"")), [part(b"", more=False)])
    assert raised.value.code == 50000
    with pytest.raises(ConnectionAbortedError, match="ended the connection"):
        relayed(Active((b"0\r\n\r\n", HEAD + b"3\r\nok")), [part(b"", more=False)])
