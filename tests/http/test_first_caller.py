"""The address of a first caller: believed only when an instance with the same key states it."""

from typing import Any

import httpx
import pytest
import trio
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route, Router

from barnabas.client import ClientConfig
from barnabas.http import first_caller_headers
from barnabas.http.first_caller import PeerKey, peer_key
from tests.http.hosting import with_host

KEY = PeerKey("secret", "user")
STATED = ("10.0.0.7", "alice", "POST", "/subjects/a%2Fb/versions")


def test_peer_believes_what_a_peer_states() -> None:
    statement = KEY.statement(*STATED)
    assert PeerKey("secret", "user").address(statement, *STATED[1:]) == "10.0.0.7"


@pytest.mark.parametrize("changed", [1, 2, 3])
def test_statement_is_of_one_user_and_request(changed: int) -> None:
    other = [*STATED]
    other[changed] += "x"
    assert KEY.address(KEY.statement(*STATED), *other[1:]) is None


@pytest.mark.parametrize(
    "forged",
    [
        lambda time, address, proof: f"{time} 10.0.0.8 {proof}",
        lambda time, address, proof: f"{int(time) + 1} {address} {proof}",
        lambda time, address, proof: f"{time} {address} {proof[:-4]}AAA=",
        lambda time, address, proof: f"{time} {address}",
        lambda time, address, proof: f"{time} {address} {proof} {proof}",
        lambda time, address, proof: f"x {address} {proof}",
        lambda time, address, proof: f"{time} {address} \xff",
        lambda time, address, proof: "",
        lambda time, address, proof: PeerKey("other", "user").statement(*STATED),
        lambda time, address, proof: PeerKey("secret", "other").statement(*STATED),
    ],
)
def test_forged_statement_is_not_believed(forged: Any) -> None:
    assert KEY.address(forged(*KEY.statement(*STATED).split(" ")), *STATED[1:]) is None


def test_old_statement_is_not_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    import time

    statement = KEY.statement(*STATED)
    now = time.time()
    for passed_s, believed in ((290, "10.0.0.7"), (310, None), (-290, "10.0.0.7"), (-310, None)):
        monkeypatch.setattr(time, "time", lambda passed_s=passed_s: now + passed_s)
        assert KEY.address(statement, *STATED[1:]) == believed


def test_key_is_of_the_user_of_kafka_or_of_a_secret() -> None:
    def key(secret: str = "", **properties: str) -> PeerKey | None:
        named = {name.replace("_", "."): value for name, value in properties.items()}
        config = ClientConfig.from_properties({"bootstrap.servers": "127.0.0.1:9", **named})
        return trio.run(peer_key, config, secret)

    def sasl(user: str, password: str) -> Any:
        return {
            "security_protocol": "SASL_PLAINTEXT",
            "sasl_mechanism": "SCRAM-SHA-256",
            "sasl_username": user,
            "sasl_password": password,
        }

    statement = KEY.statement(*STATED)
    registry = key(**sasl("registry", "a"))
    assert registry is not None
    statement = registry.statement(*STATED)
    believed = [
        found is not None and found.address(statement, *STATED[1:]) == "10.0.0.7"
        for found in (
            key(**sasl("registry", "a")),
            key(**sasl("registry", "b")),
            key(**sasl("other", "a")),
            key("secret", **sasl("registry", "a")),
        )
    ]
    assert believed == [True, False, False, False]
    one, other = key("secret", **sasl("a", "b")), key("secret")
    assert one is not None
    assert other is not None
    assert other.address(one.statement(*STATED), *STATED[1:]) == "10.0.0.7"
    assert key() is None


def test_host_takes_the_address_from_peers_only() -> None:
    async def show(request: Request) -> Response:
        passed_on = first_caller_headers(request.scope, "GET", "/next")
        return JSONResponse([request.client and request.client.host, passed_on])

    async def test(client: httpx.AsyncClient) -> None:
        async def shown(statement: str) -> Any:
            headers = {"x-barnabas-first-caller": statement}
            return (await client.get("/shown?a=b", headers=headers)).json()

        key = PeerKey("secret", "barnabas.http.peer.secret")
        stated = key.statement("10.0.0.7", "ANONYMOUS", "GET", "/shown")
        address, headers = await shown(stated)
        assert address == "10.0.0.7"
        found = key.address(headers["x-barnabas-first-caller"], "ANONYMOUS", "GET", "/next")
        assert found == "10.0.0.7"
        forged = PeerKey("x", "barnabas.http.peer.secret")
        statement = forged.statement("10.0.0.7", "ANONYMOUS", "GET", "/shown")
        assert (await shown(statement))[0] == "127.0.0.1"

    app = Router([Route("/shown", show)])
    with_host(test, app=app, settings={"peer_secret": "secret"})


def test_host_without_a_key_believes_and_states_nothing() -> None:
    async def show(request: Request) -> Response:
        passed_on = first_caller_headers(request.scope, "GET", "/next")
        return JSONResponse([request.client and request.client.host, passed_on])

    async def test(client: httpx.AsyncClient) -> None:
        headers = {"x-barnabas-first-caller": KEY.statement("10.0.0.7", "ANONYMOUS", "GET", "/")}
        assert (await client.get("/", headers=headers)).json() == ["127.0.0.1", {}]

    with_host(test, app=Router([Route("/", show)]))
