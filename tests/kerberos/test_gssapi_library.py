"""The package `gssapi` where it is not installed."""

import sys

import pytest

from barnabas.kerberos.gss_failures import KerberosError
from barnabas.kerberos.gssapi_library import GssapiMissingError, gssapi
from barnabas.kerberos.login_options import KerberosLogin
from barnabas.kerberos.service_keys import ServiceKeys
from barnabas.kerberos.tickets import Tickets


@pytest.fixture(autouse=True)
def _without_gssapi(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gssapi", None)


def test_missing_package_is_named_with_its_extra() -> None:
    with pytest.raises(GssapiMissingError, match=r"'barnabas\[kerberos\]'; building it"):
        gssapi()


def test_listeners_and_clients_say_what_to_install() -> None:
    with pytest.raises(KerberosError, match="needs the package gssapi"):
        ServiceKeys("kafka/a@R", "/k")
    tickets = Tickets(KerberosLogin("kafka", "a", "/k"))
    with pytest.raises(KerberosError, match="needs the package gssapi"):
        tickets.check()
    with pytest.raises(KerberosError, match="needs the package gssapi"):
        tickets.start("a")
