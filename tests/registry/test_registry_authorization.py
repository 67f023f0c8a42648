"""A registry on a secured node: its users are those of Kafka, and topics' ACLs decide."""

import json
import ssl
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import attrs
import httpx
import pytest
import trustme

from barnabas.config import ConfigError
from barnabas.http import HttpOptions, HttpTls
from barnabas.http.http_settings import BY_KAFKA
from barnabas.registry.rest.registry_routes import ROUTES
from barnabas.registry.rest.route_rights import ALTER_CLUSTER, OPEN
from barnabas.registry.service.acl_authorizer import Authorization
from tests.registry.live_registry import live_registry
from tests.secured_node import SecuredNode, add_users, allow, secured_node

TYPE = "application/vnd.schemaregistry.v1+json"
RULES = {"registry.subject.acls": "com.example.=orders"}
OPEN_ROUTES = {
    "GET /", "POST /", "GET /subjects", "GET /schemas", "GET /schemas/types",
    "GET /schemas/ids/{id}",
    "GET /schemas/ids/{id}/schema", "GET /schemas/ids/{id}/subjects",
    "GET /schemas/ids/{id}/versions", "GET /schemas/guids/{guid}", "GET /schemas/guids/{guid}/ids",
    "GET /associations/resources/{id}", "GET /associations/resources/{namespace}/{name}",
    "POST /associations", "PUT /associations", "POST /associations:batchGet",
    "POST /associations:batchMutate", "DELETE /associations/resources/{id}", "GET /config",
    "GET /mode", "GET /settings", "GET /contexts", "GET /v1/metadata/id",
    "GET /v1/metadata/version", "GET /v1/metadata/deployment",
}  # fmt: skip
READS = ("DESCRIBE",)
# The operations on the topic of the subject, or on the cluster, that the other routes need.
NEEDED = {
    "POST /subjects/{subject}": READS,
    "DELETE /subjects/{subject}": ("DELETE",),
    "GET /subjects/{subject}/metadata": READS,
    "GET /subjects/{subject}/versions": READS,
    "POST /subjects/{subject}/versions": ("WRITE", "DESCRIBE"),
    "GET /subjects/{subject}/versions/{version}": READS,
    "GET /subjects/{subject}/versions/{version}/schema": READS,
    "GET /subjects/{subject}/versions/{version}/referencedby": READS,
    "DELETE /subjects/{subject}/versions/{version}": ("DELETE",),
    "POST /subjects/{subject}/versions/{version}/tags": ("WRITE", "DESCRIBE"),
    "POST /compatibility/subjects/{subject}/versions": READS,
    "POST /compatibility/subjects/{subject}/versions/{version}": READS,
    "GET /associations/subjects/{subject}": READS,
    "PUT /config": ("ALTER_CONFIGS",),
    "DELETE /config": ("ALTER_CONFIGS",),
    "GET /config/{subject}": READS,
    "PUT /config/{subject}": ("ALTER_CONFIGS",),
    "DELETE /config/{subject}": ("ALTER_CONFIGS",),
    "PUT /mode": ("ALTER_CONFIGS",),
    "DELETE /mode": ("ALTER_CONFIGS",),
    "GET /mode/{subject}": READS,
    "PUT /mode/{subject}": ("ALTER_CONFIGS",),
    "DELETE /mode/{subject}": ("ALTER_CONFIGS",),
    "DELETE /contexts/{context}": ("ALTER",),
}


@attrs.frozen
class Registry:
    """A registry as one user sees it."""

    url: str
    user: str
    verify: ssl.SSLContext | bool = True
    address: str = "127.0.0.1"
    """The user's own address."""

    def ask(self, method: str, path: str, body: Any = None) -> httpx.Response:
        transport = httpx.HTTPTransport(verify=self.verify, local_address=self.address)
        with httpx.Client(transport=transport, timeout=60) as client:
            return client.request(
                method,
                self.url + path,
                content=None if body is None else json.dumps(body),
                headers={"content-type": TYPE},
                auth=(self.user, f"{self.user}-secret"),
            )

    def get(self, path: str) -> Any:
        """Return the answer's JSON."""
        return self.ask("GET", path).json()

    def code(self, method: str, path: str, body: Any = None) -> int:
        """Return the error code of the answer, 0 for none."""
        answer = self.ask(method, path, body)
        return 0 if answer.is_success else answer.json()["error_code"]


