"""The host with an application: limits, errors, health, metrics, TLS, log lines."""

import logging
import socket
import ssl
from functools import partial
from pathlib import Path

import httpx
import pytest
import trio
import trustme

from barnabas.config import ConfigError
from barnabas.http import (
    HttpOptions,
    HttpSettings,
    HttpStartError,
    HttpTls,
    ListenAddress,
    serve_app,
)
from barnabas.http.http_host import bind_listener
from tests.client.harness import eventually
from tests.http.hosting import LOCAL, example_app, with_host


def test_host_application_answers() -> None:
    async def test(client: httpx.AsyncClient) -> None:
        answer = await client.get("/")
        assert (answer.status_code, answer.text) == (200, "hello ANONYMOUS")
        assert "server" not in answer.headers
        assert (await client.post("/echo", content=b"x" * 100_000)).content == b"x" * 100_000

    with_host(test)


@pytest.mark.parametrize(
    ("method", "path", "status", "message"),
    [
        ("GET", "/fail", 500, "internal server error"),
        ("POST", "/metrics", 405, "only GET is supported"),
    ],
)
def test_host_errors_have_one_body(method: str, path: str, status: int, message: str) -> None:
    async def test(client: httpx.AsyncClient) -> None:
        answer = await client.request(method, path)
        assert answer.status_code == status
        assert answer.json() == {"error_code": status, "message": message}
        assert (await client.get("/")).status_code == 200

    with_host(test)


def test_host_failure_is_logged_with_its_traceback_and_not_sent(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def test(client: httpx.AsyncClient) -> None:
        assert "secret" not in (await client.get("/fail")).text
        await eventually(lambda: "request failed method=GET path=/fail" in caplog.text)

    with_host(test)
    assert "RuntimeError: a secret of the application" in caplog.text


def test_host_failure_after_the_response_began_ends_the_connection() -> None:
    async def test(client: httpx.AsyncClient) -> None:
        with pytest.raises(httpx.RemoteProtocolError):
            await client.get("/late")
        assert (await client.get("/")).status_code == 200

    with_host(test)


def test_host_body_above_the_limit_is_413_declared_or_streamed() -> None:
    async def chunks() -> object:
        for _ in range(3):
            yield b"x" * 500

    async def test(client: httpx.AsyncClient) -> None:
        assert (await client.post("/echo", content=b"x" * 1000)).status_code == 200
        declared = await client.post("/echo", content=b"x" * 1001)
        streamed = await client.post("/echo", content=chunks())
        for answer in (declared, streamed):
            assert answer.status_code == 413
            assert answer.json()["message"] == "the body is larger than 1000 bytes"
        assert (await client.get("/")).status_code == 200

    with_host(test, settings={"body_bytes_max": 1000})


def test_largest_body_is_a_property() -> None:
    given = {"barnabas.http.body.max.bytes": " 5000000 "}
    assert HttpOptions().with_properties(given).body_bytes_max == 5_000_000
    assert HttpOptions().with_properties({}).body_bytes_max == 1 << 20


@pytest.mark.parametrize("text", ["0", "-1", "1e6", "1 MiB", "", str((1 << 30) + 1)])
def test_wrong_largest_body_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match=r"barnabas\.http\.body\.max\.bytes: it must be from 1"):
        HttpOptions().with_properties({"barnabas.http.body.max.bytes": text})


def test_host_health_follows_the_application() -> None:
    reasons = ["reading _schemas", None]

    async def test(client: httpx.AsyncClient) -> None:
        waiting = await client.get("/healthz")
        assert (waiting.status_code, waiting.text) == (503, "reading _schemas\n")
        assert waiting.headers["retry-after"] == "1"
        assert (await client.get("/healthz")).status_code == 200

    with_host(test, not_ready=lambda: reasons.pop(0))


def test_host_metrics_count_requests_by_method_and_status() -> None:
    async def test(client: httpx.AsyncClient) -> None:
        await client.get("/")
        await client.get("/nothing")
        await client.request("BREW", "/")
        text = (await client.get("/metrics")).text
        assert 'barnabas_http_requests_total{method="GET",status="200"} 1.0' in text
        assert 'barnabas_http_requests_total{method="GET",status="404"} 1.0' in text
        assert 'method="other"' in text
        assert "barnabas_http_requests_in_flight 1.0" in text

    with_host(test)


def test_host_request_lines_name_what_happened_on_one_line(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "barnabas.http.requests")

    async def test(client: httpx.AsyncClient) -> None:
        await client.get("/nothing%0Ahere?password=secret")

    with_host(test)
    [line] = [each.getMessage() for each in caplog.records if each.name.endswith("requests")]
    assert line.startswith("request method=GET path=/nothing%0Ahere status=404 bytes=")
    assert line.endswith("client=127.0.0.1 principal=ANONYMOUS")
    assert "\n" not in line


