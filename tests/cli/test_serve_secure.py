"""`barnabas serve --secure`: one directory, started again and again, as its owner does."""

import base64
import re
import ssl
import stat
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import (
    AclBindingFilter,
    AdminClient,
    NewTopic,
    ScramMechanism,
    UserScramCredentialDeletion,
)
from confluent_kafka.admin import AclOperation as Operation
from confluent_kafka.admin import AclPermissionType as Permission
from confluent_kafka.admin import ResourcePatternType as Pattern
from confluent_kafka.admin import ResourceType as Resource

from barnabas.config import properties_file
from tests.cli.conftest import Barnabas
from tests.cli.test_serve_registry import ServedRegistry

_PASSWORD = re.compile(r"The user admin has the password (\S+)\n")
_READY = re.compile(r" ready listeners=SASL_SSL://127.0.0.1:(\d+),CONTROLLER://127.0.0.1:\d+ ")
_URL = re.compile(r"schema registry ready url=(\S+)")


@contextmanager
def secured(data: Path, *options: str) -> Iterator[ServedRegistry]:
    """A node with --secure, and its output, once it is ready."""
    served = ServedRegistry(data, "--secure", "--registry-listen", "127.0.0.1:0", *options)
    try:
        served.found(_READY)
        yield served
    finally:
        served.end()


def settings(data: Path, user: str = "admin", **changes: str) -> dict[str, str]:
    found = properties_file.read(data / f"{user}.conf")
    return {**found, **{name.replace("_", "."): value for name, value in changes.items()}}


def topics(found: Mapping[str, str]) -> set[str]:
    """Return the topics that a user sees. Raises KafkaException."""
    return set(AdminClient({**found, "log_level": "0"}).list_topics(timeout=30).topics)


def get(url: str, data: Path, password: str) -> bytes:
    credentials = base64.b64encode(f"admin:{password}".encode()).decode()
    request = urllib.request.Request(url, headers={"Authorization": f"Basic {credentials}"})
    context = ssl.create_default_context(cafile=str(data / "ca.pem"))
    with urllib.request.urlopen(request, context=context, timeout=60) as answer:
        return answer.read()


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, ServedRegistry]]:
    """The first start of a directory, with a registry beside the node, and a topic."""
    data = tmp_path_factory.mktemp("secured") / "data"
    with secured(data) as served:
        served.found(_URL)
        admin = AdminClient(settings(data))
        admin.create_topics([NewTopic("orders", 1)])["orders"].result(30)
        yield data, served


def test_first_start_prints_the_password_of_the_files(first: tuple[Path, ServedRegistry]) -> None:
    data, served = first
    (password,) = served.found(_PASSWORD)
    assert settings(data)["sasl.password"] == password
    assert f'password="{password}"' in (data / "admin.properties").read_text()
    (port,) = served.found(_READY)
    assert settings(data)["bootstrap.servers"] == f"127.0.0.1:{port}"
    assert "_schemas" in topics(settings(data))


def test_files_with_secrets_are_readable_by_their_owner_only(
    first: tuple[Path, ServedRegistry],
) -> None:
    data, _ = first
    secrets = ["admin.conf", "admin.properties", "ca-key.pem", "node.pem", "http-users"]
    secrets += ["registry.conf", "registry.properties"]
    modes = {name: stat.S_IMODE((data / name).stat().st_mode) for name in secrets}
    assert modes == dict.fromkeys(secrets, 0o600)
    assert stat.S_IMODE(data.stat().st_mode) == 0o700


@pytest.mark.parametrize(
    "changes",
    [
        {"sasl_password": "wrong"},
        {"security_protocol": "PLAINTEXT"},
        {"security_protocol": "SSL"},
    ],
)
def test_client_without_the_credentials_is_not_served(
    changes: dict[str, str], first: tuple[Path, ServedRegistry]
) -> None:
    data, _ = first
    found = settings(data, **changes)
    with pytest.raises(KafkaException):
        AdminClient({**found, "log_level": "0"}).list_topics(timeout=2)


