"""Fuzzing before authentication: what clients send to a listener until it knows who they are.

Valid steps of a TLS handshake and of each SASL mechanism are damaged, cut, repeated and mixed with
requests of every api, on a SASL_PLAINTEXT, an SSL and a SASL_SSL listener. None of it may have an
effect: a bystander gets its answers, the topics and users stay as they were, and no connection
stays open.
"""

import os
import random
import socket
import ssl
import struct
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

from barnabas.client.core.sasl_exchange import start_exchange
from barnabas.protocol.messages.api_versions import ApiVersionsRequest
from barnabas.protocol.messages.metadata import MetadataRequest
from barnabas.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from barnabas.protocol.messages.sasl_handshake import SaslHandshakeRequest
from barnabas.testing.eventually import wait_until
from barnabas.testing.free_ports import free_ports
from compat_tests import wire
from compat_tests.cluster.secured import PLAIN, SCRAM, Security
from compat_tests.servers import BarnabasProcess

_MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
_CONNECTIONS: Final = 50
_WITHIN_S: Final = 30.0
_ANSWER_S: Final = 2.0
Damage = Callable[[random.Random, bytes], bytes]


class Target:
    """A node with listeners that ask for TLS, for a login, and for both."""

    def __init__(self, directory: Path) -> None:
        security = Security(directory)
        self.server = BarnabasProcess()
        self.login, self.tls, self.both = free_ports(3)
        self.context = ssl.create_default_context(cafile=str(security.ca))
        names = {"SASL_PLAINTEXT": self.login, "SSL": self.tls, "SASL_SSL": self.both}
        clients = [f"PLAINTEXT://{self.server.bootstrap}"]
        clients += [f"{name}://127.0.0.1:{port}" for name, port in names.items()]
        logins = {
            f"listener.name.{listener}.{mechanism.lower()}.sasl.jaas.config": (
                f'{PLAIN} user_a="secret";' if mechanism == "PLAIN" else f"{SCRAM};"
            )
            for listener in ("sasl_plaintext", "sasl_ssl")
            for mechanism in _MECHANISMS
        }
        self.server.properties |= {
            **security.stores(),
            **logins,
            "listeners": ",".join(
                [*clients, f"CONTROLLER://127.0.0.1:{self.server.controller_port}"]
            ),
            "sasl.enabled.mechanisms": ",".join(_MECHANISMS),
            "ssl.client.auth": "required",
        }

    def open_files(self) -> int:
        """Return the number of the node's open files and connections."""
        return len(os.listdir(f"/proc/{self.server.pid}/fd"))

    def topics(self) -> list[str | None]:
        """Return the names of all topics."""
        answer = wire.call(self.server.bootstrap, MetadataRequest(topics=None), 4)
        return [each.name for each in answer.topics]


def steps(chance: random.Random) -> list[bytes]:
    """Return the requests of a login with a wrong password, and one that would create a topic."""
    mechanism = chance.choice([*_MECHANISMS, "OAUTHBEARER", "GSSAPI", ""])
    known = mechanism if mechanism in _MECHANISMS else "PLAIN"
    first = start_exchange(known, "a", "wrong", f"{chance.random()}").first()
    tokens = [first, b"", b"\x01", first * 50, b"c=biws,r=x,p=AAAA"]
    requests = [
        (ApiVersionsRequest(client_software_name="a", client_software_version="1"), 3),
        (SaslHandshakeRequest(mechanism=mechanism), chance.randrange(2)),
        *((SaslAuthenticateRequest(auth_bytes=each), chance.randrange(3)) for each in tokens),
        (MetadataRequest(topics=[MetadataRequest.MetadataRequestTopic(name="fuzzed")]), 4),
    ]
    return [wire.request_frame(request, version, 1) for request, version in requests]


def client_hello(context: ssl.SSLContext) -> bytes:
    """Return the first bytes of a TLS client."""
    sent = ssl.MemoryBIO()
    session = context.wrap_bio(ssl.MemoryBIO(), sent, server_hostname="localhost")
    with suppress(ssl.SSLWantReadError):
        session.do_handshake()
    return sent.read()


def attack(chance: random.Random, target: Target, frames: list[bytes], damage: Damage) -> None:
    """Open one connection to a listener, and send what no client should."""
    port = chance.choice([target.login, target.tls, target.both])
    with wire.Connection(f"127.0.0.1:{port}") as connection, suppress(OSError):
        if port != target.login:
            if port == target.tls or chance.random() < 0.5:
                connection.socket.sendall(damage(chance, client_hello(target.context)))
                return
            connection.socket = target.context.wrap_socket(
                connection.socket, server_hostname="localhost"
            )
        login = steps(chance)
        sent = chance.choices(login, k=4) + chance.choices(frames, k=2)
        chance.shuffle(sent)
        is_in_order = chance.random() < 0.3
        for payload in [*login[:3], login[-1]] if is_in_order else sent:
            if chance.random() < (0.1 if is_in_order else 0.5):
                payload = damage(chance, payload)
            connection.socket.sendall(struct.pack(">i", len(payload)) + payload)
        if is_in_order:
            _read_answers(connection.socket)


def _read_answers(sock: socket.socket) -> None:
    """Read until the node closes: it carries out no request of a client that is gone."""
    sock.shutdown(socket.SHUT_WR)
    sock.settimeout(_ANSWER_S)
    while sock.recv(1 << 16):
        pass


def run(
    seconds_left: Callable[[], float],
    chance: random.Random,
    frames: list[bytes],
    damage: Damage,
    check_memory: Callable[[int], None],
) -> int:
    """Fuzz the listeners of a node; return the number of connections. Raises on a failure.

    `check_memory` takes the id of the node's process, and raises MemoryError when it grew too much.
    """
    connections = 0
    with tempfile.TemporaryDirectory() as directory:
        target = Target(Path(directory))
        try:
            target.server.start()
            topics = target.topics()
            with wire.Connection(target.server.bootstrap) as bystander:
                bystander.socket.settimeout(1)
                bystander.call(MetadataRequest(topics=[]), 4)
                base = target.open_files()
                while seconds_left() > 0:
                    for _ in range(_CONNECTIONS):
                        attack(chance, target, frames, damage)
                    connections += _CONNECTIONS
                    bystander.call(MetadataRequest(topics=[]), 4)
                    check_memory(target.server.pid)
                wait_until(lambda: target.open_files() <= base, _WITHIN_S)
            assert target.topics() == topics
        except BaseException:
            print(target.server.log_tail())
            raise
        finally:
            target.server.close()
    return connections