def schema(name: str, **more: Any) -> dict[str, Any]:
    return {"schema": json.dumps({"type": "record", "name": name, "fields": []}), **more}


@pytest.fixture(scope="module")
def node() -> Iterator[SecuredNode]:
    with secured_node() as found:
        add_users(found, "registry", "alice", "bob", "carol", "eve", "admin")
        allow(found, "registry", "broker:kafka-cluster", "DESCRIBE")
        allow(found, "registry", "group:group of *", "READ")
        allow(found, "registry", "topic:_schemas*", "CREATE", "READ", "WRITE", "DESCRIBE_CONFIGS")
        allow(found, "alice", "topic:orders", "WRITE", "ALTER_CONFIGS", "DELETE")
        allow(found, "alice", "topic:common", "READ")
        allow(found, "bob", "topic:orders", "READ")
        allow(found, "carol", "topic:orders", "WRITE", host="127.0.0.2")
        yield found


def settings(**http: Any) -> dict[str, Any]:
    return {
        "http": HttpOptions(auth=BY_KAFKA, **http),
        "authorization": Authorization.from_properties(
            {**RULES, "super.users": "User:admin"}, enabled=True
        ),
    }


@pytest.fixture(scope="module")
def url(node: SecuredNode) -> Iterator[str]:
    client = node.properties("registry", "registry-secret")
    with live_registry(node.sasl, properties=client, **settings()) as found:
        yield found


def test_every_route_needs_the_rights_of_the_table() -> None:
    specs = {f"{each.method} {each.path}": each.needs for each in ROUTES}
    assert {spec for spec, need in specs.items() if need == OPEN} == OPEN_ROUTES
    assert {
        spec: tuple(each.name for each in need.operations)
        for spec, need in specs.items()
        if need != OPEN
    } == NEEDED
    assert [spec for spec, need in specs.items() if need.of_cluster] == [
        "DELETE /contexts/{context}"
    ]
    assert ALTER_CLUSTER.of_cluster


def test_users_are_those_of_the_broker(url: str) -> None:
    for credentials in (None, ("alice", "wrong"), ("nobody", "x"), ("alice", ""), ("a\0b", "c")):
        answer = httpx.get(f"{url}/subjects", auth=credentials)
        assert (answer.status_code, answer.json()["error_code"]) == (401, 40101)
        assert answer.headers["www-authenticate"].startswith("Basic")
    assert Registry(url, "eve").get("/subjects") == []
    assert httpx.get(f"{url}/healthz").status_code == 200


def test_acls_of_the_topic_decide_about_its_subjects(url: str) -> None:
    alice, bob, eve, admin = (Registry(url, name) for name in ("alice", "bob", "eve", "admin"))
    registered = alice.ask("POST", "/subjects/orders-value/versions", schema("Order"))
    assert registered.status_code == 200
    number = registered.json()["id"]
    refused = bob.ask("POST", "/subjects/orders-value/versions", schema("Other"))
    assert refused.status_code == 403
    assert refused.json() == {
        "error_code": 40301,
        "message": "User is denied operation Write on Subject: orders-value",
    }
    for subject in ("orders-value", "orders-key", "com.example.Order", ":.other:orders-value"):
        path = f"/subjects/{subject}/versions"
        assert alice.code("POST", path, schema("Order")) == 0
        assert bob.code("POST", path, schema("Order")) == 40301
        assert len(bob.get(path)) == 1
        assert eve.code("GET", path) == 40301
        assert bob.code("DELETE", f"/subjects/{subject}") == 40301
        assert bob.code("PUT", f"/config/{subject}", {"compatibility": "NONE"}) == 40301
        assert alice.code("PUT", f"/config/{subject}", {"compatibility": "FULL"}) == 0
        assert bob.get(f"/config/{subject}")["compatibilityLevel"] == "FULL"
        assert eve.code("GET", f"/config/{subject}") == 40301
    assert bob.code("POST", "/subjects/orders-value", schema("Order")) == 0
    assert bob.code("GET", f"/schemas/ids/{number}") == 0
    # Subjects that exist and others are refused with the same answer.
    missing = eve.ask("GET", "/subjects/missing-value/versions").json()
    existing = eve.ask("GET", "/subjects/orders-value/versions").json()
    assert missing["message"].replace("missing", "orders") == existing["message"]
    assert alice.code("PUT", "/config", {"compatibility": "NONE"}) == 40301
    assert alice.code("PUT", "/mode/:.other:", {"mode": "READONLY"}) == 40301
    assert alice.code("DELETE", "/contexts/.other") == 40301
    assert admin.code("PUT", "/config", {"compatibility": "BACKWARD"}) == 0
    assert alice.code("DELETE", "/subjects/orders-key") == 0