def test_registry_has_a_user_with_the_least_rights(first: tuple[Path, ServedRegistry]) -> None:
    data, served = first
    admin = AdminClient(settings(data))
    assert topics(settings(data, "registry")) == {"_schemas"}
    producer = Producer({**settings(data, "registry"), "log_level": "0"})
    outcomes: list[str] = []
    producer.produce("orders", b"x", callback=lambda error, _: outcomes.append(error.name()))
    assert producer.flush(30) == 0
    assert outcomes == ["TOPIC_AUTHORIZATION_FAILED"]
    every = AclBindingFilter(
        Resource.ANY, None, Pattern.ANY, None, None, Operation.ANY, Permission.ANY
    )
    found = admin.describe_acls(every).result(30)
    assert {(acl.principal, acl.name, acl.operation.name) for acl in found} == {
        *(("User:registry", "_schemas", each) for each in ("CREATE", "READ", "WRITE")),
        ("User:registry", "_schemas", "DESCRIBE_CONFIGS"),
        ("User:registry", "schema-registry", "READ"),
    }
    (url,) = served.found(_URL)
    assert url.startswith("https://")
    (password,) = served.found(_PASSWORD)
    assert get(f"{url}/subjects", data, password) == b"[]"
    with pytest.raises(urllib.error.HTTPError, match="401"):
        get(f"{url}/subjects", data, "wrong")


def test_second_start_reuses_everything_and_a_removed_file_is_the_way_back(
    first: tuple[Path, ServedRegistry], barnabas: Barnabas
) -> None:
    data, served = first
    served.process.terminate()
    assert served.process.wait(60) == 0
    kept = {path.name: path.read_bytes() for path in data.iterdir() if path.suffix == ".pem"}
    old = settings(data)
    refused = barnabas("serve", "--data", str(data), "--listen", "127.0.0.1:0")
    assert refused.code == 1
    assert "was started with --secure: add --secure" in refused.err

    with secured(data) as again:
        assert _PASSWORD.findall(again.output) == []
        assert settings(data)["sasl.password"] == old["sasl.password"]
        assert "orders" in topics(settings(data))
        # An administrator removes itself: no client can change a user any longer.
        admin = AdminClient(settings(data))
        deletion = UserScramCredentialDeletion("admin", ScramMechanism.SCRAM_SHA_512)
        admin.alter_user_scram_credentials([deletion])["admin"].result(30)
        with pytest.raises(KafkaException):
            AdminClient({**settings(data), "log_level": "0"}).list_topics(timeout=2)
        again.process.terminate()
        assert again.process.wait(60) == 0

    (data / "admin.properties").unlink()
    with secured(data) as third:
        (password,) = third.found(_PASSWORD)
        assert password != old["sasl.password"]
        assert "orders" in topics(settings(data))
        url = third.found(_URL)[0]
        assert get(f"{url}/subjects", data, password) == b"[]"
    assert {name: (data / name).read_bytes() for name in kept} == kept


@pytest.mark.parametrize(
    ("options", "code", "says"),
    [
        (["--config", "server.properties"], 2, "--secure decides the properties of security"),
        (["--set", "super.users=User:x"], 1, "--secure sets this property"),
        (["--nodes", "3", "--set", "ssl.keystore.type=JKS"], 1, "--secure sets this property"),
        (
            ["--nodes", "3", "--set", "listener.name.nodes.ssl.client.auth=none"],
            1,
            "--secure sets this property",
        ),
        (["--nodes", "3", "--listen", "127.0.0.1:50000"], 1, "choose a port up to 45533"),
        (["--set", "listeners=PLAINTEXT://:9092"], 1, "--secure sets this property"),
        (["--listen", "9092"], 1, "it must be HOST:PORT"),
    ],
)
def test_serve_secure_with_other_options_of_security_is_refused(
    options: list[str], code: int, says: str, barnabas: Barnabas, tmp_path: Path
) -> None:
    done = barnabas("serve", "--secure", "--data", str(tmp_path / "data"), *options)
    assert (done.code, done.err.count("\n")) == (code, 1)
    assert says in done.err
    assert not (tmp_path / "data").exists()


def test_serve_without_secure_imports_nothing_of_it() -> None:
    code = (
        "import sys; from barnabas.cli.main import run\n"
        "run(['serve', '--set', 'nonsense=1'])\n"
        "found = [m for m in sys.modules if 'secure' in m or m == 'cryptography']\n"
        "sys.exit(f'imported {found}' if found else 0)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr
