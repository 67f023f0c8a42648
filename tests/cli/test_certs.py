"""`barnabas certs`: files, their modes, and handshakes between those who get them."""

import ssl
import stat
from collections.abc import Callable
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec

from barnabas.cli import certs_command
from tests.cli.conftest import Barnabas, Outcome


@pytest.fixture
def certs(barnabas: Barnabas, tmp_path: Path) -> Callable[..., Outcome]:
    return lambda *arguments: barnabas("certs", "--out", str(tmp_path / "out"), *arguments)


def handshake(server: Path, client: Path | None, ca: Path, name: str) -> dict[str, object] | None:
    """Return the client's certificate as the server has it. Raises ssl.SSLError."""
    serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    serving.load_cert_chain(server)
    serving.load_verify_locations(ca)
    serving.verify_mode = ssl.CERT_REQUIRED if client else ssl.CERT_NONE
    connecting = ssl.create_default_context(cafile=str(ca))
    connecting.verify_flags |= ssl.VERIFY_X509_STRICT  # Python's default since 3.13
    if client:
        connecting.load_cert_chain(client)
    there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [
        connecting.wrap_bio(back, there, server_hostname=name),
        serving.wrap_bio(there, back, server_side=True),
    ]
    for _ in range(3):
        for end in ends:
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                continue
    return ends[1].getpeercert()


def test_certs_of_a_node_and_a_client_open_a_connection(
    certs: Callable[..., Outcome], tmp_path: Path
) -> None:
    assert certs("kafka-1,kafka.example.org,127.0.0.1,::1", "--client", "alice").code == 0
    out = tmp_path / "out"
    for name in ("kafka-1", "kafka.example.org", "127.0.0.1", "::1"):
        found = handshake(out / "kafka-1.pem", out / "alice.pem", out / "ca.pem", name)
        assert found is not None
        assert found["subject"] == ((("commonName", "alice"),),)
    with pytest.raises(ssl.SSLCertVerificationError):
        handshake(out / "kafka-1.pem", None, out / "ca.pem", "kafka-2")
    with pytest.raises(ssl.SSLError):  # a client's certificate is not one of a node
        handshake(out / "alice.pem", None, out / "ca.pem", "alice")


def test_files_with_keys_are_readable_by_their_owner_only(
    certs: Callable[..., Outcome], tmp_path: Path
) -> None:
    certs("localhost", "--client", "alice")
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "out").iterdir()}
    keys = dict.fromkeys(["ca-key.pem", "localhost.pem", "alice.pem"], 0o600)
    assert modes == {"ca.pem": 0o644, **keys}


def test_certs_prints_for_whom_each_file_is(certs: Callable[..., Outcome], tmp_path: Path) -> None:
    lines = certs("localhost,127.0.0.1", "--client", "Al, Ice").lines
    names = [Path(line.split("  ")[0].strip()).name for line in lines]
    assert names == ["ca.pem", "ca-key.pem", "localhost.pem", "Al, Ice.pem"]
    assert "every node and client" in lines[0]
    assert "no node or client" in lines[1]
    assert "for localhost, 127.0.0.1: only that node" in lines[2]
    assert r"User:CN=Al\, Ice" in lines[3]


def test_second_run_signs_with_the_same_authority_and_overwrites_nothing(
    certs: Callable[..., Outcome], tmp_path: Path
) -> None:
    out = tmp_path / "out"
    certs("localhost")
    before = {path.name: path.read_bytes() for path in out.iterdir()}
    refused = certs("localhost", "--client", "bob")
    assert refused.code == 1
    assert f"{out / 'localhost.pem'} exists and is not overwritten" in refused.err
    assert {path.name: path.read_bytes() for path in out.iterdir()} == before
    assert certs("--client", "bob").code == 0
    assert handshake(out / "localhost.pem", out / "bob.pem", out / "ca.pem", "localhost")
    assert {name: (out / name).read_bytes() for name in before} == before


def test_certificates_are_ecdsa_p256_and_end_after_the_given_days(
    certs: Callable[..., Outcome], tmp_path: Path
) -> None:
    certs("localhost", "--days", "7")
    for name, days in (("localhost.pem", 7), ("ca.pem", 3650)):
        text = (tmp_path / "out" / name).read_text()
        found = x509.load_pem_x509_certificate(text[text.index("-----BEGIN CERT") :].encode())
        key = found.public_key()
        assert isinstance(key, ec.EllipticCurvePublicKey)
        assert key.curve.name == "secp256r1"
        assert (found.not_valid_after_utc - found.not_valid_before_utc).days == days


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        ([], 2, "Name at least one node"),
        (["not a name"], 1, "'not a name' is neither a DNS name nor an IP address"),
        (["localhost,"], 1, "'' is neither"),
        (["--client", "a" * 65], 1, "from 1 to 64 characters"),
        (["ca"], 1, "two certificates would be"),
        (["a,b", "a"], 1, "two certificates would be"),
    ],
)
def test_certs_with_a_wrong_name_writes_nothing(
    arguments: list[str], code: int, says: str, certs: Callable[..., Outcome], tmp_path: Path
) -> None:
    done = certs(*arguments)
    assert done.code == code
    assert says in done.err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("lost", ["ca.pem", "ca-key.pem"])
def test_certs_without_a_part_of_the_authority_names_it(
    lost: str, certs: Callable[..., Outcome], tmp_path: Path
) -> None:
    certs("localhost")
    (tmp_path / "out" / lost).unlink()
    done = certs("other")
    assert done.code == 1
    assert f"{lost} does not exist" in done.err


def test_certs_with_the_key_of_another_authority_refuses_it(
    certs: Callable[..., Outcome], tmp_path: Path
) -> None:
    certs("localhost")
    text = (tmp_path / "out" / "localhost.pem").read_text()
    (tmp_path / "out" / "ca-key.pem").write_text(text)
    assert "do not belong together" in certs("other").err


def test_certs_without_its_package_names_the_extra(
    certs: Callable[..., Outcome], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(certs_command, "find_spec", lambda name: None)
    assert "pip install 'barnabas[tls]'" in certs("localhost").err
