"""Pages of other origins: which may read answers, with the properties of Confluent's registry."""

from pathlib import Path

import httpx
import pytest

from barnabas.config import ConfigError
from barnabas.http import CrossOrigin
from tests.http.hosting import with_host

PAGE = {"Origin": "https://ui.example"}
PREFLIGHT = {**PAGE, "Access-Control-Request-Method": "PUT"}


def test_host_without_origins_answers_no_cross_origin_headers() -> None:
    async def test(client: httpx.AsyncClient) -> None:
        answer = await client.get("/", headers=PAGE)
        assert not [name for name in answer.headers if name.startswith("access-control")]

    with_host(test)


def test_host_allows_an_origin_its_methods_and_headers() -> None:
    rules = CrossOrigin.from_properties(
        {
            "access.control.allow.origin": "https://ui.example,https://other.example",
            "access.control.allow.methods": "GET,PUT",
            "access.control.allow.headers": "Content-Type,Authorization",
            "access.control.expose.headers": "Retry-After",
        }
    )

    async def test(client: httpx.AsyncClient) -> None:
        answer = await client.get("/", headers=PAGE)
        assert answer.headers["access-control-allow-origin"] == "https://ui.example"
        assert answer.headers["access-control-expose-headers"] == "Retry-After"
        assert "origin" in answer.headers["vary"].lower()
        refused = await client.get("/", headers={"Origin": "https://evil.example"})
        assert refused.status_code == 200
        assert "access-control-allow-origin" not in refused.headers
        preflight = await client.options(
            "/echo", headers={**PREFLIGHT, "Access-Control-Request-Headers": "authorization"}
        )
        assert preflight.status_code == 200
        assert "PUT" in preflight.headers["access-control-allow-methods"]
        other = await client.options(
            "/echo", headers={**PAGE, "Access-Control-Request-Method": "DELETE"}
        )
        assert other.status_code == 400

    with_host(test, settings={"cross_origin": rules})


def test_host_errors_and_missing_credentials_are_readable_by_an_allowed_origin(
    tmp_path: Path,
) -> None:
    """A preflight carries no credentials, so it is answered before they are checked."""
    passwords = tmp_path / "passwords"
    passwords.write_text("ada:$2b$04$N9qo8uLOickgx2ZMRZoMyeIjZAgcfl7p92ldGxad68LJZdL17lhWy\n")
    rules = CrossOrigin.from_properties({"access.control.allow.origin": "*"})

    async def test(client: httpx.AsyncClient) -> None:
        answer = await client.get("/", headers=PAGE)
        assert answer.status_code == 401
        assert answer.headers["access-control-allow-origin"] == "*"
        preflight = await client.options(
            "/", headers={**PAGE, "Access-Control-Request-Method": "POST"}
        )
        assert preflight.status_code == 200
        assert (await client.options("/", headers=PAGE)).status_code == 401

    with_host(test, settings={"cross_origin": rules, "password_file": tmp_path / "passwords"})


def test_cross_origin_defaults_are_those_of_the_filter_that_confluent_uses() -> None:
    rules = CrossOrigin.from_properties({"access.control.allow.origin": " https://a , "})
    assert rules == CrossOrigin(
        ("https://a",),
        ("GET", "POST", "HEAD"),
        ("X-Requested-With", "Content-Type", "Accept", "Origin"),
    )
    assert CrossOrigin.from_properties({}) == CrossOrigin()
    assert not CrossOrigin().origins


def test_cross_origin_settings_without_an_origin_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"access\.control\.allow\.origin"):
        CrossOrigin.from_properties({"access.control.allow.methods": "GET"})