def test_host_request_with_two_lengths_is_refused() -> None:
    async def test(client: httpx.AsyncClient) -> None:
        stream = await trio.open_tcp_stream("127.0.0.1", client.base_url.port or 0)
        async with stream:
            await stream.send_all(
                b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n"
                b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
            )
            answer = await stream.receive_some()
            assert answer.startswith(b"HTTP/1.1 400")
            assert b"connection: close" in answer.lower()

    with_host(test)


def test_host_reader_that_leaves_ends_a_silent_stream() -> None:
    ended = trio.Event()

    async def silent(scope: object, receive: object, send: object) -> None:
        assert scope["type"] == "http"
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"a", "more_body": True})
        while (await receive())["type"] != "http.disconnect":
            pass
        ended.set()

    async def test(client: httpx.AsyncClient) -> None:
        stream = await trio.open_tcp_stream("127.0.0.1", client.base_url.port or 0)
        async with stream:
            await stream.send_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            assert (await stream.receive_some()).startswith(b"HTTP/1.1 200")
        with trio.fail_after(100):
            await ended.wait()

    with_host(test, app=silent)


def test_host_taken_port_is_one_clear_line() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = ListenAddress("127.0.0.1", taken.getsockname()[1])
        with pytest.raises(HttpStartError) as error:
            trio.run(serve_app, example_app(), HttpSettings(address))
    assert str(error.value) == f"cannot listen on {address}: Address already in use"


def test_host_unknown_address_is_one_clear_line() -> None:
    with pytest.raises(HttpStartError, match=r"cannot listen on no\.such\.host\.invalid:1: "):
        bind_listener(ListenAddress("no.such.host.invalid", 1))


@pytest.mark.parametrize("text", ["8081", "127.0.0.1:", ":1", "host:port", "127.0.0.1:99999"])
def test_listen_address_of_a_wrong_form_raises(text: str) -> None:
    with pytest.raises(ConfigError, match="--listen"):
        ListenAddress.parse(text)


def test_listen_address_ipv6_is_read_and_written() -> None:
    assert ListenAddress.parse("[::1]:80") == ListenAddress("::1", 80)
    with pytest.raises(ConfigError, match="for --sql-listen: ports end at 65535"):
        ListenAddress.parse("127.0.0.1:99999", "--sql-listen")
    assert str(ListenAddress("::1", 80)) == "[::1]:80"


def test_host_tls_with_client_certificates(tmp_path: Path) -> None:
    authority = trustme.CA()
    own, clients = authority.issue_cert("127.0.0.1"), authority.issue_cert("client.example")
    certificate, key, ca = (tmp_path / name for name in ("cert.pem", "key.pem", "ca.pem"))
    own.cert_chain_pems[0].write_to_path(certificate)
    own.private_key_pem.write_to_path(key)
    authority.cert_pem.write_to_path(ca)
    trusting, stranger = ssl.create_default_context(), ssl.create_default_context()
    for context in (trusting, stranger):
        authority.configure_trust(context)
    clients.configure_cert(trusting)

    async def test(client: httpx.AsyncClient) -> None:
        assert client.base_url.scheme == "https"
        assert (await client.get("/")).status_code == 200

    async def refused(client: httpx.AsyncClient) -> None:
        with pytest.raises((httpx.ReadError, httpx.RemoteProtocolError)):
            await client.get("/")

    settings = {"tls": HttpTls(certificate, key, client_ca_file=ca)}
    with_host(test, verify=trusting, settings=settings)
    with_host(refused, verify=stranger, settings=settings)


def test_host_tls_files_that_do_not_fit_are_one_clear_line(tmp_path: Path) -> None:
    settings = HttpSettings(
        LOCAL, HttpOptions(tls=HttpTls(tmp_path / "cert.pem", tmp_path / "key.pem"))
    )
    with pytest.raises(ConfigError, match="Cannot use the TLS files"):
        trio.run(serve_app, example_app(), settings)


def test_host_stop_lets_a_request_in_flight_end() -> None:
    async def main() -> None:
        stop, started = trio.Event(), trio.Event()

        async def slow(scope: object, receive: object, send: object) -> None:
            assert scope["type"] == "http"
            started.set()
            await trio.sleep(0.2)
            await send({"type": "http.response.start", "status": 204, "headers": []})
            await send({"type": "http.response.body", "body": b""})

        async with trio.open_nursery() as nursery:
            url = await nursery.start(partial(serve_app, slow, HttpSettings(LOCAL), stop=stop.wait))

            async def get() -> None:
                async with httpx.AsyncClient() as client:
                    assert (await client.get(url)).status_code == 204

            nursery.start_soon(get)
            await started.wait()
            stop.set()

    trio.run(main)
