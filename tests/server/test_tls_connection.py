"""Connections over TLS, with a dispatcher whose requests are one word."""

import logging
import os
import socket
import ssl
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import attrs
import pytest
import trio
import trustme

from barnabas.config import ConfigError, NodeConfig
from barnabas.config import Listener as Endpoint
from barnabas.server.transport.acceptor import Limits, Listener, Transport, bind
from barnabas.server.transport.tls_listener import TlsListener
from tests.server.test_connection import LIMITS, Client, Served, Words, in_trio

ENDPOINT = Endpoint("SSL", "127.0.0.1", 0, "SSL")
CA = trustme.CA()


@pytest.fixture(autouse=True)
def log_lines(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)


@attrs.frozen
class Files:
    """The files of one listener: key and certificate, and the authority that is trusted."""

    directory: Path
    node: Path
    ca: Path

    def write_node(self, *names: str, common_name: str | None = None) -> None:
        certificate = CA.issue_cert(*names, common_name=common_name)
        certificate.private_key_and_cert_chain_pem.write_to_path(self.node)

    def config(self, **overrides: str) -> NodeConfig:
        given = {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(self.node),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.ca),
            **{name.replace("_", "."): value for name, value in overrides.items()},
        }
        return NodeConfig.load(None, given)


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return new_files(tmp_path)


def new_files(directory: Path) -> Files:
    files = Files(directory, directory / "node.pem", directory / "ca.pem")
    CA.cert_pem.write_to_path(files.ca)
    files.write_node("localhost")
    return files


def client_context(certificate: trustme.LeafCert | None = None) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    CA.configure_trust(context)
    if certificate is not None:
        certificate.configure_cert(context)
    return context


class SlicedStream(trio.abc.Stream):
    """A stream that sends each byte alone."""

    def __init__(self, inner: trio.SocketStream) -> None:
        self.inner = inner

    async def send_all(self, data: Any) -> None:
        for position in range(len(data)):
            await self.inner.send_all(bytes(data[position : position + 1]))

    async def wait_send_all_might_not_block(self) -> None:
        await self.inner.wait_send_all_might_not_block()

    async def receive_some(self, max_bytes: int | None = None) -> bytes | bytearray:
        return await self.inner.receive_some(7)

    async def aclose(self) -> None:
        await self.inner.aclose()


class TlsServed(Served):
    """A transport with one TLS listener."""

    tls: TlsListener

    async def secure(
        self, context: ssl.SSLContext | None = None, *, sliced: bool = False
    ) -> Client:
        plain = (await self.client()).stream
        stream: Any = SlicedStream(plain) if sliced else plain
        secure = trio.SSLStream(
            stream, context or client_context(), server_hostname="localhost", https_compatible=True
        )
        return Client(secure)  # type: ignore[arg-type]


async def answer(client: Client) -> bytes | None:
    """Return the answer to a request; None when the server has refused the client.

    With TLS 1.3, a client learns that its certificate was refused only by its first read.
    """
    try:
        await client.send(b"echo 1")
        return await client.receive()
    except trio.BrokenResourceError:
        return None


@asynccontextmanager
async def tls_served(limits: Limits = LIMITS, **overrides: str) -> AsyncIterator[TlsServed]:
    words = Words()
    with tempfile.TemporaryDirectory() as directory:
        files = new_files(Path(directory))
        tls = TlsListener(files.config(**overrides), "SSL")

        async def read_ahead(fd: int, position: int, size: int) -> None:
            await trio.lowlevel.checkpoint()

        transport = Transport(limits, read_ahead)
        listener = Listener(ENDPOINT, bind(ENDPOINT, limits), "broker", tls)
        dispatchers: Any = {"broker": words}
        async with trio.open_nursery() as nursery:
            await nursery.start(transport.run, [listener], dispatchers)
            server = TlsServed(transport, words, listener.port)
            server.tls = tls
            with trio.fail_after(60):
                yield server
            for client in server.clients:
                client.stream.socket.close()
            nursery.cancel_scope.cancel()


@in_trio
async def test_requests_over_tls_are_answered_in_order() -> None:
    async with tls_served() as server:
        client = await server.secure()
        asked = [b"echo %d" % i for i in range(3000)]
        async with trio.open_nursery() as nursery:
            nursery.start_soon(client.send, *asked)
            assert [await client.receive() for _ in asked] == asked


