"""No secret of a node is in its logs, answers, metrics, arguments, or in files open to others."""

import base64
import json
import os
import re
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
import trustme
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)
from joserfc.jwk import KeySet, RSAKey

from barnabas.protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from barnabas.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from barnabas.protocol.messages.sasl_handshake import SaslHandshakeRequest
from barnabas.testing.free_ports import free_ports
from barnabas.testing.node_process_control import NodeProcess
from compat_tests.wire import Connection

MODULES: Final = "org.apache.kafka.common.security"
CANARIES: Final = {
    "key": "canary-of-the-key",
    "user of PLAIN": "canary-of-carol",
    "node": "canary-of-the-node",
    "tokens": "canary-of-tokens",
    "user of SCRAM": "canary-of-alice",
    "wrong password": "canary-of-a-guess",
    "wrong token": "canary-of-a-forged-token",
    "dynamic": "canary-of-a-dynamic-password",
}
AUTHENTICATION_FAILED: Final = 58
BROKER_LOGGER, SET = 8, 0
OF_OTHERS: Final = 0o077


class WatchedNode(NodeProcess):
    """A node that reads its properties from a file; `seen` has what was shown."""

    def __init__(self, data: Path, file: Path) -> None:
        super().__init__(data)
        self.file = file
        self.seen: dict[str, str] = {}

    def _command(self) -> list[str]:
        return [sys.executable, *self.program, "serve", "--config", str(self.file)]

    def command(self, *arguments: str, given: str = "", config: Path | None = None) -> str:
        """Run a command of barnabas; return what it prints."""
        access = ["--client-config", str(config)] if config else []
        process = subprocess.run(
            [sys.executable, "-m", "barnabas", *arguments, *access],
            env={**os.environ, "BARNABAS_BOOTSTRAP": self.bootstrap},
            input=given,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=60,
            check=False,
        )
        self.seen[" ".join((*arguments, *access))] = process.stdout
        return process.stdout


def write_key_store(directory: Path) -> Path:
    """Write a key under a password, and its certificate; return the file."""
    issued = trustme.CA().issue_cert("127.0.0.1", "localhost")
    key = load_pem_private_key(issued.private_key_pem.bytes(), None)
    encrypted = key.private_bytes(
        Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(CANARIES["key"].encode())
    )
    file = directory / "node.pem"
    file.write_bytes(encrypted + b"".join(each.bytes() for each in issued.cert_chain_pems))
    return file


def properties(directory: Path) -> dict[str, str]:
    """Return properties with a secret of each kind; only listener TLS has certificates."""
    secrets = directory / "secrets.properties"
    secrets.write_text(f"tokens={CANARIES['tokens']}\n")
    jwks = directory / "jwks.json"
    jwks.write_text(json.dumps(KeySet([RSAKey.generate_key(2048)]).as_dict(private=False)))
    sasl, tls = free_ports(2)
    bearer = "listener.name.sasl.oauthbearer.sasl"
    plain = f"{MODULES}.plain.PlainLoginModule required"
    node = f'username="node" password="{CANARIES["node"]}" user_node="{CANARIES["node"]}"'
    return {
        "node.id": "1",
        "process.roles": "broker,controller",
        "log.dirs": str(directory / "data"),
        "listeners": "PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0,"
        f"SASL://127.0.0.1:{sasl},TLS://127.0.0.1:{tls}",
        "controller.listener.names": "CONTROLLER",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:SASL_PLAINTEXT,"
        "SASL:SASL_PLAINTEXT,TLS:SSL",
        "sasl.mechanism.controller.protocol": "PLAIN",
        "listener.name.controller.sasl.enabled.mechanisms": "PLAIN",
        "listener.name.controller.plain.sasl.jaas.config": f"{plain} {node};",
        "listener.name.sasl.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,OAUTHBEARER",
        "listener.name.sasl.plain.sasl.jaas.config": (
            f'{plain} user_carol="{CANARIES["user of PLAIN"]}";'
        ),
        "listener.name.sasl.scram-sha-256.sasl.jaas.config": (
            f"{MODULES}.scram.ScramLoginModule required;"
        ),
        f"{bearer}.jaas.config": f"{MODULES}.oauthbearer.OAuthBearerLoginModule required;",
        f"{bearer}.server.callback.handler.class": (
            f"{MODULES}.oauthbearer.OAuthBearerValidatorCallbackHandler"
        ),
        f"{bearer}.oauthbearer.jwks.endpoint.url": jwks.as_uri(),
        f"{bearer}.oauthbearer.expected.audience": "kafka",
        "listener.name.tls.ssl.keystore.type": "PEM",
        "listener.name.tls.ssl.keystore.location": str(write_key_store(directory)),
        "listener.name.tls.ssl.key.password": CANARIES["key"],
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS;User:node",
        "config.providers": "file",
        "config.providers.file.class": "org.apache.kafka.common.config.provider.FileConfigProvider",
        "delegation.token.secret.key": f"${{file:{secrets}:tokens}}",
        "barnabas.metrics.port": "0",
    }


