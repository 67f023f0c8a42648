"""`barnabas serve --secure`: one directory, started again and again, as its owner does."""

import base64
import json
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
    AclBinding,
    AclBindingFilter,
    AdminClient,
    NewTopic,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)
from confluent_kafka.admin import AclOperation as Operation
from confluent_kafka.admin import AclPermissionType as Permission
from confluent_kafka.admin import ResourcePatternType as Pattern
from confluent_kafka.admin import ResourceType as Resource

from barnabas.cli import secure_serve
from barnabas.cluster.metadata.acls import AclPattern, ResourceType
from barnabas.config import properties_file
from barnabas.pipeline.java.worker_settings import worker_group
from barnabas.pipeline.jobs.runner_settings import RunnerSettings
from tests.cli.conftest import Barnabas
from tests.cli.test_serve_registry import ServedRegistry, eventually

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


def administrator(data: Path) -> AdminClient:
    return AdminClient({**settings(data), "log_level": "0"})


def topics(found: Mapping[str, str]) -> set[str]:
    """Return the topics that a user sees. Raises KafkaException."""
    return set(AdminClient({**found, "log_level": "0"}).list_topics(timeout=30).topics)


def get(url: str, data: Path, password: str, user: str = "admin") -> bytes:
    return ask(urllib.request.Request(url), data, user, password)


def register(url: str, subject: str, data: Path, user: str, password: str) -> bytes:
    """Register a schema in the registry. Raises HTTPError when it is refused."""
    body = json.dumps({"schema": '"string"'}).encode()
    kind = {"Content-Type": "application/vnd.schemaregistry.v1+json"}
    request = urllib.request.Request(f"{url}/subjects/{subject}/versions", body, kind)
    return ask(request, data, user, password)


def ask(request: urllib.request.Request, data: Path, user: str, password: str) -> bytes:
    credentials = base64.b64encode(f"{user}:{password}".encode()).decode()
    request.add_header("Authorization", f"Basic {credentials}")
    context = ssl.create_default_context(cafile=str(data / "ca.pem"))
    try:
        with urllib.request.urlopen(request, context=context, timeout=60) as answer:
            return answer.read()
    except urllib.error.HTTPError as error:
        error.close()  # or its socket is open until the garbage collector finds the error
        raise


def acls_of(data: Path, user: str) -> set[tuple[str, str]]:
    """Return names of resources and operations."""
    admin = administrator(data)
    found = admin.describe_acls(acl_filter(f"User:{user}")).result(60)
    return {(acl.name, acl.operation.name) for acl in found}


def acl_filter(principal: str | None = None, name: str | None = None) -> AclBindingFilter:
    return AclBindingFilter(
        Resource.ANY, name, Pattern.ANY, principal, None, Operation.ANY, Permission.ANY
    )


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, ServedRegistry]]:
    """The first start of a directory, with a registry beside the node, and a topic."""
    data = tmp_path_factory.mktemp("secured") / "data"
    with secured(data) as served:
        served.found(_URL)
        admin = administrator(data)
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
    secrets = ["admin.conf", "admin.properties", "ca-key.pem", "node.pem"]
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
    assert topics(settings(data, "registry")) == {"_schemas"}
    producer = Producer({**settings(data, "registry"), "log_level": "0"})
    outcomes: list[str] = []
    producer.produce("orders", b"x", callback=lambda error, _: outcomes.append(error.name()))
    assert producer.flush(30) == 0
    assert outcomes == ["TOPIC_AUTHORIZATION_FAILED"]
    assert acls_of(data, "registry") == {
        *(("_schemas", each) for each in ("CREATE", "READ", "WRITE", "DESCRIBE_CONFIGS")),
        ("schema-registry", "READ"),
        ("kafka-cluster", "DESCRIBE"),
    }
    (url,) = served.found(_URL)
    assert url.startswith("https://")
    (password,) = served.found(_PASSWORD)
    assert get(f"{url}/subjects", data, password) == b"[]"
    with pytest.raises(urllib.error.HTTPError, match="401"):
        get(f"{url}/subjects", data, "wrong")