@in_trio
async def test_records_that_arrive_byte_by_byte_are_whole_requests() -> None:
    async with tls_served() as server:
        client = await server.secure(sliced=True)
        for number in range(3):
            await client.send(b"echo %d" % number, b"echo again")
            assert await client.receive() == b"echo %d" % number
            assert await client.receive() == b"echo again"


@in_trio
async def test_first_request_behind_the_handshakes_last_record_is_read() -> None:
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = client_context().wrap_bio(incoming, outgoing, server_hostname="localhost")
    async with tls_served() as server:
        stream = (await server.client()).stream
        while True:
            try:
                client.do_handshake()
                break
            except ssl.SSLWantReadError:
                await stream.send_all(outgoing.read())
                incoming.write(await stream.receive_some())
        client.write(b"\0\0\0\6echo 1")
        await stream.send_all(outgoing.read())  # one segment with both
        data = b""
        while len(data) < 10:
            try:
                data += client.read(100)
            except ssl.SSLWantReadError:
                incoming.write(await stream.receive_some())
        assert data == b"\0\0\0\6echo 1"


@in_trio
async def test_large_request_over_tls_is_received_whole() -> None:
    async with tls_served() as server:
        client = await server.secure()
        word = b"echo " + os.urandom(900_000).replace(b" ", b"_")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(client.send, word, b"echo 2")
            assert await client.receive() == word
            assert await client.receive() == b"echo 2"


@in_trio
async def test_range_of_a_file_is_sent_encrypted() -> None:
    async with tls_served() as server:
        with tempfile.TemporaryFile() as file:
            data = os.urandom(3_000_000)
            file.write(data)
            file.flush()
            server.words.file, server.words.size = file, len(data)
            client = await server.secure()
            await client.send(b"file", b"echo behind")
            assert await client.receive() == b"head" + data[3:] + b"tail"
            assert await client.receive() == b"echo behind"


@in_trio
async def test_peer_that_reads_nothing_stops_the_reading_of_its_requests() -> None:
    async with tls_served() as server:
        client = await server.secure()
        word = b"echo " + bytes(500_000)
        with trio.move_on_after(2) as scope:
            for _ in range(200):
                await client.send(word)
        assert scope.cancelled_caught
        assert len(server.words.started) < 100


def test_end_without_a_closing_record_is_an_end(caplog: pytest.LogCaptureFixture) -> None:
    @in_trio
    async def test() -> None:
        async with tls_served() as server:
            client = await server.secure()
            await client.send(b"echo 1")
            assert await client.receive() == b"echo 1"
            server.clients[0].stream.socket.shutdown(1)
            while server.transport.connections:
                await trio.lowlevel.checkpoint()

    test()
    assert [record for record in caplog.records if record.name.endswith("connection")] == []


@in_trio
async def test_server_ends_a_connection_with_a_closing_record() -> None:
    async with tls_served() as server:
        plain = (await server.client()).stream
        secure = trio.SSLStream(
            plain, client_context(), server_hostname="localhost", https_compatible=False
        )
        client = Client(secure)  # type: ignore[arg-type]
        await client.send(b"echo 1", b"close")
        assert await client.receive() == b"echo 1"
        assert await client.receive() is None  # BrokenResourceError without the record


def test_silent_client_is_closed_at_the_end_of_its_time(
    caplog: pytest.LogCaptureFixture,
) -> None:
    @in_trio
    async def test() -> None:
        async with tls_served(attrs.evolve(LIMITS, authentication_ms_max=100)) as server:
            client = await server.client()
            await client.stream.send_all(b"\x16\x03")
            assert await client.stream.receive_some() == b""

    test()
    assert "not ready within 0.1 s (barnabas.authentication.timeout.ms)" in caplog.text


def test_plain_text_on_a_tls_listener_is_named_in_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    @in_trio
    async def test() -> None:
        async with tls_served() as server:
            client = await server.client()
            await client.send(b"echo in plain text")
            while await client.stream.receive_some():
                pass

    test()
    assert "the client does not speak TLS (does its security.protocol match" in caplog.text