@pytest.fixture
def node(tmp_path: Path) -> Iterator[WatchedNode]:
    given = properties(tmp_path)
    file = tmp_path / "node.properties"
    file.write_text("".join(f"{name}={value}\n" for name, value in given.items()))
    with WatchedNode(tmp_path / "data", file) as started:
        yield started


def address(node: WatchedNode, listener: str) -> str:
    """Return the address of a listener, which the ready line names."""
    return next(iter(re.findall(rf"{listener}://([^,\s]+)", "".join(node.log))))


def log_everything(node: WatchedNode) -> None:
    """Set all loggers to TRACE."""
    level = IncrementalAlterConfigsRequest.AlterableConfig(
        name="root", config_operation=SET, value="TRACE"
    )
    loggers = IncrementalAlterConfigsRequest.AlterConfigsResource(
        resource_type=BROKER_LOGGER, resource_name="1", configs=[level]
    )
    with Connection(node.bootstrap) as connection:
        answer = connection.call(IncrementalAlterConfigsRequest(resources=[loggers]), 1)
    assert answer.responses[0].error_code == 0


def login(sasl: str, mechanism: str, message: bytes) -> int:
    """Send the first message of a login; return the error code."""
    with Connection(sasl) as connection:
        assert connection.call(SaslHandshakeRequest(mechanism=mechanism), 1).error_code == 0
        return connection.call(SaslAuthenticateRequest(auth_bytes=message), 2).error_code


def log_in(node: WatchedNode, tmp_path: Path) -> None:
    """Log in with right, wrong and malformed credentials."""
    sasl = address(node, "SASL")
    carol, guess = CANARIES["user of PLAIN"], CANARIES["wrong password"]
    assert login(sasl, "PLAIN", f"\0carol\0{carol}".encode()) == 0
    for wrong in (f"\0carol\0{guess}", f"\0{guess}\0{guess}\0{guess}", guess):
        assert login(sasl, "PLAIN", wrong.encode()) == AUTHENTICATION_FAILED
    forged = CANARIES["wrong token"]
    header = base64.urlsafe_b64encode(b'{"alg":"RS256","kid":"1"}').decode().rstrip("=")
    for token in (forged, f"{header}.{forged}.{forged}"):
        message = f"n,,\x01auth=Bearer {token}\x01\x01".encode()
        login(sasl, "OAUTHBEARER", message)
    for name, password in (("right", CANARIES["user of SCRAM"]), ("wrong", guess)):
        alice = tmp_path / f"{name}.properties"
        alice.write_text(
            f"bootstrap.servers={sasl}\nsecurity.protocol=SASL_PLAINTEXT\n"
            f"sasl.mechanism=SCRAM-SHA-256\nsasl.username=alice\nsasl.password={password}\n"
        )
        printed = node.command("topic", "list", config=alice)
        assert ("refuses the user" in printed) is (name == "wrong")


def show_everything(node: WatchedNode) -> None:
    """Have the node and the commands show what they know."""
    for arguments in (
        ("config", "describe", "broker", "1", "--all"),
        ("config", "describe", "broker", "1", "--all", "--json"),
        ("user", "describe", "alice"),
        ("token", "describe"),
        ("cluster",),
        ("acl", "list"),
    ):
        node.command(*arguments)
    (url,) = re.findall(r"serving metrics url=(\S+)", "".join(node.log))
    with urllib.request.urlopen(url, timeout=30) as page:
        node.seen["metrics"] = page.read().decode()
    arguments = Path(f"/proc/{node.pid}/cmdline").read_bytes()
    node.seen["arguments"] = arguments.decode()


def open_to_others(node: WatchedNode) -> list[str]:
    """Return the files of the node that have a secret and that other users can read."""
    files = [path for path in node.data.rglob("*") if path.is_file()]
    assert files
    closed = {path for path in node.data.rglob("*") if not path.stat().st_mode & OF_OTHERS}
    return [
        f"{path} has mode {path.stat().st_mode:o} and the secret of {name}"
        for path in files
        for name, canary in CANARIES.items()
        if canary.encode() in path.read_bytes() and not {path, *path.parents} & closed
    ]


def test_secrets_show_up_nowhere(node: WatchedNode, tmp_path: Path) -> None:
    log_everything(node)
    scram = CANARIES["user of SCRAM"]
    added = node.command("user", "add", "alice", "--password-file", "-", given=f"{scram}\n")
    assert "alice" in added
    dynamic = f"listener.name.tls.ssl.truststore.password={CANARIES['dynamic']}"
    altered = node.command("config", "alter", "broker", "1", "--set", dynamic)
    assert altered == "broker 1 altered\n"
    log_in(node, tmp_path)
    show_everything(node)
    node.stop()
    (log,) = node.data.glob("__cluster_metadata-0/*.log")
    for file, known in (
        (log, "ssl.truststore.password"),
        (node.data / "bootstrap.checkpoint", "metadata.version"),
    ):
        assert known in node.command("inspect", "--batches", "--full", str(file))
    node.seen["log"] = "".join(node.log)
    shown = [
        f"{place} shows the secret of {name}"
        for place, text in node.seen.items()
        for name, canary in CANARIES.items()
        if canary in text or canary.encode().hex() in text
    ]
    assert shown == []
    assert open_to_others(node) == []