def test_lists_and_ids_show_only_readable_subjects(url: str) -> None:
    alice, bob, eve, admin = (Registry(url, name) for name in ("alice", "bob", "eve", "admin"))
    for subject in ("secret-value", ":.hidden:secret-value"):
        assert admin.code("POST", f"/subjects/{subject}/versions", schema("Secret")) == 0
    versions = admin.get("/subjects/secret-value/versions/1")
    number, guid = versions["id"], versions["guid"]
    assert "secret-value" in admin.get("/subjects")
    assert "secret-value" not in bob.get("/subjects")
    assert {each["subject"] for each in bob.get("/schemas")} <= {
        "orders-value", "orders-key", "com.example.Order", ":.other:orders-value",
    }  # fmt: skip
    assert ".hidden" in admin.get("/contexts")
    assert ".hidden" not in bob.get("/contexts")
    assert eve.get("/contexts") == ["."]
    for path in (f"/schemas/ids/{number}", f"/schemas/ids/{number}/schema",
                 f"/schemas/ids/{number}/versions", f"/schemas/ids/{number}/subjects",
                 f"/schemas/guids/{guid}"):  # fmt: skip
        assert admin.code("GET", path) == 0
        assert bob.code("GET", path) == 40403
    assert bob.get(f"/schemas/guids/{guid}/ids") == []
    # A schema that also a readable subject has is shown with that one.
    assert alice.code("POST", "/subjects/orders-value/versions?force=true", schema("Secret")) == 0
    shown = {"subject": "orders-value", "version": bob.get("/subjects/orders-value/versions")[-1]}
    assert bob.get(f"/schemas/ids/{number}/versions") == [shown]
    assert bob.get(f"/schemas/ids/{number}")["subject"] == "orders-value"


def test_reference_to_an_unreadable_subject_is_refused(url: str) -> None:
    alice, admin = Registry(url, "alice"), Registry(url, "admin")
    for name in ("common", "vault"):
        assert admin.code("POST", f"/subjects/{name}-value/versions", schema(f"R{name}")) == 0

    def referring(name: str) -> dict[str, Any]:
        fields = [{"name": "a", "type": f"R{name}"}]
        text = json.dumps({"type": "record", "name": f"Holder{name}", "fields": fields})
        reference = {"name": f"R{name}", "subject": f"{name}-value", "version": 1}
        return {"schema": text, "references": [reference]}

    for path in ("/subjects/orders-key/versions", "/compatibility/subjects/orders-key/versions",
                 "/subjects/orders-key"):  # fmt: skip
        refused = alice.ask("POST", path, referring("vault"))
        assert (
            refused.json()["message"] == "User is denied operation Describe on Subject: vault-value"
        )
    assert alice.code("POST", "/subjects/orders-key/versions", referring("common")) == 0


def test_registry_of_a_cluster_without_acls_is_refused() -> None:
    from barnabas.testing import Node

    with Node() as plain:
        rules = Authorization.from_properties({}, enabled=True)
        with (
            pytest.raises(BaseExceptionGroup) as caught,
            live_registry(plain.bootstrap, authorization=rules),
        ):
            pass
    assert caught.group_contains(ConfigError, match="set authorizer.class.name")


