"""Basic and bearer credentials: who passes, who does not, and what the server keeps to itself."""

import json
import time
from pathlib import Path
from typing import Any

import bcrypt
import httpx
import pytest
import trio
from joserfc import jwt
from joserfc.jwk import ECKey, KeySet, RSAKey

from barnabas.config import ConfigError
from barnabas.http import BearerSettings
from barnabas.http.basic_auth import read_password_file
from barnabas.http.bearer_auth import load_validator
from tests.http.hosting import with_host

KEY = RSAKey.generate_key(2048, {"kid": "one"})
OTHER = RSAKey.generate_key(2048, {"kid": "one"})
NOW = 1_800_000_000
CLAIMS = {"iss": "https://issuer", "aud": "registry", "sub": "alice", "exp": NOW + 60}


def settings(keys: str = "keys.json", **changes: Any) -> BearerSettings:
    return BearerSettings(keys, "https://issuer", "registry", **changes)


def token(claims: dict[str, Any], key: Any = KEY, **head: str) -> str:
    return jwt.encode({"alg": "RS256", "kid": "one", **head}, claims, key)


@pytest.fixture
def password_file(tmp_path: Path) -> Path:
    path = tmp_path / "users"
    hashed = bcrypt.hashpw(b"s3cret", bcrypt.gensalt(4)).decode()
    path.write_text(f"# users\n\nalice:{hashed}\n")
    return path


def test_basic_credentials_pass_and_others_are_challenged(password_file: Path) -> None:
    async def test(client: httpx.AsyncClient) -> None:
        for _ in range(2):
            answer = await client.get("/", auth=("alice", "s3cret"))
            assert answer.text == "hello alice"
        wrong = [
            await client.get("/"),
            await client.get("/", auth=("alice", "secret")),
            await client.get("/", auth=("bob", "s3cret")),
            await client.get("/", headers={"authorization": "Basic !"}),
            await client.get("/", headers={"authorization": "Basic YWxpY2U="}),
            await client.get("/", headers={"authorization": "Bearer x"}),
            await client.get("/", headers={"authorization": ""}),
        ]
        for answer in wrong:
            assert answer.status_code == 401
            assert answer.headers["www-authenticate"].startswith("Basic realm=")
        assert wrong[1].text == wrong[2].text
        assert (await client.get("/healthz")).status_code == 200

    with_host(test, settings={"password_file": password_file})


@pytest.mark.parametrize("line", ["alice", "alice:{SHA}abc", ":$2y$10$x", "alice:s3cret"])
def test_password_file_with_a_wrong_line_names_it(tmp_path: Path, line: str) -> None:
    path = tmp_path / "users"
    path.write_text(f"# first\n{line}\n")
    with pytest.raises(ConfigError, match=r"users:2 .*htpasswd -B"):
        read_password_file(path)


@pytest.mark.parametrize("empty", ["keys", "issuer", "audience"])
def test_bearer_settings_without_a_value_raise(empty: str) -> None:
    values = {"keys": "k", "issuer": "i", "audience": "a", empty: ""}
    with pytest.raises(ConfigError, match=empty):
        BearerSettings(**values)


def test_bearer_tokens_pass_the_host(tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    other = ECKey.generate_key("P-256", {"kid": "two"})
    path.write_text(json.dumps(KeySet([KEY, other]).as_dict(private=False)))
    current = {**CLAIMS, "exp": int(time.time()) + 60}

    async def test(client: httpx.AsyncClient) -> None:
        for value in (token(current), token(current, other, alg="ES256", kid="two")):
            answer = await client.get("/", headers={"authorization": f"Bearer {value}"})
            assert answer.text == "hello alice"
        expired = token({**current, "exp": 1})
        answer = await client.get("/", headers={"authorization": f"Bearer {expired}"})
        assert (answer.status_code, answer.json()["message"]) == (
            401,
            "invalid token: ExpiredTokenError",
        )
        assert answer.headers["www-authenticate"] == 'Bearer realm="barnabas"'

    with_host(test, settings={"bearer": settings(str(path))})


@pytest.mark.parametrize(
    ("content", "reason"),
    [("{", "Cannot read"), ("[]", "not a JSON object"), ("{}", "no usable key set"),
     ('{"jwks_uri": "https://x", "issuer": "https://other"}', "issuer https://other")],
)  # fmt: skip
def test_token_keys_that_cannot_be_used_raise(tmp_path: Path, content: str, reason: str) -> None:
    path = tmp_path / "keys.json"
    path.write_text(content)
    with pytest.raises(ConfigError, match=reason):
        trio.run(load_validator, settings(str(path)))


@pytest.mark.parametrize("url", ["http://issuer.example/keys", "file:///etc/passwd", "ftp://x/y"])
def test_token_keys_over_an_open_connection_are_refused(url: str) -> None:
    with pytest.raises(ConfigError, match="begin with https"):
        trio.run(load_validator, settings(url))


def test_token_keys_come_from_a_discovery_document_and_load_again_for_a_new_key(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from starlette.applications import Starlette
    from starlette.responses import JSONResponse
    from starlette.routing import Route

    from barnabas.http import bearer_auth

    monkeypatch.setattr(bearer_auth, "_RELOAD_S", 0.0)
    keys = [KEY]
    new = RSAKey.generate_key(2048, {"kid": "new"})
    url = ""

    def discovery(request: object) -> JSONResponse:
        return JSONResponse({"issuer": "https://issuer", "jwks_uri": f"{url}/jwks"})

    def jwks(request: object) -> JSONResponse:
        return JSONResponse(KeySet(keys).as_dict(private=False))

    app = Starlette(routes=[Route("/conf", discovery), Route("/jwks", jwks)])

    async def test(client: httpx.AsyncClient) -> None:
        nonlocal url
        url = str(client.base_url).rstrip("/")
        configured = settings(f"{url}/conf")
        auth = bearer_auth.BearerAuth(configured, await load_validator(configured))
        current = {**CLAIMS, "exp": int(time.time()) + 60}
        assert await auth.principal(token(current)) == "alice"
        keys.append(new)
        assert await auth.principal(token(current, new, kid="new")) == "alice"

    with_host(test, app=app)
