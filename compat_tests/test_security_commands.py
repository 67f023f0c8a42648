"""The commands of the pages about security that docs/security.md does not begin with.

Every command of these pages is run by a test: here, or in `test_security_page`.
"""

import re
from collections.abc import Iterator

import pytest

from barnabas.protocol.types import Uuid
from barnabas.testing.free_ports import free_ports
from compat_tests import jars
from compat_tests.page_reader import DOCS, Page, Reader, new_reader

SECURITY, SASL, CLUSTER = map(Page.of, ("security.md", "sasl.md", "node-security.md"))
ELSEWHERE = {
    *SECURITY.section("A secured node with one option").commands,
    *SECURITY.section("Several secured nodes with one option").commands,
    *SECURITY.section("TLS").commands[:7],
}
"""The commands that `test_security_page` runs."""
(RENEW,) = SECURITY.section("TLS").commands[7:]
ALLOW, ALLOW_BY_TOOL, AUDIT, LIMIT_BYTES, LIMIT_ADDRESSES, LIMIT_BOTH = SECURITY.section(
    "Authorization"
).commands[:6]
LET_CREATE, LET_CREATE_BY_TOOL = SECURITY.section("Authorization").commands[6:]
FORMAT, ADD_USER, ADD_USER_BY_TOOL = SASL.section("SCRAM users").commands
CREATE, DESCRIBE, RENEW_TOKEN, EXPIRE = SASL.section("Delegation tokens").commands
(FORMAT_CLUSTER,) = CLUSTER.commands
HERE = {
    *(RENEW, ALLOW, ALLOW_BY_TOOL, AUDIT, LIMIT_BYTES, LIMIT_ADDRESSES, LIMIT_BOTH),
    *(LET_CREATE, LET_CREATE_BY_TOOL, FORMAT, ADD_USER, ADD_USER_BY_TOOL),
    *(CREATE, DESCRIBE, RENEW_TOKEN, EXPIRE, FORMAT_CLUSTER),
}
LISTENERS = (
    "PLAINTEXT://127.0.0.1:9092,SASL_PLAINTEXT://127.0.0.1:9094,SSL://127.0.0.1:9095,"
    "CONTROLLER://127.0.0.1:9093"
)
ADDED = """
process.roles=broker,controller
node.id=1
controller.listener.names=CONTROLLER
controller.quorum.bootstrap.servers=127.0.0.1:9093
log.dirs=data
ssl.keystore.type=PKCS12
listener.name.ssl.ssl.keystore.location=first.p12
ssl.keystore.password=change-it
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
super.users=User:ANONYMOUS
delegation.token.secret.key=secret
"""

pytestmark = [jars.needed, pytest.mark.barnabas_only]


def client_of(user: str) -> str:
    """Return the settings of a user's client."""
    return f"""bootstrap.servers=127.0.0.1:9094
security.protocol=SASL_PLAINTEXT
sasl.mechanism=SCRAM-SHA-256
sasl.username={user}
sasl.password={user}-secret
"""


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reader]:
    """The node of docs/sasl.md with its users, an authorizer and tokens."""
    names = ("9092", "9093", "9094", "9095")
    directory = tmp_path_factory.mktemp("commands")
    found = new_reader(SASL, directory, dict(zip(names, free_ports(len(names)), strict=True)))
    properties = SASL.block("properties", "listeners=").replace("kafka.example.org", "127.0.0.1")
    given = re.sub("^listeners=.*", f"listeners={LISTENERS}", properties).replace(
        "CONTROLLER:PLAINTEXT", "CONTROLLER:PLAINTEXT,SSL:SSL"
    )
    (directory / "server.properties").write_text(found.given(given + ADDED))
    for user in ("alice", "scheduler"):
        (directory / f"{user}.properties").write_text(found.given(client_of(user)))
        (directory / f"{user}.secret").write_text(f"{user}-secret")
    _, _, _, key, *_ = SECURITY.section("TLS").commands
    found.run(key.replace("node.p12", "first.p12"))
    found.run(f"cp {directory}/first.p12 {directory}/renewed.p12")
    found.run(FORMAT)
    found.serve(f"barnabas serve --config server.properties --set listeners={LISTENERS}")
    yield found
    found.stop()


def test_every_command_is_run_by_a_test() -> None:
    pages = {each.name: each.read_text() for each in DOCS.glob("*security.md")}
    pages["sasl.md"] = SASL.text
    written = {command for text in pages.values() for command in Page(text).commands}
    assert written == ELSEWHERE | HERE
    others = [
        block
        for text in pages.values()
        for block in re.findall(r"^```(?!console)\w*\n.*?^```", text, re.MULTILINE | re.DOTALL)
        if re.search(r"^(\$ )?(barnabas|kafka-\S+\.sh) ", block, re.MULTILINE)
    ]
    assert others == []


def test_users_are_added_before_and_after_the_first_start(reader: Reader) -> None:
    assert "alice" in reader.run(ADD_USER)
    assert "Completed updating config for user alice" in reader.run(ADD_USER_BY_TOOL)
    listed = reader.run("barnabas user list")
    assert "admin" in listed
    assert "alice" in listed


def test_certificate_is_replaced_by_the_path_of_another_one(reader: Reader) -> None:
    renew = RENEW.replace("/etc/kafka", str(reader.directory))
    assert "Completed updating config for broker 1" in reader.run(renew)


def test_rights_are_given_by_both_tools(reader: Reader) -> None:
    reader.run(ALLOW)
    assert "User:alice" in reader.run(ALLOW_BY_TOOL)
    listed = reader.run("barnabas acl list")
    assert listed.count("orders") == listed.count("billing") == 1
    assert "Completed updating config for broker-logger 1" in reader.run(AUDIT)


def test_quotas_are_set_by_both_tools(reader: Reader) -> None:
    assert "Completed updating config for user alice" in reader.run(LIMIT_BYTES)
    assert "Completed updating default config for ips" in reader.run(LIMIT_ADDRESSES)
    reader.run(LIMIT_BOTH)
    listed = reader.run("barnabas quota list")
    for value in ("1048576", "20", "2097152", "25"):
        assert value in listed


def test_token_is_created_described_renewed_and_removed(reader: Reader) -> None:
    assert "CREATE_TOKENS" in reader.run(LET_CREATE)
    reader.run(LET_CREATE_BY_TOOL)
    for user in ("alice", "scheduler"):
        reader.run(ADD_USER.replace("alice", user) + " --mechanism SCRAM-SHA-256")
    created = reader.run(CREATE)
    (token_id,) = re.findall(r"token id: +(\S+)", created)
    (shown,) = re.findall(r" renew (\S+) ", RENEW_TOKEN)
    assert token_id in reader.run(DESCRIBE)
    reader.run(RENEW_TOKEN.replace(shown, token_id))
    reader.run(EXPIRE.replace(shown, token_id))
    assert token_id not in reader.run(DESCRIBE)


def test_directory_of_a_cluster_is_formatted_with_its_users(tmp_path) -> None:
    reader = new_reader(CLUSTER, tmp_path, {"9092": 9092})
    text = CLUSTER.block("properties", "process.roles=").replace("/var/lib/barnabas", "data")
    (tmp_path / "server.properties").write_text(text)
    voters = ",".join(f"{each}@kafka-{each}:9093:{Uuid.random()}" for each in (1, 2, 3))
    reader.run(FORMAT_CLUSTER.replace(" ... ", f" {voters} "))
    shown = reader.run(
        "barnabas inspect data/bootstrap.checkpoint --batches --topic __cluster_metadata"
    )
    assert "broker" in shown
    assert "broker-secret" not in shown