@pytest.mark.parametrize(
    ("properties", "reason"),
    [
        ({"registry.subject.acls": "a"}, "a is not BEGINNING=TOPIC"),
        ({"super.users": "admin"}, "principalType:principalName"),
        ({"allow.everyone.if.no.acl.found": "x"}, "must be true or false"),
        ({"barnabas.registry.authorize": "x"}, "must be true or false"),
    ],
)
def test_wrong_settings_are_refused(properties: dict[str, str], reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        Authorization.from_properties(properties, enabled=True)


def test_settings_without_authorization_are_refused() -> None:
    assert Authorization.from_properties({}, enabled=False) is None
    with pytest.raises(ConfigError, match=r"super\.users has no effect without authorization"):
        Authorization.from_properties({"super.users": "User:a"}, enabled=False)
    by_file = {"barnabas.registry.authorize": "true"}
    assert Authorization.from_properties(by_file, enabled=False) is not None


def certificate(directory: Path, authority: trustme.CA) -> HttpTls:
    """Return the files of a new certificate; instances trust what is in the first one."""
    issued = authority.issue_cert("127.0.0.1")
    directory.mkdir()
    chain, key = directory / "chain.pem", directory / "key.pem"
    parts = [*issued.cert_chain_pems, authority.cert_pem]
    chain.write_bytes(b"".join(each.bytes() for each in parts))
    issued.private_key_pem.write_to_path(key)
    return HttpTls(chain, key)


def test_first_caller_decides_about_a_forwarded_write(node: SecuredNode, tmp_path: Path) -> None:
    """An instance forwards only to a leader whose certificate it trusts."""
    client = node.properties("registry", "registry-secret")
    authority, foreign = trustme.CA(), trustme.CA()
    context = ssl.create_default_context()
    authority.configure_trust(context)
    foreign.configure_trust(context)
    path = "/subjects/orders-value/versions"
    with ExitStack() as stack:

        def start(name: str, issuer: trustme.CA) -> str:
            more = settings(tls=certificate(tmp_path / name, issuer))
            run = live_registry(node.sasl, "_schemas_of_several", client, **more)
            return stack.enter_context(run)

        def codes(user: str, urls: list[str]) -> list[int]:
            found = [Registry(each, user, context) for each in urls]
            return [each.code("POST", path, schema("A")) for each in found]

        leader = start("one", authority)
        wait_until_it_leads(leader, context)  # and stays the leader when others come
        follower = start("two", authority)
        assert codes("bob", [leader, follower]) == [40301, 40301]
        assert codes("alice", [leader, follower]) == [0, 0]
        stranger = start("three", foreign)
        assert codes("alice", [leader, follower, stranger]) == [0, 0, 50003]


def test_address_of_the_first_caller_decides_about_a_forwarded_write(node: SecuredNode) -> None:
    """The leader sees the follower's address on the connection; ACLs of other hosts must count."""
    client = node.properties("registry", "registry-secret")
    path = "/subjects/orders-value/versions"
    with ExitStack() as stack:

        def start() -> str:
            run = live_registry(node.sasl, "_schemas_of_addresses", client, **settings())
            return stack.enter_context(run)

        leader = start()
        wait_until_it_leads(leader)
        follower = start()

        def code(url: str, address: str) -> int:
            return Registry(url, "carol", address=address).code("POST", path, schema("Address"))

        addresses = ("127.0.0.2", "127.0.0.1")
        assert [code(leader, each) for each in addresses] == [0, 40301]
        assert [code(follower, each) for each in addresses] == [0, 40301]
        forged = httpx.post(
            leader + path,
            json=schema("Forged"),
            headers={
                "x-forward": "true",
                "x-barnabas-first-caller": f"{int(time.time())} 127.0.0.2 {'A' * 43}=",
            },
            auth=("carol", "carol-secret"),
        )
        assert forged.json()["error_code"] == 40301


def wait_until_it_leads(url: str, context: ssl.SSLContext | None = None) -> None:
    deadline = time.monotonic() + 60
    with httpx.Client(verify=context or True) as client:
        while "\nbarnabas_registry_leader 1.0" not in client.get(f"{url}/metrics").text:
            assert time.monotonic() < deadline
            time.sleep(0.02)
