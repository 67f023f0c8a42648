"""Addresses and errors of MariaDB and MySQL: arguments of the driver, kinds of failures."""

import ssl
import sys
from pathlib import Path
from typing import Any

import pymysql
import pytest
import trustme

from barnabas.pipeline.connect.connectors.database_access import DatabaseSettings, connect
from barnabas.pipeline.connect.connectors.mysql_address import driver_arguments
from barnabas.pipeline.connect.connectors.mysql_errors import driver_errors
from barnabas.pipeline.data.connect_errors import ConnectError, DataError, RetriableError


def arguments(url: str, user: str | None = None, password: str | None = None) -> dict[str, Any]:
    return driver_arguments(DatabaseSettings(url, user, password))


def test_mysql_address_has_host_database_and_user():
    given = "user=u&password=p&connectTimeout=1500"
    assert arguments(f"jdbc:mysql://db.example:3307/shop%20a?{given}") == {
        "host": "db.example", "port": 3307, "database": "shop a", "user": "u", "password": b"p",
        "connect_timeout": 1.5,
    }  # fmt: skip
    found = arguments("jdbc:mariadb://[::1]/?user=u", user="me", password="pä")
    assert found == {
        "host": "::1", "port": 3306, "database": None, "user": "me", "password": "pä".encode()
    }  # fmt: skip


@pytest.mark.parametrize(
    ("mode", "has_host", "verify"),
    [
        ("REQUIRED", False, ssl.CERT_NONE),
        ("trust", False, ssl.CERT_NONE),
        ("VERIFY_CA", False, ssl.CERT_REQUIRED),
        ("verify-ca", False, ssl.CERT_REQUIRED),
        ("VERIFY_IDENTITY", True, ssl.CERT_REQUIRED),
        ("verify-full", True, ssl.CERT_REQUIRED),
    ],
)
def test_mysql_address_with_tls_says_what_is_checked(
    mode: str, has_host: bool, verify: ssl.VerifyMode
):
    context = arguments(f"jdbc:mysql://h/d?sslMode={mode}")["ssl"]
    assert (context.check_hostname, context.verify_mode) == (has_host, verify)


def test_mysql_address_reads_certificates(tmp_path: Path):
    authority = trustme.CA()
    client = authority.issue_cert("client")
    names = ("ca", "cert", "key")
    files = {name: tmp_path / name for name in names}
    authority.cert_pem.write_to_path(files["ca"])
    client.cert_chain_pems[0].write_to_path(files["cert"])
    client.private_key_pem.write_to_path(files["key"])
    url = (
        f"jdbc:mariadb://h/d?sslMode=verify-full&serverSslCert={files['ca']}"
        f"&clientSslCert={files['cert']}&clientSslKey={files['key']}"
    )
    assert len(arguments(url)["ssl"].get_ca_certs()) == 1
    files["key"].write_text("no key")
    with pytest.raises(ConnectError, match="cannot be read"):
        arguments(url)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ("sslMode=maybe", "sslMode=maybe is not known"),
        ("serverSslCert=/ca.pem", "serverSslCert is not used with sslMode=preferred"),
        ("sslMode=disable&clientSslCert=/c.pem", "need TLS"),
        ("sslMode=verify-ca&serverSslCert=/nothing/ca.pem", "cannot be read"),
        ("connectTimeout=1s", "connectTimeout=1s is not a number"),
        ("useSSL=true", "useSSL, which is not supported"),
    ],
)
def test_mysql_address_that_is_wrong_is_refused(parameters: str, message: str):
    with pytest.raises(ConnectError, match=message):
        arguments(f"jdbc:mysql://h/d?{parameters}")


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (pymysql.err.OperationalError(2013, "Lost connection"), RetriableError),
        (pymysql.err.OperationalError(1205, "Lock wait timeout exceeded"), RetriableError),
        (pymysql.err.OperationalError(1213, "Deadlock found"), RetriableError),
        (pymysql.err.InterfaceError(0, ""), RetriableError),
        (pymysql.err.OperationalError(1021, "Disk full"), RetriableError),
        (pymysql.err.OperationalError(1292, "Incorrect date value"), DataError),
        (pymysql.err.DataError(1406, "Data too long"), DataError),
        (pymysql.err.IntegrityError(1062, "Duplicate entry"), DataError),
        (pymysql.err.IntegrityError(1452, "a foreign key constraint fails"), RetriableError),
        (pymysql.err.OperationalError(1045, "Access denied"), ConnectError),
        (pymysql.err.ProgrammingError(1064, "syntax"), ConnectError),
        (RuntimeError("'cryptography' package is required"), ConnectError),
    ],
)
def test_mysql_error_is_of_its_kind_and_has_the_statement(
    error: Exception, expected: type[ConnectError]
):
    with pytest.raises(ConnectError, match="in: SELECT 1") as raised, driver_errors("SELECT 1"):
        raise error
    assert type(raised.value) is expected


def test_mysql_driver_that_is_missing_is_named_with_its_remedy(monkeypatch: pytest.MonkeyPatch):
    connectors = "barnabas.pipeline.connect.connectors"
    monkeypatch.delitem(sys.modules, f"{connectors}.mysql_database", raising=False)
    monkeypatch.setitem(sys.modules, "pymysql", None)
    with pytest.raises(ConnectError, match=r"MariaDB and MySQL is missing .*barnabas\[jdbc\]"):
        connect(DatabaseSettings("jdbc:mysql://h/d"))