def test_tls_on_a_plain_listener_is_named_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    from tests.server.test_connection import served

    @in_trio
    async def test() -> None:
        async with served() as server:
            plain = (await server.client()).stream
            secure = trio.SSLStream(plain, client_context(), server_hostname="localhost")
            with pytest.raises(trio.BrokenResourceError):
                await secure.do_handshake()

    test()
    assert "the client speaks TLS (does its security.protocol match the listener?)" in caplog.text


def test_oldest_client_that_shakes_no_hands_makes_room(caplog: pytest.LogCaptureFixture) -> None:
    @in_trio
    async def test() -> None:
        async with tls_served(barnabas_unauthenticated_connections_max="2") as server:
            ready = await server.secure()
            assert await answer(ready) == b"echo 1"
            silent = [(await server.client()).stream for _ in range(3)]
            assert await silent[0].receive_some() == b""
            await trio.testing.wait_all_tasks_blocked()
            assert len(server.transport.connections) == 3
            assert await answer(ready) == b"echo 1"

    test()
    assert "reason=barnabas.unauthenticated.connections.max" in caplog.text


@pytest.mark.parametrize("seed", range(4))
def test_oldest_of_clients_that_come_at_once_makes_room(seed: int) -> None:
    """The tasks of connections that are accepted in one turn start in the scheduler's order."""

    @in_trio
    async def test() -> None:
        async with tls_served(barnabas_unauthenticated_connections_max="2") as server:
            clients = [socket.socket() for _ in range(3)]
            for client in clients:  # the server accepts none of them before the last one
                client.connect(("127.0.0.1", server.port))
            trio._core._run._r.seed(seed)  # type: ignore[attr-defined]
            while server.transport.accepted < 3:  # noqa: ASYNC110 - there is no event for it
                await trio.sleep(0.01)
            await trio.testing.wait_all_tasks_blocked()
            assert len(server.transport.connections) == 2
            clients[0].settimeout(60)
            assert clients[0].recv(1) == b""
            for client in clients:
                client.close()

    test()


def test_failed_handshakes_of_an_address_are_one_line(caplog: pytest.LogCaptureFixture) -> None:
    @in_trio
    async def test() -> None:
        async with tls_served() as server:
            for _ in range(20):
                stream = (await server.client()).stream
                await stream.send_all(b"GET / HTTP/1.0\r\n\r\n")
                with suppress(trio.BrokenResourceError):
                    while await stream.receive_some():
                        pass
            assert server.tls.failures.count == 20

    test()
    assert 1 <= caplog.text.count("TLS handshake failed") < 20


def test_handshakes_at_once_leave_turns_of_the_loop_to_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    steps: list[int] = [0]
    shake = ssl.SSLObject.do_handshake

    def counted(end: ssl.SSLObject) -> None:
        if end.server_side:
            steps[-1] += 1
        shake(end)

    class Turns(trio.abc.Instrument):
        def before_io_wait(self, timeout: float) -> None:
            steps.append(0)

    monkeypatch.setattr(ssl.SSLObject, "do_handshake", counted)

    @in_trio
    async def test() -> None:
        async with tls_served() as server:
            trio.lowlevel.add_instrument(Turns())
            clients = [await server.secure() for _ in range(40)]
            async with trio.open_nursery() as nursery:
                for client in clients:
                    nursery.start_soon(answer, client)

    test()
    assert sum(steps) >= 80
    assert max(steps) <= 4


@pytest.mark.parametrize(
    ("rules", "principal"),
    [
        ("DEFAULT", "User:CN=joseph,OU="),
        ("RULE:^.*CN=(.*?),.*$/$1/U", "User:JOSEPH"),
    ],
)
def test_clients_certificate_gives_its_principal(rules: str, principal: str) -> None:
    @in_trio
    async def test() -> None:
        settings = {"ssl_client_auth": "required", "ssl_principal_mapping_rules": rules}
        async with tls_served(**settings) as server:
            leaf = CA.issue_cert("joseph@castle.example", common_name="joseph")
            client = await server.secure(client_context(leaf))
            await client.send(b"echo 1")
            assert await client.receive() == b"echo 1"
            (connection,) = server.transport.connections
            assert str(connection.principal).startswith(principal)

    test()


