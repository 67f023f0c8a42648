"""The command line, the own client and Java's, with tokens and Java's stores."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import trio

from barnabas.client import open_client
from barnabas.client.admin_calls import describe_topic
from barnabas.pipeline.delivery.plan.kafka_properties import for_java
from barnabas.pipeline.java.worker_settings import properties_text
from compat_tests import jars
from compat_tests.property_files import PropertyFiles, property_files

KINDS = ("tokens", "token_file", "certificate")
pytestmark = [jars.needed, pytest.mark.barnabas_only]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PropertyFiles]:
    with property_files(tmp_path_factory.mktemp("properties")) as found:
        yield found


def barnabas(properties: dict[str, str], directory: Path, *words: str, stdin: str = "") -> str:
    """Run a command with a file of properties; return its output, or its error after a failure."""
    file = directory / "client.properties"
    file.write_text("".join(f"{name}={text}\n" for name, text in properties.items()))
    command = [sys.executable, "-m", "barnabas", *words, "--client-config", str(file)]
    done = subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=100)
    return done.stderr if done.returncode else done.stdout


@pytest.mark.parametrize("kind", KINDS)
def test_commands_list_produce_and_consume(files: PropertyFiles, tmp_path: Path, kind: str) -> None:
    client: dict[str, str] = getattr(files, kind)()
    topic = f"cli-{kind.replace('_', '-')}"
    assert topic in barnabas(client, tmp_path, "topic", "create", topic)
    assert topic in barnabas(client, tmp_path, "topic", "list").split()
    if kind == "token_file":  # each client waits a second for its token
        return
    barnabas(client, tmp_path, "produce", topic, stdin="first\nsecond\n")
    read = barnabas(client, tmp_path, "consume", topic, "-b", "-n", "2")
    assert read.split() == ["first", "second"]


@pytest.mark.parametrize("kind", KINDS)
def test_own_client_connects(files: PropertyFiles, kind: str) -> None:
    properties: dict[str, str] = getattr(files, kind)()

    async def connect() -> None:
        async with open_client(properties) as client:
            assert await describe_topic(client, "none") is None

    trio.run(connect)


@pytest.mark.parametrize("kind", KINDS)
def test_javas_client_connects_with_converted_properties(
    files: PropertyFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    properties = for_java(getattr(files, kind)())
    (tmp_path / "client.properties").write_text(properties_text(properties))
    if url := properties.get("sasl.oauthbearer.token.endpoint.url"):
        allowed = "-Dorg.apache.kafka.sasl.oauthbearer.allowed"
        file = files.directory / "token"
        monkeypatch.setenv("JAVA_TOOL_OPTIONS", f"{allowed}.urls={url} {allowed}.files={file}")
    at = ("--bootstrap-server", properties["bootstrap.servers"])
    done = jars.java(
        "org.apache.kafka.tools.TopicCommand",
        *(*at, "--command-config", tmp_path / "client.properties"),
        *("--create", "--topic", f"java.{kind}"),
    )
    assert f"Created topic java.{kind}" in done.stdout


@pytest.mark.parametrize(
    ("kind", "changes", "message"),
    [
        (
            "tokens",
            {"sasl.oauthbearer.client.credentials.client.secret": "wrong-canary"},
            "no token from http://127.0.0.1:{port}/token: status 401; check "
            "sasl.oauthbearer.token.endpoint.url, and the client id alice and its secret",
        ),
        (
            "token_file",
            {"sasl.oauthbearer.token.endpoint.url": "file:///none/token"},
            "cannot read the token in /none/token: ",
        ),
        (
            "certificate",
            {"ssl.keystore.password": "wrong-canary"},
            "client.p12 for ssl.keystore.location: its password is not the one in "
            "ssl.keystore.password",
        ),
        (
            "certificate",
            {"ssl.truststore.location": "/none/trust.jks"},
            "/none/trust.jks for ssl.truststore.location: No such file or directory; set it to",
        ),
    ],
)
def test_command_that_cannot_log_in_says_why_in_one_line(
    files: PropertyFiles, tmp_path: Path, kind: str, changes: dict[str, str], message: str
) -> None:
    client: dict[str, str] = {**getattr(files, kind)(), **changes}
    error = barnabas(client, tmp_path, "topic", "list")
    assert message.format(port=files.issuer.url.split(":")[2].split("/")[0]) in error
    assert error.count("\n") == 1
    assert "canary" not in error