def test_users_of_the_node_are_those_of_the_registry(first: tuple[Path, ServedRegistry]) -> None:
    data, served = first
    (url,), (password,) = served.found(_URL), served.found(_PASSWORD)
    admin = administrator(data)
    scram = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
    alice = UserScramCredentialUpsertion("alice", scram, b"alice-secret")
    admin.alter_user_scram_credentials([alice])["alice"].result(60)
    acl = AclBinding(
        Resource.TOPIC, "orders", Pattern.LITERAL, "User:alice", "*",
        Operation.WRITE, Permission.ALLOW,
    )  # fmt: skip
    admin.create_acls([acl])[acl].result(60)
    assert json.loads(register(url, "payments-value", data, "admin", password))["id"] == 1
    with pytest.raises(urllib.error.HTTPError, match="401"):
        get(f"{url}/subjects", data, "wrong", "alice")
    with pytest.raises(urllib.error.HTTPError, match="403"):
        register(url, "payments-value", data, "alice", "alice-secret")
    eventually(lambda: _registers(url, data), served)
    assert get(f"{url}/subjects", data, "alice-secret", "alice") == b'["orders-value"]'
    assert json.loads(get(f"{url}/subjects", data, password)) == ["orders-value", "payments-value"]


def _registers(url: str, data: Path) -> bool:
    """Return True once the registry has read the ACL of alice."""
    try:
        return b'"id":1' in register(url, "orders-value", data, "alice", "alice-secret")
    except urllib.error.HTTPError:
        return False


def test_directory_of_an_older_version_gets_the_grants_that_companions_need(
    first: tuple[Path, ServedRegistry],
) -> None:
    """Its user registry could not read ACLs, and its companions had a file of users."""
    data, served = first
    admin = administrator(data)
    old = acl_filter("User:registry", "kafka-cluster")
    assert len(admin.delete_acls([old])[old].result(60)) == 1
    served.process.terminate()
    assert served.process.wait(60) == 0
    file = data / "registry.properties"
    kept = [line for line in file.read_text().splitlines() if not line.startswith("super.users")]
    file.write_text("".join(f"{line}\n" for line in kept))
    (data / "http-users").write_text("admin:$2b$12$\n")

    with secured(data) as upgraded:
        (url,) = upgraded.found(_URL)
        password = settings(data)["sasl.password"]
        assert b"orders-value" in get(f"{url}/subjects", data, password)
        assert ("kafka-cluster", "DESCRIBE") in acls_of(data, "registry")
        assert (
            "added a missing acl principal=User:registry operation=DESCRIBE resource=CLUSTER "
            "name=kafka-cluster"
        ) in upgraded.output
        assert not (data / "http-users").exists()
    with secured(data) as again:
        again.found(_URL)
        assert "added a missing acl" not in again.output


def test_second_start_reuses_everything_and_a_removed_file_is_the_way_back(
    first: tuple[Path, ServedRegistry], barnabas: Barnabas
) -> None:
    data, served = first
    if served.process.poll() is None:
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
        admin = administrator(data)
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
        assert b"orders-value" in get(f"{url}/subjects", data, password)
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


def test_pipelines_have_the_rights_that_the_worker_of_java_connectors_needs() -> None:
    group = worker_group(RunnerSettings.from_properties({}))
    for kind, name in (
        (ResourceType.GROUP, group.group_id),
        (ResourceType.TRANSACTIONAL_ID, f"connect-cluster-{group.group_id}"),
        (ResourceType.TRANSACTIONAL_ID, f"{group.group_id}-job-0"),
        (ResourceType.TOPIC, group.configs.name),
        (ResourceType.TOPIC, group.status.name),
    ):
        assert any(
            grant.kind is kind
            and grant.pattern is AclPattern.PREFIXED
            and name.startswith(grant.name)
            for grant in secure_serve._GRANTS["pipelines"]
        ), name


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