@in_trio
async def test_client_without_a_requested_certificate_is_anonymous() -> None:
    async with tls_served(ssl_client_auth="requested") as server:
        client = await server.secure()
        await client.send(b"echo 1")
        assert await client.receive() == b"echo 1"
        (connection,) = server.transport.connections
        assert str(connection.principal) == "User:ANONYMOUS"


@pytest.mark.parametrize("leaf", [None, trustme.CA().issue_cert("stranger@example.org")])
def test_client_without_a_trusted_certificate_is_refused(
    leaf: trustme.LeafCert | None, caplog: pytest.LogCaptureFixture
) -> None:
    @in_trio
    async def test() -> None:
        async with tls_served(ssl_client_auth="required") as server:
            client = await server.secure(client_context(leaf))
            assert await answer(client) is None
            assert server.words.started == []

    test()
    assert "TLS handshake failed" in caplog.text


def test_certificate_without_a_rule_is_refused(caplog: pytest.LogCaptureFixture) -> None:
    @in_trio
    async def test() -> None:
        settings = {"ssl_client_auth": "required", "ssl_principal_mapping_rules": "RULE:^O=$/x/"}
        async with tls_served(**settings) as server:
            client = await server.secure(client_context(CA.issue_cert("k@castle.example")))
            assert await answer(client) is None
            assert server.words.started == []

    test()
    assert "No rules apply to" in caplog.text


# Settings


def test_older_version_than_the_enabled_ones_is_refused() -> None:
    @in_trio
    async def test() -> None:
        async with tls_served(ssl_enabled_protocols="TLSv1.3") as server:
            context = client_context()
            context.maximum_version = ssl.TLSVersion.TLSv1_2
            client = await server.secure(context)
            with pytest.raises(trio.BrokenResourceError):
                await client.send(b"echo 1")

    test()


def test_cipher_suite_is_chosen_by_its_iana_name() -> None:
    @in_trio
    async def test() -> None:
        suites = "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384"
        async with tls_served(ssl_cipher_suites=suites) as server:
            client = await server.secure()
            await client.send(b"echo 1")
            assert await client.receive() == b"echo 1"
            stream: Any = client.stream
            assert stream.cipher()[0] in (
                "ECDHE-ECDSA-AES256-GCM-SHA384",
                "ECDHE-RSA-AES256-GCM-SHA384",
            )

    test()


@pytest.mark.parametrize(
    ("overrides", "name", "reason"),
    [
        ({"ssl_keystore_location": "/missing.pem"}, "ssl.keystore.location",
         "/missing.pem: No such file"),
        ({"ssl_keystore_password": "x"}, "ssl.keystore.password",
         "SSL key store password cannot be specified with PEM format"),
        ({"ssl_keystore_type": "JKS"}, "ssl.keystore.password",
         "SSL key store is specified, but key store password is not specified."),
        ({"ssl_keystore_type": "JKS", "ssl_keystore_password": "x"}, "ssl.keystore.location",
         "it is neither a PKCS12 nor a JKS store"),
        ({"ssl_keystore_key": "x"}, "ssl.keystore.key",
         "SSL private key is specified, but certificate chain is not specified."),
        ({"ssl_keystore_certificate_chain": "x"}, "ssl.keystore.key",
         "SSL certificate chain is specified, but private key is not specified"),
        ({"ssl_truststore_password": "x"}, "ssl.truststore.password",
         "SSL trust store password cannot be specified for PEM format."),
        ({"ssl_truststore_certificates": "x"}, "ssl.truststore.certificates",
         "Both SSL trust store location and separate trust certificates are specified."),
        ({"ssl_enabled_protocols": "TLSv1.1"}, "ssl.enabled.protocols", "TLSv1.2 and TLSv1.3"),
        ({"ssl_cipher_suites": "TLS_NONE"}, "ssl.cipher.suites", "OpenSSL has none of TLS_NONE"),
        ({"ssl_principal_mapping_rules": "x"}, "ssl.principal.mapping.rules", "Invalid rule"),
    ],
)  # fmt: skip
def test_unusable_settings_stop_the_start(
    files: Files, overrides: dict[str, str], name: str, reason: str
) -> None:
    with pytest.raises(ConfigError) as refused:
        TlsListener(files.config(**overrides), "SSL")
    assert refused.value.name == name
    assert reason in refused.value.message
    assert "listener SSL" in refused.value.message


