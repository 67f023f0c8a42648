"""Requests that a runner passes on to the active one."""

import ssl
from pathlib import Path

import pytest
import trio
import trustme

from barnabas.http import HttpTls
from barnabas.pipeline.connect.rest_errors import ConnectRestError, NotActiveError
from barnabas.pipeline.rest.request_forwarding import ForwardedAnswer, RequestForwarding
from tests.pipeline.http_answers import serving

PATH = "/connectors/a%20b%2Fc/config"
HEADERS = {"authorization": "Basic x", "content-type": "application/json", "cookie": "no"}


def forwarded(sender: RequestForwarding, url: str, query: str = "") -> ForwardedAnswer:
    """Return the answer to a request that is passed on."""

    async def send() -> ForwardedAnswer:
        return await sender.send(NotActiveError(url), "PUT", PATH, query, HEADERS, b"{}")

    return trio.run(send)


def test_request_keeps_its_parts_and_the_answer_those_of_connect(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")  # runners are reached directly
    answer = (409, {"Location": "/x", "Server": "s", "Content-Type": "text/plain"}, b"busy")
    with serving({f"{PATH}?a=b%2Fc&forward=true": answer}) as (url, seen):
        found = forwarded(RequestForwarding(), url, "a=b%2Fc")
    kept = {name.lower(): value for name, value in found.headers.items()}
    assert (found.status, found.body) == (409, b"busy")
    assert kept == {"location": "/x", "content-type": "text/plain"}
    ((method, _, headers, body),) = seen
    assert (method, body, headers["authorization"]) == ("PUT", b"{}", "Basic x")
    assert "cookie" not in headers


def test_runner_of_a_group_with_certificates_is_reached_with_its_own(tmp_path: Path) -> None:
    authority, other = trustme.CA(), trustme.CA()
    certificate = authority.issue_cert("127.0.0.1")
    certificate.private_key_and_cert_chain_pem.write_to_path(tmp_path / "runner.pem")
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    certificate.configure_cert(server)
    server.load_verify_locations(tmp_path / "ca.pem")
    server.verify_mode = ssl.CERT_REQUIRED
    pem = tmp_path / "runner.pem"
    with serving({f"{PATH}?forward=true": (200, {}, b"done")}, server) as (url, _):
        tls = HttpTls(pem, pem, client_ca_file=tmp_path / "ca.pem")
        assert forwarded(RequestForwarding(tls), url).body == b"done"
        other.cert_pem.write_to_path(tmp_path / "other.pem")
        other.issue_cert("127.0.0.1").private_key_and_cert_chain_pem.write_to_path(
            tmp_path / "stranger.pem"
        )
        unknown = HttpTls(tmp_path / "stranger.pem", tmp_path / "stranger.pem")
        with pytest.raises(ConnectRestError, match=r"127\.0\.0\.1:.*certificate verify failed"):
            forwarded(RequestForwarding(unknown), url)