def test_listener_without_a_key_store_stops_the_start() -> None:
    with pytest.raises(ConfigError, match=r"needs a key and a certificate: set ssl\.keystore"):
        TlsListener(NodeConfig.load(), "SSL")


def test_property_with_the_listeners_prefix_wins(files: Files, tmp_path: Path) -> None:
    config = files.config(ssl_keystore_location="/missing.pem")
    static = {**config.static, "listener.name.ssl.ssl.keystore.location": str(files.node)}
    TlsListener(NodeConfig(static), "SSL")
    with pytest.raises(ConfigError, match=r"missing\.pem"):
        TlsListener(NodeConfig(static), "OTHER")


# Renewed certificates


def served_certificate(tls: TlsListener) -> Any:
    """Return the subject's alternative names that a listener's context shows to a client."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    context = client_context()
    context.check_hostname = False
    client = context.wrap_bio(incoming, outgoing)
    server = tls._settings.context.wrap_bio(outgoing, incoming, server_side=True)
    while True:
        try:
            client.do_handshake()
        except ssl.SSLWantReadError:
            try:
                server.do_handshake()
            except ssl.SSLWantReadError:
                continue
        else:
            break
    certificate = client.getpeercert()
    assert certificate is not None
    return sorted(value for _, value in certificate["subjectAltName"])


def test_renewed_certificate_is_served(files: Files) -> None:
    files.write_node("localhost", common_name="node")
    config = files.config(ssl_allow_dn_changes="true")
    tls = TlsListener(config, "SSL")
    files.write_node("localhost", "node.example", common_name="node")
    tls.reload(config)
    assert served_certificate(tls) == ["localhost", "node.example"]
    assert tls.failed_reloads == 0


def test_bad_file_at_a_reload_keeps_the_old_certificate(
    files: Files, caplog: pytest.LogCaptureFixture
) -> None:
    config = files.config()
    tls = TlsListener(config, "SSL")
    files.node.write_text("nothing")
    tls.reload(config)
    assert served_certificate(tls) == ["localhost"]
    assert tls.failed_reloads == 1
    assert "the old ones stay listener=SSL reason=" in caplog.text
    assert "it has no private key" in caplog.text


@pytest.mark.parametrize("allowed", [False, True])
def test_renewed_certificate_without_an_old_name_is_refused(files: Files, allowed: bool) -> None:
    files.write_node("localhost", "node.example")
    config = files.config(ssl_allow_dn_changes="true", ssl_allow_san_changes=str(allowed).lower())
    tls = TlsListener(config, "SSL")
    files.write_node("localhost")
    tls.reload(config)
    expected = ["localhost"] if allowed else ["localhost", "node.example"]
    assert served_certificate(tls) == expected


def test_renewed_certificate_of_another_subject_is_refused(files: Files) -> None:
    config = files.config()
    tls = TlsListener(config, "SSL")
    files.write_node("localhost", "node.example", common_name="other")
    tls.reload(config)
    assert served_certificate(tls) == ["localhost"]
    assert tls.failed_reloads == 1


def test_replaced_file_is_read_when_the_node_is_touched(files: Files) -> None:
    config = files.config(ssl_allow_dn_changes="true")
    tls = TlsListener(config, "SSL")
    before = tls._settings
    tls.reload_changed_files(config)
    assert tls._settings is before
    files.write_node("localhost", "node.example")
    os.utime(files.node, ns=(0, 0))
    tls.reload_changed_files(config)
    assert served_certificate(tls) == ["localhost", "node.example"]


def test_certificate_that_ends_soon_is_a_warning_each_day(
    files: Files, caplog: pytest.LogCaptureFixture
) -> None:
    ends = datetime.now(UTC) + timedelta(days=10, minutes=30)
    leaf = CA.issue_cert("localhost", not_after=ends)
    leaf.private_key_and_cert_chain_pem.write_to_path(files.node)
    tls = TlsListener(files.config(), "SSL")
    assert tls.certificate_left.days == 10
    caplog.clear()

    async def three_days() -> None:
        with trio.move_on_after(3.5 * 86_400):
            await tls.warn_daily()

    trio.run(three_days, clock=trio.testing.MockClock(autojump_threshold=0))
    warnings = [record.getMessage() for record in caplog.records]
    assert warnings == ["the certificate ends soon listener=SSL days=10"] * 3
